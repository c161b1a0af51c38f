// The life of tensor memory, divided between the two roles that use it: the MMA warp allocates and deallocates it, the
// epilogue's warps use it in between. The constructors and destructors keep the order that this needs.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// What MmaWarp and EpilogueWarp share: the address, and a barrier in each direction. Declare it `__shared__`.
struct TmemHandshake {
  uint64_t published;  ///< one phase: the address is there
  uint64_t finished;   ///< one phase: the epilogue no longer uses it
  uint32_t address;    ///< of the columns

  /// Called by one thread of the block, once, followed by `fence_barrier_init()` and a block-wide barrier.
  /// @param epilogue_threads  that make an EpilogueWarp: 128 for four warps.
  __device__ void init(uint32_t epilogue_threads) {
    init_barrier(&published, 1);
    init_barrier(&finished, epilogue_threads);
  }
};

/// The MMA warp's hold on tensor memory, as a scope: allocates and publishes on entry; on leaving, waits until the
/// epilogue has finished, and deallocates.
///
/// Made by a whole converged warp, which then elects the lane that issues MMAs:
///
///     MmaWarp<Output::Allocation> warp{handshake};
///     Output output{barriers, warp.address()};
///     if (elect_one()) ...
///
/// @tparam Allocation  a TmemAllocation.
template <typename Allocation>
class MmaWarp {
 public:
  /// Allocates the columns (waits while other blocks hold them), publishes their address, and lets other blocks
  /// allocate. Called by all lanes.
  __device__ explicit MmaWarp(TmemHandshake& handshake) : handshake_(&handshake), allocation_(&handshake.address) {
    allocation_.allocate();
    allocation_.release_lock();
    cuda::ptx::tcgen05_fence_before_thread_sync();
    __syncwarp();
    if (lane_index() == 0) arrive(&handshake_->published);
    wait(&handshake_->published, 0);  // the address was written for the warp: only this wait shows it to each lane
    cuda::ptx::tcgen05_fence_after_thread_sync();
    address_ = allocation_.address();
  }
  MmaWarp(const MmaWarp&) = delete;
  MmaWarp& operator=(const MmaWarp&) = delete;

  /// Waits until every thread of the epilogue has left its EpilogueWarp, and deallocates the columns. Called by all
  /// lanes.
  __device__ ~MmaWarp() {
    __syncwarp();  // the lane that issued MMAs arrives later than the others
    wait(&handshake_->finished, 0);
    cuda::ptx::tcgen05_fence_after_thread_sync();
    allocation_.deallocate();
  }

  /// The address of the first column, at lane 0. Any lane.
  __device__ uint32_t address() const { return address_; }

 private:
  TmemHandshake* handshake_;
  Allocation allocation_;
  uint32_t address_;
};

/// What a warp of the epilogue does in the life of tensor memory, as a scope: waits for the address on entry; on
/// leaving, signals to the MMA warp that it no longer uses the columns.
///
/// Made by every thread of the epilogue, as many as the handshake was initialised for.
class EpilogueWarp {
 public:
  /// Waits until the MMA warp has published the address. Called by all lanes.
  __device__ explicit EpilogueWarp(TmemHandshake& handshake) : handshake_(&handshake) {
    wait(&handshake_->published, 0);
    cuda::ptx::tcgen05_fence_after_thread_sync();
    address_ = handshake_->address;
  }
  EpilogueWarp(const EpilogueWarp&) = delete;
  EpilogueWarp& operator=(const EpilogueWarp&) = delete;

  /// Counts one arrival: this thread's loads are done. Called by all lanes, after `wait_for_tmem_loads()`.
  __device__ ~EpilogueWarp() {
    cuda::ptx::tcgen05_fence_before_thread_sync();
    arrive(&handshake_->finished);
  }

  /// The address of the first column, at lane 0. Any lane.
  __device__ uint32_t address() const { return address_; }

 private:
  TmemHandshake* handshake_;
  uint32_t address_;
};

}  // namespace stagecraft
