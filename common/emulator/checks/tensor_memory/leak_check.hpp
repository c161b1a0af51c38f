// Finds what a block leaves behind in tensor memory when it ends: allocations, and operations that are still in flight.
#pragma once

#include <vector>

#include "emulator/checks/reporting/finding_log.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

class LeakCheck final : public machine::Observer {
 public:
  void grid_started(const machine::Grid& grid) override;
  void block_finished(const machine::Block& block) override;
  std::vector<machine::Finding> findings() override { return findings_.take(); }

 private:
  FindingLog findings_;
};

}  // namespace stagecraft::emulator::checks
