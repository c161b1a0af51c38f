// What is reported of a race, and of a copy that its block does not outlive.
#pragma once

#include <cstdint>

#include "emulator/checks/ordering/ordering_record.hpp"
#include "emulator/checks/race/present_access.hpp"
#include "emulator/checks/reporting/finding_log.hpp"

namespace stagecraft::emulator::checks {

class RaceReport {
 public:
  explicit RaceReport(FindingLog& findings) : findings_(findings) {}

  /// Two accesses that nothing orders.
  /// @param address  shared address where they meet, with rank
  void race(const ClusterRecord& cluster, const PastAccess& before, const PresentAccess& now, uint32_t address);
  /// Lanes that write different values to one place in one instruction.
  void race_in_instruction(const ClusterRecord& cluster, const PastAccess& now, machine::LaneMask lanes,
                           uint32_t address);
  /// A copy out of shared memory that may not have ended when its block does.
  void outlived(const ClusterRecord& cluster, const Operation& copy);

 private:
  FindingLog& findings_;
};

}  // namespace stagecraft::emulator::checks
