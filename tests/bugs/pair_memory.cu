// A pair of blocks allocates tensor memory together, writes to it, reads it back and frees it.
#include "gallery.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

constexpr int kColumns = 32;

__global__ void __cluster_dims__(2) remember(float* out) {
  __shared__ uint32_t published;
  const TmemAllocation<kColumns, 2> memory{&published};
  if (warp_index() == 0) {
    memory.allocate();
    memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  sync_cluster();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const uint32_t part = memory.address() + (warp_index() * kWarpSize << 16);
  uint32_t words[kColumns];
  for (int i = 0; i < kColumns; ++i) words[i] = __float_as_uint(static_cast<float>(blockIdx.x + i));
  store_tmem(part, words);
  wait_for_tmem_stores();
  load_tmem(words, part);
  wait_for_tmem_loads();
  for (int i = 0; i < kColumns; ++i)
    out[(blockIdx.x * blockDim.x + threadIdx.x) * kColumns + i] = __uint_as_float(words[i]);
  cuda::ptx::tcgen05_fence_before_thread_sync();
  sync_cluster();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (warp_index() == 0) memory.deallocate();
}

bool run() {
  auto out = gallery::Array<float>::poisoned(2 * 4 * kWarpSize * kColumns);
  remember<<<2, 4 * kWarpSize>>>(out.device());
  out.fetch();
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != static_cast<float>(i / (4 * kWarpSize * kColumns) + i % kColumns)) return false;
  }
  return true;
}
