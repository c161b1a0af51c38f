// The life of tensor memory, shared out between the two roles that use it: the MMA warp takes and gives it back, the
// epilogue's warps use it in between. What must happen in which order is in the constructors and destructors.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// What MmaWarp and EpilogueWarp tell each other through shared memory: declare it `__shared__`.
struct TmemHandshake {
  uint64_t published;  ///< one phase: the address is there
  uint64_t finished;   ///< one phase: the epilogue uses it no more
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
  /// Takes the columns (waits while other blocks hold them), tells the epilogue where they are, and lets other blocks
  /// allocate. Called by all lanes.
  __device__ explicit MmaWarp(TmemHandshake& handshake) : handshake_(&handshake), allocation_(&handshake.address) {
    allocation_.allocate();
    allocation_.release_lock();
    cuda::ptx::tcgen05_fence_before_thread_sync();
    __syncwarp();
    if (lane_index() == 0) arrive(&handshake_->published);
    wait(&handshake_->published, 0);  // the address was written on behalf of the warp: each lane has yet to see it
    cuda::ptx::tcgen05_fence_after_thread_sync();
    address_ = allocation_.address();
  }
  MmaWarp(const MmaWarp&) = delete;
  MmaWarp& operator=(const MmaWarp&) = delete;

  /// Waits until every thread of the epilogue has left its EpilogueWarp, and gives the columns back. Called by all
  /// lanes.
  __device__ ~MmaWarp() {
    __syncwarp();  // the lane that issued MMAs comes later than the others
    wait(&handshake_->finished, 0);
    cuda::ptx::tcgen05_fence_after_thread_sync();
    allocation_.deallocate();
  }

  /// The first column, at lane 0. Any lane.
  __device__ uint32_t address() const { return address_; }

 private:
  TmemHandshake* handshake_;
  Allocation allocation_;
  uint32_t address_;
};

/// A warp of the epilogue's part in the life of tensor memory, as a scope: waits for the address on entry; on leaving,
/// tells the MMA warp that it uses it no more.
///
/// Made by every thread of the epilogue; the handshake is initialised for so many.
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

  /// The first column, at lane 0. Any lane.
  __device__ uint32_t address() const { return address_; }

 private:
  TmemHandshake* handshake_;
  uint32_t address_;
};

}  // namespace stagecraft
