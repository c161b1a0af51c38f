// Blocks that take over the work of blocks which have not started (cluster launch control), from CUDA.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

constexpr int kThreads = 64;
constexpr int kSharedBytes = 100 << 10;  // so that two blocks fit on a multiprocessor

struct Work {
  uint32_t x, y;
};

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Asks for a block that has not started; `barrier` completes when the answer is there.
__device__ void request_work(uint4* response, uint64_t* barrier) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%1], 16;\n\t"
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
      :
      : "r"(shared_address(response)), "r"(shared_address(barrier))
      : "memory");
}

__device__ void wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n\t.reg .pred done;\n"
      "again:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
      "@!done bra again;\n\t}"
      :
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
}

/// Whether the answer is a block, and which.
__device__ bool get_work(const uint4* response, Work& work) {
  uint32_t got;
  asm volatile(
      "{\n\t.reg .pred canceled;\n\t.reg .b128 answer;\n\t"
      "ld.shared.b128 answer, [%3];\n\t"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 canceled, answer;\n\t"
      "selp.u32 %0, 1, 0, canceled;\n\t"
      "@canceled clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, _, _}, answer;\n\t}"
      : "=r"(got), "+r"(work.x), "+r"(work.y)
      : "r"(shared_address(response))
      : "memory");
  return got != 0;
}

/// Each piece of work has its own element of `done`. The next one is asked for before the present one is done.
__global__ void __launch_bounds__(kThreads) take_over(uint32_t* done, uint32_t* started) {
  __shared__ alignas(16) uint4 response;
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    atomicAdd(started, 1);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;"
                 :
                 : "r"(shared_address(&barrier))
                 : "memory");
  }
  __syncthreads();
  Work work{blockIdx.x, blockIdx.y};
  for (uint32_t round = 0;; ++round) {
    if (threadIdx.x == 0) request_work(&response, &barrier);
    atomicAdd(&done[work.y * gridDim.x + work.x], 1);
    wait(&barrier, round & 1);
    if (!get_work(&response, work)) break;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();  // all have read the response that the next request overwrites
  }
}

TEST(ClusterLaunchProgramTest, DoesAllWorkOnce) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  if (properties.major < 10) GTEST_SKIP() << "cluster launch control needs compute capability 10";
  const dim3 grid(39, 31);
  const uint32_t count = grid.x * grid.y;
  uint32_t* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, (count + 1) * sizeof(uint32_t)), cudaSuccess);
  ASSERT_EQ(cudaMemset(device, 0, (count + 1) * sizeof(uint32_t)), cudaSuccess);
  ASSERT_EQ(cudaFuncSetAttribute(take_over, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes), cudaSuccess);
  take_over<<<grid, kThreads, kSharedBytes>>>(device, device + count);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<uint32_t> done(count + 1);
  ASSERT_EQ(cudaMemcpy(done.data(), device, done.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_LT(done.back(), count) << "no block was taken over";
  done.pop_back();
  EXPECT_TRUE(std::all_of(done.begin(), done.end(), [](uint32_t times) { return times == kThreads; }));
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

}  // namespace
