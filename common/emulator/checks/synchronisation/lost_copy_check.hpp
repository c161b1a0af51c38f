// Reports copies into shared memory that arrive when the block has exited, and lets the kernel go on without them. It
// is for programs that are to go on after a finding; elsewhere such a copy stops the kernel.
#pragma once

#include <vector>

#include "emulator/checks/reporting/finding_log.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

class LostCopyCheck final : public machine::Observer {
 public:
  void grid_started(const machine::Grid& grid) override;
  bool copy_lost(const machine::Cluster& cluster, const machine::Fault& fault) override;
  std::vector<machine::Finding> findings() override { return findings_.take(); }

 private:
  FindingLog findings_;
};

}  // namespace stagecraft::emulator::checks
