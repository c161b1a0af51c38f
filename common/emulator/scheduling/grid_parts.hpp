// Runs a grid on several cores, if its clusters do not interact.
//
// The chip is divided into parts, each with its share of the multiprocessors, and the clusters are dealt out to the
// parts in turn. A part runs independently, with a virtual clock and observers of its own, and its result depends on
// nothing else. The chip and the launch decide into how many parts a grid is divided; the number of cores that run them
// changes only the time that it takes. A grid that cannot be divided is one part.
//
// When one part is stopped, the others are stopped too, and how far they have come by then is left to chance. So what
// they have found after that (in virtual time, which is the same in all runs) is not reported.
#pragma once

#include <vector>

#include "emulator/scheduling/launch_result.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Returns how many parts a grid is divided into; 1 when its clusters may interact.
uint32_t parts_of(const LaunchRequest& request, const Architecture& chip);

/// Runs the grid in that many parts.
/// @param observers  observe the whole grid; there are none when it has more than one part.
/// @return the sum of the parts; if some were stopped, with the reason why the first of them was.
LaunchResult run_in_parts(const GridConstants& grid, uint32_t parts, const std::vector<Observer*>& observers,
                          const Division& divided);

}  // namespace stagecraft::emulator::machine
