// What a launch asks of the scheduler in addition to its shape, and what the scheduler returns.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/state/fault.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {

/// The result of a launch.
struct LaunchResult {
  std::optional<FaultKind> fault;       ///< set when the kernel was stopped, or when there are findings
  bool stopped = false;                 ///< it did not run to its end
  bool interrupted = false;             ///< because it was asked to stop (Division::interrupted)
  std::vector<Diagnostic> diagnostics;  ///< what stopped it, and findings that did not stop it
  std::vector<std::string> unread;      ///< what nothing has read (WrittenResult), unless it was stopped
  uint64_t thread_instructions = 0;     ///< executed ones, counted per active lane
  uint64_t warp_instructions = 0;
  Cycle cycles = 0;  ///< virtual time the grid took
};

/// Follows a grid while it runs. Any of the grid's threads calls it, several at the same time.
class ProgressWatcher {
 public:
  virtual ~ProgressWatcher() = default;
  /// Whether to call `show` now. Is asked often, and should take no more than some ten nanoseconds.
  virtual bool is_due() = 0;
  /// @param blocks_running  those that have started and not ended.
  /// @param place           where a warp of them is, for people: "warp 0 of block (0, 0, 0) at sum.cu:41".
  virtual void show(uint64_t blocks_done, uint64_t blocks_running, const std::string& place) = 0;
};

/// How a grid may be divided, and what may be done while it runs.
struct Division {
  /// Makes the observers of a part, which return in `findings` what they have found; without it the grid is one part.
  std::function<std::vector<std::unique_ptr<Observer>>()> observers;
  uint32_t threads = 1;      ///< of the host, at most
  bool in_one_part = false;  ///< whether the observers must see the whole grid
  /// Whether a cluster need run, by the number of its first block; where one need not, those after it do not run
  /// either. It is not asked where clusters may interact. Without it all clusters run.
  std::function<bool(uint64_t)> needs{};
  /// Where it becomes true, the grid stops, with a report of how far it has come. Null: never.
  const std::atomic<bool>* interrupted = nullptr;
  /// The virtual time at which a grid is stopped; 0: never.
  Cycle limit = 0;
  ProgressWatcher* watcher = nullptr;  ///< null: nobody follows the grid
};

}  // namespace stagecraft::emulator::machine
