// Running a grid whose clusters know nothing of each other on several cores.
//
// The chip is divided into parts, each with its share of the multiprocessors, and the clusters are dealt out to the
// parts in turn. A part runs by itself, with a virtual clock and observers of its own, and what comes of it depends on
// nothing else. Into how many parts a grid is divided follows from the chip and the launch; on how many cores they run
// changes nothing but the time that it takes. A grid that cannot be divided is one part.
//
// When one part is stopped, the others are as well, and how far they have come by then is left to chance. So what they
// have found after that (in virtual time, which is the same in all runs) is not told.
#pragma once

#include <vector>

#include "emulator/scheduling/launch_result.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// How many parts a grid is divided into. 1 where its clusters may have to do with each other.
uint32_t parts_of(const LaunchRequest& request, const Architecture& chip);

/// Runs the grid in that many parts.
/// @param observers  see all of it; there are none where it has more than one part.
/// @return the sum of the parts, or where some were stopped, why the one was that was stopped first.
LaunchResult run_in_parts(const GridConstants& grid, uint32_t parts, const std::vector<Observer*>& observers,
                          const Division& divided);

}  // namespace stagecraft::emulator::machine
