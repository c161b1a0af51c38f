// Schedulers on the device: every role of every block gets every work once, whatever the grid, the cluster and the
// speed of the roles.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/launch_control.hpp"
#include "stagecraft/partial_sums.hpp"
#include "stagecraft/tile_scheduler.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft::tests {
namespace {

/// The roles of a GEMM, as far as they take turns: two lanes and two whole warps.
enum class Role : uint32_t { schedule, load, multiply, store };
constexpr uint32_t kWarps = 5;
constexpr uint32_t kTakers = 3;              // roles that take turns
constexpr uint32_t kAlmostAll = 150 * 1024;  // of a multiprocessor's shared memory: it has one block at a time

__device__ Role role_of(uint32_t warp) { return static_cast<Role>(warp < 3 ? warp : 3); }

/// What a launch records: for each role, how often each k-tile of each tile was taken, and each tile visited.
struct Record {
  uint32_t* k_tiles;  ///< [role][tile][k_tile], counted for each thread
  uint32_t* visits;   ///< [role][tile]
  ProductTiles product;

  __host__ __device__ uint32_t tiles() const { return product.rows * product.columns * product.batches; }

  __device__ void note(Role role, const Work& work) const {
    if (work.row >= static_cast<int>(product.rows) || work.column >= static_cast<int>(product.columns)) return;
    const uint32_t tile = (work.batch * product.rows + work.row) * product.columns + work.column;
    const uint32_t row = (static_cast<uint32_t>(role) - 1) * tiles() + tile;
    atomicAdd(&visits[row], 1);
    for (int k = 0; k < work.k_tiles; ++k) {
      atomicAdd(&k_tiles[row * product.k_tiles + work.first_k_tile + k], 1);
    }
  }
};

/// Roles take turns at different speeds: `slow` is the one that is late.
/// @tparam Cluster  in which the block was launched.
/// @tparam OfWarps  the turns of a role of whole warps are those of warps.
template <typename Scheduler, typename Cluster, bool OfWarps, typename Tiles>
__device__ void take_turns_in(const Tiles& tiles, const Record& record, Role slow) {
  __shared__ typename Scheduler::Storage storage;
  Scheduler scheduler{storage, tiles};
  const Role role = role_of(warp_index());
  if (threadIdx.x == 0) {
    Scheduler::init_barriers(storage, OfWarps ? 2 + 2 : 2 + 2 * kWarpSize);  // two lanes, and two warps
    fence_barrier_init();
  }
  if constexpr (Cluster::blocks == 1) {
    __syncthreads();
  } else {
    sync_cluster();
  }
  const bool elected = elect_one();
  const auto take = [&](auto turn, bool permits) {
    for (; turn.exists(); turn.next()) {
      if (permits) turn.permit_request();
      record.note(role, turn.work());
      if (role == slow) __nanosleep(1000 + 500 * (blockIdx.x % 3));
    }
  };
  switch (role) {
    case Role::schedule:
      if (elected) scheduler.run();
      break;
    case Role::load:
      if (elected) take(scheduler.turns(), /*permits=*/true);
      break;
    case Role::multiply:
      if (elected) take(scheduler.turns(), /*permits=*/false);
      break;
    case Role::store:
      if constexpr (OfWarps) {
        take(scheduler.turns_of_warp(), /*permits=*/false);
      } else {
        take(scheduler.turns(), /*permits=*/false);
      }
      break;
  }
}

/// @tparam Fallback  the smaller clusters of a launch with a preferred cluster, `Tiles::Cluster`.
template <typename Scheduler, typename Fallback, bool OfWarps, typename Tiles>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    take_turns(const __grid_constant__ Tiles tiles, const __grid_constant__ Record record, Role slow) {
  using Smaller = typename Scheduler::template In<Fallback>;
  if constexpr (Fallback::blocks < Tiles::Cluster::blocks) {
    if (cluster_blocks() == Fallback::blocks) {
      return take_turns_in<Smaller, Fallback, OfWarps>(tiles, record, slow);
    }
  }
  take_turns_in<Scheduler, typename Tiles::Cluster, OfWarps>(tiles, record, slow);
}

template <typename Scheduler, bool OfWarps = false, typename Fallback = typename Scheduler::Cluster, typename Tiles>
void expect_each_turn_once(const Tiles& tiles, const ProductTiles& product, uint32_t clusters,
                           const std::string& what) {
  SCOPED_TRACE(what + ", " + std::to_string(product.rows) + " x " + std::to_string(product.columns) + " tiles of " +
               std::to_string(product.k_tiles) + " k-tiles, " + std::to_string(product.batches) + " batches");
  for (const Role slow : {Role::schedule, Role::load, Role::multiply, Role::store}) {
    const uint32_t count = product.rows * product.columns * product.batches;
    harness::DeviceBuffer<uint32_t> k_tiles(kTakers * count * product.k_tiles + 1, "the k-tiles taken");
    harness::DeviceBuffer<uint32_t> visits(kTakers * count, "the tiles visited");
    harness::check(cudaMemset(k_tiles.data(), 0, k_tiles.bytes()), "clear the record");
    harness::check(cudaMemset(visits.data(), 0, visits.bytes()), "clear the record");
    using Cluster = typename Tiles::Cluster;
    LaunchOptions options{.grid = Scheduler::grid(tiles, clusters),
                          .block = kWarps * kWarpSize,
                          .cluster = {Fallback::rows, Fallback::columns, 1},
                          .dynamic_shared_bytes = kAlmostAll};
    if (Fallback::blocks < Cluster::blocks) options.preferred_cluster = {Cluster::rows, Cluster::columns, 1};
    harness::check(launch_kernel(take_turns<Scheduler, Fallback, OfWarps, Tiles>, options, tiles,
                                 Record{k_tiles.data(), visits.data(), product}, slow),
                   "launch take_turns");
    harness::finish_kernel("take_turns");
    const std::vector<uint32_t> found = k_tiles.to_host(), visited = visits.to_host();
    for (uint32_t role = 0; role < kTakers; ++role) {
      const uint32_t threads = role == 2 ? 2 * kWarpSize : 1;
      for (uint32_t tile = 0; tile < count; ++tile) {
        ASSERT_GE(visited[role * count + tile], threads) << "role " << role << ", tile " << tile;
        if (product.k_tiles == 0) ASSERT_EQ(visited[role * count + tile], threads) << "tile " << tile;
        for (uint32_t k = 0; k < product.k_tiles; ++k) {
          ASSERT_EQ(found[(role * count + tile) * product.k_tiles + k], threads)
              << "role " << role << ", tile " << tile << ", k-tile " << k;
        }
      }
    }
  }
}

bool has_launch_control() { return harness::current_device().major >= 10; }

template <typename Cluster>
class TileSchedulerTest : public testing::Test {};
using Clusters = testing::Types<ClusterShape<1, 1>, ClusterShape<2, 1>, ClusterShape<2, 2>, ClusterShape<1, 4>>;
TYPED_TEST_SUITE(TileSchedulerTest, Clusters);

/// One tile, fewer than blocks, a few for each block, no k-tiles, batches.
constexpr ProductTiles kProducts[] = {{1, 1, 3}, {3, 5, 2}, {1, 1, 0}, {29, 23, 1}, {7, 4, 0}, {5, 7, 4, 9}};

TYPED_TEST(TileSchedulerTest, StaticTurnsTakeEveryTileOnce) {
  for (const ProductTiles& product : kProducts) {
    const WholeTiles<TypeParam> tiles(product, {RasterOrder::along_n, 3});
    for (const uint32_t clusters : {1u, 7u, 148u / TypeParam::blocks, 100000u}) {
      expect_each_turn_once<StaticScheduler<WholeTiles<TypeParam>>>(tiles, product, clusters,
                                                                    "on " + std::to_string(clusters) + " clusters");
    }
  }
}

TYPED_TEST(TileSchedulerTest, LaunchControlTakesEveryTileOnce) {
  if (!has_launch_control()) GTEST_SKIP() << "cluster launch control needs compute capability 10";
  for (const ProductTiles& product : kProducts) {
    const WholeTiles<TypeParam> tiles(product, {RasterOrder::along_m, 4});
    using Tiles = WholeTiles<TypeParam>;
    expect_each_turn_once<LaunchControlScheduler<Tiles, 1>>(tiles, product, 0, "a ring of 1");
    expect_each_turn_once<LaunchControlScheduler<Tiles, 2>>(tiles, product, 0, "a ring of 2");
    expect_each_turn_once<LaunchControlScheduler<Tiles, 3>>(tiles, product, 0, "a ring of 3");
  }
}

TYPED_TEST(TileSchedulerTest, SplitTilesAreTakenPieceByPiece) {
  for (const ProductTiles& product : {ProductTiles{3, 5, 7}, ProductTiles{2, 2, 0}, ProductTiles{1, 1, 50, 2}}) {
    const SplitK<TypeParam> tiles(product, 3);
    expect_each_turn_once<StaticScheduler<SplitK<TypeParam>>>(tiles, product, 7, "static");
    if (has_launch_control())
      expect_each_turn_once<LaunchControlScheduler<SplitK<TypeParam>>>(tiles, product, 0, "dynamic");
  }
}

TYPED_TEST(TileSchedulerTest, SharesOfStreamKAreTakenPieceByPiece) {
  const uint32_t clusters = 148 / TypeParam::blocks;
  for (const ProductTiles& product : {ProductTiles{3, 5, 7}, ProductTiles{13, 17, 5}, ProductTiles{2, 2, 0}}) {
    const StreamK<TypeParam> tiles(product, clusters, {}, 1);
    expect_each_turn_once<StaticScheduler<StreamK<TypeParam>>>(tiles, product, clusters, "static");
    if (has_launch_control())
      expect_each_turn_once<LaunchControlScheduler<StreamK<TypeParam>>>(tiles, product, 0, "dynamic");
  }
}

// ---- Turns of warps, and clusters of two sizes
// ------------------------------------------------------------------------

/// A large cluster, and the smaller one that takes its place.
template <typename PreferredCluster, typename FallbackCluster>
struct Sizes {
  using Preferred = PreferredCluster;
  using Fallback = FallbackCluster;
};

template <typename S>
class TwoClusterSizesTest : public testing::Test {};
using TwoSizes =
    testing::Types<Sizes<ClusterShape<2, 1>, ClusterShape<2, 1>>, Sizes<ClusterShape<2, 2>, ClusterShape<1, 1>>,
                   Sizes<ClusterShape<4, 2>, ClusterShape<2, 1>>, Sizes<ClusterShape<4, 4>, ClusterShape<4, 1>>,
                   Sizes<ClusterShape<2, 8>, ClusterShape<2, 4>>>;
TYPED_TEST_SUITE(TwoClusterSizesTest, TwoSizes);

TYPED_TEST(TwoClusterSizesTest, TakeEveryTileOnce) {
  using Cluster = typename TypeParam::Preferred;
  using Fallback = typename TypeParam::Fallback;
  for (const ProductTiles& product : {ProductTiles{1, 1, 3}, {9, 13, 1}, {5, 7, 2, 3}}) {
    const WholeTiles<Cluster> tiles(product, {RasterOrder::along_n, 3});
    const StreamK<Cluster> shares(product, 4);
    for (const uint32_t clusters : {1u, 3u, 100000u}) {
      expect_each_turn_once<StaticScheduler<WholeTiles<Cluster>>, /*OfWarps=*/true, Fallback>(tiles, product, clusters,
                                                                                              "static");
    }
    expect_each_turn_once<StaticScheduler<StreamK<Cluster>>, /*OfWarps=*/true, Fallback>(shares, product, 4, "shares");
    if (!has_launch_control()) continue;
    expect_each_turn_once<LaunchControlScheduler<WholeTiles<Cluster>>, /*OfWarps=*/true, Fallback>(tiles, product, 0,
                                                                                                   "dynamic");
    expect_each_turn_once<LaunchControlScheduler<StreamK<Cluster>>, /*OfWarps=*/true, Fallback>(shares, product, 0,
                                                                                                "dynamic shares");
  }
}

// ---- The sum of the pieces
// --------------------------------------------------------------------------------------------

/// Adds up, for each tile, terms of very different size, one for each k-tile, in pieces.
template <typename Scheduler, typename Tiles>
__global__ void __launch_bounds__(2 * kWarpSize)
    sum_pieces(const __grid_constant__ Tiles tiles, uint32_t columns, float* partial, uint32_t* counters, float* sums) {
  __shared__ typename Scheduler::Storage storage;
  Scheduler scheduler{storage, tiles};
  if (threadIdx.x == 0) {
    Scheduler::init_barriers(storage, /*readers=*/1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
      turn.permit_request();
      const Work work = turn.work();
      float sum = 0;
      for (int k = 0; k < work.k_tiles; ++k) {
        const int i = work.first_k_tile + k;
        sum += (i % 3 == 0 ? 1e6f : 1.0f) / static_cast<float>(1 + i + work.row);
      }
      if (!work.is_whole()) {
        partial[work.first_slot + work.piece] = sum;
        if (blockIdx.x % 2 == 0) __nanosleep(3000 * (1 + blockIdx.x % 5));
        if (!arrives_last(counters, work)) continue;
        sum = 0;
        for (uint32_t piece = 0; piece < work.pieces; ++piece) {
          sum += *const_cast<volatile float*>(&partial[work.first_slot + piece]);
        }
      }
      atomicAdd(&sums[work.row * columns + work.column], sum);  // NaN or twice too much if it is not the only one
    }
  } else if (threadIdx.x == kWarpSize) {
    scheduler.run();
  }
}

template <typename Scheduler, typename Tiles>
std::vector<float> sums_of(const Tiles& tiles, const ProductTiles& product, uint32_t clusters, int launches = 1) {
  const harness::DeviceBuffer<float> partial(tiles.slots() + 1, "partial sums");
  const harness::DeviceBuffer<uint32_t> counters(tiles.counters() + 1, "counters");
  const harness::DeviceBuffer<float> sums(size_t{product.rows} * product.columns, "sums");
  harness::check(cudaMemset(counters.data(), 0, counters.bytes()), "clear the counters");
  for (int i = 0; i < launches; ++i) {
    harness::check(cudaMemset(sums.data(), 0, sums.bytes()), "clear the sums");
    harness::check(
        launch_kernel(
            sum_pieces<Scheduler, Tiles>,
            {.grid = Scheduler::grid(tiles, clusters), .block = 2 * kWarpSize, .dynamic_shared_bytes = kAlmostAll},
            tiles, product.columns, partial.data(), counters.data(), sums.data()),
        "launch sum_pieces");
    harness::finish_kernel("sum_pieces");
  }
  return sums.to_host();
}

/// The sum of one tile as it is defined: the sums of its pieces, added in the order of K.
float expected_sum(const std::vector<std::pair<int, int>>& pieces, int row) {
  float all = 0;
  for (const auto& [first, count] : pieces) {
    float sum = 0;
    for (int i = first; i < first + count; ++i) {
      sum += (i % 3 == 0 ? 1e6f : 1.0f) / static_cast<float>(1 + i + row);
    }
    all += sum;
  }
  return all;
}

template <typename Tiles>
void expect_defined_sums(const Tiles& tiles, const ProductTiles& product, uint32_t clusters) {
  std::vector<std::vector<std::pair<int, int>>> pieces(size_t{product.rows} * product.columns);
  for (uint32_t unit = 0; unit < tiles.units(); ++unit) {
    for (uint32_t index = 0; index < tiles.works(unit); ++index) {
      const Work work = tiles.work(unit, index, 0);
      auto& of_tile = pieces[work.row * product.columns + work.column];
      of_tile.resize(work.pieces);
      of_tile[work.piece] = {work.first_k_tile, work.k_tiles};
    }
  }
  std::vector<float> expected;
  for (uint32_t tile = 0; tile < pieces.size(); ++tile) {
    expected.push_back(expected_sum(pieces[tile], static_cast<int>(tile / product.columns)));
  }
  EXPECT_EQ((sums_of<StaticScheduler<Tiles>>(tiles, product, clusters)), expected);
  EXPECT_EQ((sums_of<StaticScheduler<Tiles>>(tiles, product, clusters, 2)), expected) << "launched again";
  if (has_launch_control()) EXPECT_EQ((sums_of<LaunchControlScheduler<Tiles>>(tiles, product, clusters)), expected);
}

TEST(PartialSumsTest, SplitSumsAreAddedInTheOrderOfK) {
  for (const uint32_t splits : {1u, 2u, 5u}) {
    const ProductTiles product{7, 5, 23};
    expect_defined_sums(SplitK<>(product, splits), product, 11);
  }
}

TEST(PartialSumsTest, SharedSumsAreAddedInTheOrderOfK) {
  for (const ProductTiles& product : {ProductTiles{3, 1, 64}, ProductTiles{13, 17, 5}}) {
    expect_defined_sums(StreamK<>(product, 148, {}, 1), product, 148);
  }
}

}  // namespace
}  // namespace stagecraft::tests
