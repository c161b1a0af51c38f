// The same two tile kernels over a ring written by hand and over each way to use an InputTilePipeline, for
// compare_layers.py to weigh.
//
// Tensor maps bring tiles of A and B in groups of two. `read` sums them up by a warp; `multiplied`, of sm_100a alone,
// passes them to the tensor core, whose commits free the stages. Kernels are named KERNEL_LAYER_STAGES.
#include <cuda.h>

#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

namespace {

constexpr int kGroup = 2;
using TileType = Tile<__nv_bfloat16, 64, 64>;
template <int Stages>
using PayloadOf = StandardTilePayload<TileType, TileType, Stages * kGroup>;
template <int Stages>
using PipelineOf = InputTilePipeline<PayloadOf<Stages>, Stages, kGroup>;

// ---- What each layer makes of the two roles: `put` fills a group of tiles, `take` uses it up. -----------------------

template <int Stages>
struct Ring {
  typename PayloadOf<Stages>::Storage& tiles;
  uint64_t (&barriers)[2 * Stages];

  struct Stage {
    typename PayloadOf<Stages>::Storage& tiles;
    uint32_t stage;
    __device__ __forceinline__ typename PayloadOf<Stages>::Tiles tile(int k) const {
      return {tiles.a[stage * kGroup + k], tiles.b[stage * kGroup + k]};
    }
  };

  template <typename Put>
  __device__ __forceinline__ void produce(int groups, Put put) {
    //! [ring_producer]
    uint32_t stage = 0, phase = 1;
    for (int group = 0; group < groups; ++group) {
      wait(&barriers[Stages + stage], phase);
      expect_bytes(&barriers[stage], kGroup * 2 * TileType::bytes);
      put(group, Stage{tiles, stage}, &barriers[stage]);
      if (++stage == Stages) {
        stage = 0;
        phase ^= 1;
      }
    }
    //! [ring_producer]
#pragma unroll 1
    for (int i = 0; i < Stages; ++i) {
      wait(&barriers[Stages + stage], phase);
      if (++stage == Stages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }

  template <typename Take>
  __device__ __forceinline__ void consume(int groups, Take take) {
    uint32_t stage = 0, phase = 0;
    for (int group = 0; group < groups; ++group) {
      wait(&barriers[stage], phase);
      take(group, Stage{tiles, stage}, &barriers[Stages + stage]);
      if (++stage == Stages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }
};

template <int Stages>
struct Direct {
  typename PayloadOf<Stages>::Storage& tiles;
  uint64_t (&barriers)[2 * Stages];

  struct Stage {
    const PipelineOf<Stages>& pipeline;
    uint32_t stage;
    __device__ __forceinline__ auto tile(int k) const { return pipeline.tile(stage, k); }
  };

  template <typename Put>
  __device__ __forceinline__ void produce(int groups, Put put) {
    PipelineOf<Stages> pipeline{barriers, PayloadOf<Stages>{tiles}};
    for (int group = 0; group < groups; ++group) {
      pipeline.wait_consumer_if_needed(false);
      const uint32_t stage = pipeline.producer_stage();
      expect_bytes(pipeline.producer_mbar(stage), pipeline.bytes_per_stage);
      put(group, Stage{pipeline, stage}, pipeline.producer_mbar(stage));
      pipeline.producer_step();
    }
    pipeline.drain_producer();
  }

  template <typename Take>
  __device__ __forceinline__ void consume(int groups, Take take) {
    PipelineOf<Stages> pipeline{barriers, PayloadOf<Stages>{tiles}};
    for (int group = 0; group < groups; ++group) {
      pipeline.wait_producer_if_needed(false);
      const uint32_t stage = pipeline.consumer_stage();
      take(group, Stage{pipeline, stage}, pipeline.consumer_mbar(stage));
      pipeline.consumer_step();
    }
  }
};

template <int Stages>
struct Handles {
  typename PayloadOf<Stages>::Storage& tiles;
  uint64_t (&barriers)[2 * Stages];

  template <typename Put>
  __device__ __forceinline__ void produce(int groups, Put put) {
    PipelineOf<Stages> pipeline{barriers, PayloadOf<Stages>{tiles}};
    for (int group = 0; group < groups; ++group) {
      auto stage = pipeline.acquire_producer();
      stage.expect_bytes();
      put(group, stage, stage.mbar());
      std::move(stage).release();
    }
    pipeline.drain_producer();
  }

  template <typename Take>
  __device__ __forceinline__ void consume(int groups, Take take) {
    PipelineOf<Stages> pipeline{barriers, PayloadOf<Stages>{tiles}};
    for (int group = 0; group < groups; ++group) {
      auto stage = pipeline.acquire_consumer();
      take(group, stage, stage.mbar());
      std::move(stage).release();
    }
  }
};

template <int Stages>
struct Scopes {
  typename PayloadOf<Stages>::Storage& tiles;
  uint64_t (&barriers)[2 * Stages];

  template <typename Put>
  __device__ __forceinline__ void produce(int groups, Put put) {
    //! [scopes_producer]
    PipelineOf<Stages> pipeline{barriers, PayloadOf<Stages>{tiles}};
    auto producer = pipeline.producer();
    for (int group = 0; group < groups; ++group) {
      auto stage = producer.acquire();
      stage.expect_bytes();
      put(group, stage, stage.mbar());
    }
    //! [scopes_producer]
    producer.drain();
  }

  template <typename Take>
  __device__ __forceinline__ void consume(int groups, Take take) {
    PipelineOf<Stages> pipeline{barriers, PayloadOf<Stages>{tiles}};
    auto consumer = pipeline.consumer();
    for (int group = 0; group < groups; ++group) {
      auto stage = consumer.acquire();
      take(group, stage, stage.mbar());
    }
  }
};

// ---- The kernels ----------------------------------------------------------------------------------------------------

template <template <int> class Layer, int Stages, bool Multiplied>
__device__ __forceinline__ void run(const CUtensorMap& a_map, const CUtensorMap& b_map, float* out,
                                    uint32_t tensor_memory, int groups) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ uint64_t barriers[2 * Stages];
  Layer<Stages> layer{*reinterpret_cast<typename PayloadOf<Stages>::Storage*>(dynamic_shared_memory), barriers};
  __builtin_assume(groups > 0);  // else the way around an empty loop, which no layer has a part in, adds noise
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Stages; ++stage) {
      init_barrier(&barriers[stage], 1);
      init_barrier(&barriers[Stages + stage], Multiplied ? 1 : kWarpSize);
    }
    fence_barrier_init();
  }
  __syncthreads();

  if (warp_index() == 0) {
    if (elect_one()) {
      layer.produce(groups, [&](int group, const auto& stage, MbarPtr full) {
#pragma unroll
        for (int k = 0; k < kGroup; ++k) {
          const auto tiles = stage.tile(k);
          copy_tile(tiles.a, a_map, 0, (group * kGroup + k) * 64, full);
          copy_tile(tiles.b, b_map, 0, (group * kGroup + k) * 64, full);
        }
      });
    }
  } else if constexpr (Multiplied) {
    if (elect_one()) {
      layer.consume(groups, [&](int group, const auto& stage, MbarPtr empty) {
#pragma unroll
        for (int k = 0; k < kGroup; ++k) {
          const auto tiles = stage.tile(k);
          multiply_tiles(TmemTensor<64, 64>(tensor_memory), tiles.a, tiles.b, group > 0 || k > 0);
        }
        commit_mma(empty);
      });
    }
  } else {
    float sum = 0;
    layer.consume(groups, [&](int, const auto& stage, MbarPtr empty) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        const auto tiles = stage.tile(k);
        sum += static_cast<float>(tiles.a.at(0, lane_index())) * static_cast<float>(tiles.b.at(0, lane_index()));
      }
      arrive(empty);
    });
    out[lane_index()] = sum;
  }
}

}  // namespace

#define KERNEL(NAME, LAYER, STAGES, MULTIPLIED)                                                                       \
  extern "C" __global__ void __launch_bounds__(2 * kWarpSize)                                                         \
      NAME##_##LAYER##_##STAGES(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, \
                                float* out, uint32_t tensor_memory, int groups) {                                     \
    run<LAYER, STAGES, MULTIPLIED>(a_map, b_map, out, tensor_memory, groups);                                         \
  }
// Tensor memory is of sm_100 and its kin.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
#define KERNELS_OF_STAGES(LAYER, STAGES) KERNEL(read, LAYER, STAGES, false) KERNEL(multiplied, LAYER, STAGES, true)
#else
#define KERNELS_OF_STAGES(LAYER, STAGES) KERNEL(read, LAYER, STAGES, false)
#endif
#define KERNELS(LAYER) \
  KERNELS_OF_STAGES(LAYER, 1) KERNELS_OF_STAGES(LAYER, 2) KERNELS_OF_STAGES(LAYER, 3) KERNELS_OF_STAGES(LAYER, 4)

KERNELS(Ring)
KERNELS(Direct)
KERNELS(Handles)
KERNELS(Scopes)
