// Runs the grid of a launch, with the checks, recordings and schedules that the settings ask for.
#pragma once

#include "emulator/machine/machine.hpp"
#include "emulator/runtime/model/streams.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::runtime {

class State;

/// Runs a grid to its end, after its other schedules where they are explored, and reports what was found. Where the
/// kernel was stopped, the next call that touches the device returns its error.
/// @param order  how it follows the launch before it, for the model of the chip's speed.
Cost run_grid(State& state, machine::LaunchRequest request, timing::LaunchOrder order);

/// Reports what nothing has read in the latest launch, for a program that ends with an error although nothing was
/// found.
void tell_unread(State& state);

/// Reports how many schedules were explored, and whether something was found; nothing where no launch was explored.
void tell_exploration(State& state);

}  // namespace stagecraft::emulator::runtime
