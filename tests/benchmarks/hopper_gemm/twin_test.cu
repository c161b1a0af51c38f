// Products by the kernel of this folder against a reference in double: every configuration that the benchmark measures,
// with few blocks, so that each goes through several tiles.
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <vector>

#include "first_steps.cuh"
#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "stagecraft/hopper_gemm/configurations.cuh"
#include "stagecraft/hopper_gemm/launch.cuh"

namespace stagecraft {
namespace {

using namespace harness;

struct ThreeStages : TwinDefaults {
  static constexpr int stages = 3;
  static constexpr int slabs = 4;
};
struct AlongN : TwinDefaults {
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 2;
};
struct OfFour : TwinDefaults {
  static constexpr int cluster_m = 2;
  static constexpr int cluster_n = 2;
};
struct GroupsOfTwo : TwinDefaults {
  static constexpr int tile_n = 64;
  static constexpr int stages = 4;
  static constexpr int k_group = 2;
  static constexpr int slabs = 1;
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 2;
};
struct TwoBands : TwinDefaults {
  static constexpr int tile_m = 256;
  static constexpr int tile_n = 128;
};

struct Cut : TwinDefaults {
  static constexpr LastRound last_round = LastRound::cut;
};

struct LargeNotHalved : TwinLarge {
  static constexpr LastRound last_round = TwinDefaults::last_round;
};
struct OfE4m3 : TwinDefaults {
  using Element = __nv_fp8_e4m3;
};

struct Alone : TwinDefaults {  // each block computes one tile
  static constexpr int cluster_m = 1;
  static constexpr bool overlaps = false;
};
struct OneConsumer : Alone {
  static constexpr int tile_m = 64;
  static constexpr int consumers = 1;
  static constexpr bool by_copy_engine = false;
};

/// The same, but freeing stages by arrivals with the scope of the cluster.
template <typename Config>
struct Ordered : Config {
  static constexpr Freeing frees = Freeing::ordered;
};
/// The same, but freeing stages as CUTLASS does, for which PTX promises nothing.
template <typename Config>
struct Tolerated : Config {
  static constexpr Freeing frees = Freeing::tolerated;
};

struct Size {
  int64_t m, n, k;
};

/// Multiplies random matrices on at most `blocks` blocks (0: one for each tile), `rounds` times, and checks every
/// element each time.
template <typename Config>
void expect_product(const Size& size, int blocks, uint64_t seed, int rounds = 1) {
  if (current_device().major != 9) GTEST_SKIP() << "wgmma needs Hopper: set STAGECRAFT_DEVICE=h200";
  const auto [m, n, k] = size;
  using Element = typename Config::Element;
  const auto a = random_values<Element>(m * k, seed), b = random_values<Element>(n * k, ~seed);
  const DeviceBuffer<Element> device_a(a, "A"), device_b(b, "B");
  DeviceBuffer<__nv_bfloat16> c(m * n, "C");
  TwinLaunch<Config> launch(device_a.data(), device_b.data(), c.data(), m, n, k,
                            {.band = 2, .persistent = blocks > 0, .blocks = blocks});
  const std::vector<double> reference = reference_product<Element>(a, b, m, n, k);
  for (int round = 0; round < rounds; ++round) {
    c.poison();
    launch();
    finish_kernel("hopper_twin");
    ProductTolerance tolerance{.k = static_cast<size_t>(k)};
    if (sizeof(Element) == 1) tolerance.mma_k = 32, tolerance.kept_bits = tolerance.sum_bits = 13;
    const Comparison found = compare<__nv_bfloat16>(c.to_host(), reference, tolerance);
    EXPECT_EQ(found.wrong, 0u) << "the worst is C[" << found.worst / n << "][" << found.worst % n << "], "
                               << found.worst_excess << " times its tolerance off; seed " << seed;
  }
}

TEST(HopperTwinTest, OneTile) { expect_product<TwinDefaults>({256, 256, 64}, 2, 1); }
TEST(HopperTwinTest, MoreTilesThanBlocks) { expect_product<TwinDefaults>({1024, 512, 320}, 4, 2); }
TEST(HopperTwinTest, HangsOverEveryEdge) { expect_product<TwinDefaults>({300, 264, 200}, 2, 3); }
TEST(HopperTwinTest, OneElement) { expect_product<TwinDefaults>({1, 8, 8}, 2, 4); }
TEST(HopperTwinTest, ThreeStages) { expect_product<ThreeStages>({512, 512, 320}, 2, 5); }
TEST(HopperTwinTest, ClustersAlongN) { expect_product<AlongN>({300, 1024, 320}, 4, 6); }
TEST(HopperTwinTest, ClustersOfFour) { expect_product<OfFour>({512, 1024, 320}, 4, 7); }
TEST(HopperTwinTest, RowsThatTheCopyEngineCannotAddress) {
  expect_product<TwinByThreads>({511, 509, 200}, 2, 8);
  expect_product<TwinThinByThreads>({300, 261, 200}, 4, 64);
  expect_product<TwinFlatByThreads>({200, 67, 456}, 4, 65);
}
TEST(HopperTwinTest, GroupsOfTwoKTiles) { expect_product<GroupsOfTwo>({128, 512, 832}, 4, 9); }
TEST(HopperTwinTest, TwoMultiplyAddsForEachWarpgroup) { expect_product<TwoBands>({600, 512, 320}, 4, 10); }
TEST(HopperTwinTest, FewerKTilesThanParts) { expect_product<TwinDefaults>({1024, 512, 128}, 2, 11); }
TEST(HopperTwinTest, OneAfterTheOther) { expect_product<TwinDefaults>({512, 512, 192}, 2, 12, 3); }
TEST(HopperTwinTest, LastRoundCutInTwo) { expect_product<Cut>({1280, 256, 832}, 8, 13, 2); }
TEST(HopperTwinTest, FewTilesCutInFour) { expect_product<Cut>({128, 256, 2048}, 8, 14, 2); }
TEST(HopperTwinTest, PiecesWithoutWork) { expect_product<Cut>({100, 200, 64}, 8, 15); }
TEST(HopperTwinTest, LargeTiles) { expect_product<LargeNotHalved>({600, 504, 576}, 4, 16, 2); }

TEST(HopperTwinTest, OperandsOfE4m3) { expect_product<OfE4m3>({300, 512, 656}, 4, 20); }
TEST(HopperTwinTest, TileHalvedAlongN) { expect_product<TwinHalved>({1280, 512, 320}, 6, 21, 2); }
TEST(HopperTwinTest, TilesAtTheEdgeHalvedAlongN) { expect_product<TwinHalved>({600, 512, 320}, 4, 22); }
TEST(HopperTwinTest, OneTileHalved) { expect_product<TwinHalved>({70, 200, 64}, 4, 23); }
TEST(HopperTwinTest, TileHalvedAlongM) { expect_product<TwinLarge>({1280, 768, 320}, 6, 24, 2); }
TEST(HopperTwinTest, TilesAtTheEdgeHalvedAlongM) { expect_product<TwinLarge>({600, 504, 320}, 4, 25); }
TEST(HopperTwinTest, StagesFreedByArrivals) { expect_product<Ordered<TwinDefaults>>({1024, 512, 320}, 4, 29); }

TEST(HopperTwinTest, ABlockForEachTile) {
  expect_product<Alone>({300, 520, 200}, 0, 30);
  expect_product<OneConsumer>({300, 520, 200}, 0, 31);
}
TEST(HopperTwinTest, NarrowTilesCut) { expect_product<TwinFlat>({100, 200, 1024}, 8, 32, 2); }
TEST(HopperTwinTest, TilesWhoseColumnsAreNoMultipleOf64) {
  expect_product<TwinThin112>({300, 520, 200}, 4, 35);
  expect_product<TwinThin144>({300, 520, 200}, 4, 36);
  expect_product<TwinThin160>({300, 520, 200}, 4, 37);
  expect_product<TwinThin144Columns>({300, 520, 200}, 4, 48);
  expect_product<TwinQuad112>({300, 520, 200}, 4, 49);
  expect_product<TwinQuad176>({300, 520, 456}, 4, 61);
}
TEST(HopperTwinTest, TallTiles) {
  expect_product<TwinTall144>({600, 304, 392}, 4, 58, 2);
  expect_product<TwinTall160>({600, 344, 392}, 4, 59);
  expect_product<TwinTall176>({600, 360, 200}, 2, 60);
  expect_product<TwinTall200>({1300, 808, 392}, 6, 68, 2);  // clusters without a whole tile compute two halves
  expect_product<TwinTall200>({600, 408, 40}, 4, 69);       // K is less than one k-tile
}
TEST(HopperTwinTest, WideTiles) {
  expect_product<TwinWide176>({300, 520, 392}, 4, 66);
  expect_product<TwinWide208>({300, 520, 392}, 2, 50, 2);
  expect_product<TwinWide224Rows>({300, 520, 1096}, 4, 51);
}
TEST(HopperTwinTest, AStageStillBeingMultiplied) {
  expect_product<TwinThin>({300, 520, 1096}, 4, 38, 2);
  expect_product<TwinThinRows>({300, 520, 576}, 4, 39);
  expect_product<TwinLow>({200, 264, 1096}, 8, 40);
}
TEST(HopperTwinTest, EachBlockOfAPairComputesHalfOfK) {
  expect_product<TwinSplit>({100, 264, 456}, 0, 41, 2);
  expect_product<TwinSplit>({64, 136, 64}, 0, 42);  // K is one k-tile: one block has nothing to multiply
  expect_product<TwinSplitTall80>({200, 168, 456}, 0, 52, 2);
  expect_product<TwinSplitHigh96>({300, 200, 456}, 0, 53);
}
TEST(HopperTwinTest, FewerRowsThanATile) {
  expect_product<TwinSplit80>({33, 168, 712}, 0, 54, 2);
  expect_product<TwinSplitTall64>({100, 40, 456}, 0, 55);
  expect_product<TwinFlat>({100, 200, 456}, 4, 56);
  expect_product<TwinHalved>({100, 200, 200}, 2, 57);  // a copy brings half of a tile of B, whatever there is
}
TEST(HopperTwinTest, ComputedTransposed) {
  expect_product<TwinSwapped16>({13, 264, 1096}, 4, 43, 2);
  expect_product<TwinSwapped32>({50, 200, 456}, 2, 44);
  expect_product<TwinSwapped56>({112, 200, 1096}, 4, 70);
  expect_product<TwinSwapped72>({140, 264, 456}, 4, 71);
  expect_product<TwinSwapped104>({200, 264, 456}, 4, 72, 2);
  expect_product<TwinSwapped136>({260, 264, 456}, 4, 73);
  expect_product<TwinSwapped128>({250, 264, 1096}, 4, 74);
  expect_product<TwinSwapped96>({100, 520, 200}, 4, 45);
  expect_product<TwinSwapped160>({170, 520, 200}, 4, 46);
  expect_product<TwinSwapped192>({200, 136, 1096}, 4, 47, 2);
  expect_product<TwinSwapped112>({250, 520, 456}, 4, 62);
  expect_product<TwinSwapped112Narrow>({250, 200, 1096}, 4, 67);
  expect_product<TwinSwapped208>({450, 200, 1096}, 4, 63);
}

/// The first steps, by `Stages` stages.
template <int Stages>
void expect_first_step(uint64_t seed) {
  if (current_device().major != 9) GTEST_SKIP() << "wgmma needs Hopper: set STAGECRAFT_DEVICE=h200";
  constexpr int64_t m = 100, n = 264, k = 456;
  const auto a = random_values<__nv_bfloat16>(m * k, seed), b = random_values<__nv_bfloat16>(n * k, ~seed);
  const DeviceBuffer<__nv_bfloat16> device_a(a, "A"), device_b(b, "B");
  DeviceBuffer<__nv_bfloat16> c(m * n, "C");
  c.poison();
  launch_one_warpgroup<Stages>(device_a.data(), device_b.data(), c.data(), m, n, k);
  finish_kernel("one_warpgroup");
  const Comparison found = compare<__nv_bfloat16>(c.to_host(), reference_product<__nv_bfloat16>(a, b, m, n, k),
                                                  ProductTolerance{.k = static_cast<size_t>(k)});
  EXPECT_EQ(found.wrong, 0u) << "the worst is C[" << found.worst / n << "][" << found.worst % n << "]; seed " << seed;
}
TEST(HopperTwinTest, OneWarpgroup) { expect_first_step<1>(33); }
TEST(HopperTwinTest, OneWarpgroupAndARing) { expect_first_step<4>(34); }

// As CUTLASS frees stages: the arrivals in other blocks are reported, as what the chip tolerates, and nothing else may
// be.
TEST(HopperTwinAsMeasuredTest, Standard) { expect_product<Tolerated<TwinDefaults>>({1024, 512, 320}, 4, 17); }
TEST(HopperTwinAsMeasuredTest, Large) { expect_product<Tolerated<LargeNotHalved>>({600, 504, 576}, 4, 18); }
TEST(HopperTwinAsMeasuredTest, StoredByThreads) { expect_product<Tolerated<TwinByThreads>>({511, 509, 200}, 2, 19); }

}  // namespace
}  // namespace stagecraft
