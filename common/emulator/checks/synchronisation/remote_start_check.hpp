// Finds accesses of another block's shared memory that nothing orders after that block's start.
//
// A block of a cluster may load, store, arrive in or copy to the shared memory of another one only when that one runs
// (CUDA C++ Programming Guide, "Distributed Shared Memory": that "requires all the thread blocks to exist", which
// cluster.sync() guarantees). Here all blocks of a cluster start at once; on the chip one may start late. A thread
// knows that a block has started when it has waited for a barrier of the cluster, however relaxed, or knows of anything
// that the block, or another thread after such a wait, has done.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class RemoteStartCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override { states_.start(cluster); }
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override {
    if (cluster.has_one_block()) return;
    if (recorded.event.shared == nullptr) return note_global(cluster, recorded);
    if (recorded.warp != nullptr && recorded.warp->cluster_passed == 0) check_access(cluster, recorded);
  }
  void barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) override;
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) override;

 private:
  struct State {
    std::vector<machine::LaneMask> knowing;  ///< by warp and rank: lanes that know that the block has started
    /// By rank: a thread of the block has read a flag of another block, or of another cluster, through which it may
    /// know of its own. Who knows that in the block is not followed.
    uint32_t has_heard = 0;
  };
  struct Remote {
    uint32_t warp;
    machine::LaneMask lanes;
    uint32_t pc;
    uint32_t address;  ///< with rank
    const char* verb;
    uint32_t barrier = 0;  ///< address of the mbarrier that a copy completes on: the report is about that; 0: none
  };

  void check_access(ClusterRecord& cluster, const RecordedAccess& recorded);
  void note_global(ClusterRecord& cluster, const RecordedAccess& recorded);
  void check(ClusterRecord& cluster, const Remote& remote);
  void report(ClusterRecord& cluster, const Remote& remote);

  PerCluster<State> states_;
  struct Writer {
    uint64_t cluster;  ///< its first block
    uint32_t rank;
  };
  std::unordered_map<uint64_t, Writer> writers_;  ///< of flags in global memory, the last of each
};

}  // namespace stagecraft::emulator::checks
