// A first program: one lane of each warp prints which threads the warp has. The exercise is first_kernel.cu.
#include <cuda_runtime.h>

#include <cstdio>

//! [kernel]
__global__ void hello() {
  const int warp = threadIdx.x / warpSize;  // warpSize is 32
  const int lane = threadIdx.x % warpSize;
  if (lane == 0) printf("warp %d of block %d has threads %d to %d\n", warp, blockIdx.x, threadIdx.x, threadIdx.x + 31);
}
//! [kernel]

//! [main]
int main() {
  hello<<<2, 64>>>();  // two blocks of 64 threads, so of two warps each
  const cudaError_t error = cudaDeviceSynchronize();
  if (error == cudaSuccess) return 0;
  std::fprintf(stderr, "hello: %s\n", cudaGetErrorString(error));
  return 1;
}
//! [main]
