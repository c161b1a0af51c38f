// Which unit of work a cluster computes next, decided before the launch: cluster i of G computes units i, i + G, ...
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "stagecraft/cluster.hpp"
#include "stagecraft/tile_work.hpp"

// All schedulers have the same members, so that a kernel can take one as a template parameter. Every role goes through
// its turns on its own:
//
//     for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
//       turn.permit_request();             // the load warp only: the scheduler warp may request the next unit
//       const Work work = turn.work();
//       ...
//     }
//
// A role of whole warps may take `turns_of_warp()`; then each warp counts as one of those that take turns, not each
// lane. With launch control a warp has the role of running the scheduler: `if (elected) scheduler.run()`. A kernel that
// is to work with all schedulers has such a warp only if `Scheduler::has_scheduler_warp`.

namespace stagecraft {

/// The rank of the calling block in its cluster; without a cluster that is known to be 0.
template <typename Cluster>
__device__ __forceinline__ uint32_t rank_in() {
  if constexpr (Cluster::blocks == 1) return 0;
  return block_rank();
}

/// The place of the calling block in the unit that it takes part in, numbered as ranks are. A unit is as large as the
/// preferred cluster. That is `Unit`; a block of a smaller one is somewhere in the region of the grid that the
/// preferred cluster would have had.
/// @tparam Cluster  the ClusterShape that the calling block was launched in.
template <typename Unit, typename Cluster>
__device__ __forceinline__ uint32_t place_in_unit() {
  if constexpr (std::is_same_v<Unit, Cluster>) return rank_in<Cluster>();
  return blockIdx.x % Unit::rows + blockIdx.y * Unit::rows;
}

/// The same as if the first block of the calling block's cluster were (first_x, first_y, 0).
template <typename Unit, typename Cluster>
__device__ __forceinline__ uint32_t place_in_unit(uint32_t first_x, uint32_t first_y) {
  const uint32_t rank = rank_in<Cluster>();
  return first_x % Unit::rows + Cluster::row(rank) + (first_y + Cluster::column(rank)) * Unit::rows;
}

/// The grid of `clusters` clusters, as all schedulers expect it: cluster i has the blocks (Rows * i ..., 0 ..., 0).
template <typename Cluster>
constexpr dim3 grid_of(uint32_t clusters) {
  return dim3(clusters * Cluster::rows, Cluster::columns, 1);
}

/// A schedule without communication: each role computes from its block's index which units are its own.
///
/// With as many clusters as units, each computes one, and no kernel is simpler. With no more clusters than fit on the
/// chip at a time the kernel is *persistent*: what a block does once (barriers, tensor memory, tensor maps) is done
/// once for several tiles, and the epilogue of a tile overlaps with the next tile.
///
/// Each block computes its own part of its units, and no cluster waits for another. So a launch may have a preferred
/// cluster, and the blocks of smaller ones take the same turns.
/// @tparam Tiles     what a unit is: WholeTiles, SplitK, StreamK, or a type with the same members.
/// @tparam Launched  the ClusterShape that the calling block was launched in, if the launch has a preferred cluster,
///                   `Tiles::Cluster`, and this is a smaller one.
template <typename Tiles, typename Launched = typename Tiles::Cluster>
class StaticScheduler {
 public:
  /// The clusters whose work a unit is.
  using Cluster = typename Tiles::Cluster;
  /// The same schedule for the blocks of a smaller cluster.
  template <typename Smaller>
  using In = StaticScheduler<Tiles, Smaller>;
  /// Whether a warp must run the scheduler.
  static constexpr bool has_scheduler_warp = false;
  /// What it has in shared memory: nothing.
  struct Storage {};

  //! [turn]
  /// A role's position among the units of its cluster. Each thread of the role has its own; nothing here waits.
  class Turn {
   public:
    /// The first turn: `turns()` makes it.
    __device__ __forceinline__ Turn(const Tiles& tiles, uint32_t unit, uint32_t place)
        : tiles_(&tiles), unit_(unit), place_(place) {}

    /// Whether there is something to compute in this turn.
    __device__ __forceinline__ bool exists() const { return unit_ < tiles_->units(); }
    /// Goes on to the next turn. All threads of a role take it together.
    __device__ __forceinline__ void next() {
      if (++index_ < tiles_->works(unit_)) return;
      index_ = 0;
      unit_ += gridDim.x / Cluster::rows;
    }
    /// What the calling block computes in this turn. Only if it exists.
    __device__ __forceinline__ Work work() const { return tiles_->work(unit_, index_, place_); }
    /// Nothing to permit: no unit is requested.
    __device__ __forceinline__ void permit_request() {}

   private:
    const Tiles* tiles_;
    uint32_t unit_, place_;  // the latter in the unit
    uint32_t index_ = 0;     // of the work in the unit
  };
  //! [turn]

  /// The launch that computes everything, on `clusters` clusters at most.
  static dim3 grid(const Tiles& tiles, uint32_t clusters) {
    return grid_of<Cluster>(tiles.units() < clusters ? tiles.units() : clusters);
  }

  /// Nothing to initialise.
  __device__ __forceinline__ static void init_barriers(Storage&, uint32_t /*readers*/) {}

  /// @param tiles  outlives the scheduler: a parameter of the kernel.
  __device__ __forceinline__ StaticScheduler(Storage&, const Tiles& tiles) : tiles_(&tiles) {}

  /// The turns of the calling thread, from the first on. Called by each thread that takes turns.
  __device__ __forceinline__ Turn turns() const {
    return {*tiles_, blockIdx.x / Cluster::rows, place_in_unit<Cluster, Launched>()};
  }
  /// The same.
  __device__ __forceinline__ Turn turns_of_warp() const { return turns(); }

  /// Nothing to run.
  __device__ __forceinline__ void run() const {}

 private:
  const Tiles* tiles_;
};

}  // namespace stagecraft
