// Two warpgroups of a Hopper GPU multiply halves of A with B, in two steps along K. All threads write both tiles.
#include "gallery.hpp"
#include "operations.hpp"
#include "stagecraft/wgmma.hpp"

using namespace stagecraft;
using namespace gallery;

constexpr int kSteps = 2, kM = 128, kN = 64, kK = 64;
using ATile = Tile<__nv_bfloat16, kM, kK, Swizzle::bytes_128>;
using BTile = Tile<__nv_bfloat16, kN, kK, Swizzle::bytes_128>;

__global__ void __launch_bounds__(2 * kWarpgroupSize)
    multiply(const __nv_bfloat16* a_there, const __nv_bfloat16* b_there, float* out) {
  __shared__ ATile a;
  __shared__ BTile b;
  const int group = threadIdx.x / kWarpgroupSize, thread = threadIdx.x % kWarpgroupSize;
  WarpgroupSums<__nv_bfloat16, kM / 2, kN> sums;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = threadIdx.x; i < kM * kK; i += blockDim.x) a.at(i / kK, i % kK) = a_there[step * kM * kK + i];
    for (int i = threadIdx.x; i < kN * kK; i += blockDim.x) b.at(i / kK, i % kK) = b_there[step * kN * kK + i];
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();
    multiply_tiles(sums, a, group * kM / 2, b, /*accumulate=*/step > 0);
    ptx::wgmma_wait_group<0>();
    __syncthreads();
  }
  sums.wait();
  for (int i = 0; i < kN / 2; ++i) {
    const int row = group * kM / 2 + thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
    out[row * kN + i / 4 * 8 + thread % 4 * 2 + i % 2] = sums.of[0][i];
  }
}

bool run() {
  const auto a = Array<__nv_bfloat16>::random(kSteps * kM * kK), b = Array<__nv_bfloat16>::random(kSteps * kN * kK);
  auto out = Array<float>::poisoned(kM * kN);
  multiply<<<1, 2 * kWarpgroupSize>>>(a.device(), b.device(), out.device());
  out.fetch();
  for (int i = 0; i < kM * kN; ++i) {
    float sum = 0;
    for (int k = 0; k < kSteps * kK; ++k) {
      const int step = k / kK;
      sum += static_cast<float>(a[(step * kM + i / kN) * kK + k % kK]) *
             static_cast<float>(b[(step * kN + i % kN) * kK + k % kK]);
    }
    if (out[i] != sum) return false;
  }
  return true;
}
