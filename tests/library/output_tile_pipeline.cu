// Whole products of tiles: TMA fills an InputTilePipeline, the tensor core multiplies into an
// OutputTilePipeline, four warps store. Every way to hold a stage, several depths, more tiles than stages.
#include <array>
#include <concepts>
#include <cuda/ptx>
#include <span>
#include <utility>

#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/reference_product.hpp"
#include "ring_test.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft::tests {
namespace {

constexpr int kEpilogueThreads = 4 * kWarpSize;
constexpr int kProductThreads = 2 * kWarpSize + kEpilogueThreads;  // and the epilogue's first warp is number 2
constexpr int kTileRows = 128;
constexpr int kTileColumns = 64;

/// The product of a block: `tiles` tiles of C below one another, each a sum over `groups` groups of K.
struct Work {
  int tiles;
  int groups;
};

template <int GroupStages, int KGroupSize, int OutputStages>
struct Shape {
  using ATile = Tile<__nv_bfloat16, kTileRows, 32, Swizzle::bytes_64>;
  using BTile = Tile<__nv_bfloat16, kTileColumns, 32, Swizzle::bytes_64>;
  using Payload = StandardTilePayload<ATile, BTile, GroupStages * KGroupSize>;
  using Input = InputTilePipeline<Payload, GroupStages, KGroupSize>;
  using Output = OutputTilePipeline<TmemTensor<kTileRows, kTileColumns>, OutputStages>;
};

template <typename Tiles>
__device__ void copy_group(const Tiles& tiles, const CUtensorMap& a_map, const CUtensorMap& b_map, int row, int group,
                           int k_group_size) {
  tiles.expect_bytes();
  for (int k = 0; k < k_group_size; ++k) {
    const int column = (group * k_group_size + k) * 32;
    copy_tile(tiles.tile(k).a, a_map, row, column, tiles.barrier());
    copy_tile(tiles.tile(k).b, b_map, 0, column, tiles.barrier());
  }
}

template <typename Accumulator, typename Tiles>
__device__ void multiply_group(const Accumulator& accumulator, const Tiles& tiles, int group, int k_group_size) {
  for (int k = 0; k < k_group_size; ++k) {
    multiply_tiles(accumulator, tiles.tile(k).a, tiles.tile(k).b, group > 0 || k > 0);
  }
}

template <typename Accumulator>
__device__ void store(const Accumulator& accumulator, float* c, int tile) {
  const uint32_t warp = warp_index();
  const int row = tile * kTileRows + accumulator.row_of(warp, lane_index());
#pragma unroll
  for (int column = 0; column < kTileColumns; column += 32) {
    float values[32];
    accumulator.load(values, warp, column);
    for (int i = 0; i < 32; ++i) c[row * kTileColumns + column + i] = values[i];
  }
}

/// Scopes of both pipelines' views.
struct Scopes {
  template <typename Input>
  static __device__ void load(Input& input, const CUtensorMap& a_map, const CUtensorMap& b_map, Work work) {
    auto producer = input.producer();
    for (int tile = 0; tile < work.tiles; ++tile) {
      for (int group = 0; group < work.groups; ++group) {
        auto tiles = producer.acquire();
        copy_group(tiles, a_map, b_map, tile * kTileRows, group, Input::k_group_size);
      }
    }
    producer.drain();
  }
  template <typename Input, typename Output>
  static __device__ void multiply(Input& input, Output& output, Work work) {
    auto consumer = input.consumer();
    auto producer = output.producer();
    for (int tile = 0; tile < work.tiles; ++tile) {
      auto stage = producer.accumulate();
      for (int group = 0; group < work.groups; ++group) {
        auto tiles = consumer.acquire();
        multiply_group(stage.accumulator(), tiles, group, Input::k_group_size);
        commit_mma(tiles.mbar());
      }
    }
  }
  template <typename Output>
  static __device__ void store_tiles(Output& output, float* c, Work work) {
    auto consumer = output.consumer();
    for (int tile = 0; tile < work.tiles; ++tile) {
      auto stage = consumer.consume();
      store(stage.accumulator(), c, tile);
    }
  }
};

/// Linear handles of the pipelines themselves.
struct Handles {
  template <typename Input>
  static __device__ void load(Input& input, const CUtensorMap& a_map, const CUtensorMap& b_map, Work work) {
    for (int tile = 0; tile < work.tiles; ++tile) {
      for (int group = 0; group < work.groups; ++group) {
        auto tiles = input.acquire_producer();
        copy_group(tiles, a_map, b_map, tile * kTileRows, group, Input::k_group_size);
        std::move(tiles).release();
      }
    }
    input.drain_producer();
  }
  template <typename Input, typename Output>
  static __device__ void multiply(Input& input, Output& output, Work work) {
    for (int tile = 0; tile < work.tiles; ++tile) {
      auto stage = output.acquire_mma();
      for (int group = 0; group < work.groups; ++group) {
        auto tiles = input.acquire_consumer();
        multiply_group(stage.accumulator(), tiles, group, Input::k_group_size);
        commit_mma(tiles.mbar());
        std::move(tiles).release();
      }
      if (tile % 2 == 0) {
        std::move(stage).release();
      } else {
        commit_mma(stage.mbar());
        std::move(stage).release_without_signal();
      }
    }
    output.drain_producer();
  }
  template <typename Output>
  static __device__ void store_tiles(Output& output, float* c, Work work) {
    for (int tile = 0; tile < work.tiles; ++tile) {
      auto stage = output.acquire_epilogue();
      store(stage.accumulator(), c, tile);
      if (tile % 2 == 0) {
        std::move(stage).release();
      } else {
        stage.arrive();
        std::move(stage).release_without_signal();
      }
    }
  }
};

/// Asking first, waiting where the answer was no.
struct AskFirst {
  template <typename Input>
  static __device__ void load(Input& input, const CUtensorMap& a_map, const CUtensorMap& b_map, Work work) {
    auto producer = input.producer();
    bool is_free = producer.try_acquire();
    for (int tile = 0; tile < work.tiles; ++tile) {
      for (int group = 0; group < work.groups; ++group) {
        {
          auto tiles = producer.acquire_if_needed(is_free);
          copy_group(tiles, a_map, b_map, tile * kTileRows, group, Input::k_group_size);
        }
        is_free = producer.try_acquire();
      }
    }
    producer.drain();
  }
  template <typename Input, typename Output>
  static __device__ void multiply(Input& input, Output& output, Work work) {
    auto consumer = input.consumer();
    auto producer = output.producer();
    for (int tile = 0; tile < work.tiles; ++tile) {
      auto stage = producer.accumulate_if_needed(producer.try_acquire());
      for (int group = 0; group < work.groups; ++group) {
        auto tiles = consumer.acquire_if_needed(consumer.try_acquire());
        multiply_group(stage.accumulator(), tiles, group, Input::k_group_size);
        commit_mma(tiles.mbar());
      }
    }
    producer.drain();
  }
  template <typename Output>
  static __device__ void store_tiles(Output& output, float* c, Work work) {
    auto consumer = output.consumer();
    for (int tile = 0; tile < work.tiles; ++tile) {
      auto stage = consumer.consume_if_needed(consumer.try_acquire());
      store(stage.accumulator(), c, tile);
    }
  }
};

/// An epilogue that is late: before it loads the first accumulator, the second one is summed up as well.
struct LateEpilogue {
  template <typename Input>
  static __device__ void load(Input& input, const CUtensorMap& a_map, const CUtensorMap& b_map, Work work) {
    Scopes::load(input, a_map, b_map, work);
  }
  template <typename Input, typename Output>
  static __device__ void multiply(Input& input, Output& output, Work work) {
    Scopes::multiply(input, output, work);
  }
  template <typename Output>
  static __device__ void store_tiles(Output& output, float* c, Work work) {
    wait(output.producer_mbar(1), /*parity=*/0);
    Scopes::store_tiles(output, c, work);
  }
};

template <typename Way, typename Shape>
__global__ void __launch_bounds__(kProductThreads)
    multiply(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float* c,
             Work work) {
  using Input = typename Shape::Input;
  using Output = typename Shape::Output;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& tiles = *reinterpret_cast<typename Shape::Payload::Storage*>(dynamic_shared_memory);
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

  Input input{input_barriers, typename Shape::Payload{tiles}};
  if (warp_index() == 0) {
    if (elect_one()) Way::load(input, a_map, b_map, work);
  } else if (warp_index() == 1) {
    MmaWarp<typename Output::Allocation> warp{handshake};
    Output output{output_barriers, warp.address()};
    if (elect_one()) Way::multiply(input, output, work);
  } else {
    EpilogueWarp warp{handshake};
    Output output{output_barriers, warp.address()};
    Way::store_tiles(output, c, work);
  }
}

template <typename Way, typename Shape>
void expect_product(Work work) {
  if (harness::current_device().major != 10) {
    GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  }
  const int64_t m = work.tiles * kTileRows, n = kTileColumns;
  const int64_t k = work.groups * Shape::Input::k_group_size * 32 - 8;  // the last tile hangs over the edge
  const auto a = harness::random_values<__nv_bfloat16>(m * k, 11 * work.tiles + work.groups);
  const auto b = harness::random_values<__nv_bfloat16>(n * k, 13 * work.tiles + work.groups);
  const harness::DeviceBuffer<__nv_bfloat16> device_a(a, "A");
  const harness::DeviceBuffer<__nv_bfloat16> device_b(b, "B");
  harness::DeviceBuffer<float> device_c(m * n, "C");
  device_c.poison();

  const CUtensorMap a_map = make_tile_map<typename Shape::ATile>(device_a.data(), m, k);
  const CUtensorMap b_map = make_tile_map<typename Shape::BTile>(device_b.data(), n, k);
  const auto kernel = multiply<Way, Shape>;
  constexpr int kSharedBytes = sizeof(typename Shape::Payload::Storage);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
                 "ask for the kernel's shared memory");
  kernel<<<1, kProductThreads, kSharedBytes>>>(a_map, b_map, device_c.data(), work);
  harness::check(cudaDeviceSynchronize(), "multiply");

  const std::vector<float> c = device_c.to_host();
  const std::vector<double> reference = harness::reference_product<__nv_bfloat16>(a, b, m, n, k);
  const harness::Comparison found =
      harness::compare<float>(c, reference, {.k = static_cast<size_t>(k), .output_epsilon = 0x1p-24});
  EXPECT_EQ(found.wrong, 0u) << "worst at row " << found.worst / n << ", column " << found.worst % n << ": "
                             << c[found.worst] << " for " << reference[found.worst];
}

TEST(OutputTilePipelineTest, MultipliesThroughScopes) {
  expect_product<Scopes, Shape<1, 1, 1>>({.tiles = 3, .groups = 5});
  expect_product<Scopes, Shape<3, 2, 2>>({.tiles = 5, .groups = 4});
}

TEST(OutputTilePipelineTest, MultipliesThroughLinearHandles) {
  expect_product<Handles, Shape<2, 1, 2>>({.tiles = 4, .groups = 3});
  expect_product<Handles, Shape<2, 3, 3>>({.tiles = 7, .groups = 2});
}

TEST(OutputTilePipelineTest, MultipliesWhereOneAsksFirst) {
  expect_product<AskFirst, Shape<4, 1, 2>>({.tiles = 3, .groups = 6});
  expect_product<AskFirst, Shape<2, 2, 1>>({.tiles = 3, .groups = 3});
}

TEST(OutputTilePipelineTest, DrainsRingsThatWereNeverFull) {
  expect_product<Scopes, Shape<4, 1, 4>>({.tiles = 1, .groups = 1});
  expect_product<Handles, Shape<4, 2, 2>>({.tiles = 1, .groups = 1});
}

TEST(OutputTilePipelineTest, KeepsOneAccumulatorWhileTheNextIsSummed) {
  expect_product<LateEpilogue, Shape<2, 1, 2>>({.tiles = 2, .groups = 3});
  expect_product<LateEpilogue, Shape<2, 1, 3>>({.tiles = 4, .groups = 2});
}

TEST(OutputTilePipelineTest, TakesTheColumnsThatItsAccumulatorsNeed) {
  using Small = TmemTensor<64, 8>;
  using Wide = TmemTensor<128, 160>;
  EXPECT_EQ((OutputTilePipeline<Small, 1>::tmem_columns), 32);
  EXPECT_EQ((OutputTilePipeline<Small, 5>::tmem_columns), 64);
  EXPECT_EQ((OutputTilePipeline<Wide, 1>::tmem_columns), 256);
  EXPECT_EQ((OutputTilePipeline<Wide, 3>::tmem_columns), 512);
  EXPECT_EQ((OutputTilePipeline<TmemTensor<128, 256, 2>, 2>::tmem_columns), 256);  // half the columns in each block
}

TEST(OutputTilePipelineTest, CommitsAndAllocatesForAsManyBlocksAsItsAccumulatorIsOf) {
  EXPECT_EQ((OutputTilePipeline<TmemTensor<128, 64>, 2>::cta_group), 1);
  EXPECT_EQ((OutputTilePipeline<TmemTensor<128, 64, 2>, 2>::cta_group), 2);
  EXPECT_EQ((OutputTilePipeline<TmemTensor<128, 64, 2>, 2>::Allocation::cta_group), 2);
}

}  // namespace
}  // namespace stagecraft::tests
