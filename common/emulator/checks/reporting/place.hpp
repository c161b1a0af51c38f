// Where something happened, for reports.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// A place in a warp of a block: lanes at an instruction.
machine::Place place_of(const machine::Kernel& kernel, const machine::Extent3& block, uint32_t warp,
                        machine::LaneMask lanes, uint32_t pc);
/// The instruction that a fragment is at, with all of its lanes.
machine::Place place_of(const machine::Fragment& fragment);
/// A block as a whole.
machine::Place place_of(const machine::Block& block);

/// " at FILE:LINE" of an instruction, to follow what a sentence names; empty where the line is not known.
std::string at_line(const machine::Kernel& kernel, uint32_t pc);

}  // namespace stagecraft::emulator::checks
