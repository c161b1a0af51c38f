// Products by clusters of blocks: tiles that are shared by multicast, pairs of blocks whose tensor cores multiply
// together, and both at once; every operand brought by InputTilePipeline, every accumulator through OutputTilePipeline.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <bit>
#include <set>
#include <type_traits>

#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/reference_product.hpp"
#include "ring_test.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft::tests {
namespace {

// ---- Who shares what ------------------------------------------------------------------------------------------------

/// Compares the masks of a shape with what they must be by the definition of a product, block by block.
template <typename Cluster>
void expect_masks_of_a_product() {
  const auto has = [](uint16_t mask, uint32_t rank) { return (mask >> rank & 1) != 0; };
  constexpr uint32_t kBlocks = Cluster::blocks;
  for (uint32_t rank = 0; rank < kBlocks; ++rank) {
    const uint32_t row = rank % Cluster::rows, column = rank / Cluster::rows;
    std::set<uint32_t> readers, slices_of_a, slices_of_b;
    for (uint32_t other = 0; other < kBlocks; ++other) {
      const uint32_t row_of_other = other % Cluster::rows, column_of_other = other / Cluster::rows;
      const bool same_a = row == row_of_other;
      const bool same_b = column == column_of_other && rank % Cluster::cta_group == other % Cluster::cta_group;
      EXPECT_EQ(has(Cluster::sharing_a(rank), other), same_a) << "block " << rank << " with " << other;
      EXPECT_EQ(has(Cluster::sharing_b(rank), other), same_b) << "block " << rank << " with " << other;
      EXPECT_EQ(has(Cluster::pair(rank), other), rank / Cluster::cta_group == other / Cluster::cta_group);
      if (same_a) EXPECT_TRUE(slices_of_a.insert(Cluster::slice_of_a(other)).second) << "a slice is brought twice";
      if (same_b) EXPECT_TRUE(slices_of_b.insert(Cluster::slice_of_b(other)).second) << "a slice is brought twice";
      if (same_a || same_b) readers.insert(Cluster::leader(other));  // what this block brings, that leader's MMAs read
    }
    EXPECT_EQ(slices_of_a.size(), size_t{Cluster::blocks_sharing_a});
    EXPECT_EQ(slices_of_b.size(), size_t{Cluster::blocks_sharing_b});
    EXPECT_LT(*slices_of_a.rbegin(), uint32_t{Cluster::blocks_sharing_a});
    EXPECT_LT(*slices_of_b.rbegin(), uint32_t{Cluster::blocks_sharing_b});
    EXPECT_EQ(readers.size(), size_t{Cluster::readers});
    for (uint32_t other = 0; other < kBlocks; ++other) {
      if (!Cluster::is_leader(other)) continue;
      EXPECT_EQ(has(Cluster::feeding(other), rank), readers.contains(other))
          << "the commit of block " << other << " and block " << rank;
    }
    EXPECT_EQ(Cluster::sharing_a(rank) >> kBlocks | Cluster::sharing_b(rank) >> kBlocks |
                  Cluster::feeding(Cluster::leader(rank)) >> kBlocks,
              0)
        << "a mask of block " << rank << " names a block that the cluster does not have";
  }
}

TEST(ClusterShapeTest, CommitsReachExactlyTheBlocksThatBringWhatTheMmasRead) {
  expect_masks_of_a_product<OneBlock>();
  expect_masks_of_a_product<ClusterShape<2, 1>>();
  expect_masks_of_a_product<ClusterShape<1, 2>>();
  expect_masks_of_a_product<ClusterShape<4, 4>>();
  expect_masks_of_a_product<ClusterShape<3, 5>>();
  expect_masks_of_a_product<ClusterShape<2, 1, 2>>();
  expect_masks_of_a_product<ClusterShape<2, 8, 2>>();
  expect_masks_of_a_product<ClusterShape<4, 2, 2>>();
  expect_masks_of_a_product<ClusterShape<4, 4, 2>>();
  expect_masks_of_a_product<ClusterShape<16, 1, 2>>();
}

TEST(ClusterShapeTest, AgreesWithTheExampleInCutlass) {
  // sm100_pipeline.hpp: whom block (0, 0) of 4 x 4 blocks in pairs tells that it has read: two rows, and its column.
  EXPECT_EQ((ClusterShape<4, 4, 2>::feeding(0)), 0x333f);
  EXPECT_EQ((ClusterShape<4, 4, 2>::readers), 5);
}

TEST(ClusterShapeTest, HasTheNumbersOfTheLesson) {
  // Lesson 11, question 2: how many commits free a stage of 4 x 2 blocks in pairs, and to how many blocks each goes.
  EXPECT_EQ((ClusterShape<4, 2, 2>::readers), 3);
  EXPECT_EQ((std::popcount(ClusterShape<4, 2, 2>::feeding(0))), 6);
}

// ---- Products -------------------------------------------------------------------------------------------------------

constexpr int kEpilogueThreads = 4 * kWarpSize;
constexpr int kProductThreads = 2 * kWarpSize + kEpilogueThreads;  // and the epilogue's first warp is number 2

/// A kernel: `M` x `N` is what one MMA computes, by a block (M = 128) or by a pair (128 or 256).
template <typename ElementType, int M, int N, typename ClusterType, int GroupStages, int KGroupSize, int Accumulators,
          Major AMajor = Major::k, Major BMajor = Major::k, L2Hint Hint = L2Hint::none>
struct Kernel {
  using Element = ElementType;
  using Cluster = ClusterType;
  static constexpr int m = M, n = N;
  static constexpr int k = 128 / sizeof(Element);  // a line of the 128-byte swizzle
  static constexpr int rows = M / Cluster::cta_group;
  static constexpr L2Hint hint = Hint;
  using ATile = Tile<Element, rows, k, Swizzle::bytes_128, AMajor>;
  using BTile = Tile<Element, N / Cluster::cta_group, k, Swizzle::bytes_128, BMajor>;
  using Payload = StandardTilePayload<ATile, BTile, GroupStages * KGroupSize>;
  using Input = InputTilePipeline<Payload, GroupStages, KGroupSize, Cluster>;
  using Output = OutputTilePipeline<TmemTensor<M, N, Cluster::cta_group>, Accumulators>;
};

/// What every block of the grid computes: `turns` tiles of C, gridDim.y * n columns apart.
template <typename K>
struct Problem {
  TileMap<typename K::ATile, K::Cluster::blocks_sharing_a> a;
  TileMap<typename K::BTile, K::Cluster::blocks_sharing_b> b;
  float* c;
  int columns_of_c;
  int turns;
  int groups;
};

template <typename K>
__global__ void __launch_bounds__(kProductThreads) multiply(const __grid_constant__ Problem<K> problem) {
  using Cluster = typename K::Cluster;
  using Input = typename K::Input;
  using Output = typename K::Output;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& tiles = *reinterpret_cast<typename K::Payload::Storage*>(dynamic_shared_memory);
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake<Cluster::cta_group> handshake;
  const uint32_t rank = block_rank();
  const uint32_t place = Cluster::place_in_pair(rank);
  const auto column_of = [&](int turn) { return static_cast<int>(blockIdx.y + turn * gridDim.y) * K::n; };

  if (threadIdx.x == 0) {
    Input::init_barriers(input_barriers);
    Output::init_barriers(output_barriers, kEpilogueThreads);
    handshake.init(kEpilogueThreads);
    fence_barrier_init();
  }
  sync_cluster();

  Input input{input_barriers, typename K::Payload{tiles}};
  if (warp_index() == 0) {
    if (elect_one()) {
      auto producer = input.producer();
      bool is_free = true;
      for (int turn = 0; turn < problem.turns; ++turn) {
        for (int group = 0; group < problem.groups; ++group) {
          auto stage = producer.acquire_if_needed(is_free);
          stage.expect_bytes();
          for (int k = 0; k < Input::k_group_size; ++k) {
            const int column = (group * Input::k_group_size + k) * K::k;
            stage.template load_a<K::hint>(problem.a, blockIdx.x * K::rows, column, k);
            stage.template load_b<K::hint>(problem.b, column_of(turn) + place * K::BTile::rows, column, k);
          }
          is_free = producer.try_acquire_next();
        }
      }
      producer.drain();
    }
  } else if (warp_index() == 1) {
    MmaWarp<typename Output::Allocation> warp{handshake};
    if (Cluster::is_leader(rank) && elect_one()) {
      Output output{output_barriers, warp.address()};
      auto consumer = input.consumer();
      auto producer = output.producer();
      bool is_full = false;
      for (int turn = 0; turn < problem.turns; ++turn) {
        auto sums = producer.accumulate();
        for (int group = 0; group < problem.groups; ++group) {
          auto stage = consumer.acquire_if_needed(is_full, /*hint=*/1000);
          for (int k = 0; k < Input::k_group_size; ++k) {
            multiply_tiles(sums.accumulator(), stage.tile(k).a, stage.tile(k).b, /*accumulate=*/group > 0 || k > 0);
          }
          stage.commit_mma();
          is_full = consumer.try_acquire_next();
        }
      }
    }
  } else {
    EpilogueWarp warp{handshake};
    Output output{output_barriers, warp.address()};
    auto consumer = output.consumer();
    using Accumulator = typename Output::Accumulator;
    const int first_row = static_cast<int>(blockIdx.x / Cluster::cta_group) * K::m;
    const int row = Accumulator::row_of(warp_index(), lane_index(), place);
    bool is_summed = false;
    for (int turn = 0; turn < problem.turns; ++turn) {
      auto sums = consumer.consume_if_needed(is_summed);
      for (int at = 0; at < Accumulator::tmem_columns; at += 8) {
        float values[8];
        sums.accumulator().load(values, warp_index(), at);
        float* const to = problem.c + (first_row + row) * problem.columns_of_c + column_of(turn) +
                          Accumulator::column_of(warp_index(), at);
        for (int i = 0; i < 8; ++i) to[i] = values[i];
      }
      is_summed = consumer.try_acquire_next();
    }
  }
}

/// What TMA makes of a matrix that the tensor core reads as `Element`.
template <typename Element>
using InMemory = matrix_element<Element>;

/// The column-major form of a row-major matrix.
template <typename T>
std::vector<T> transposed(const std::vector<T>& matrix, size_t columns) {
  const size_t rows = matrix.size() / columns;
  std::vector<T> result(matrix.size());
  for (size_t i = 0; i < matrix.size(); ++i) result[i % columns * rows + i / columns] = matrix[i];
  return result;
}

template <typename K>
void expect_product(int turns = 3, int groups = 5, L2Promotion promotion = L2Promotion::bytes_128) {
  using Cluster = typename K::Cluster;
  using Element = typename K::Element;
  using Stored = InMemory<Element>;
  constexpr int kClusters = 2;  // in each direction
  const int64_t m = kClusters * Cluster::rows * K::rows, n = kClusters * Cluster::columns * K::n * turns;
  const int64_t k = groups * K::Input::k_group_size * K::k - 16;  // the last tile hangs over the edge
  auto a = harness::random_values<Stored>(m * k, 11 * m + n);
  auto b = harness::random_values<Stored>(n * k, 13 * m + n);
  if constexpr (std::is_same_v<Element, tf32>) {
    for (auto* matrix : {&a, &b}) {
      for (float& value : *matrix) value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & ~0x1fffu);
    }
  }
  const harness::DeviceBuffer<Stored> device_a(K::ATile::major == Major::k ? a : transposed(a, k), "A");
  const harness::DeviceBuffer<Stored> device_b(K::BTile::major == Major::k ? b : transposed(b, k), "B");
  harness::DeviceBuffer<float> device_c(m * n, "C");
  device_c.poison();

  const Problem<K> problem{.a = make_tile_map<typename K::ATile, Cluster::blocks_sharing_a>(
                               device_a.data(), m, k, 0, OutOfBounds::zero, promotion),
                           .b = make_tile_map<typename K::BTile, Cluster::blocks_sharing_b>(
                               device_b.data(), n, k, 0, OutOfBounds::zero, promotion),
                           .c = device_c.data(),
                           .columns_of_c = static_cast<int>(n),
                           .turns = turns,
                           .groups = groups};
  const auto kernel = multiply<K>;
  constexpr int kSharedBytes = sizeof(typename K::Payload::Storage);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
                 "ask for the kernel's shared memory");
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {Cluster::rows, Cluster::columns, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kClusters * Cluster::rows, kClusters * Cluster::columns);
  config.blockDim = dim3(kProductThreads);
  config.dynamicSmemBytes = kSharedBytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  harness::check(cudaLaunchKernelEx(&config, kernel, problem), "launch clusters");
  harness::check(cudaDeviceSynchronize(), "multiply in clusters");

  const std::vector<double> reference = harness::reference_product<Stored>(a, b, m, n, k);
  const std::vector<float> c = device_c.to_host();
  const harness::Comparison found = harness::compare<float>(
      c, reference,
      {.k = static_cast<size_t>(k), .output_epsilon = 0x1p-24, .mma_k = static_cast<size_t>(32 / sizeof(Element))});
  EXPECT_EQ(found.wrong, 0u) << "worst at row " << found.worst / n << ", column " << found.worst % n << ": "
                             << c[found.worst] << " for " << reference[found.worst];
}

class ClusterProductTest : public testing::Test {
 protected:
  void SetUp() override {
    if (harness::current_device().major != 10) GTEST_SKIP() << "only compute capability 10.x has tcgen05";
  }
};

using bf16 = __nv_bfloat16;
using e4m3 = __nv_fp8_e4m3;

TEST_F(ClusterProductTest, NeedsNoCluster) {
  expect_product<Kernel<bf16, 128, 64, OneBlock, 3, 1, 2>>();
  expect_product<Kernel<e4m3, 128, 32, OneBlock, 2, 2, 1>>();
}

TEST_F(ClusterProductTest, SharesTilesOfBDownAColumn) {
  expect_product<Kernel<bf16, 128, 64, ClusterShape<2, 1>, 3, 1, 2>>();
  expect_product<Kernel<e4m3, 128, 32, ClusterShape<4, 1>, 2, 2, 2>>();
}

TEST_F(ClusterProductTest, SharesTilesOfAAlongARow) {
  expect_product<Kernel<bf16, 128, 32, ClusterShape<1, 2>, 3, 1, 2>>();
  expect_product<Kernel<tf32, 128, 64, ClusterShape<1, 4>, 2, 2, 1>>();
}

TEST_F(ClusterProductTest, SharesBothInARectangle) {
  expect_product<Kernel<bf16, 128, 64, ClusterShape<2, 2>, 2, 1, 2>>();
  expect_product<Kernel<__half, 128, 32, ClusterShape<4, 2>, 2, 2, 1>>();
}

TEST_F(ClusterProductTest, MultipliesByAPair) {
  expect_product<Kernel<bf16, 256, 256, ClusterShape<2, 1, 2>, 3, 1, 2>>();
  expect_product<Kernel<bf16, 256, 32, ClusterShape<2, 1, 2>, 2, 2, 2>>();
  expect_product<Kernel<bf16, 128, 128, ClusterShape<2, 1, 2>, 2, 1, 2>>();
  expect_product<Kernel<e4m3, 128, 192, ClusterShape<2, 1, 2>, 2, 2, 1>>();
  expect_product<Kernel<tf32, 256, 64, ClusterShape<2, 1, 2>, 3, 1, 3>>();
}

TEST_F(ClusterProductTest, SharesTilesAmongPairs) {
  expect_product<Kernel<bf16, 256, 64, ClusterShape<2, 2, 2>, 2, 1, 2>>();
  expect_product<Kernel<e4m3, 128, 64, ClusterShape<2, 2, 2>, 2, 2, 2>>();
  expect_product<Kernel<bf16, 256, 64, ClusterShape<4, 1, 2>, 3, 1, 2>>();
  expect_product<Kernel<__half, 256, 64, ClusterShape<4, 2, 2>, 2, 2, 2>>();
}

TEST_F(ClusterProductTest, SharesTilesThatAreContiguousAlongMOrN) {
  expect_product<Kernel<bf16, 128, 64, ClusterShape<2, 2>, 2, 1, 2, Major::mn, Major::mn>>();
  expect_product<Kernel<bf16, 256, 128, ClusterShape<4, 2, 2>, 2, 1, 2, Major::mn, Major::mn>>();
}

TEST_F(ClusterProductTest, TakesHintsForTheCache) {
  expect_product<Kernel<bf16, 128, 64, OneBlock, 2, 1, 1, Major::k, Major::k, L2Hint::evict_first>>(
      1, 3, L2Promotion::bytes_256);
  expect_product<Kernel<bf16, 128, 64, ClusterShape<2, 2>, 2, 1, 1, Major::k, Major::k, L2Hint::evict_last>>(
      1, 3, L2Promotion::none);
  expect_product<Kernel<bf16, 256, 64, ClusterShape<2, 1, 2>, 2, 1, 1, Major::k, Major::k, L2Hint::evict_first>>(
      1, 3, L2Promotion::bytes_64);
  expect_product<Kernel<bf16, 256, 64, ClusterShape<4, 2, 2>, 2, 1, 1, Major::k, Major::k, L2Hint::evict_last>>(1, 3);
}

TEST_F(ClusterProductTest, LeavesWhenRingsWereNeverFull) {
  expect_product<Kernel<bf16, 256, 64, ClusterShape<2, 1, 2>, 4, 1, 4>>(1, 1);
  expect_product<Kernel<bf16, 128, 64, ClusterShape<2, 2>, 4, 1, 4>>(1, 1);
}

}  // namespace
}  // namespace stagecraft::tests
