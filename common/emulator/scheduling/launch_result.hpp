// What a launch asks of the scheduler beside its shape, and what becomes of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "emulator/state/fault.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {

/// What became of a launch.
struct LaunchResult {
  std::optional<FaultKind> fault;       ///< set when the kernel was stopped, or something was found about it
  bool stopped = false;                 ///< it did not run to its end
  std::vector<Diagnostic> diagnostics;  ///< why; also findings that did not stop it
  uint64_t thread_instructions = 0;     ///< executed, counted per active lane
  uint64_t warp_instructions = 0;
  Cycle cycles = 0;  ///< virtual time the grid took
};

/// How a grid may be divided.
struct Division {
  /// Makes the observers of a part, which tell by `findings` what they have found; without, the grid stays whole.
  std::function<std::vector<std::unique_ptr<Observer>>()> observers;
  uint32_t threads = 1;  ///< of the host, at most
};

}  // namespace stagecraft::emulator::machine
