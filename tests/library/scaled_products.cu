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
/// @tparam ATileType, BTileType  of one block: in a pair, half of what one MMA reads.
/// @tparam Block                 elements along K that share a scale factor.
/// @tparam Places                for scale factors in tensor memory.
template <typename ATileType, typename BTileType, typename ScaleType, int Block, int Stages = 3, int Accumulators = 1,
          int KGroupSize = 1, typename ClusterType = OneBlock, int Places = Stages* KGroupSize>
struct Scaled {
  using ATile = ATileType;
  using BTile = BTileType;
  using Scale = ScaleType;
  using Cluster = ClusterType;
  static constexpr int block = Block, tile_k = ATile::columns;
  static constexpr int tile_n = BTile::rows * Cluster::cta_group;
  using SfaTile = ScaleFactorTile<Scale, 128, tile_k / block>;
  using SfbTile = ScaleFactorTile<Scale, scale_factor_rows<tile_n>(), tile_k / block>;
  using Payload = BlockScaledTilePayload<ATile, BTile, SfaTile, SfbTile, Stages * KGroupSize>;
  using Input = InputTilePipeline<Payload, Stages, KGroupSize, Cluster>;
  using Output = OutputTilePipeline<TmemTensor<128 * Cluster::cta_group, tile_n, Cluster::cta_group>, Accumulators>;
  using Tmem = BlockScaledTmem<Output, Payload, Places>;
};

template <typename S>
struct Problem {
  TileMap<typename S::ATile, S::Cluster::blocks_sharing_a> a;
  TileMap<typename S::BTile, S::Cluster::blocks_sharing_b> b;
  TileMap<typename S::SfaTile> sfa;
  TileMap<typename S::SfbTile> sfb;
  float* c;
  int m, n, groups;  ///< of k-tiles
};

/// Where a block is in its work: its cluster takes every so many-th part of C, of Rows x Columns tiles.
template <typename S>
class Turn {
 public:
  using Cluster = typename S::Cluster;
  __device__ explicit Turn(const Problem<S>& problem)
      : problem_(problem), rank_(Cluster::blocks == 1 ? 0 : block_rank()), number_(blockIdx.x / Cluster::blocks) {}

  __device__ bool exists() const { return number_ < down() * parts(problem_.n, Cluster::columns * S::tile_n); }
  __device__ void next() { number_ += gridDim.x / Cluster::blocks; }
  /// The block's first row of A and of C.
  __device__ int row() const { return (number_ % down() * Cluster::rows + Cluster::row(rank_)) * 128; }
  /// The first column of C of the block, or of its pair.
  __device__ int column() const { return (number_ / down() * Cluster::columns + Cluster::column(rank_)) * S::tile_n; }
  /// The first row of B that the block brings.
  __device__ int row_of_b() const { return column() + Cluster::place_in_pair(rank_) * S::BTile::rows; }

 private:
  __device__ static int parts(int size, int of) { return (size + of - 1) / of; }
  __device__ int down() const { return parts(problem_.m, Cluster::rows * 128); }

  const Problem<S>& problem_;
  uint32_t rank_;
  int number_;
};

template <typename S>
__global__ void __launch_bounds__(kProductThreads) multiply_scaled(const __grid_constant__ Problem<S> problem) {
  using Input = typename S::Input;
  using Output = typename S::Output;
  using Cluster = typename S::Cluster;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake<Cluster::cta_group> handshake;
  if (threadIdx.x == 0) {
    Input::init_barriers(input_barriers);
    Output::init_barriers(output_barriers, kEpilogueThreads);
    handshake.init(kEpilogueThreads);
    fence_barrier_init();
  }
  if constexpr (Cluster::blocks == 1) {
    __syncthreads();
  } else {
    sync_cluster();
  }
  Input input{input_barriers,
              typename S::Payload{*reinterpret_cast<typename S::Payload::Storage*>(dynamic_shared_memory)}};

  if (warp_index() == 0) {
    if (elect_one()) {
      for (Turn turn{problem}; turn.exists(); turn.next()) {
        for (int group = 0; group < problem.groups; ++group) {
          auto stage = input.acquire_producer();
          stage.expect_bytes();
          for (int i = 0; i < Input::k_group_size; ++i) {
            const int k = (group * Input::k_group_size + i) * S::tile_k;
            stage.load_a(problem.a, turn.row(), k, i);
            stage.load_b(problem.b, turn.row_of_b(), k, i);
            stage.load_own(stage.tile(i).sfa, problem.sfa, turn.row(), k / S::block);
            stage.load_own(stage.tile(i).sfb, problem.sfb, turn.column(), k / S::block);
          }
          std::move(stage).release();
        }
      }
      input.drain_producer();
    }
  } else if (warp_index() == 1) {
    MmaWarp<typename S::Tmem::Allocation> warp{handshake};
    const bool leads = Cluster::blocks == 1 || Cluster::is_leader(block_rank());
    if (leads && elect_one()) {
      Output output{output_barriers, warp.address()};
      const typename S::Tmem tmem{warp.address()};
      for (Turn turn{problem}; turn.exists(); turn.next()) {
        auto sums = output.acquire_mma();
        for (int group = 0; group < problem.groups; ++group) {
          auto stage = input.acquire_consumer();
          for (int i = 0; i < Input::k_group_size; ++i) {
            const auto [a, b, sfa, sfb] = stage.tile(i);
            const auto scales = tmem.scale_factors(stage.stage() * Input::k_group_size + i);
            copy_scale_factors<Cluster::cta_group>(scales, sfa, sfb);
            multiply_scaled_tiles(sums.accumulator(), a, b, scales, /*accumulate=*/group > 0 || i > 0,
                                  turn.column() % 128);
          }
          stage.commit_mma();
          std::move(stage).release();
        }
        std::move(sums).release();
      }
    }
  } else {
    EpilogueWarp warp{handshake};
    Output output{output_barriers, warp.address()};
    for (Turn turn{problem}; turn.exists(); turn.next()) {
      auto sums = output.acquire_epilogue();
      const int row = turn.row() + static_cast<int>(warp_index() % 4 * kWarpSize + lane_index());
      for (int column = 0; column < S::tile_n; column += 8) {
        float values[8];
        sums.accumulator().load(values, warp_index(), column);
        for (int i = 0; i < 8; ++i) {
          const int at = turn.column() + column + i;
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

  /// @tparam Slices  blocks that share a tile.
  template <int Slices>
  TileMap<Tile, Slices> map() const {
    return make_tile_map<Tile, Slices>(reinterpret_cast<const Element*>(elements.data()), matrix.rows, matrix.columns);
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
  const size_t group = S::Input::k_group_size * S::tile_k;
  using Cluster = typename S::Cluster;
  const Problem<S> problem{.a = a.template map<Cluster::blocks_sharing_a>(),
                           .b = b.template map<Cluster::blocks_sharing_b>(),
                           .sfa = a.scale_map(),
                           .sfb = b.scale_map(),
                           .c = guarded.data() + kGuard,
                           .m = static_cast<int>(m),
                           .n = static_cast<int>(n),
                           .groups = static_cast<int>((k + group - 1) / group)};
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {Cluster::blocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = {blocks};
  config.blockDim = {kProductThreads};
  config.dynamicSmemBytes = kSharedBytes;
  config.attrs = &cluster;
  config.numAttrs = Cluster::blocks == 1 ? 0 : 1;
  harness::check(cudaLaunchKernelEx(&config, kernel, problem), "launch the kernel");
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
  using Deep = Scaled<Tile<E4m3, 128, 256>, Tile<E4m3, 64, 256, Swizzle::bytes_64>, Ue8m0, 32, 2, 1, 1, OneBlock, 1>;
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
  using FourStages = Scaled<A4, Tile<E2m1, 256, 256>, Ue4m3, 16, 4, 1>;
  static_assert(kTmemColumns - FourStages::Tmem::used_columns == 64);  // lesson 14, question 2
}

TEST_F(ScaledProductTest, IsRightWithGroupsOfTiles) {
  using S = Scaled<Tile<E2m1, 128, 128, Swizzle::bytes_64>, Tile<E2m1, 64, 128, Swizzle::bytes_64>, Ue4m3, 16, 2, 1, 2>;
  expect_scaled_product<S>({140, 200, 1056, 2}, 25);
}

// ---- Clusters -------------------------------------------------------------------------------------------------------

// Each block of a pair copies the scale factors of its own rows of A, and those of all columns.
TEST_F(ScaledProductTest, IsRightForPairsOfBlocks) {
  using Pair = ClusterShape<2, 1, 2>;
  using A8 = Tile<E4m3, 128, 128>;
  using A4 = Tile<E2m1, 128, 256>;
  expect_scaled_product<Scaled<A8, Tile<E4m3, 128, 128>, Ue8m0, 32, 3, 1, 1, Pair>>({600, 513, 656, 4}, 30);
  expect_scaled_product<Scaled<A8, Tile<E4m3, 32, 128>, Ue8m0, 32, 2, 4, 1, Pair>>({512, 200, 400, 2}, 31);
  expect_scaled_product<Scaled<A4, Tile<E2m1, 96, 256>, Ue4m3, 16, 3, 1, 1, Pair>>({300, 400, 800, 2}, 32);
}

TEST_F(ScaledProductTest, IsRightForClusters) {
  using A8 = Tile<E4m3, 128, 128>;
  using A4 = Tile<E2m1, 128, 256>;
  expect_scaled_product<Scaled<A8, Tile<E4m3, 64, 128>, Ue8m0, 32, 3, 2, 1, ClusterShape<2, 2>>>({500, 300, 656, 4},
                                                                                                 33);
  expect_scaled_product<Scaled<A4, Tile<E2m1, 64, 256>, Ue4m3, 16, 3, 2, 1, ClusterShape<2, 2, 2>>>({520, 260, 1312, 8},
                                                                                                    34);
}

}  // namespace
}  // namespace stagecraft::tests
