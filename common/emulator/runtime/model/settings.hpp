// What the environment variables of the emulated GPU ask for. emulator/settings/settings.ini lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emulator/chip/architecture.hpp"
#include "emulator/scheduling/schedule.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::runtime {

enum class ReportFormat { text, json };

/// What is checked while kernels run. Deadlocks and misused barriers are always reported, because that costs nothing.
struct Checks {
  bool race = false;    ///< races in shared memory, and waits with a stale parity
  bool global = false;  ///< races in global memory and reads of what nothing wrote there; with it, `race` is on too

  bool operator==(const Checks&) const = default;
};

/// What is counted while kernels run, and reported when they end.
struct Counters {
  bool bank_conflicts = false;  ///< passes over the banks of shared memory, by source line

  bool operator==(const Counters&) const = default;
};

/// Whether launches are timed by the model of the chip, and how.
struct Timing {
  bool on = false;
  bool part = false;  ///< of a large launch, only the blocks that the model replays run
  bool cold = false;  ///< no launch finds in L2 what others have left there
  bool used = false;  ///< each launch finds L2 as many of its kind on other operands leave it

  bool operator==(const Timing&) const = default;
};

/// A schedule to be replayed.
struct ReplayedLaunch {
  uint64_t launch = 0;  ///< its number in the process, from 1 on
  machine::Schedule schedule;
};

/// Each member is named after its variable where that is not said. What holds without the variable is what
/// read_settings() returns; an object that is made otherwise has nothing switched on.
struct Settings {
  const machine::Architecture* architecture = nullptr;  ///< STAGECRAFT_DEVICE; null when it is not set
  uint64_t seed = 0;                                    ///< of the schedule
  uint64_t explore = 0;                                 ///< schedules that each launch is explored in; 0: none
  bool explore_lanes = false;  ///< in some of them, lanes of a warp do not meet behind a branch
  std::optional<ReplayedLaunch> schedule;
  uint64_t exhaust = 0;  ///< interleavings of each launch that are explored at most; 0: none
  machine::PreferredClusters preferred_clusters{};
  std::vector<std::string> ptx;  ///< files that replace images of the program
  uint32_t threads = 1;          ///< of the host, at most
  uint64_t limit_cycles = 0;     ///< of virtual time, of each launch; 0: none
  bool progress = false;         ///< a long launch shows on a terminal how far it has come
  ReportFormat report_format{};  ///< STAGECRAFT_REPORT
  std::string report_file;       ///< appended to; empty for stderr
  uint64_t host_memory = 0;      ///< bytes that the process may use, at most; 0 for any
  Checks checks;
  Counters counters;
  Timing timing;
  std::string timeline;  ///< "text" (with the reports), or the name of a file; empty for none
  /// A program that would exit with 0 exits with 1 after a kernel was diagnosed (STAGECRAFT_EXIT_STATUS).
  bool strict_exit_status = false;
  /// The launch of a kernel that ran to its end returns an error when a race or a missing fence was found
  /// (STAGECRAFT_FINDINGS). Otherwise the program goes on, as it may on a chip.
  bool findings_are_errors = false;

  /// Whether kernels must announce what they do to memory. Which interleavings are equivalent depends on that too.
  bool observes_memory() const {
    return checks.race || counters.bank_conflicts || !timeline.empty() || timing.on || exhaust != 0;
  }
};

/// Reads the variables. Throws std::invalid_argument with a sentence about the first that has an illegal value.
Settings read_settings(const char* (*get_variable)(const char* name));

}  // namespace stagecraft::emulator::runtime
