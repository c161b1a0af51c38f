// What a launch asks of the scheduler in addition to its shape, and what the scheduler returns.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  uint64_t thread_instructions = 0;     ///< executed ones, counted per active lane
  uint64_t warp_instructions = 0;
  Cycle cycles = 0;  ///< virtual time the grid took
};

/// How a grid may be divided.
struct Division {
  /// Makes the observers of a part, which return in `findings` what they have found; without it the grid is one part.
  std::function<std::vector<std::unique_ptr<Observer>>()> observers;
  uint32_t threads = 1;  ///< of the host, at most
  /// Where it becomes true, the grid stops, with a report of how far it has come. Null: never.
  const std::atomic<bool>* interrupted = nullptr;
  /// The virtual time at which a grid is stopped; 0: never.
  Cycle limit = 0;
};

}  // namespace stagecraft::emulator::machine
