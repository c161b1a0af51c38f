// Putting together what was found in the parts of a grid.
#pragma once

#include <optional>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {

/// Where and when a grid was stopped. The part that was stopped ran up to there; each other one ran at least so far,
/// but how much further is left to chance.
struct StoppedAt {
  size_t part;
  Cycle time;
};

/// What is told of a launch: in the order of virtual time, of one time in the order of the parts; of findings with the
/// same identity the first one. Nothing of what other parts have found after the grid was stopped.
std::vector<Diagnostic> tell(std::vector<std::vector<Finding>> found_by_part, std::optional<StoppedAt> stopped);

}  // namespace stagecraft::emulator::machine
