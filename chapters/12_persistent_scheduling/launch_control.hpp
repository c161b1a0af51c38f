// Which unit of work a cluster computes next, decided while the kernel runs: the grid has a cluster for each unit, and
// a running cluster cancels the launch of one that has not started and computes its unit (cluster launch control).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/cluster.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/pipeline_state.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/tile_scheduler.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// Announces `bytes` on the same barrier in another block of the cluster, or in this one, and counts one arrival there.
///
/// Called by one thread. All else is as in `expect_bytes`, with the scope of the cluster.
/// @param rank  the other block's `block_rank()`.
/// Source: PTX ISA, "mbarrier.arrive" (`.expect_tx`, `.shared::cluster`).
__device__ inline void expect_bytes_in_block(MbarPtr barrier, uint32_t rank, uint32_t bytes) {
  cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cluster, cuda::ptx::space_cluster,
                                       barrier_in_block(barrier, rank), bytes);
}

/// What launch control has answered.
struct LaunchResponse {
  bool is_work;            ///< a cluster was cancelled, and its work is the caller's; else all have started
  uint32_t first_block;    ///< blockIdx.x of that cluster's block of rank 0; 0 if there was none
  uint32_t first_block_y;  ///< its blockIdx.y
};

/// Requests for work and the responses, in a ring of stages of 16 bytes; and the throttle that keeps the requests from
/// running ahead.
///
/// One thread of the *scheduler warp* in the cluster's block of rank 0 requests. The response goes to all blocks of the
/// cluster, and each thread that takes turns reads it, or one lane for its warp: these *readers* arrive on the empty
/// barrier of the block of rank 0, where the scheduler's thread waits before it requests into the same stage again. So
/// a request is never further ahead than `NumStages` of the slowest reader.
///
/// The throttle is a second ring, without data. The load warp of the block of rank 0 signals when it begins a turn, and
/// only then the next unit is requested. Without it a cluster would claim `NumStages` units at once, while others would
/// find none left.
/// @tparam NumStages  responses that may be under way or unread.
/// Source: PTX ISA, "clusterlaunchcontrol.try_cancel", "clusterlaunchcontrol.query_cancel". CUTLASS does the same in
/// sm100_tile_scheduler.hpp and `PipelineCLCFetchAsync`.
template <int NumStages, typename Cluster = OneBlock>
class LaunchControl {
  static_assert(NumStages >= 1,
                "LaunchControl: NumStages must be at least 1; with 2 or more, roles need not keep step");

 public:
  /// What the threads of a block share. Declare it `__shared__`.
  struct Storage {
    alignas(16) uint4 responses[NumStages];  ///< opaque; written by the asynchronous proxy
    uint64_t full[NumStages];                ///< the response is there
    uint64_t empty[NumStages];               ///< all readers have read it; only that of the block of rank 0 is used
    uint64_t throttle[2 * NumStages];        ///< of a ProducerConsumerPipeline
  };

  /// Initialises all barriers.
  ///
  /// Called by one thread of each block, once, followed by `fence_barrier_init()` and a barrier of the block, in a
  /// cluster of the whole cluster.
  /// @param readers  of one block: threads that call `read()`, except the scheduler's, and warps that call
  ///                 `read_for_warp()`.
  __device__ static void init_barriers(Storage& storage, uint32_t readers) {
    for (int stage = 0; stage < NumStages; ++stage) {
      init_barrier(&storage.full[stage], 1);  // the scheduler, which announces the response's 16 bytes
      // TODO 2: who arrives here, and how often? Only the barriers in the block of rank 0 are used.
      init_barrier(&storage.empty[stage], readers);
    }
    Throttle{storage.throttle}.init_mbars(/*producer_arrive_count=*/1,   // the load warp
                                          /*consumer_arrive_count=*/1);  // the scheduler
  }

  /// Each thread that takes part makes its own.
  __device__ __forceinline__ explicit LaunchControl(Storage& storage)
      : storage_(&storage), throttle_(storage.throttle) {}

  /// The load warp has begun a turn: one more unit may be requested. Called by one thread of the block of rank 0, once
  /// for each unit. Waits if it is `NumStages` turns ahead of the scheduler.
  __device__ __forceinline__ void permit_request() { throttle_.producer_signal_and_step(); }

  /// Waits for the permission and for a free stage, and asks for the launch of a cluster to be cancelled.
  ///
  /// Called by one thread of the block of rank 0: one request gives one unit, for the whole cluster. Not called again
  /// after a response that had no work, which PTX leaves undefined.
  __device__ __forceinline__ void request() {
    // TODO 3: ask for one unit. What must this thread have waited for, and what must each block know before the bytes
    // come? In a cluster, which blocks are that? See also expect_bytes_in_block.
  }

  /// Waits for the next response and returns it. Called once for each request by every reader, and by the scheduler's
  /// thread.
  __device__ __forceinline__ LaunchResponse read() {
    // TODO 4: take one response, and let the next one be written in its place. What is needed between the load and the
    // release?
    return {false, 0, 0};
  }

  /// The same for a whole warp, which counts as one reader: one lane reads and arrives, and tells the others. Called
  /// once for each request by all lanes of a warp.
  __device__ __forceinline__ LaunchResponse read_for_warp() {
    LaunchResponse response{};
    if (lane_index() == 0) {
      response = read();
    } else {
      response_.step();
    }
    constexpr uint32_t kAllLanes = 0xffffffff;
    return {__shfl_sync(kAllLanes, response.is_work, 0) != 0, __shfl_sync(kAllLanes, response.first_block, 0),
            __shfl_sync(kAllLanes, response.first_block_y, 0)};
  }

  /// Waits until all responses have been read by all readers: arrivals from other blocks need the barriers of this one.
  /// Called by the thread that requests, after its last response.
  __device__ __forceinline__ void drain() {
    // TODO 5: wait for each stage.
  }

 private:
  using Throttle = ProducerConsumerPipeline<NumStages>;
  static constexpr uint32_t kResponseBytes = sizeof(uint4);
  static constexpr Scope kScope = Cluster::blocks == 1 ? Scope::block : Scope::cluster;

  /// Waits until all readers of all blocks have read what is in the stage of the next request.
  __device__ __forceinline__ void wait_until_read() const {
    wait<kScope>(&storage_->empty[request_.index()], request_.phase());
  }

  Storage* storage_;
  PipelineState<NumStages> request_{/*index=*/0, /*phase=*/1};   // the scheduler's: at first, all stages are free
  PipelineState<NumStages> response_{/*index=*/0, /*phase=*/0};  // a reader's
  Throttle throttle_;
};

/// A schedule that launch control makes: which cluster computes a unit depends on which is free first. It evens out
/// work of different duration, and multiprocessors that start late or are shared with other kernels.
///
/// Launched with a cluster for each unit, on `grid(tiles)`; a cluster that runs takes over units of others.
/// In every block one thread of the scheduler warp calls `run()`.
///
/// In a launch with a preferred cluster, a cluster takes over others of its own size only. PTX does not say so. CUTLASS
/// relies on it: its example 73 adds a block's place in its own cluster to the first block of the cancelled one.
/// @tparam Tiles      what a unit is: as for StaticScheduler.
/// @tparam NumStages  of the ring of responses: how many turns the load warp may be ahead of the epilogue. CUTLASS has
///                    one more than accumulators.
/// @tparam Launched   the cluster of the calling block: as for StaticScheduler.
template <typename Tiles, int NumStages = 3, typename Launched = typename Tiles::Cluster>
class LaunchControlScheduler {
 public:
  /// The clusters whose work a unit is.
  using Cluster = typename Tiles::Cluster;
  /// The same schedule for the blocks of a smaller cluster.
  template <typename Smaller>
  using In = LaunchControlScheduler<Tiles, NumStages, Smaller>;
  /// The ring of responses and the throttle.
  using Control = LaunchControl<NumStages, Launched>;
  /// Whether a warp must run the scheduler.
  static constexpr bool has_scheduler_warp = true;
  /// What it has in shared memory.
  using Storage = typename Control::Storage;

  /// A role's position among the units of its cluster. Each thread of the role has its own.
  /// @tparam OfWarp  all lanes of a warp go through their turns together: the warp counts as one reader.
  template <bool OfWarp>
  class Turn {
   public:
    /// The first turn: `turns()` makes it.
    __device__ __forceinline__ Turn(Storage& storage, const Tiles& tiles)
        : control_(storage),
          tiles_(&tiles),
          unit_(blockIdx.x / Cluster::rows),
          place_(place_in_unit<Cluster, Launched>()) {}

    /// Whether there is something to compute in this turn.
    __device__ __forceinline__ bool exists() const { return exists_; }
    /// Goes on to the next turn: waits for the response that says which it is. Called by every reader.
    __device__ __forceinline__ void next() {
      if (++index_ < tiles_->works(unit_)) return;
      index_ = 0;
      const LaunchResponse response = OfWarp ? control_.read_for_warp() : control_.read();
      exists_ = response.is_work;
      unit_ = response.first_block / Cluster::rows;
      if constexpr (!std::is_same_v<Launched, Cluster>) {  // which part of the unit
        place_ = place_in_unit<Cluster, Launched>(response.first_block, response.first_block_y);
      }
    }
    /// What the calling block computes in this turn. Only if it exists.
    __device__ __forceinline__ Work work() const { return tiles_->work(unit_, index_, place_); }
    /// The next unit may be requested now. Called by one thread of the load warp, in every turn and every block.
    __device__ __forceinline__ void permit_request() {
      if (index_ == 0 && rank_in<Launched>() == 0) control_.permit_request();
    }

   private:
    Control control_;
    const Tiles* tiles_;
    uint32_t unit_, place_;  // the latter in the unit: the block's rank, unless its cluster is a smaller one
    uint32_t index_ = 0;     // of the work in the unit
    bool exists_ = true;     // the cluster that started has its own unit
  };

  /// The launch that computes everything. How many clusters fit at a time does not matter.
  static dim3 grid(const Tiles& tiles, uint32_t /*clusters*/ = 0) { return grid_of<Cluster>(tiles.units()); }

  /// As `LaunchControl::init_barriers`.
  __device__ static void init_barriers(Storage& storage, uint32_t readers) { Control::init_barriers(storage, readers); }

  /// @param tiles  outlives the scheduler: a parameter of the kernel.
  __device__ __forceinline__ LaunchControlScheduler(Storage& storage, const Tiles& tiles)
      : storage_(&storage), tiles_(&tiles) {}

  /// The turns of the calling thread, from the first on. Called by each thread that the readers were counted with.
  __device__ __forceinline__ Turn<false> turns() const { return {*storage_, *tiles_}; }
  /// The same for a role of whole warps, each of which was counted as one reader. Called by all lanes of a warp.
  __device__ __forceinline__ Turn<true> turns_of_warp() const { return {*storage_, *tiles_}; }

  /// What the scheduler warp does: requests units as the load warp permits it, until there are none. Called by one
  /// thread of the scheduler warp of each block; returns at once where the block's rank is not 0.
  __device__ __forceinline__ void run() const {
    if (rank_in<Launched>() != 0) return;
    [[maybe_unused]] Control control{*storage_};
    // TODO 5: when may this thread request, when no more, and what must it wait for at the end?
  }

 private:
  Storage* storage_;
  const Tiles* tiles_;
};

}  // namespace stagecraft
