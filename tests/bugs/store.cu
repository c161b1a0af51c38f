// Threads write rows into two buffers in shared memory, and one of them has each stored by TMA.
#include "gallery.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

constexpr int kBuffers = 2, kRows = 6, kRow = 128, kBytes = kRow * sizeof(float);

__global__ void double_rows(const float* in, float* out) {
  __shared__ alignas(128) float tile[kBuffers][kRow];
  for (int row = 0; row < kRows; ++row) {
    float* const buffer = tile[row % kBuffers];
    if (threadIdx.x == 0) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<kBuffers - 1>());
    __syncthreads();
    buffer[threadIdx.x] = 2 * in[row * kRow + threadIdx.x];
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out + row * kRow, buffer, kBytes);
      cuda::ptx::cp_async_bulk_commit_group();
    }
  }
  if (threadIdx.x == 0) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
}

bool run() {
  const auto in = gallery::Array<float>::random(kRows * kRow);
  auto out = gallery::Array<float>::poisoned(kRows * kRow);
  double_rows<<<1, kRow>>>(in.device(), out.device());
  out.fetch();
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != 2 * in[i]) return false;
  }
  return true;
}
