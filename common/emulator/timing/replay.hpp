// Replays what a launch did on a model of a chip.
#pragma once

#include "emulator/timing/chip_model.hpp"
#include "emulator/timing/result.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::timing {

/// Returns how long the launch takes, and what its warps and the chip's units do meanwhile. The same trace gives the
/// same result.
Result replay(const LaunchTrace& trace, const ChipModel& chip);

}  // namespace stagecraft::emulator::timing
