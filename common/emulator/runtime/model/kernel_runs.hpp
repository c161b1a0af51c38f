// Runs a launch, with the checks, recordings and schedules that the settings ask for.
#pragma once

#include "emulator/exploration/exploration.hpp"
#include "emulator/runtime/model/streams.hpp"
#include "emulator/runtime/model/work.hpp"

namespace stagecraft::emulator::runtime {

class Reporter;
class State;
struct UnreadResults;

/// Runs the kernel to its end, after its other schedules where they are explored, and reports what was found. Where it
/// was stopped, the next call that touches the device returns its error. Throws ApiError when an earlier kernel was
/// stopped.
/// @param in_graph  it is a node of a graph.
Cost run_kernel(State& state, Stream& stream, const KernelWork& work, bool in_graph);

/// Reports what nothing has read in the latest launch, for a program that ends with an error although nothing was
/// found.
void tell_unread(Reporter& reporter, const UnreadResults& unread);

/// Reports how many schedules were explored, and whether something was found; nothing where no launch was explored.
void tell_exploration(Reporter& reporter, const exploration::Exploration& explored);

}  // namespace stagecraft::emulator::runtime
