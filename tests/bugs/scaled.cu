// A block-scaled product on the tensor core of an SM100. Threads write the tiles, and make the scale factors of floats.
#include "gallery.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/scale_factors.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using namespace gallery;

constexpr int kM = 128, kN = 32, kK = 128, kBlock = 32, kBlocks = kK / kBlock;
using ATile = Tile<__nv_fp8_e4m3, kM, kK, Swizzle::bytes_128>;
using BTile = Tile<__nv_fp8_e4m3, kN, kK, Swizzle::bytes_128>;
using SfTile = ScaleFactorTile<__nv_fp8_e8m0, kM, kBlocks>;

__device__ uint32_t exponents_of(const float* scales) {
  uint32_t word = 0;
  for (int i = 0; i < kBlocks; ++i) word |= __float_as_uint(1 + scales[i]) >> 23 << 8 * i;
  return word;
}

__global__ void __launch_bounds__(kM) multiply(const __nv_fp8_e4m3* a_there, const __nv_fp8_e4m3* b_there,
                                               const float* a_scales, const float* b_scales, float* out) {
  __shared__ ATile a;
  __shared__ BTile b;
  __shared__ SfTile sfa, sfb;
  __shared__ uint64_t done;
  __shared__ uint32_t published;
  if (threadIdx.x == 0) init_barrier(&done, /*arrive_count=*/1);
  const TmemAllocation<2 * kN> memory{&published};
  if (warp_index() == 0) {
    memory.allocate();
    memory.release_lock();
  }
  for (int i = threadIdx.x; i < kM * kK; i += kM) a.at(i / kK, i % kK) = a_there[i];
  for (int i = threadIdx.x; i < kN * kK; i += kM) b.at(i / kK, i % kK) = b_there[i];
  const uint32_t place = SfTile::offset_of(threadIdx.x, 0);
  *reinterpret_cast<uint32_t*>(sfa.storage + place) = exponents_of(a_scales + threadIdx.x * kBlocks);
  *reinterpret_cast<uint32_t*>(sfb.storage + place) = exponents_of(b_scales + threadIdx.x * kBlocks);
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const TmemTensor<kM, kN> sums{memory.address()};
  const TmemScaleFactors<SfTile, SfTile> scales{memory.address() + kN};
  if (warp_index() == 0 && elect_one()) {
    copy_scale_factors(scales, sfa, sfb);
    multiply_scaled_tiles(sums, a, b, scales, /*accumulate=*/false);
    commit_mma(&done);
  }
  __syncwarp();
  wait(&done, /*parity=*/0);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  uint32_t words[kN];
  load_tmem(words, sums.part_of_warp(warp_index()));
  wait_for_tmem_loads();
  for (int i = 0; i < kN; ++i) out[threadIdx.x * kN + i] = __uint_as_float(words[i]);
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (warp_index() == 0) memory.deallocate();
}

bool run() {
  const auto a = Array<__nv_fp8_e4m3>::random(kM * kK), b = Array<__nv_fp8_e4m3>::random(kN * kK);
  const auto scales = Array<float>::random(kM * kBlocks);
  auto out = Array<float>::poisoned(kM * kN);
  multiply<<<1, kM>>>(a.device(), b.device(), scales.device(), scales.device(), out.device());
  out.fetch();
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      float sum = 0;
      for (int k = 0; k < kK; ++k) {
        const int scale =
            std::ilogb(1 + scales[row * kBlocks + k / kBlock]) + std::ilogb(1 + scales[column * kBlocks + k / kBlock]);
        sum += std::ldexp(static_cast<float>(a[row * kK + k]) * static_cast<float>(b[column * kK + k]), scale);
      }
      if (out[row * kN + column] != sum) return false;
    }
  }
  return true;
}
