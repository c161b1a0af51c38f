// Says why nothing goes on: who sleeps, on what, and who could have ended it.
#pragma once

#include <vector>

#include "emulator/checks/deadlock/barrier_history.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// Diagnoses a cluster in which every warp that has not exited sleeps and no asynchronous operation is under way.
/// That is decided by the machine, exactly; this observer only explains it.
class DeadlockCheck : public machine::Observer {
 public:
  void grid_started(const machine::Grid&) override { histories_.clear(); }
  void barrier_changed(const machine::BarrierEvent& event) override { record(histories_, event); }
  void cluster_stuck(const machine::Cluster& cluster, machine::Diagnostic& report) override;
  void cluster_repeated(const machine::Cluster& cluster, machine::Diagnostic& report) override;

 private:
  BarrierHistories histories_;
};

}  // namespace stagecraft::emulator::checks
