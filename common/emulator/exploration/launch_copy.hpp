// One run of a launch in a copy of the process, in which it can do what it likes to device memory.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "emulator/scheduling/schedule.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::exploration {

/// What a run of a launch in a copy has shown.
struct CopyOutcome {
  bool stopped = false;      ///< the kernel did not run to its end
  bool interrupted = false;  ///< because the user wants it to stop
  bool cut_off = false;      ///< because it took too long in virtual time
  std::vector<machine::Diagnostic> diagnostics{};
  machine::Schedule switches{};          ///< that it made
  std::vector<std::string> sentences{};  ///< about them
  uint64_t points = 0;                   ///< turns of the cluster that had the most
  uint64_t cycles = 0;
  std::string steps{};        ///< of a decided run (steps.hpp)
  bool is_redundant = false;  ///< it ended, because the rest was run already
  bool has_diverged = false;  ///< it ended, because it did not go as the run that it had to repeat
  // For what is not varied (coverage.hpp):
  bool parts_lanes = false;  ///< lanes of a warp were at different places
  bool tries_once = false;   ///< a try_wait outside of a loop might have answered false
};

/// A copy of the process that calls a function, reports what it returns, and ends. The copy has all memory as it was,
/// and nothing that it writes is seen here, except in memory that the program shares with other processes.
class LaunchCopy {
 public:
  /// Starts the copy. Throws std::system_error when the host does not let it.
  explicit LaunchCopy(const std::function<CopyOutcome()>& run);
  /// Ends the copy where its outcome was not asked for.
  ~LaunchCopy();
  LaunchCopy(LaunchCopy&& other) noexcept;
  LaunchCopy& operator=(LaunchCopy&&) = delete;

  /// Waits for its end; ends it when `interrupted` (may be null) becomes true, which a signal to this process alone
  /// does not tell it. Throws std::system_error when the copy reports nothing: it crashed, or was killed.
  CopyOutcome outcome(const std::atomic<bool>* interrupted = nullptr);

 private:
  /// Waits until the copy has ended; returns its report, which is empty where it is not complete.
  std::string wait();

  pid_t process_ = -1;
  int pipe_ = -1;
};

}  // namespace stagecraft::emulator::exploration
