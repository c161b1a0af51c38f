// Block-scaled products (MXFP8, MXFP4, NVFP4, mixed fp8) by three roles, through both pipelines: scale factors arrive
// with the tiles, and the tensor core copies them to their places beside the accumulators.
#include <algorithm>
#include <cuda/ptx>
#include <string>

#include "harness/block_scaling.hpp"
#include "harness/device.hpp"
#include "ring_test.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/scale_factors.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft::tests {
namespace {

constexpr int kEpilogueThreads = 4 * kWarpSize;
constexpr int kProductThreads = 2 * kWarpSize + kEpilogueThreads;

/// What a product is made of.
/// @tparam Block   elements along K that share a scale factor.
/// @tparam Places  for scale factors in tensor memory.
template <typename ATileType, typename BTileType, typename ScaleType, int Block, int Stages = 3, int Accumulators = 1,
          int KGroupSize = 1, int Places = Stages* KGroupSize>
struct Scaled {
  using ATile = ATileType;
  using BTile = BTileType;
  using Scale = ScaleType;
  using SfaTile = ScaleFactorTile<Scale, 128, ATile::columns / Block>;
  using SfbTile = ScaleFactorTile<Scale, scale_factor_rows<BTile::rows>(), ATile::columns / Block>;
  using Payload = BlockScaledTilePayload<ATile, BTile, SfaTile, SfbTile, Stages * KGroupSize>;
  using Input = InputTilePipeline<Payload, Stages, KGroupSize>;
  using Output = OutputTilePipeline<TmemTensor<128, BTile::rows>, Accumulators>;
  using Tmem = BlockScaledTmem<Output, Payload, Places>;
  static constexpr int block = Block, k_group = KGroupSize, tile_n = BTile::rows, tile_k = ATile::columns;
};

template <typename S>
struct Problem {
  TileMap<typename S::ATile> a;
  TileMap<typename S::BTile> b;
  TileMap<typename S::SfaTile> sfa;
  TileMap<typename S::SfbTile> sfb;
  float* c;
  int m, n, groups;  ///< of k-tiles

  __device__ int tiles_down() const { return (m + 127) / 128; }
  __device__ int tiles() const { return tiles_down() * ((n + S::tile_n - 1) / S::tile_n); }
  __device__ int row(int tile) const { return tile % tiles_down() * 128; }
  __device__ int column(int tile) const { return tile / tiles_down() * S::tile_n; }
};

template <typename S>
__global__ void __launch_bounds__(kProductThreads) multiply_scaled(const __grid_constant__ Problem<S> problem) {
  using Input = typename S::Input;
  using Output = typename S::Output;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake handshake;
  if (threadIdx.x == 0) {
    Input::init_barriers(input_barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
    Output::init_barriers(output_barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/kEpilogueThreads);
    handshake.init(kEpilogueThreads);
    fence_barrier_init();
  }
  __syncthreads();
  Input input{input_barriers,
              typename S::Payload{*reinterpret_cast<typename S::Payload::Storage*>(dynamic_shared_memory)}};

  if (warp_index() == 0) {
    if (elect_one()) {
      for (int tile = blockIdx.x; tile < problem.tiles(); tile += gridDim.x) {
        for (int group = 0; group < problem.groups; ++group) {
          auto stage = input.acquire_producer();
          stage.expect_bytes();
          for (int i = 0; i < S::k_group; ++i) {
            const auto [a, b, sfa, sfb] = stage.tile(i);
            const int k = (group * S::k_group + i) * S::tile_k;
            copy_tile(a, problem.a, problem.row(tile), k, stage.barrier());
            copy_tile(b, problem.b, problem.column(tile), k, stage.barrier());
            copy_tile(sfa, problem.sfa, problem.row(tile), k / S::block, stage.barrier());
            copy_tile(sfb, problem.sfb, problem.column(tile), k / S::block, stage.barrier());
          }
          std::move(stage).release();
        }
      }
      input.drain_producer();
    }
  } else if (warp_index() == 1) {
    MmaWarp<typename S::Tmem::Allocation> warp{handshake};
    if (elect_one()) {
      Output output{output_barriers, warp.address()};
      const typename S::Tmem tmem{warp.address()};
      for (int tile = blockIdx.x; tile < problem.tiles(); tile += gridDim.x) {
        auto sums = output.acquire_mma();
        for (int group = 0; group < problem.groups; ++group) {
          auto stage = input.acquire_consumer();
          for (int i = 0; i < S::k_group; ++i) {
            const auto [a, b, sfa, sfb] = stage.tile(i);
            const auto scales = tmem.scale_factors(stage.stage() * S::k_group + i);
            copy_scale_factors(scales, sfa, sfb);
            multiply_scaled_tiles(sums.accumulator(), a, b, scales, /*accumulate=*/group > 0 || i > 0,
                                  problem.column(tile) % 128);
          }
          commit_mmas(stage.mbar());
          std::move(stage).release();
        }
        std::move(sums).release();
      }
    }
  } else {
    EpilogueWarp warp{handshake};
    Output output{output_barriers, warp.address()};
    for (int tile = blockIdx.x; tile < problem.tiles(); tile += gridDim.x) {
      auto sums = output.acquire_epilogue();
      const int row = problem.row(tile) + Output::Accumulator::row_of(warp_index(), lane_index());
      for (int column = 0; column < S::tile_n; column += 8) {
        float values[8];
        sums.accumulator().load(values, warp_index(), column);
        for (int i = 0; i < 8; ++i) {
          const int at = problem.column(tile) + column + i;
          if (row < problem.m && at < problem.n) problem.c[int64_t{row} * problem.n + at] = values[i];
        }
      }
      std::move(sums).release();
    }
  }
}

/// An operand on the device, and its maps.
template <typename Tile, typename SfTile>
struct Operand {
  using Element = typename Tile::element_type;
  using Scale = typename SfTile::element_type;
  static constexpr int kBlock = Tile::columns / SfTile::columns;

  harness::BlockScaledMatrix matrix;
  harness::DeviceBuffer<uint8_t> elements, scale_factors;

  Operand(size_t rows, size_t k, uint64_t seed, const std::string& name)
      : matrix(harness::quantise<BlockScaledType<Element, Scale, kBlock>>(harness::random_uneven_values(rows, k, seed),
                                                                          rows, k)),
        elements(as_stored(), name),
        scale_factors(with_poison(), "the scale factors of " + name) {}

  TileMap<Tile> map() const {
    return make_tile_map<Tile>(reinterpret_cast<const Element*>(elements.data()), matrix.rows, matrix.columns);
  }
  TileMap<SfTile> scale_map() const {
    return make_tile_map<SfTile>(reinterpret_cast<const Scale*>(scale_factors.data()), matrix.padded_rows,
                                 matrix.padded_blocks);
  }

 private:
  /// Scale factors of rows beyond the matrix are not numbers, and must not matter.
  std::vector<uint8_t> with_poison() const {
    std::vector<uint8_t> poisoned = matrix.scale_factors;
    for (size_t row = matrix.rows; row < matrix.padded_rows; ++row) {
      for (size_t block = 0; block < matrix.padded_blocks; ++block) {
        poisoned[scale_factor_offset(row, block, matrix.padded_blocks)] = 0xff;
      }
    }
    return poisoned;
  }
  std::vector<uint8_t> as_stored() const {
    if (Tile::major == Major::k) return matrix.elements;
    std::vector<uint8_t> transposed(matrix.elements.size());
    for (size_t i = 0; i < transposed.size(); ++i) {
      transposed[i % matrix.columns * matrix.rows + i / matrix.columns] = matrix.elements[i];
    }
    return transposed;
  }
};

struct Shape {
  size_t m, n, k;
  unsigned blocks = 1;
};

template <typename S>
void expect_scaled_product(const Shape& shape, uint64_t seed) {
  const auto [m, n, k, blocks] = shape;
  SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + ", seed " +
               std::to_string(seed));
  const Operand<typename S::ATile, typename S::SfaTile> a(m, k, seed, "A");
  const Operand<typename S::BTile, typename S::SfbTile> b(n, k, ~seed, "B");
  constexpr size_t kGuard = 256;  // elements before and after C
  harness::DeviceBuffer<float> guarded(m * n + 2 * kGuard, "C");
  guarded.poison();
  const auto kernel = multiply_scaled<S>;
  constexpr int kSharedBytes = sizeof(typename S::Payload::Storage);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
                 "ask for the kernel's shared memory");
  const size_t group = S::k_group * S::tile_k;
  kernel<<<blocks, kProductThreads, kSharedBytes>>>({.a = a.map(),
                                                     .b = b.map(),
                                                     .sfa = a.scale_map(),
                                                     .sfb = b.scale_map(),
                                                     .c = guarded.data() + kGuard,
                                                     .m = static_cast<int>(m),
                                                     .n = static_cast<int>(n),
                                                     .groups = static_cast<int>((k + group - 1) / group)});
  harness::check(cudaDeviceSynchronize(), "multiply");
  const std::vector<float> all = guarded.to_host();
  for (size_t i = 0; i < kGuard; ++i) {
    ASSERT_TRUE(std::isnan(all[i]) && std::isnan(all[all.size() - 1 - i])) << "the kernel wrote outside of C";
  }
  const std::vector<float> c(all.begin() + kGuard, all.end() - kGuard);
  const auto reference = harness::scaled_product(a.matrix.values, b.matrix.values, m, n, k);
  const harness::Comparison found = harness::compare_scaled(c, reference, k, 256 / S::ATile::bits);
  ASSERT_EQ(found.wrong, 0u) << "of " << c.size() << "; worst at row " << found.worst / n << ", column "
                             << found.worst % n << ": " << c[found.worst] << " for " << reference.exact[found.worst];
}

using E4m3 = __nv_fp8_e4m3;
using E5m2 = __nv_fp8_e5m2;
using E2m1 = __nv_fp4_e2m1;
using Ue8m0 = __nv_fp8_e8m0;
using Ue4m3 = __nv_fp8_e4m3;

class ScaledProductTest : public testing::Test {
 protected:
  void SetUp() override {
    if (harness::current_device().major != 10) GTEST_SKIP() << "only compute capability 10.x has tcgen05";
  }
};

TEST_F(ScaledProductTest, IsRightForMxfp8) {
  using S = Scaled<Tile<E4m3, 128, 128>, Tile<E4m3, 128, 128>, Ue8m0, 32, 3, 2>;
  for (const uint64_t seed : {1, 2, 3}) expect_scaled_product<S>({128, 128, 128}, seed);
  expect_scaled_product<S>({1, 1, 16}, 4);
  expect_scaled_product<S>({300, 260, 1040, 2}, 5);  // edges everywhere, and more k-tiles than stages
  expect_scaled_product<S>({384, 256, 176}, 6);      // six tiles of one block
}

TEST_F(ScaledProductTest, IsRightForMxfp8OfOtherLayouts) {
  // Two atoms along K; other swizzles; one place for all scale factors.
  using Deep = Scaled<Tile<E4m3, 128, 256>, Tile<E4m3, 64, 256, Swizzle::bytes_64>, Ue8m0, 32, 2, 1, 1, 1>;
  expect_scaled_product<Deep>({129, 200, 784}, 7);
  using Columns = Scaled<Tile<E4m3, 128, 128, Swizzle::bytes_128, Major::mn>,
                         Tile<E5m2, 128, 128, Swizzle::bytes_128, Major::mn>, Ue8m0, 32>;
  expect_scaled_product<Columns>({272, 144, 320}, 8);
}

TEST_F(ScaledProductTest, IsRightForMixedFp8) {
  expect_scaled_product<Scaled<Tile<E4m3, 128, 128>, Tile<E5m2, 64, 128>, Ue8m0, 32>>({200, 96, 400}, 9);
  expect_scaled_product<Scaled<Tile<E5m2, 128, 128>, Tile<E4m3, 64, 128>, Ue8m0, 32>>({130, 70, 272}, 10);
}

TEST_F(ScaledProductTest, IsRightForMxfp4) {
  using S = Scaled<Tile<E2m1, 128, 256>, Tile<E2m1, 128, 256>, Ue8m0, 32, 3, 2>;
  for (const uint64_t seed : {11, 12, 13}) expect_scaled_product<S>({128, 128, 256}, seed);
  expect_scaled_product<S>({190, 300, 1312, 2}, 14);
}

TEST_F(ScaledProductTest, IsRightForNvfp4) {
  using S = Scaled<Tile<E2m1, 128, 256>, Tile<E2m1, 128, 256>, Ue4m3, 16, 3, 2>;
  for (const uint64_t seed : {15, 16, 17}) expect_scaled_product<S>({128, 128, 256}, seed);
  expect_scaled_product<S>({257, 150, 992, 3}, 18);
}

TEST_F(ScaledProductTest, IsRightForBlocksOf16WithPowersOfTwo) {
  expect_scaled_product<Scaled<Tile<E2m1, 128, 256>, Tile<E2m1, 64, 256>, Ue8m0, 16>>({140, 130, 544}, 19);
}

// The scale factors of N columns are in N / 32 columns of tensor memory, and tiles of B may begin in the middle of 128.
TEST_F(ScaledProductTest, IsRightForEveryWidth) {
  using A8 = Tile<E4m3, 128, 128>;
  using A4 = Tile<E2m1, 128, 256>;
  expect_scaled_product<Scaled<A8, Tile<E4m3, 32, 128>, Ue8m0, 32, 2, 4>>({100, 250, 272}, 20);
  expect_scaled_product<Scaled<A8, Tile<E4m3, 96, 128>, Ue8m0, 32, 2, 2>>({128, 500, 256}, 21);
  expect_scaled_product<Scaled<A8, Tile<E4m3, 192, 128>, Ue8m0, 32, 2, 2>>({128, 700, 400}, 22);
  expect_scaled_product<Scaled<A8, Tile<E4m3, 256, 128>, Ue8m0, 32, 3, 1>>({257, 513, 400}, 23);
  expect_scaled_product<Scaled<A4, Tile<E2m1, 256, 256>, Ue4m3, 16, 3, 1>>({257, 513, 800}, 24);
}

TEST_F(ScaledProductTest, IsRightWithGroupsOfTiles) {
  using S = Scaled<Tile<E2m1, 128, 128, Swizzle::bytes_64>, Tile<E2m1, 64, 128, Swizzle::bytes_64>, Ue4m3, 16, 2, 1, 2>;
  expect_scaled_product<S>({140, 200, 1056, 2}, 25);
}

// ---- Pairs of blocks ------------------------------------------------------------------------------------------------

/// What a block of a pair holds of one k-tile: half the rows of each operand, the scale factors of its half of A, and
/// those of all of B.
template <typename Element, typename Scale, int Block, int N>
struct HalfTiles {
  static constexpr int tile_k = 1024 / element_bits<Element>;
  using A = Tile<Element, 128, tile_k>;
  using B = Tile<Element, N / 2, tile_k>;
  using Sfa = ScaleFactorTile<Scale, 128, tile_k / Block>;
  using Sfb = ScaleFactorTile<Scale, scale_factor_rows<N>(), tile_k / Block>;
  A a;
  B b;
  Sfa sfa;
  Sfb sfb;
  static constexpr uint32_t bytes = A::bytes + B::bytes + Sfa::bytes + Sfb::bytes;
};

/// C = A * B transposed by pairs of blocks, 256 x N at a time, one k-tile after the other. Each block's copies signal
/// its own barrier, and the odd block passes that on.
template <typename Tiles, int N, int Block>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kEpilogueThreads)
    multiply_scaled_by_pairs(const __grid_constant__ TileMap<typename Tiles::A> a_map,
                             const __grid_constant__ TileMap<typename Tiles::B> b_map,
                             const __grid_constant__ TileMap<typename Tiles::Sfa> sfa_map,
                             const __grid_constant__ TileMap<typename Tiles::Sfb> sfb_map, float* c, int n,
                             int k_tiles) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  Tiles& tiles = *reinterpret_cast<Tiles*>(dynamic_shared_memory);
  __shared__ uint64_t arrived, peer_arrived, read;
  __shared__ uint32_t published;
  const TmemAllocation<512, 2> tensor_memory{&published};
  const uint32_t rank = block_rank();
  const int row = static_cast<int>(blockIdx.x / 2) * 256 + static_cast<int>(rank) * 128,
            column = static_cast<int>(blockIdx.y) * N;
  if (threadIdx.x == 0) {
    init_barrier(&arrived, 1);
    init_barrier(&peer_arrived, 1);
    init_barrier(&read, 1);
    fence_barrier_init();
  }
  __syncwarp();
  if (warp_index() == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  sync_cluster();
  cuda::ptx::tcgen05_fence_after_thread_sync();

  const TmemTensor<256, N, 2> accumulator(tensor_memory.address());
  const TmemScaleFactors<typename Tiles::Sfa, typename Tiles::Sfb> scales(
      tmem_offset(tensor_memory.address(), 0, accumulator.tmem_columns));
  if (threadIdx.x == 0) {
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      const int k = k_tile * Tiles::tile_k;
      expect_bytes(&arrived, Tiles::bytes);
      copy_tile(tiles.a, a_map, row, k, &arrived);
      copy_tile(tiles.b, b_map, column + static_cast<int>(rank) * N / 2, k, &arrived);
      copy_tile(tiles.sfa, sfa_map, row, k / Block, &arrived);
      copy_tile(tiles.sfb, sfb_map, column, k / Block, &arrived);
      wait(&arrived, k_tile & 1);
      if (rank == 1) {
        arrive_at_block(&peer_arrived, 0);
      } else {
        wait(&peer_arrived, k_tile & 1);
        copy_scale_factors<2>(scales, tiles.sfa, tiles.sfb);
        multiply_scaled_tiles(accumulator, tiles.a, tiles.b, scales, /*accumulate=*/k_tile > 0, column % 128);
        commit_mmas_to_blocks<2>(&read, 0b11);
      }
      wait(&read, k_tile & 1);
    }
  }
  __syncthreads();
  wait(&read, (k_tiles - 1) & 1);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const int c_row = row + static_cast<int>(threadIdx.x);
  for (int at = 0; at < N; at += 8) {
    float values[8];
    accumulator.load(values, warp_index(), at);
    for (int i = 0; i < 8; ++i) c[c_row * n + column + at + i] = values[i];
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  if (warp_index() == 0) tensor_memory.deallocate();
}

template <typename Element, typename Scale, int Block, int N>
void expect_scaled_product_of_pairs(uint64_t seed) {
  using Tiles = HalfTiles<Element, Scale, Block, N>;
  constexpr int kM = 512, kN = 2 * N, kK = 3 * Tiles::tile_k;
  const Operand<typename Tiles::A, typename Tiles::Sfa> a(kM, kK, seed, "A");
  const Operand<typename Tiles::B, typename Tiles::Sfb> b(kN, kK, ~seed, "B");
  harness::DeviceBuffer<float> device_c(kM * kN, "C");
  device_c.poison();
  const auto kernel = multiply_scaled_by_pairs<Tiles, N, Block>;
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Tiles)),
                 "ask for the kernel's shared memory");
  kernel<<<dim3(kM / 128, 2), kEpilogueThreads, sizeof(Tiles)>>>(a.map(), b.map(), a.scale_map(), b.scale_map(),
                                                                 device_c.data(), kN, kK / Tiles::tile_k);
  harness::check(cudaDeviceSynchronize(), "multiply by pairs");
  const auto reference = harness::scaled_product(a.matrix.values, b.matrix.values, kM, kN, kK);
  const std::vector<float> c = device_c.to_host();
  const harness::Comparison found = harness::compare_scaled(c, reference, kK, 256 / element_bits<Element>);
  EXPECT_EQ(found.wrong, 0u) << "of " << c.size() << "; worst at row " << found.worst / kN << ", column "
                             << found.worst % kN << ": " << c[found.worst] << " for " << reference.exact[found.worst];
}

TEST_F(ScaledProductTest, IsRightForPairsOfBlocks) {
  expect_scaled_product_of_pairs<E4m3, Ue8m0, 32, 256>(30);
  expect_scaled_product_of_pairs<E4m3, Ue8m0, 32, 64>(31);
  expect_scaled_product_of_pairs<E2m1, Ue4m3, 16, 192>(32);
}

}  // namespace
}  // namespace stagecraft::tests
