// The life of tensor memory, divided between the two roles that use it: the MMA warp allocates and deallocates it, the
// epilogue's warps use it in between. The constructors and destructors keep the order that this needs, in a pair of
// blocks as well.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/cluster.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// What MmaWarp and EpilogueWarp of a block share: the address, and a barrier in each direction. Declare it
/// `__shared__`.
/// @tparam CtaGroup  2: the block is one of a pair, which have it at the same offset in their shared memory.
template <int CtaGroup = 1>
struct TmemHandshake {
  static constexpr int cta_group = CtaGroup;  ///< blocks that use tensor memory together

  uint64_t published;  ///< one phase: the address is there
  uint64_t finished;   ///< one phase: the epilogue, in a pair that of both blocks, no longer uses it
  uint32_t address;    ///< of the columns

  /// Called by one thread of the block, once, followed by `fence_barrier_init()` and a block-wide barrier; in a pair,
  /// by a cluster-wide one.
  /// @param epilogue_threads  of the block, that make an EpilogueWarp: 128 for four warps.
  __device__ void init(uint32_t epilogue_threads) {
    init_barrier(&published, 1);
    init_barrier(&finished, CtaGroup * epilogue_threads);
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
/// In a pair, both blocks have such a warp, and each waits for the epilogues of both: neither deallocates what the
/// other still reads, and neither leaves while a thread of the other may still arrive here. (A block that also drains
/// its InputTilePipeline can leave then.)
/// @tparam Allocation  a TmemAllocation.
template <typename Allocation>
class MmaWarp {
 public:
  /// What it shares with the epilogue.
  using Handshake = TmemHandshake<Allocation::cta_group>;

  /// Allocates the columns (waits while other blocks hold them; in a pair, for the same warp of the peer), publishes
  /// their address, and lets other blocks allocate. Called by all lanes.
  __device__ explicit MmaWarp(Handshake& handshake) : handshake_(&handshake), allocation_(&handshake.address) {
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

  /// Waits until every thread of the epilogue, in a pair of both, has left its EpilogueWarp, and deallocates the
  /// columns. Called by all lanes.
  __device__ ~MmaWarp() {
    __syncwarp();  // the lane that issued MMAs arrives later than the others
    wait<Allocation::cta_group == 1 ? Scope::block : Scope::cluster>(&handshake_->finished, 0);
    cuda::ptx::tcgen05_fence_after_thread_sync();
    allocation_.deallocate();
  }

  /// The address of the first column, at lane 0. Any lane.
  __device__ uint32_t address() const { return address_; }

 private:
  Handshake* handshake_;
  Allocation allocation_;
  uint32_t address_;
};

/// What a warp of the epilogue does in the life of tensor memory, as a scope: waits for the address on entry; on
/// leaving, signals to the MMA warp that it no longer uses the columns. In a pair, to those of both blocks.
///
/// Made by every thread of the epilogue, as many as the handshake was initialised for: `EpilogueWarp
/// tensor_memory{handshake};`.
template <int CtaGroup = 1>
class EpilogueWarp {
 public:
  /// Waits until the MMA warp has published the address. Called by all lanes.
  __device__ explicit EpilogueWarp(TmemHandshake<CtaGroup>& handshake) : handshake_(&handshake) {
    wait(&handshake_->published, 0);
    cuda::ptx::tcgen05_fence_after_thread_sync();
    address_ = handshake_->address;
  }
  EpilogueWarp(const EpilogueWarp&) = delete;
  EpilogueWarp& operator=(const EpilogueWarp&) = delete;

  /// Counts one arrival, in a pair one in each block: this thread's loads are done. Called by all lanes, after
  /// `wait_for_tmem_loads()`.
  __device__ ~EpilogueWarp() {
    cuda::ptx::tcgen05_fence_before_thread_sync();
    if constexpr (CtaGroup == 1) {
      arrive(&handshake_->finished);
    } else {
      const uint32_t rank = block_rank();
      arrive_at_block(&handshake_->finished, rank ^ 1);
      arrive_at_block(&handshake_->finished, rank);
    }
  }

  /// The address of the first column, at lane 0. Any lane.
  __device__ uint32_t address() const { return address_; }

 private:
  TmemHandshake<CtaGroup>* handshake_;
  uint32_t address_;
};

}  // namespace stagecraft
