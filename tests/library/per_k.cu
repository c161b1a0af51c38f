// Blockwise FP8: each k-tile has an accumulator of its own, which the epilogue scales by the f32 factors that belong to
// it: one for each row of A and 128 of K, which arrives with the tiles, and one for each 128 x 128 of B. Both pipelines
// together, through the per-K views.
#include <cuda/ptx>
#include <string>

#include "harness/block_scaling.hpp"
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

constexpr int kM = 128, kTileK = 128, kScaledColumns = 128;
constexpr int kEpilogueThreads = 4 * kWarpSize;

template <typename AElement, typename BElement, int N, int Stages, int Accumulators>
struct Blockwise {
  using ATile = Tile<AElement, kM, kTileK>;
  using BTile = Tile<BElement, N, kTileK>;
  using Scales = PlainTile<float, 1, kM>;
  using Payload = BlockwiseFp8TilePayload<ATile, BTile, Scales, Stages>;
  using Input = InputTilePipeline<Payload, Stages>;
  using Output = OutputTilePipeline<TmemTensor<kM, N>, Accumulators>;
  static constexpr int tile_n = N;
};

template <typename S>
struct Problem {
  TileMap<typename S::ATile> a;
  TileMap<typename S::BTile> b;
  TileMap<typename S::Scales> a_scales;  ///< a row for each k-tile
  const float* b_scales;                 ///< likewise, with `b_scales_in_row` of them
  int b_scales_in_row;
  float* c;
  int m, n, k_tiles;

  __device__ int tiles_down() const { return (m + kM - 1) / kM; }
  __device__ int tiles() const { return tiles_down() * ((n + S::tile_n - 1) / S::tile_n); }
  __device__ int row(int tile) const { return tile % tiles_down() * kM; }
  __device__ int column(int tile) const { return tile / tiles_down() * S::tile_n; }
};

template <typename S>
__global__ void __launch_bounds__(2 * kWarpSize + kEpilogueThreads)
    multiply(const __grid_constant__ Problem<S> problem) {
  using Input = typename S::Input;
  using Output = typename S::Output;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
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
  Input input{input_barriers,
              typename S::Payload{*reinterpret_cast<typename S::Payload::Storage*>(dynamic_shared_memory)}};

  if (warp_index() == 0) {
    if (elect_one()) {
      auto producer = input.producer();
      for (int tile = blockIdx.x; tile < problem.tiles(); tile += gridDim.x) {
        for (int k_tile = 0; k_tile < problem.k_tiles; ++k_tile) {
          auto tiles = producer.acquire();
          tiles.expect_bytes();
          copy_tile(tiles.tile().a, problem.a, problem.row(tile), k_tile * kTileK, tiles.barrier());
          copy_tile(tiles.tile().b, problem.b, problem.column(tile), k_tile * kTileK, tiles.barrier());
          copy_tile(tiles.tile().a_scales, problem.a_scales, k_tile, problem.row(tile), tiles.barrier());
        }
      }
      producer.drain();
    }
  } else if (warp_index() == 1) {
    MmaWarp<typename Output::Allocation> warp{handshake};
    Output output{output_barriers, warp.address()};
    if (elect_one()) {
      auto per_k = output.per_k(input);
      for (int tile = blockIdx.x; tile < problem.tiles(); tile += gridDim.x) {
        for (int k_tile = 0; k_tile < problem.k_tiles; ++k_tile) {
          auto stage = per_k.mma();
          multiply_tiles(stage.accumulator(), stage.tile().a, stage.tile().b, /*accumulate=*/false);
        }
      }
    }
  } else {
    EpilogueWarp warp{handshake};
    Output output{output_barriers, warp.address()};
    auto per_k = output.per_k(input);
    const int row_of_tile = Output::Accumulator::row_of(warp_index(), lane_index());
    for (int tile = blockIdx.x; tile < problem.tiles(); tile += gridDim.x) {
      float sums[S::tile_n] = {};
      for (int k_tile = 0; k_tile < problem.k_tiles; ++k_tile) {
        const float b_scale =
            problem.b_scales[k_tile * problem.b_scales_in_row + problem.column(tile) / kScaledColumns];
        auto stage = per_k.epilogue();
        add_scaled(sums, stage.accumulator(), warp_index(), stage.tile().a_scales.at(0, row_of_tile) * b_scale);
      }
      const int row = problem.row(tile) + row_of_tile;
#pragma unroll
      for (int i = 0; i < S::tile_n; ++i) {
        const int column = problem.column(tile) + i;
        if (row < problem.m && column < problem.n) problem.c[int64_t{row} * problem.n + column] = sums[i];
      }
    }
  }
}

template <typename AElement, typename BElement, int N, int Stages, int Accumulators>
void expect_blockwise_product(size_t m, size_t n, size_t k, unsigned blocks, uint64_t seed) {
  using S = Blockwise<AElement, BElement, N, Stages, Accumulators>;
  SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + ", seed " +
               std::to_string(seed));
  const auto a = harness::quantise_blockwise<AElement>(harness::random_uneven_values(m, k, seed), m, k, 1, kTileK);
  const auto b =
      harness::quantise_blockwise<BElement>(harness::random_uneven_values(n, k, ~seed), n, k, kScaledColumns, kTileK);
  const harness::DeviceBuffer<uint8_t> device_a(a.elements, "A"), device_b(b.elements, "B");
  const harness::DeviceBuffer<float> a_scales(a.scales, "A's scales"), b_scales(b.scales, "B's scales");
  harness::DeviceBuffer<float> device_c(m * n, "C");
  device_c.poison();
  const auto kernel = multiply<S>;
  constexpr int kSharedBytes = sizeof(typename S::Payload::Storage);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
                 "ask for the kernel's shared memory");
  const size_t k_tiles = (k + kTileK - 1) / kTileK;
  kernel<<<blocks, 2 * kWarpSize + kEpilogueThreads, kSharedBytes>>>(
      {.a = make_tile_map<typename S::ATile>(reinterpret_cast<const AElement*>(device_a.data()), m, k),
       .b = make_tile_map<typename S::BTile>(reinterpret_cast<const BElement*>(device_b.data()), n, k),
       .a_scales = make_tile_map<typename S::Scales>(a_scales.data(), k_tiles, a.scales_in_row),
       .b_scales = b_scales.data(),
       .b_scales_in_row = static_cast<int>(b.scales_in_row),
       .c = device_c.data(),
       .m = static_cast<int>(m),
       .n = static_cast<int>(n),
       .k_tiles = static_cast<int>(k_tiles)});
  harness::check(cudaDeviceSynchronize(), "multiply");
  const std::vector<float> c = device_c.to_host();
  const auto reference = harness::scaled_product(a.values, b.values, m, n, k);
  const harness::Comparison found = harness::compare_scaled(c, reference, k, /*mma_k=*/32, /*extra_units=*/1);
  ASSERT_EQ(found.wrong, 0u) << "of " << c.size() << "; worst at row " << found.worst / n << ", column "
                             << found.worst % n << ": " << c[found.worst] << " for " << reference.exact[found.worst];
}

class PerKViewsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (harness::current_device().major != 10) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  }
};

TEST_F(PerKViewsTest, ScaleEachKTileSeparately) {
  using E4m3 = __nv_fp8_e4m3;
  for (const uint64_t seed : {1, 2, 3}) expect_blockwise_product<E4m3, E4m3, 128, 3, 2>(128, 128, 384, 1, seed);
  expect_blockwise_product<E4m3, E4m3, 128, 3, 2>(1, 1, 16, 1, 4);
  expect_blockwise_product<E4m3, E4m3, 128, 3, 2>(300, 260, 1424, 2, 5);
}

TEST_F(PerKViewsTest, ScaleTilesOfAnyWidth) {
  expect_blockwise_product<__nv_fp8_e4m3, __nv_fp8_e5m2, 32, 4, 4>(200, 200, 528, 3, 6);
  expect_blockwise_product<__nv_fp8_e5m2, __nv_fp8_e4m3, 64, 2, 1>(129, 190, 400, 1, 7);
}

}  // namespace
}  // namespace stagecraft::tests
