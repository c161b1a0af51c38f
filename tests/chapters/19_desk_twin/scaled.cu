// Starts the answer's block-scaled kernel, and its parts on their own.
#include <scaled_launch.cuh>

#include "scaled.hpp"
#include "stagecraft/launch_control.hpp"

using namespace stagecraft;

namespace {

using KnownFactors = ScaleFragments<kScaledRowsOfA, kScaledRowsOfB>;
using FactorTile = ScaleFactorTile<__nv_fp8_e4m3, kScaleTileRows, 16>;

__global__ void __launch_bounds__(kWarpSize)
    load_scales(const uint8_t* sfa, const uint8_t* sfb, int word, KnownScales* found) {
  __shared__ FactorTile of_a, of_b;
  for (uint32_t i = threadIdx.x; i < FactorTile::bytes; i += kWarpSize) {
    of_a.storage[i] = sfa[i];
    of_b.storage[i] = sfb[i];
  }
  __syncwarp();
  KnownFactors factors;
  factors.load(of_a, kFirstScaledRowOfA, of_b, kFirstScaledRowOfB, word);
  found[threadIdx.x] = {{factors.a[0]}, {factors.b[0], factors.b[1]}};
}

template <typename Type>
__global__ void select(KnownSelectors* found) {
  for (int slice = 0; slice < kScaledSlices; ++slice) {
    for (int fragment = 0; fragment < kSelectedFragments; ++fragment) {
      const ScaleSelector of_a = select_scales<Type>(fragment, /*rows=*/16, slice);
      const ScaleSelector of_b = select_scales<Type>(fragment, /*rows=*/8, slice);
      found->a[slice][fragment] = {of_a.byte, of_a.thread};
      found->b[slice][fragment] = {of_b.byte, of_b.thread};
    }
  }
}

template <typename Type>
__global__ void __launch_bounds__(kWarpSize) multiply_ones(const KnownScales* scales, float* sums, float first) {
  constexpr uint32_t kOnes = std::same_as<Type, Mxfp8> ? 0x38383838 : 0x22222222;
  Fragments<kScaledRowsOfA, kScaledRowsOfB> ones;
  for (auto& matrices : ones.a) {
    for (uint32_t& word : matrices) word = kOnes;
  }
  for (auto& matrices : ones.b) {
    for (uint32_t& word : matrices) word = kOnes;
  }
  const KnownScales& known = scales[threadIdx.x];
  const KnownFactors factors{{known.a[0]}, {known.b[0], known.b[1]}};
  const int lane = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int slice = 0; slice < kScaledSlices; ++slice) {
    WarpSums<kScaledRowsOfA, kScaledRowsOfB> products;
    for (auto& row : products.of) {
      for (auto& of : row) {
        for (float& sum : of) sum = first;
      }
    }
    multiply_scaled<Type>(products, ones, factors, slice);
    for (int i = 0; i < kScaledRowsOfA / 16; ++i) {
      for (int j = 0; j < kScaledRowsOfB / 8; ++j) {
        for (int e = 0; e < 4; ++e) {
          const int row = 16 * i + e / 2 * 8 + lane / 4, column = 8 * j + lane % 4 * 2 + e % 2;
          sums[(slice * kScaledRowsOfA + row) * kScaledRowsOfB + column] = products.of[i][j][e];
        }
      }
    }
  }
}

}  // namespace

void launch_load_scales(const uint8_t* sfa, const uint8_t* sfb, int word, KnownScales* found) {
  load_scales<<<1, kWarpSize>>>(sfa, sfb, word, found);
  harness::check(cudaGetLastError(), "launch load_scales");
}

void launch_select_scales(ScaledKind kind, KnownSelectors* found) {
  const auto kernel = kind == ScaledKind::mxfp8 ? select<Mxfp8> : select<Nvfp4>;
  kernel<<<1, 1>>>(found);
  harness::check(cudaGetLastError(), "launch select");
}

void launch_multiply_ones(ScaledKind kind, const KnownScales* scales, float* sums, float first) {
  const auto kernel = kind == ScaledKind::mxfp8 ? multiply_ones<Mxfp8> : multiply_ones<Nvfp4>;
  kernel<<<1, kWarpSize>>>(scales, sums, first);
  harness::check(cudaGetLastError(), "launch multiply_ones");
}

void launch_scaled_gemm(ScaledKind kind, const uint8_t* a, const uint8_t* sfa, const uint8_t* b, const uint8_t* sfb,
                        __nv_bfloat16* d, int m, int n, int k, uint32_t blocks) {
  const ScaledOperand of_a{a, sfa}, of_b{b, sfb};
  if (kind == ScaledKind::mxfp8) {
    using Schedule = StaticScheduler<WholeTiles<>>;
    start_scaled_gemm<ScaledConfig<Mxfp8>, Schedule>(of_a, of_b, Epilogue<>{}, d, m, n, k, blocks);
  } else {
    using Schedule = LaunchControlScheduler<WholeTiles<>>;
    start_scaled_gemm<ScaledConfig<Nvfp4>, Schedule>(of_a, of_b, Epilogue<>{}, d, m, n, k, blocks);
  }
}
