// Says why nothing goes on: who sleeps, on what, and who could have ended it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "emulator/machine/grid.hpp"
#include "emulator/machine/observer.hpp"

namespace stagecraft::emulator::checks {

/// What has happened to an mbarrier, as far as it tells who is missing there.
struct BarrierHistory {
  /// A warp that has arrived, itself or by an operation that it issued.
  struct Arriver {
    const machine::Block* block = nullptr;
    uint32_t warp = 0;
    machine::LaneMask lanes = 0;
    uint64_t phase = 0;  ///< that it arrived in last
  };
  std::vector<Arriver> arrivers;
  bool passed_before_first = false;  ///< somebody has waited for the phase before the first, as a producer does
  /// The instruction that arrived last: its lanes come one after the other when they end a phase.
  const machine::Warp* warp = nullptr;
  machine::Cycle clock = 0;
  uint32_t pc = 0;
  machine::LaneMask lanes = 0;
  uint64_t first_phase = 0;
  /// More lanes than a phase has arrivals; none: that has not been.
  machine::LaneMask overrun_lanes = 0;
  uint32_t overrun_pc = 0;
  uint64_t overrun_phases = 0;  ///< that they ended

  /// Whether this is another event of that instruction.
  bool is_same_instruction(const machine::Fragment& fragment) const {
    return warp == fragment.warp && clock == fragment.warp->clock && pc == fragment.pc;
  }
};

/// Diagnoses a cluster in which every warp that has not exited sleeps and no asynchronous operation is under way.
/// That is decided by the machine, exactly; this observer only explains it.
class DeadlockCheck : public machine::Observer {
 public:
  void grid_started(machine::Grid&) override { histories_.clear(); }
  void barrier(const machine::BarrierEvent& event) override;
  void cluster_stuck(machine::Cluster& cluster) override;
  std::vector<machine::Diagnostic> findings() override;

 private:
  std::map<std::pair<const machine::Block*, uint32_t>, BarrierHistory> histories_;  ///< by block and offset
  std::vector<machine::Diagnostic> findings_;
};

}  // namespace stagecraft::emulator::checks
