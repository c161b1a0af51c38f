// Finds accesses of another block's shared memory that nothing orders before that block's end.
//
// A block of a cluster may load, store or arrive in the shared memory of another one only as long as that one runs
// (CUDA C++ Programming Guide, "Distributed Shared Memory": "all the thread blocks must exist"). An access that comes
// after the exit in this run stops the kernel. This check finds one that came before it by chance: none of the block's
// threads knew of it when it exited. An arrival at a barrier of the cluster counts even if it is relaxed, and so does
// an arrival at an mbarrier whose phase the block has seen end.
//
// The arrival of a tcgen05.commit of another block counts as well. It is known once a thread of the block knows that
// what it speaks for has ended, if only through a later commit of the same thread: the tensor core keeps their order.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class RemoteExitCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override { states_.start(cluster); }
  void cluster_finished(ClusterRecord& cluster) override;
  void block_finished(ClusterRecord& cluster, const machine::Block& block) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override {
    if (!cluster.has_one_block() && recorded.warp != nullptr) note_access(cluster, recorded);
  }
  void barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) override;

 private:
  /// The last access of a warp to the shared memory of another block.
  struct Remote {
    uint32_t warp = 0;
    machine::LaneMask lanes = 0;
    Time time = 0;
    uint32_t pc = 0;
    const char* verb = "";
    uint64_t cluster_arrived = 0;  ///< the phase of the cluster's barrier that the warp had arrived at
    bool arrives = false;          ///< at an mbarrier of the other block
    uint32_t offset = 0;           ///< of that mbarrier
    uint64_t phase = 0;            ///< phases that had ended there
    bool is_commit = false;        ///< by the tensor core, and known by this time of this component:
    uint32_t component = 0;
    Time end = 0;
  };
  struct State {
    std::vector<Remote> commits;                         ///< as `latest`, for arrivals of the tensor core
    std::vector<Remote> latest;                          ///< by rank of the target and warp; empty before the first
    std::vector<std::pair<uint32_t, Remote>> unordered;  ///< by rank of a target that has ended
  };

  void note_access(const ClusterRecord& cluster, const RecordedAccess& recorded);
  /// The last access of a warp to the block of rank `rank`. Without lanes: none so far.
  static Remote& latest(std::vector<Remote>& all, const ClusterRecord& cluster, uint32_t rank, uint32_t warp);
  void commit_arrived(const ClusterRecord& cluster, const machine::BarrierEvent& event);
  /// Where the warp that made an access arrives twice in a phase at a barrier of its own block, and never at that of
  /// the block of rank `rank`, which waits for its own; empty: it does not.
  static std::string arrival_in_own_block(const ClusterRecord& cluster, uint32_t rank, const Remote& remote);
  static bool is_known(const ClusterOrder& order, uint32_t rank, const Remote& remote);

  PerCluster<State> states_;
};

}  // namespace stagecraft::emulator::checks
