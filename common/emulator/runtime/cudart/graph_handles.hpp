// Handles of graphs and nodes, and edges, for the calls of the runtime API on graphs.
#pragma once

#include <cstddef>
#include <vector>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/graphs.hpp"

namespace stagecraft::emulator::runtime {

inline cudaGraph_t handle_of(const Graph& graph) { return reinterpret_cast<cudaGraph_t>(const_cast<Graph*>(&graph)); }
inline cudaGraphNode_t handle_of(const GraphNode& node) {
  return reinterpret_cast<cudaGraphNode_t>(const_cast<GraphNode*>(&node));
}

/// The edges from `count` nodes of a graph, with their data unless that is null. Throws ApiError.
std::vector<Edge> edges_from(State& state, const Graph& graph, const cudaGraphNode_t* from,
                             const cudaGraphEdgeData* data, size_t count);

}  // namespace stagecraft::emulator::runtime
