// Says why nothing goes on: who sleeps, on what, and who could have ended it.
#pragma once

#include <vector>

#include "emulator/machine/observer.hpp"

namespace stagecraft::emulator::checks {

/// Diagnoses a cluster in which every warp that has not exited sleeps and no asynchronous operation is under way.
/// That is decided by the machine, exactly; this observer only explains it.
class DeadlockCheck : public machine::Observer {
 public:
  void cluster_stuck(machine::Cluster& cluster) override;
  std::vector<machine::Diagnostic> findings() override;

 private:
  std::vector<machine::Diagnostic> findings_;
};

}  // namespace stagecraft::emulator::checks
