// The same two producer-consumer kernels over each layer of the library, from a ring written by hand to RolePipeline,
// for compare_layers.py to weigh.
//
// `copied` sums rows that bulk copies bring: one lane announces and copies, all lanes of the other warp read and
// arrive. `written` is fed by all lanes of a warp. Kernels are named KERNEL_LAYER_STAGES.
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

namespace {

constexpr int kRow = 128;  // floats

__device__ __forceinline__ void copy_row(float* to, const float* from, MbarPtr mbar) {
  constexpr uint32_t kRowBytes = kRow * sizeof(float);
  expect_bytes(mbar, kRowBytes);
  cuda::ptx::cp_async_bulk(cuda::ptx::space_shared, cuda::ptx::space_global, to, from, kRowBytes, mbar);
}

__device__ __forceinline__ void write_row(float* to, const float* from, MbarPtr mbar) {
#pragma unroll
  for (int i = 0; i < kRow; i += kWarpSize) to[i + lane_index()] = 2 * from[i + lane_index()];
  arrive(mbar);
}

__device__ __forceinline__ float sum_row(const float* row) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kRow; i += kWarpSize) sum += row[i + lane_index()];
  return sum;
}

// ---- What each layer makes of the two roles: `put` fills a stage for each row, `take` uses it up. -------------------

template <int Stages>
struct Ring {
  uint64_t* full;
  uint64_t* empty;

  template <typename Put>
  __device__ __forceinline__ void produce_rows(int rows, Put put) {
    //! [ring_producer]
    uint32_t stage = 0, phase = 1;
    for (int row = 0; row < rows; ++row) {
      wait(&empty[stage], phase);
      put(row, stage, &full[stage]);
      if (++stage == Stages) {
        stage = 0;
        phase ^= 1;
      }
    }
    //! [ring_producer]
  }

  template <typename Take>
  __device__ __forceinline__ void consume_rows(int rows, Take take) {
    //! [ring_consumer]
    uint32_t stage = 0, phase = 0;
    for (int row = 0; row < rows; ++row) {
      wait(&full[stage], phase);
      take(stage);
      arrive(&empty[stage]);
      if (++stage == Stages) {
        stage = 0;
        phase ^= 1;
      }
    }
    //! [ring_consumer]
  }
};

template <int Stages>
struct Pipeline {
  uint64_t* full;
  uint64_t* empty;

  template <typename Put>
  __device__ __forceinline__ void produce_rows(int rows, Put put) {
    //! [pipeline_producer]
    ProducerConsumerPipeline<Stages> ring{full};
    for (int row = 0; row < rows; ++row) {
      ring.wait_consumer();
      put(row, ring.producer_stage(), ring.producer_mbar(ring.producer_stage()));
      ring.producer_step();
    }
    //! [pipeline_producer]
  }

  template <typename Take>
  __device__ __forceinline__ void consume_rows(int rows, Take take) {
    //! [pipeline_consumer]
    ProducerConsumerPipeline<Stages> ring{full};
    for (int row = 0; row < rows; ++row) {
      ring.wait_producer();
      take(ring.consumer_stage());
      arrive(ring.consumer_mbar(ring.consumer_stage()));
      ring.consumer_step();
    }
    //! [pipeline_consumer]
  }
};

template <int Stages>
struct Handles {
  uint64_t* full;
  uint64_t* empty;

  template <typename Put>
  __device__ __forceinline__ void produce_rows(int rows, Put put) {
    //! [handles_producer]
    ProducerConsumerPipeline<Stages> ring{full};
    for (int row = 0; row < rows; ++row) {
      auto stage = ring.acquire_producer();
      put(row, stage.index(), stage.mbar());
      std::move(stage).release();
    }
    //! [handles_producer]
  }

  template <typename Take>
  __device__ __forceinline__ void consume_rows(int rows, Take take) {
    //! [handles_consumer]
    ProducerConsumerPipeline<Stages> ring{full};
    for (int row = 0; row < rows; ++row) {
      auto stage = ring.acquire_consumer();
      take(stage.index());
      std::move(stage).release();
    }
    //! [handles_consumer]
  }
};

template <int Stages>
struct Scopes {
  uint64_t* full;
  uint64_t* empty;

  template <typename Put>
  __device__ __forceinline__ void produce_rows(int rows, Put put) {
    //! [scopes_producer]
    ProducerConsumerPipeline<Stages> ring{full};
    for (int row = 0; row < rows; ++row) {
      auto stage = ring.produce();
      put(row, stage.index(), stage.mbar());
    }
    //! [scopes_producer]
  }

  template <typename Take>
  __device__ __forceinline__ void consume_rows(int rows, Take take) {
    //! [scopes_consumer]
    ProducerConsumerPipeline<Stages> ring{full};
    for (int row = 0; row < rows; ++row) {
      auto stage = ring.consume();
      take(stage.index());
    }
    //! [scopes_consumer]
  }
};

template <int Stages>
struct CallableScopes {
  uint64_t* full;
  uint64_t* empty;

  template <typename Put>
  __device__ __forceinline__ void produce_rows(int rows, Put put) {
    ProducerConsumerPipeline<Stages> ring{full};
    for (int row = 0; row < rows; ++row) {
      ring.produce([&](auto& stage) { put(row, stage.index(), stage.mbar()); });
    }
  }

  template <typename Take>
  __device__ __forceinline__ void consume_rows(int rows, Take take) {
    ProducerConsumerPipeline<Stages> ring{full};
    for (int row = 0; row < rows; ++row) {
      ring.consume([&](auto& stage) { take(stage.index()); });
    }
  }
};

template <int Stages>
struct ExplicitScopes {
  uint64_t* full;
  uint64_t* empty;

  template <typename Put>
  __device__ __forceinline__ void produce_rows(int rows, Put put) {
    Scopes<Stages>{full, empty}.produce_rows(rows, put);
  }

  template <typename Take>
  __device__ __forceinline__ void consume_rows(int rows, Take take) {
    ProducerConsumerPipeline<Stages> ring{full};
    for (int row = 0; row < rows; ++row) {
      auto stage = ring.consume_explicit();
      take(stage.index());
      stage.arrive();
    }
  }
};

template <int Stages>
struct Roles {
  uint64_t* full;
  uint64_t* empty;

  template <typename Put>
  __device__ __forceinline__ void produce_rows(int rows, Put put) {
    //! [roles_producer]
    RolePipeline<Stages, /*IsProducer=*/true> ring{full, empty};
    for (int row = 0; row < rows; ++row) {
      ring.acquire();
      put(row, ring.index(), ring.producer_mbar());
      ring.step();
    }
    //! [roles_producer]
  }

  template <typename Take>
  __device__ __forceinline__ void consume_rows(int rows, Take take) {
    //! [roles_consumer]
    RolePipeline<Stages, /*IsProducer=*/false> ring{full, empty};
    for (int row = 0; row < rows; ++row) {
      ring.wait();
      take(ring.index());
      ring.release();
    }
    //! [roles_consumer]
  }
};

// ---- The kernels ----------------------------------------------------------------------------------------------------

template <template <int> class Layer, int Stages, bool Copied>
__device__ __forceinline__ void sum_rows(const float* in, float* out, int rows) {
  __shared__ alignas(128) float tile[Stages][kRow];
  __shared__ uint64_t barriers[2 * Stages];
  Layer<Stages> layer{barriers, barriers + Stages};
  __builtin_assume(rows > 0);  // else the way around an empty loop, which no layer has a part in, adds noise
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Stages; ++stage) {
      init_barrier(&barriers[stage], Copied ? 1 : kWarpSize);
      init_barrier(&barriers[Stages + stage], kWarpSize);
    }
    fence_barrier_init();
  }
  __syncthreads();

  if (warp_index() == 0) {
    if constexpr (Copied) {
      if (elect_one()) {
        layer.produce_rows(
            rows, [&](int row, uint32_t stage, MbarPtr mbar) { copy_row(tile[stage], in + row * kRow, mbar); });
      }
    } else {
      layer.produce_rows(rows,
                         [&](int row, uint32_t stage, MbarPtr mbar) { write_row(tile[stage], in + row * kRow, mbar); });
    }
  } else {
    float sum = 0;
    layer.consume_rows(rows, [&](uint32_t stage) { sum += sum_row(tile[stage]); });
    out[lane_index()] = sum;
  }
}

}  // namespace

#define KERNELS_OF_STAGES(LAYER, STAGES)                                  \
  extern "C" __global__ void __launch_bounds__(2 * kWarpSize)             \
      copied_##LAYER##_##STAGES(const float* in, float* out, int rows) {  \
    sum_rows<LAYER, STAGES, true>(in, out, rows);                         \
  }                                                                       \
  extern "C" __global__ void __launch_bounds__(2 * kWarpSize)             \
      written_##LAYER##_##STAGES(const float* in, float* out, int rows) { \
    sum_rows<LAYER, STAGES, false>(in, out, rows);                        \
  }
#define KERNELS(LAYER) \
  KERNELS_OF_STAGES(LAYER, 1) KERNELS_OF_STAGES(LAYER, 2) KERNELS_OF_STAGES(LAYER, 3) KERNELS_OF_STAGES(LAYER, 4)

KERNELS(Ring)
KERNELS(Pipeline)
KERNELS(Handles)
KERNELS(Scopes)
KERNELS(CallableScopes)
KERNELS(ExplicitScopes)
KERNELS(Roles)
