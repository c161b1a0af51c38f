// Tiles through an InputTilePipeline by every one of its methods, from TMA to a warp that reads them.
#include <array>
#include <concepts>
#include <cuda/ptx>
#include <utility>

#include "ring_test.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft::tests {
namespace {

// A and B differ in shape and in layout, so that nothing can be taken for the other.
using ATile = Tile<float, 8, 8, Swizzle::bytes_32>;
using BTile = Tile<float, 16, 8, Swizzle::bytes_64, Major::mn>;
constexpr int kTileColumns = 8;

/// A pipeline of these tiles and what goes through it: the copying thread fetches k-tiles, the reading warp adds
/// each one's number to its elements and writes them out.
template <int GroupStages, int KGroupSize>
struct Transport {
  using Payload = StandardTilePayload<ATile, BTile, GroupStages * KGroupSize>;
  using Pipeline = InputTilePipeline<Payload, GroupStages, KGroupSize>;

  const CUtensorMap& a_map;
  const CUtensorMap& b_map;
  float* a;
  float* b;
  int groups;

  template <typename Stage>
  __device__ void copy(const Stage& tiles, int group) const {
    tiles.expect_bytes();
    copy_announced(tiles, group);
  }
  template <typename Stage>
  __device__ void copy_announced(const Stage& tiles, int group) const {
    for (int k = 0; k < KGroupSize; ++k) {
      const int column = (group * KGroupSize + k) * kTileColumns;
      copy_tile(tiles.tile(k).a, a_map, 0, column, tiles.barrier());
      copy_tile(tiles.tile(k).b, b_map, 0, column, tiles.barrier());
    }
  }
  /// By the whole warp; its first lane arrives for it.
  __device__ void read(typename Payload::Tiles tiles, int group, int k) const {
    const int k_tile = group * KGroupSize + k;
    for (int i = lane_index(); i < ATile::rows * 8; i += kWarpSize) {
      a[k_tile * ATile::rows * 8 + i] = tiles.a.at(i / 8, i % 8) + k_tile;
    }
    for (int i = lane_index(); i < BTile::rows * 8; i += kWarpSize) {
      b[k_tile * BTile::rows * 8 + i] = tiles.b.at(i / 8, i % 8) + k_tile;
    }
  }
  template <typename Stage>
  __device__ void read_group(const Stage& tiles, int group) const {
    for (int k = 0; k < KGroupSize; ++k) read(tiles.tile(k), group, k);
    __syncwarp();
    if (lane_index() == 0) arrive(tiles.mbar());
  }
};

/// Linear handles, from the pipeline.
struct Handles {
  template <typename Pipeline, typename T>
  static __device__ void produce(Pipeline& pipeline, const T& transport) {
    for (int group = 0; group < transport.groups; ++group) {
      auto tiles = pipeline.acquire_producer();
      transport.copy(tiles, group);
      std::move(tiles).release();
    }
    pipeline.drain_producer();
  }
  template <typename Pipeline, typename T>
  static __device__ void consume(Pipeline& pipeline, const T& transport) {
    for (int group = 0; group < transport.groups; ++group) {
      auto tiles = pipeline.acquire_consumer();
      transport.read_group(tiles, group);
      std::move(tiles).release();
    }
  }
};

/// Linear handles, from the views, and moved about.
struct ViewsHandles {
  template <typename Pipeline, typename T>
  static __device__ void produce(Pipeline& pipeline, const T& transport) {
    auto producer = pipeline.producer();
    auto tiles = producer.acquire_stage();
    for (int group = 0;; ++group) {
      transport.copy(tiles, group);
      std::move(tiles).release();
      if (group + 1 == transport.groups) break;
      tiles = producer.acquire_stage();  // a moved-from handle may hold a new stage
    }
    producer.drain();
  }
  template <typename Pipeline, typename T>
  static __device__ void consume(Pipeline& pipeline, const T& transport) {
    auto consumer = pipeline.consumer();
    for (int group = 0; group < transport.groups; ++group) {
      auto read_and_release = [tiles = consumer.acquire_stage(), &transport, group]() mutable {
        transport.read_group(tiles, group);
        std::move(tiles).release();
      };
      read_and_release();
    }
  }
};

/// Scopes.
struct Scopes {
  template <typename Pipeline, typename T>
  static __device__ void produce(Pipeline& pipeline, const T& transport) {
    auto producer = pipeline.producer();
    for (int group = 0; group < transport.groups; ++group) {
      auto tiles = producer.acquire();
      transport.copy(tiles, group);
    }
    producer.drain();
  }
  template <typename Pipeline, typename T>
  static __device__ void consume(Pipeline& pipeline, const T& transport) {
    auto consumer = pipeline.consumer();
    for (int group = 0;; ++group) {
      auto tiles = consumer.acquire();
      transport.read_group(tiles, group);
      if (group + 1 == transport.groups) break;
      if (group % 2 == 0) continue;  // the scope ends here as well
    }
  }
};

/// Scopes around a call.
struct CallableScopes {
  template <typename Pipeline, typename T>
  static __device__ void produce(Pipeline& pipeline, const T& transport) {
    auto producer = pipeline.producer();
    for (int group = 0; group < transport.groups;) {
      group = producer.acquire([&](auto& tiles) {
        transport.copy(tiles, group);
        return group + 1;
      });
    }
    producer.drain();
  }
  template <typename Pipeline, typename T>
  static __device__ void consume(Pipeline& pipeline, const T& transport) {
    auto consumer = pipeline.consumer();
    for (int group = 0; group < transport.groups; ++group) {
      consumer.acquire([&](auto& tiles) { transport.read_group(tiles, group); });
    }
  }
};

/// Asking early, waiting late: the question for the next group is asked while this one is under way.
struct AskFirst {
  template <typename Pipeline, typename T>
  static __device__ void produce(Pipeline& pipeline, const T& transport) {
    auto producer = pipeline.producer();
    bool is_free = producer.try_acquire();
    for (int group = 0; group < transport.groups; ++group) {
      {
        auto tiles = producer.acquire_if_needed(is_free);
        transport.copy(tiles, group);
      }
      is_free = producer.try_acquire();
    }
    producer.drain();
  }
  template <typename Pipeline, typename T>
  static __device__ void consume(Pipeline& pipeline, const T& transport) {
    auto consumer = pipeline.consumer();
    for (int group = 0; group < transport.groups; ++group) {
      auto tiles = consumer.acquire_if_needed(consumer.try_acquire());
      transport.read_group(tiles, group);
    }
  }
};

/// The pipeline's own questions, waits, barriers and steps, with the pairs that wait on the same barrier.
struct Direct {
  template <typename Pipeline>
  struct Stage {
    const Pipeline& pipeline;
    uint32_t number;

    __device__ auto tile(int k) const { return pipeline.tile(number, k); }
    __device__ MbarPtr barrier() const { return pipeline.producer_mbar(number); }
    __device__ MbarPtr mbar() const { return pipeline.consumer_mbar(number); }
  };
  template <typename Pipeline, typename T>
  static __device__ void produce(Pipeline& pipeline, const T& transport) {
    for (int group = 0; group < transport.groups; ++group) {
      const bool is_free = pipeline.try_acquire_producer();
      pipeline.wait_consumer_if_needed(is_free);
      const Stage<Pipeline> stage{pipeline, pipeline.producer_stage()};
      expect_bytes(stage.barrier(), Pipeline::bytes_per_stage);
      transport.copy_announced(stage, group);
      pipeline.producer_step();
    }
    pipeline.drain_producer();
  }
  template <typename Pipeline, typename T>
  static __device__ void consume(Pipeline& pipeline, const T& transport) {
    for (int group = 0; group < transport.groups; ++group) {
      const bool is_filled = pipeline.try_acquire_consumer();
      pipeline.wait_producer_if_needed(is_filled);
      transport.read_group(Stage<Pipeline>{pipeline, pipeline.consumer_stage()}, group);
      pipeline.consumer_step();
    }
  }
};

template <typename Method, int GroupStages, int KGroupSize>
__global__ void __launch_bounds__(kThreads)
    send_tiles(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float* a, float* b,
               int groups) {
  using T = Transport<GroupStages, KGroupSize>;
  using Pipeline = typename T::Pipeline;
  __shared__ typename T::Payload::Storage tiles;
  __shared__ typename Pipeline::BarrierArray barriers;
  if (threadIdx.x == 0) {
    Pipeline::init_barriers(barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
    fence_barrier_init();
  }
  __syncthreads();
  Pipeline pipeline{barriers, typename T::Payload{tiles}};
  const T transport{a_map, b_map, a, b, groups};
  if (warp_index() == 0) {
    if (elect_one()) Method::produce(pipeline, transport);
  } else {
    Method::consume(pipeline, transport);
  }
}

template <typename Method, int GroupStages, int KGroupSize>
void expect_tiles_arrive(int groups = 7) {
  const int k_tiles = groups * KGroupSize;
  const int columns = k_tiles * kTileColumns - 4;  // the last tile hangs over the edge
  const auto a = harness::random_values<float>(ATile::rows * columns, 3 * k_tiles + GroupStages);  // row-major
  const auto b = harness::random_values<float>(BTile::rows * columns, 5 * k_tiles + GroupStages);  // column-major
  const harness::DeviceBuffer<float> device_a(a, "A"), device_b(b, "B");
  harness::DeviceBuffer<float> out_a(k_tiles * ATile::rows * 8, "A's tiles"),
      out_b(k_tiles * BTile::rows * 8, "B's tiles");
  out_a.poison();
  out_b.poison();
  send_tiles<Method, GroupStages, KGroupSize><<<1, kThreads>>>(
      make_tile_map<ATile>(device_a.data(), ATile::rows, columns),
      make_tile_map<BTile>(device_b.data(), BTile::rows, columns), out_a.data(), out_b.data(), groups);
  harness::check(cudaDeviceSynchronize(), "send tiles");
  const auto arrived_a = out_a.to_host(), arrived_b = out_b.to_host();
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    for (int i = 0; i < BTile::rows * 8; ++i) {
      const int row = i / 8, column = k_tile * kTileColumns + i % 8;
      const bool inside = column < columns;
      if (row < ATile::rows) {
        ASSERT_EQ(arrived_a[k_tile * ATile::rows * 8 + i], (inside ? a[row * columns + column] : 0) + k_tile)
            << "A: k-tile " << k_tile << ", row " << row << ", column " << column;
      }
      ASSERT_EQ(arrived_b[k_tile * BTile::rows * 8 + i], (inside ? b[column * BTile::rows + row] : 0) + k_tile)
          << "B: k-tile " << k_tile << ", row " << row << ", column " << column;
    }
  }
}

template <typename Method>
class InputTilePipelineTest : public testing::Test {};
using Methods = testing::Types<Handles, ViewsHandles, Scopes, CallableScopes, AskFirst, Direct>;
TYPED_TEST_SUITE(InputTilePipelineTest, Methods);

TYPED_TEST(InputTilePipelineTest, BringsTilesThroughOneStage) { expect_tiles_arrive<TypeParam, 1, 1>(); }
TYPED_TEST(InputTilePipelineTest, BringsTilesThroughThreeStages) { expect_tiles_arrive<TypeParam, 3, 1>(); }
TYPED_TEST(InputTilePipelineTest, BringsGroupsOfTwo) { expect_tiles_arrive<TypeParam, 2, 2>(); }
TYPED_TEST(InputTilePipelineTest, BringsGroupsOfThreeThroughOneStage) { expect_tiles_arrive<TypeParam, 1, 3>(); }
TYPED_TEST(InputTilePipelineTest, DrainsARingThatWasNeverFull) { expect_tiles_arrive<TypeParam, 4, 2>(2); }

// ---- What single methods say and do ---------------------------------------------------------------------------------

/// What one thread sees that plays both roles in a pipeline of 2 stages of 3 tiles.
struct Observation {
  bool was_free, was_filled, is_filled, is_free_again;
  uint32_t producer_stage, consumer_stage;
  int64_t full_offset, empty_offset;  ///< bytes from the first barrier
  int64_t a_offset, b_offset;         ///< bytes from the first tile of A, of B, to the last one of the group
};

__global__ void observe(Observation* seen, int count) {
  using T = Transport<2, 3>;
  __shared__ T::Payload::Storage tiles;
  __shared__ T::Pipeline::BarrierArray barriers;
  T::Pipeline::init_barriers(barriers, 1, 1);
  fence_barrier_init();
  T::Pipeline pipeline{barriers, T::Payload{tiles}};
  auto producer = pipeline.producer();
  auto consumer = pipeline.consumer();
  for (int i = 0; i < count; ++i) {
    Observation& o = seen[i];
    o.was_free = producer.try_acquire();
    o.was_filled = consumer.try_acquire();
    {
      auto stage = producer.acquire();
      o.producer_stage = stage.stage();
      o.full_offset = (stage.barrier() - barriers) * 8;
      o.a_offset = stage.tile(2).a.storage - tiles.a[0].storage;
      o.b_offset = stage.payload().tile(stage.stage() * 3 + 2).b.storage - tiles.b[0].storage;
      stage.expect_bytes(0);
    }
    o.is_filled = consumer.try_acquire();
    {
      auto stage = consumer.acquire();
      o.consumer_stage = stage.stage();
      o.empty_offset = (stage.mbar() - barriers) * 8;
      arrive(stage.mbar());
    }
    o.is_free_again = producer.try_acquire();
  }
}

TEST(InputTilePipelineFactsTest, PutsTilesOfAGroupSideBySideAndTheGroupsOneAfterTheOther) {
  constexpr int kCount = 7;
  harness::DeviceBuffer<Observation> buffer(kCount, "what was seen");
  observe<<<1, 1>>>(buffer.data(), kCount);
  harness::check(cudaDeviceSynchronize(), "observe a pipeline");
  const auto seen = buffer.to_host();
  for (int i = 0; i < kCount; ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    const uint32_t stage = static_cast<uint32_t>(i % 2);
    EXPECT_TRUE(seen[i].was_free);
    EXPECT_FALSE(seen[i].was_filled);
    EXPECT_TRUE(seen[i].is_filled);
    EXPECT_TRUE(seen[i].is_free_again);
    EXPECT_EQ(seen[i].producer_stage, stage);
    EXPECT_EQ(seen[i].consumer_stage, stage);
    EXPECT_EQ(seen[i].full_offset, 8 * stage);
    EXPECT_EQ(seen[i].empty_offset, 8 * (2 + stage));
    EXPECT_EQ(seen[i].a_offset, (3 * stage + 2) * 256);  // tile 2 or 5, of 8 x 8 floats
    EXPECT_EQ(seen[i].b_offset, (3 * stage + 2) * 512);  // of 16 x 8
  }
}

TEST(InputTilePipelineFactsTest, KnowsItsSizes) {
  using Pipeline = Transport<2, 3>::Pipeline;
  EXPECT_EQ(sizeof(Pipeline::BarrierArray), 32u);
  EXPECT_EQ(Pipeline::bytes_per_stage, 3u * (256 + 512));
  EXPECT_EQ(Pipeline::num_group_stages, 2);
  EXPECT_EQ(Pipeline::k_group_size, 3);
  using Sfa = ScaleFactorTile<__nv_fp8_e8m0, 128, 4>;
  using Fp8 = Tile<__nv_fp8_e4m3, 128, 128>;
  using Scaled = BlockScaledTilePayload<Fp8, Fp8, Sfa, Sfa, 4>;
  EXPECT_EQ(Scaled::bytes_per_tile, 2u * 16384 + 2 * 512);
  EXPECT_EQ(sizeof(Scaled::Storage), 4u * Scaled::bytes_per_tile);
  using Blockwise = BlockwiseFp8TilePayload<Fp8, Fp8, PlainTile<float, 1, 128>, 3>;
  EXPECT_EQ(Blockwise::bytes_per_tile, 2u * 16384 + 512);
}

}  // namespace
}  // namespace stagecraft::tests
