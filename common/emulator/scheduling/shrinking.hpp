// Shrinks a schedule that shows a mistake to the switches that it needs.
#pragma once

#include <cstdint>
#include <functional>

#include "emulator/scheduling/schedule.hpp"

namespace stagecraft::emulator::machine {

/// Leaves out switches as long as the schedule still fails (A. Zeller and R. Hildebrandt, "Simplifying and isolating
/// failure-inducing input", 2002).
/// @param fails  runs a schedule, and says whether it shows the mistake; `schedule` itself does.
/// @param runs   the most calls of `fails`.
/// @return a schedule that fails; where `runs` sufficed, it does not without any one of its switches.
Schedule shrink(Schedule schedule, const std::function<bool(const Schedule&)>& fails, uint32_t runs);

}  // namespace stagecraft::emulator::machine
