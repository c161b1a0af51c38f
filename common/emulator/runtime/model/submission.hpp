// What becomes of a work: it is checked, and then done at once or added to the graph that the stream is captured into.
#pragma once

#include "emulator/runtime/model/graphs.hpp"
#include "emulator/runtime/model/streams.hpp"
#include "emulator/runtime/model/work.hpp"

namespace stagecraft::emulator::runtime {

class State;

/// Throws ApiError when the work cannot be done as described.
void check_work(State& state, const Work& work);
/// Does the same for the works of all nodes of the graph.
void check_works(State& state, const Graph& graph);
/// Does the work now. Host functions and graphs inside graphs are left to the caller, which runs them outside of the
/// lock.
/// @param in_graph  it is the work of a graph's node.
void perform(State& state, Stream& stream, const Work& work, bool in_graph);
/// Does the work in the stream now, or adds it to the graph that the stream is captured into. Records the events that a
/// launch's attributes ask for (programmatic event, launch completion event).
void submit(State& state, cudaStream_t stream, Work work);
/// Does so with a launch, in the stream of its configuration.
void submit(State& state, KernelWork work);
/// Checks the work, adds it to the graph that the stream is captured into, and returns its node; null when the stream
/// is not captured.
GraphNode* capture_work(State& state, Stream& stream, const Work& work);

}  // namespace stagecraft::emulator::runtime
