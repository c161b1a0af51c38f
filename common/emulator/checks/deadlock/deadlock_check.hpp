// Explains why nothing in a cluster can continue: which threads sleep, on what, and which could have woken them.
#pragma once

#include <vector>

#include "emulator/checks/deadlock/barrier_history.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// Explains a deadlock: every warp of a cluster that has not exited sleeps, and no asynchronous operation is under way.
/// It explains an endless loop, too: the warps that do not sleep repeat themselves. The machine decides, exactly, that
/// it is one or the other; this observer writes the report.
class DeadlockCheck final : public machine::Observer {
 public:
  void grid_started(const machine::Grid&) override { histories_.clear(); }
  void block_started(const machine::Block& block) override { forget(histories_, block); }
  void barrier_changed(const machine::BarrierEvent& event) override { record(histories_, event); }
  void cluster_stuck(const machine::Cluster& cluster, machine::Diagnostic& report) override;
  void cluster_repeated(const machine::Cluster& cluster, machine::Diagnostic& report) override;

 private:
  BarrierHistories histories_;
};

}  // namespace stagecraft::emulator::checks
