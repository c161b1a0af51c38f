// Runs the grid of a launch, with the checks, recordings and schedules that the settings ask for.
#pragma once

#include "emulator/machine/machine.hpp"
#include "emulator/runtime/model/streams.hpp"

namespace stagecraft::emulator::runtime {

class State;

/// Runs a grid to its end, after its other schedules where they are explored, and reports what was found. Where the
/// kernel was stopped, the next call that touches the device returns its error.
Cost run_grid(State& state, machine::LaunchRequest request);

/// Reports how many schedules were explored, and whether something was found; nothing where no launch was explored.
void tell_exploration(State& state);

}  // namespace stagecraft::emulator::runtime
