// The recordings that the settings ask for: bank conflicts and the timeline of a launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/runtime/model/reporting.hpp"
#include "emulator/runtime/model/settings.hpp"
#include "emulator/trace/bank_conflicts.hpp"
#include "emulator/trace/timeline.hpp"

namespace stagecraft::emulator::runtime {

class Recording {
 public:
  explicit Recording(const Settings& settings) : settings_(settings) {}

  /// Adds the observers that the settings ask for.
  void join(std::vector<machine::Observer*>& observers);
  /// Writes the recordings after the launch: counters and a text timeline with the reports, a timeline with a file name
  /// to that file. `launch` counts from 0.
  void tell(Reporter& reporter, uint64_t launch) const;

 private:
  const Settings& settings_;
  trace::BankConflicts bank_conflicts_;
  trace::Timeline timeline_;
};

/// The file of a launch's timeline: "line.svg" for the first, "line.2.svg" for the second.
std::string timeline_file(const std::string& name, uint64_t launch);

}  // namespace stagecraft::emulator::runtime
