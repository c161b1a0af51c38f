// Runs a launch, with the checks, recordings and schedules that the settings ask for.
#pragma once

#include <set>
#include <string>

#include "emulator/exploration/exploration.hpp"
#include "emulator/runtime/model/streams.hpp"
#include "emulator/runtime/model/work.hpp"

namespace stagecraft::emulator::runtime {

class Reporter;
class State;
struct CopiedNan;
struct UnreadResults;

/// Runs the kernel to its end, after its other schedules where they are explored, and reports what was found. Where it
/// was stopped, the next call that touches the device returns its error. Throws ApiError when an earlier kernel was
/// stopped.
/// @param in_graph  it is a node of a graph.
Cost run_kernel(State& state, Stream& stream, const KernelWork& work, bool in_graph);

/// Reports what nothing has read in the latest launch, for a program that ends with an error although nothing was
/// found.
void tell_unread(Reporter& reporter, const UnreadResults& unread);

/// Says once for a kernel that its setmaxnreg are ignored, if they are.
/// @param noted  kernels of which it was said
void tell_ignored_registers(Reporter& reporter, std::set<std::string>& noted, const machine::Kernel& kernel);

/// Says for such a program that results are NaN, as fresh memory is here.
/// @param global  whether global memory was checked
void tell_nan(Reporter& reporter, const CopiedNan& nan, bool global);

/// Reports how many schedules were explored, and whether something was found; nothing where no launch was explored.
void tell_exploration(Reporter& reporter, const exploration::Exploration& explored);

}  // namespace stagecraft::emulator::runtime
