// Sums of products whose operands come from shared memory, as in products of matrices in fp32, without global memory:
// how far loads and arithmetic of several warps overlap. The model of the chip is compared with it, so each kernel is
// also launched once, and not timed, with PLAIN_KERNELS_ONCE=1.
#include "kernel_timing.hpp"

using namespace silicon;

constexpr int kDepth = 16, kTurns = 512;

/// Each thread adds 8 x 8 products for each of `kDepth` columns and rows that it loads, `kTurns` times. `kStride` words
/// are between the columns of neighbouring threads: 8 give conflicts of two, 4 (and halves apart) none.
template <int kStride, int kUnroll, bool kMeets>
__global__ void __launch_bounds__(512) products(float* out) {
  __shared__ float a[kDepth * 128], b[kDepth * 256];
  for (int i = threadIdx.x; i < kDepth * 128; i += blockDim.x) a[i] = static_cast<float>(i);
  for (int i = threadIdx.x; i < kDepth * 256; i += blockDim.x) b[i] = static_cast<float>(i);
  __syncthreads();
  const int column = threadIdx.x % 16 * kStride, row = threadIdx.x / 16 % 16 * 8;
  constexpr int kSecond = kStride == 8 ? 4 : 64;  // from the first four columns to the others
  float sums[8][8] = {};
#pragma unroll 1
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma unroll kUnroll
    for (int k = 0; k < kDepth; ++k) {
      float x[8], y[8];
      for (int i = 0; i < 8; ++i) x[i] = a[k * 128 + row + i];
      for (int i = 0; i < 4; ++i) y[i] = b[k * 128 + column + i], y[4 + i] = b[k * 128 + column + kSecond + i];
      for (int m = 0; m < 8; ++m)
        for (int n = 0; n < 8; ++n) sums[m][n] += x[m] * y[n];
    }
    if (kMeets) __syncthreads();
    asm volatile("" ::: "memory");
  }
  for (int m = 0; m < 8; ++m)
    for (int n = 0; n < 8; ++n)
      out[(m * 8 + n) * gridDim.x * blockDim.x + blockIdx.x * blockDim.x + threadIdx.x] = sums[m][n];
}

template <int kStride, int kUnroll, bool kMeets>
void measure(const char* name) {
  DeviceArray<float> out(size_t{64} * 132 * 1024);
  for (const int threads : {128, 256, 384, 512}) {
    time(
        std::string(name) + ", " + std::to_string(threads / 128) + " warps a scheduler", 1,
        [&](cudaStream_t stream, int) { products<kStride, kUnroll, kMeets><<<132, threads, 0, stream>>>(out.data()); });
  }
}

BENCHMARK(loop_with_conflicts) { measure<8, 1, false>("8 x 8 products, a loop, conflicts of two"); }
BENCHMARK(loop) { measure<4, 1, false>("8 x 8 products, a loop, no conflicts"); }
BENCHMARK(loop_that_meets) { measure<8, 1, true>("8 x 8 products, a loop, conflicts of two, a barrier every 16"); }
BENCHMARK(unrolled_with_conflicts) { measure<8, 16, false>("8 x 8 products, unrolled, conflicts of two"); }
BENCHMARK(unrolled) { measure<4, 16, false>("8 x 8 products, unrolled, no conflicts"); }
BENCHMARK(unrolled_that_meets) {
  measure<8, 16, true>("8 x 8 products, unrolled, conflicts of two, a barrier every 16");
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
