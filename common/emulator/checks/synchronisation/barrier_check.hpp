// Finds mbarriers that are used wrongly, where the kernel goes on in spite of it:
//
//   - an mbarrier is used, by a thread or by an asynchronous operation, and nothing orders its initialisation before
//     that;
//   - the lanes of one instruction arrive at an mbarrier more often than one of its phases waits for;
//   - a thread arrives at an mbarrier of another block, and releases what it did for its own block only;
//   - a thread relies on a wait that may have failed, because nothing looks at the answer: before it waits there again
//     it accesses what it knows of by that phase alone, or it never waits there again;
//   - a thread waits with the scope of its block for an arrival by a thread of another block, which is only tolerated;
//   - a live mbarrier at rest is initialised again, which is only tolerated if its last use is ordered before that;
//   - the memory of a live mbarrier was used for other data, and is initialised again with no mbarrier.inval before:
//   only
//     tolerated, and only reported where that is asked for.
//
// A wait with a stale parity is reported where a race or a deadlock results from it (../causes/stale_wait.hpp). All
// other misuse stops the kernel where it happens (../../engines/mbarrier/mbarrier.cpp).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class BarrierCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  /// Whether to report barriers whose memory was used for something else without mbarrier.inval.
  void judge_reuse(bool yes) { judges_reuse_ = yes; }

  void barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) override;
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override {
    if (!asked_.empty()) went_on(cluster, recorded);
  }
  void warp_synchronised(ClusterRecord& cluster, const machine::Fragment& fragment, machine::LaneMask lanes) override {
    if (!asked_.empty()) learnt(cluster, fragment, lanes, nullptr);
  }
  void threads_met(ClusterRecord& cluster, const machine::Rendezvous& event) override {
    if (!asked_.empty() && event.kind == machine::RendezvousKind::pass) met(cluster, event);
  }
  void block_finished(ClusterRecord& cluster, const machine::Block& block) override;
  void cluster_stuck(ClusterRecord& cluster) override;

 private:
  /// A thread has asked for the end of a phase that it did not know of, and nothing looks at the answer. That is right
  /// for a hint: the thread waits there again before it relies on the phase.
  struct Asked {
    const ClusterRecord* cluster;
    uint32_t barrier;  ///< ClusterOrder::barrier
    uint32_t warp;
    machine::LaneMask lanes;  ///< that have not waited again
    uint32_t pc;
    uint64_t phase;
    /// What the lanes would know without it: what they knew before, and have learnt since at other barriers. Null: they
    /// have learnt something in another way.
    SharedClock known;
  };

  void check_initialised(const ClusterRecord& cluster, const machine::BarrierEvent& event);
  void check_reinitialised(const ClusterRecord& cluster, const machine::BarrierEvent& event);
  void check_reused(const ClusterRecord& cluster, const machine::BarrierEvent& event);
  void check_overrun(const ClusterRecord& cluster, const machine::BarrierEvent& event);
  void check_answer(const ClusterRecord& cluster, const machine::BarrierEvent& event);
  void went_on(const ClusterRecord& cluster, const RecordedAccess& recorded);
  void went_on(const ClusterRecord& cluster, const machine::AsyncOperation& operation);
  template <typename Relies>
  void report_reliance(const ClusterRecord& cluster, const machine::Fragment& fragment, machine::LaneMask lanes,
                       Relies relies);
  void learnt(const ClusterRecord& cluster, const machine::Fragment& fragment, machine::LaneMask lanes,
              const SharedClock& what);
  void met(const ClusterRecord& cluster, const machine::Rendezvous& event);
  void report_unused_answer(const Asked& asked);
  void check_scope_of_wait(const ClusterRecord& cluster, const machine::BarrierEvent& event);
  void check_scope(const ClusterRecord& cluster, const machine::BarrierEvent& event);
  void report_uninitialised(const ClusterRecord& cluster, const machine::Fragment& fragment, machine::LaneMask lanes,
                            const BarrierOrder& barrier);
  void report_overrun(const ClusterRecord& cluster, const machine::BarrierEvent& event, const BarrierOrder& barrier);

  const machine::Kernel* kernel_ = nullptr;  ///< for which `ignored_` was found out
  std::map<uint32_t, bool> ignored_;         ///< whether nothing looks at the answer of a wait, by its pc
  std::vector<Asked> asked_;
  bool judges_reuse_ = false;
};

}  // namespace stagecraft::emulator::checks
