// Blocks that take over others: one thread asks for the launch of a block to be cancelled, all read the response.
#include "gallery.hpp"
#include "operations.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

constexpr int kBlocks = 600;

__global__ void number_blocks(int* out) {
  __shared__ alignas(16) uint4 response;
  __shared__ uint64_t answered;
  if (threadIdx.x == 0) init_barrier(&answered, /*arrive_count=*/1);
  __syncthreads();
  uint32_t block = blockIdx.x;
  for (uint32_t phase = 0;; phase ^= 1) {
    if (threadIdx.x == 0) {
      expect_bytes(&answered, sizeof response);
      cuda::ptx::clusterlaunchcontrol_try_cancel(&response, &answered);
    }
    out[block * kWarpSize + threadIdx.x] = static_cast<int>(block + threadIdx.x);
    wait(&answered, phase);
    const uint4 answer = response;
    if (!cuda::ptx::clusterlaunchcontrol_query_cancel_is_canceled(answer)) break;
    block = cuda::ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid_x<uint32_t>(answer);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();
  }
}

bool run() {
  auto out = gallery::Array<int>::poisoned(kBlocks * kWarpSize);
  gallery::must(cudaFuncSetAttribute(number_blocks, cudaFuncAttributeMaxDynamicSharedMemorySize, 128 * 1024), "shared");
  number_blocks<<<kBlocks, kWarpSize, 128 * 1024>>>(out.device());
  out.fetch();
  for (int i = 0; i < kBlocks * kWarpSize; ++i) {
    if (out[i] != i / kWarpSize + i % kWarpSize) return false;
  }
  return true;
}
