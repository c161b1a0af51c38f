// What the environment says about the emulated GPU.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/chip/architecture.hpp"

namespace stagecraft::emulator::runtime {

enum class ReportFormat { text, json };

/// What is looked for while kernels run. Deadlocks and misused barriers are found in any case, because that costs
/// nothing.
struct Checks {
  bool race = false;  ///< races in shared memory, and waits with a stale parity

  bool operator==(const Checks&) const = default;
};

/// What is counted while kernels run, and told at their end.
struct Counters {
  bool bank_conflicts = false;  ///< passes over the banks of shared memory, by source line

  bool operator==(const Counters&) const = default;
};

struct Settings {
  const machine::Architecture* architecture = nullptr;  ///< STAGECRAFT_DEVICE: b200 (default) or h200
  uint64_t seed = 0;                                    ///< STAGECRAFT_SEED: of the schedule, default 0
  uint32_t threads = 1;                                 ///< STAGECRAFT_THREADS: of the host; default: one for each core
  ReportFormat report_format = ReportFormat::text;      ///< STAGECRAFT_REPORT: text (default) or json
  std::string report_file;                              ///< STAGECRAFT_REPORT_FILE: appended to; default stderr
  /// STAGECRAFT_CHECKS: `all`, `none` (default), or a list such as `race,deadlock`
  Checks checks;
  /// STAGECRAFT_COUNTERS: `none` (default), `all`, or a list such as `bank_conflicts`
  Counters counters;
  /// STAGECRAFT_TIMELINE: `text` (with the reports), or a file whose name ends in .svg or .txt; default: none
  std::string timeline;

  /// Whether kernels must announce what they do to memory.
  bool observes_memory() const { return checks.race || counters.bank_conflicts || !timeline.empty(); }
  /// STAGECRAFT_EXIT_STATUS: `strict` (default) makes a program that would exit with 0 exit with 1 after a kernel was
  /// diagnosed; `program` leaves its status alone.
  bool strict_exit_status = true;
  /// STAGECRAFT_FINDINGS: with `error` (default) the launch of a kernel that ran to its end, but about which something
  /// was found (a race, a missing fence), ends with an error; with `report` it does not, as on a chip that got away.
  bool findings_are_errors = true;
};

/// Reads the variables. Throws std::invalid_argument with a sentence on the first that has an illegal value.
Settings read_settings(const char* (*get_variable)(const char* name));

}  // namespace stagecraft::emulator::runtime
