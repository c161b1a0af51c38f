// Replays what a launch did on a model of a chip.
#pragma once

#include <optional>

#include "emulator/timing/chip_model.hpp"
#include "emulator/timing/memory_system.hpp"
#include "emulator/timing/result.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::timing {

/// Returns how long the launch takes, and what its warps and the chip's units do meanwhile. The same trace gives the
/// same result.
/// @param l2  what earlier launches of the process have left in L2; it becomes what this one leaves.
Result replay(const LaunchTrace& trace, const ChipModel& chip, std::optional<L2Contents>& l2);
/// The same for a launch that finds nothing there.
Result replay(const LaunchTrace& trace, const ChipModel& chip);
/// L2 as a launch finds it that comes after many of its kind on operands of their own.
L2Contents used_l2(const LaunchTrace& trace, const ChipModel& chip);

}  // namespace stagecraft::emulator::timing
