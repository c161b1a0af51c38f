// The recordings that the settings ask for: bank conflicts and the timeline of a launch, and what the model of the chip
// needs to time it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/runtime/model/reporting.hpp"
#include "emulator/runtime/model/settings.hpp"
#include "emulator/timing/memory_system.hpp"
#include "emulator/trace/bank_conflicts.hpp"
#include "emulator/trace/launch_recorder.hpp"
#include "emulator/trace/timeline.hpp"

namespace stagecraft::emulator::runtime {

class Recording {
 public:
  /// @param blocks  of the launch that are on the chip at once.
  /// @param order  how the launch follows the one before it.
  Recording(const Settings& settings, uint64_t blocks, timing::LaunchOrder order)
      : settings_(settings), order_(order), launch_(blocks) {}

  /// Adds the observers that the settings ask for.
  void join(std::vector<machine::Observer*>& observers);
  /// Adds the observers of a part of a grid that runs on its own.
  void join_part(std::vector<std::unique_ptr<machine::Observer>>& observers);
  /// Says which clusters of a large launch need run; empty where all must, or where what they write is checked.
  std::function<bool(uint64_t)> needed_clusters(bool checks_memory);
  /// Times the launch, if the settings ask for it, and reports the result. Called once, after a launch that ran to its
  /// end.
  /// @param blocks  that fit on a multiprocessor.
  /// @param l2  what the launches before have left in L2.
  void tell_time(Reporter& reporter, const machine::Architecture& architecture, uint32_t blocks,
                 std::optional<timing::L2Contents>& l2);
  /// Writes the recordings after the launch: counters and a text timeline with the reports, a timeline with a file name
  /// to that file. `launch` counts from 0.
  /// @param report  the text of what was found about the launch, for a timeline that shows it.
  void tell(Reporter& reporter, uint64_t launch, const std::string& report) const;

 private:
  const Settings& settings_;
  trace::BankConflicts bank_conflicts_;
  trace::Timeline timeline_;
  const timing::LaunchOrder order_;
  trace::LaunchRecording launch_;
};

/// The file of a launch's timeline: "line.svg" for the first, "line.2.svg" for the second.
std::string timeline_file(const std::string& name, uint64_t launch);

}  // namespace stagecraft::emulator::runtime
