// Running a grid whose clusters know nothing of each other on several cores.
//
// The chip is divided into parts, each with its share of the multiprocessors, and the clusters are dealt out to the
// parts in turn. A part runs by itself, with a virtual clock of its own, and what comes of it depends on nothing else.
// Into how many parts a grid is divided follows from the chip and the launch; on how many cores they run changes
// nothing but the time that it takes.
#pragma once

#include <functional>
#include <memory>

#include "emulator/machine/grid.hpp"
#include "emulator/machine/machine.hpp"

namespace stagecraft::emulator::machine {

/// How many parts a grid is divided into. 1 where its clusters may have to do with each other.
uint32_t parts_of(const LaunchRequest& request, const Architecture& chip);

/// Runs the grid in that many parts.
/// @param threads  of the host, at most; the calling one is among them.
/// @return the sum of the parts, or where some stopped, what the one found that stopped first.
LaunchResult run_in_parts(const GridConstants& grid, uint32_t parts,
                          const std::function<std::unique_ptr<Observer>()>& observer, uint32_t threads);

}  // namespace stagecraft::emulator::machine
