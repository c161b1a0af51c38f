// What a check of memory is: it sees the events of a grid that runs, with the shared record of its cluster.
//
// A check derives from MemoryCheck, overrides the hooks that it needs, and reports with `findings_`. Declare it
// `final`: then the hooks that it does not override cost nothing. It is registered in checks/checks.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/ordering_record.hpp"
#include "emulator/checks/reporting/finding_log.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

class MemoryCheck {
 public:
  /// @param findings  shared by the checks of a grid, so that all of them together make no more findings than are
  ///                  reported
  explicit MemoryCheck(FindingLog& findings) : findings_(findings) {}
  virtual ~MemoryCheck() = default;

  /// A cluster starts; checks with state of their own create it here (PerCluster).
  virtual void cluster_started(ClusterRecord&) {}
  virtual void cluster_finished(ClusterRecord&) {}
  virtual void block_finished(ClusterRecord&, const machine::Block&) {}
  /// Nothing in the cluster can continue.
  virtual void cluster_stuck(ClusterRecord&) {}
  /// Its threads repeat themselves for ever, as the report says.
  virtual void cluster_repeated(ClusterRecord&, machine::Diagnostic&) {}

  /// An mbarrier has changed, or was waited for. Only here the record has not taken note of the event yet: what a
  /// thread does at a barrier is judged by what it knew before. In all other hooks the record knows the event.
  virtual void barrier_changed(ClusterRecord&, const machine::BarrierEvent&) {}
  virtual void memory_accessed(ClusterRecord&, const RecordedAccess&) {}
  virtual void warp_synchronised(ClusterRecord&, const machine::Fragment&, machine::LaneMask) {}
  virtual void store_read_early(ClusterRecord&, const machine::EarlyRead&) {}
  virtual void fence_executed(ClusterRecord&, const machine::Fragment&, machine::LaneMask, machine::FenceKind) {}
  virtual void threads_met(ClusterRecord&, const machine::Rendezvous&) {}
  virtual void operation_issued(ClusterRecord&, const IssuedOperation&) {}
  virtual void group_changed(ClusterRecord&, const machine::GroupEvent&) {}
  virtual void tensor_map_changed(ClusterRecord&, const machine::TensorMapEvent&) {}
  virtual void tensor_memory_changed(ClusterRecord&, const machine::TensorEvent&) {}
  virtual void nan_scales_used(ClusterRecord&, const machine::NanScales&) {}
  virtual void warpgroup_issued(ClusterRecord&, const machine::WarpgroupIssue&) {}
  virtual void warpgroup_waited(ClusterRecord&, const machine::WarpgroupWait&) {}
  virtual void warpgroup_fenced(ClusterRecord&, const machine::Fragment&) {}
  /// The grid has ended: what it has written, and whether that was read.
  virtual void add_results(std::vector<machine::WrittenResult>&) {}
  virtual void warpgroup_registers_used(ClusterRecord&, const machine::WarpgroupRegisterUse&) {}

 protected:
  MemoryCheck(const MemoryCheck&) = delete;
  MemoryCheck& operator=(const MemoryCheck&) = delete;

  FindingLog& findings_;
};

/// What a check keeps of each cluster that runs.
template <typename State>
class PerCluster {
 public:
  State& operator[](const ClusterRecord& cluster) { return *states_[cluster.slot()]; }
  /// Creates the state of a cluster that starts; what the one before in its slot had is lost.
  template <typename... Arguments>
  void start(const ClusterRecord& cluster, Arguments&&... arguments) {
    if (cluster.slot() >= states_.size()) states_.resize(cluster.slot() + 1);
    states_[cluster.slot()] = std::make_unique<State>(std::forward<Arguments>(arguments)...);
  }

 private:
  std::vector<std::unique_ptr<State>> states_;
};

}  // namespace stagecraft::emulator::checks
