// Blockwise FP8: each k-tile has an accumulator of its own, which the epilogue scales by the factors that arrived
// with the tiles. Both pipelines together, through the per-K views.
#include <cmath>
#include <cuda/ptx>

#include "harness/device.hpp"
#include "ring_test.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft::tests {
namespace {

constexpr int kM = 128, kN = 32, kTileK = 64;
constexpr int kEpilogueThreads = 4 * kWarpSize;
using Element = __nv_fp8_e4m3;
using ATile = Tile<Element, kM, kTileK, Swizzle::bytes_64>;
using BTile = Tile<Element, kN, kTileK, Swizzle::bytes_64>;
using Payload = BlockwiseFp8TilePayload<ATile, BTile, PlainTile<float, 1, kM>, 3>;
using Input = InputTilePipeline<Payload, 3>;
using Output = OutputTilePipeline<TmemTensor<kM, kN>, 2>;

__global__ void __launch_bounds__(2 * kWarpSize + kEpilogueThreads)
    multiply(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
             const __grid_constant__ CUtensorMap scales_map, float* c, int k_tiles) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ Input::BarrierArray input_barriers;
  __shared__ Output::BarrierArray output_barriers;
  __shared__ TmemHandshake handshake;
  if (threadIdx.x == 0) {
    Input::init_barriers(
        input_barriers, /*producer_arrive_count=*/1,
        /*consumer_arrive_count=*/1 + kEpilogueThreads);  // the commit, and the threads that read the scales
    Output::init_barriers(output_barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/kEpilogueThreads);
    handshake.init(kEpilogueThreads);
    fence_barrier_init();
  }
  __syncthreads();
  Input input{input_barriers, Payload{*reinterpret_cast<Payload::Storage*>(dynamic_shared_memory)}};

  if (warp_index() == 0) {
    if (elect_one()) {
      auto producer = input.producer();
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        auto tiles = producer.acquire();
        tiles.expect_bytes();
        copy_tile(tiles.tile().a, a_map, 0, k_tile * kTileK, tiles.barrier());
        copy_tile(tiles.tile().b, b_map, 0, k_tile * kTileK, tiles.barrier());
        copy_tile(tiles.tile().a_scales, scales_map, k_tile, 0, tiles.barrier());
      }
      producer.drain();
    }
  } else if (warp_index() == 1) {
    MmaWarp<Output::Allocation> warp{handshake};
    Output output{output_barriers, warp.address()};
    if (elect_one()) {
      auto per_k = output.per_k(input);
      for (int i = 0; i < k_tiles; ++i) {
        auto stage = per_k.mma();
        multiply_tiles(stage.accumulator(), stage.tile().a, stage.tile().b, /*accumulate=*/false);
      }
    }
  } else {
    EpilogueWarp warp{handshake};
    Output output{output_barriers, warp.address()};
    auto per_k = output.per_k(input);
    const int row = Output::Accumulator::row_of(warp_index(), lane_index());
    float sums[kN] = {};
    for (int i = 0; i < k_tiles; ++i) {
      auto stage = per_k.epilogue();
      float values[kN];
      stage.accumulator().load(values, warp_index(), 0);
      const float scale = stage.tile().a_scales.at(0, row);
      for (int column = 0; column < kN; ++column) sums[column] += values[column] * scale;
    }
    for (int column = 0; column < kN; ++column) c[row * kN + column] = sums[column];
  }
}

TEST(PerKViewsTest, ScaleEachStepByItself) {
  if (harness::current_device().major != 10) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  for (const int k_tiles : {1, 2, 11}) {
    SCOPED_TRACE(k_tiles);
    const int k = k_tiles * kTileK;
    const auto a = harness::random_values<Element>(kM * k, 17 + k_tiles),
               b = harness::random_values<Element>(kN * k, 18);
    const auto scales = harness::random_values<float>(k_tiles * kM, 19);  // a row for each k-tile
    const harness::DeviceBuffer<Element> device_a(a, "A"), device_b(b, "B");
    const harness::DeviceBuffer<float> device_scales(scales, "A's scales");
    harness::DeviceBuffer<float> device_c(kM * kN, "C");
    device_c.poison();
    constexpr int kSharedBytes = sizeof(Payload::Storage);
    harness::check(cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
                   "ask for the kernel's shared memory");
    multiply<<<1, 2 * kWarpSize + kEpilogueThreads, kSharedBytes>>>(
        make_tile_map<ATile>(device_a.data(), kM, k), make_tile_map<BTile>(device_b.data(), kN, k),
        make_tile_map<Payload::AScalesTile>(device_scales.data(), k_tiles, kM), device_c.data(), k_tiles);
    harness::check(cudaDeviceSynchronize(), "multiply");
    const auto c = device_c.to_host();
    for (int row = 0; row < kM; ++row) {
      for (int column = 0; column < kN; ++column) {
        double expected = 0;
        for (int i = 0; i < k; ++i) {
          expected += double{static_cast<float>(a[row * k + i])} * static_cast<float>(b[column * k + i]) *
                      scales[i / kTileK * kM + row];
        }
        ASSERT_NEAR(c[row * kN + column], expected, 1e-4 * std::sqrt(k)) << "row " << row << ", column " << column;
      }
    }
  }
}

}  // namespace
}  // namespace stagecraft::tests
