// A program with a right kernel and one whose mistake the default schedule hides: nothing makes the thread that ends
// phases wait until the other warp has seen each. exploration_test.py runs it.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

namespace {

constexpr int kRounds = 3;

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void init(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ void wait(uint64_t* barrier, uint32_t parity) {
  uint32_t passed = 0;
  while (passed == 0) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(passed)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
  }
}

/// Two warps take turns: in each round, warp 0 writes a value, and warp 1 adds it up. Without `answers`, warp 0 takes its
/// time instead of waiting for the answer, and writes nothing.
template <bool answers>
__global__ void take_turns(int* sum) {
  __shared__ uint64_t asked, answered;
  __shared__ int value;
  if (threadIdx.x == 0) {
    init(&asked, 1);
    init(&answered, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int round = 0; round < kRounds; ++round) {
      if (answers) {
        value = round + 1;
      } else {
        __nanosleep(10'000);
      }
      arrive(&asked);
      if (answers) wait(&answered, round & 1);
    }
  } else if (threadIdx.x == 32) {
    for (int round = 0; round < kRounds; ++round) {
      wait(&asked, round & 1);
      *sum += answers ? value : 1;
      if (answers) arrive(&answered);
    }
  }
}

}  // namespace

int main() {
  int* sums = nullptr;
  if (cudaMallocManaged(&sums, 2 * sizeof *sums) != cudaSuccess) return 2;
  sums[0] = sums[1] = 0;
  take_turns<true><<<1, 64>>>(sums);
  take_turns<false><<<1, 64>>>(sums + 1);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("%d %d %s\n", sums[0], sums[1], cudaGetErrorName(error));
  return error == cudaSuccess ? 0 : 2;
}
