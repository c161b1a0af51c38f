// Loops over units of work, written by hand and with the library's schedulers, for compare_layers.py to weigh.
//
// `fixed` goes through its units by their numbers. `taken` has a warp that requests units by cluster launch control,
// throttled by another, which takes them. Kernels are named KERNEL_LAYER_STAGES.
#include <cuda/ptx>

#include "stagecraft/launch_control.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tile_scheduler.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

namespace {

using Tiles = WholeTiles<>;

/// What a turn computes here: a place, in a form that depends on all of its parts.
__device__ __forceinline__ void use(int* out, int row, int column, int batch) {
  atomicAdd(&out[row * 1024 + column], batch);
}

// ---- Fixed ----------------------------------------------------------------------------------------------------------

template <int>
struct Ring {
  static __device__ __forceinline__ void fixed(const Tiles&, const TileRaster& raster, uint32_t batches, int* out) {
    for (uint32_t unit = blockIdx.x; unit < raster.tiles() * batches; unit += gridDim.x) {
      const uint32_t batch = unit / raster.tiles();
      const TilePosition at = raster.position(unit - batch * raster.tiles());
      use(out, at.row, at.column, batch);
    }
  }
};

template <int>
struct Turns {
  static __device__ __forceinline__ void fixed(const Tiles& tiles, const TileRaster&, uint32_t, int* out) {
    typename StaticScheduler<Tiles>::Storage nothing;
    StaticScheduler<Tiles> scheduler{nothing, tiles};
    for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
      const Work work = turn.work();
      use(out, work.row, work.column, work.batch);
    }
  }
};

// ---- By launch control ----------------------------------------------------------------------------------------------

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
template <int Stages>
__device__ __forceinline__ bool read_by_hand(uint4* responses, uint64_t* full, uint64_t* empty, uint32_t& stage,
                                             uint32_t& phase, uint32_t& unit) {
  wait(&full[stage], phase);
  const uint4 response = responses[stage];
  const bool is_work = cuda::ptx::clusterlaunchcontrol_query_cancel_is_canceled(response);
  unit = is_work ? cuda::ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid_x<uint32_t>(response) : 0;
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  arrive(&empty[stage]);
  if (++stage == Stages) {
    stage = 0;
    phase ^= 1;
  }
  return is_work;
}

template <int Stages>
struct TakenByHand {
  static __device__ __forceinline__ void run(const Tiles& tiles, int* out) {
    __shared__ typename LaunchControl<Stages>::Storage shared;
    if (threadIdx.x == 0) {
      for (int i = 0; i < Stages; ++i) {
        init_barrier(&shared.full[i], 1);
        init_barrier(&shared.empty[i], 2);
      }
      for (int i = 0; i < Stages; ++i) {
        init_barrier(&shared.throttle[i], 1);
        init_barrier(&shared.throttle[Stages + i], 1);
      }
      fence_barrier_init();
    }
    __syncthreads();
    uint32_t stage = 0, phase = 0, unit = blockIdx.x;
    if (threadIdx.x == 0) {
      uint32_t permitted = 0, permitted_phase = 1;
      for (bool exists = true; exists;
           exists = read_by_hand<Stages>(shared.responses, shared.full, shared.empty, stage, phase, unit)) {
        wait(&shared.throttle[Stages + permitted], permitted_phase);
        arrive(&shared.throttle[permitted]);
        if (++permitted == Stages) {
          permitted = 0;
          permitted_phase ^= 1;
        }
        const Work work = tiles.work(unit, 0, 0);
        use(out, work.row, work.column, work.batch);
      }
    } else if (threadIdx.x == kWarpSize) {
      uint32_t requested = 0, requested_phase = 1, permitted = 0, permitted_phase = 0;
      do {
        wait(&shared.throttle[permitted], permitted_phase);
        arrive(&shared.throttle[Stages + permitted]);
        if (++permitted == Stages) {
          permitted = 0;
          permitted_phase ^= 1;
        }
        wait(&shared.empty[requested], requested_phase);
        expect_bytes(&shared.full[requested], sizeof(uint4));
        cuda::ptx::clusterlaunchcontrol_try_cancel(&shared.responses[requested], &shared.full[requested]);
        if (++requested == Stages) {
          requested = 0;
          requested_phase ^= 1;
        }
      } while (read_by_hand<Stages>(shared.responses, shared.full, shared.empty, stage, phase, unit));
      for (int i = 0; i < Stages; ++i) {
        wait(&shared.empty[requested], requested_phase);
        if (++requested == Stages) {
          requested = 0;
          requested_phase ^= 1;
        }
      }
    }
  }
};

template <int Stages>
struct TakenByTurns {
  static __device__ __forceinline__ void run(const Tiles& tiles, int* out) {
    using Scheduler = LaunchControlScheduler<Tiles, Stages>;
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
        use(out, work.row, work.column, work.batch);
      }
    } else if (threadIdx.x == kWarpSize) {
      scheduler.run();
    }
  }
};
#endif

}  // namespace

#define FIXED(LAYER)                                                                                                \
  extern "C" __global__ void __launch_bounds__(kWarpSize) fixed_##LAYER##_1(                                        \
      const __grid_constant__ Tiles tiles, const __grid_constant__ TileRaster raster, uint32_t batches, int* out) { \
    LAYER<1>::fixed(tiles, raster, batches, out);                                                                   \
  }
FIXED(Ring)
FIXED(Turns)

// Cluster launch control is of sm_100 and its kin. Rings of one response are left out: no kernel has them, and there
// the turns take one instruction of 189 more than the loop (nvcc 13.0).
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
#define TAKEN_OF_STAGES(LAYER, TYPE, STAGES)                                    \
  extern "C" __global__ void __launch_bounds__(2 * kWarpSize)                   \
      taken_##LAYER##_##STAGES(const __grid_constant__ Tiles tiles, int* out) { \
    TYPE<STAGES>::run(tiles, out);                                              \
  }
#define TAKEN(LAYER, TYPE)        \
  TAKEN_OF_STAGES(LAYER, TYPE, 2) \
  TAKEN_OF_STAGES(LAYER, TYPE, 3) \
  TAKEN_OF_STAGES(LAYER, TYPE, 4)
TAKEN(Ring, TakenByHand)
TAKEN(Turns, TakenByTurns)
#endif
