// What the calls of the runtime API on nodes of graphs have in common: a call adds a node, changes the work of a node,
// or changes it in an executable graph's copy of the node.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <type_traits>
#include <utility>
#include <variant>

#include "emulator/runtime/cudart/graph_handles.hpp"
#include "emulator/runtime/model/submission.hpp"

namespace stagecraft::emulator::runtime {

/// What a node with this kind of work does, for the message of a call that is for another kind.
template <typename Kind>
inline constexpr const char* kPurpose = nullptr;
template <>
inline constexpr const char* kPurpose<KernelWork> = "launches a kernel";
template <>
inline constexpr const char* kPurpose<CopyWork> = "copies memory";
template <>
inline constexpr const char* kPurpose<FillWork> = "sets memory";
template <>
inline constexpr const char* kPurpose<HostWork> = "calls a host function";
template <>
inline constexpr const char* kPurpose<ChildWork> = "holds a graph";
template <>
inline constexpr const char* kPurpose<AllocateWork> = "allocates memory";
template <>
inline constexpr const char* kPurpose<FreeWork> = "frees memory";
template <>
inline constexpr const char* kPurpose<RecordWork> = "records an event";
template <>
inline constexpr const char* kPurpose<WaitWork> = "waits for an event";

/// The node's work as the kind that the call is for; Work is any kind. Throws ApiError when it is of another kind.
template <typename Kind>
Kind& work_of_kind(GraphNode& node) {
  if constexpr (std::is_same_v<Kind, Work>) {
    return node.work;
  } else {
    auto* work = std::get_if<Kind>(&node.work);
    if (work == nullptr) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("the node is not one that {}", kPurpose<Kind>));
    }
    return *work;
  }
}

template <typename Kind>
const Kind& node_work(State& state, cudaGraphNode_t node) {
  return work_of_kind<Kind>(state.graphs.require_node(node));
}

/// Makes a work from what the call was given. `before` is the work of the node so far, a default one for a new node.
template <typename Kind>
using Make = std::function<Kind(State&, const Kind& before)>;

template <typename Kind>
cudaError_t add_node(const char* name, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* data, size_t count, const Make<Kind>& make) {
  return run_call(name, Needs::device, [&](State& state) {
    Graph& found = state.graphs.require(graph);
    std::vector<Edge> edges = edges_from(state, found, dependencies, data, count);
    Work work = make(state, Kind{});
    check_work(state, work);
    *required(node, "pGraphNode") = handle_of(found.add(std::move(work), std::move(edges)));
  });
}

template <typename Kind>
void change_work(State& state, GraphNode& node, const Make<Kind>& make) {
  Kind& known = work_of_kind<Kind>(node);
  Kind changed = make(state, known);
  check_work(state, changed);
  known = std::move(changed);
}

/// Replaces the work of a node by another of the same kind.
template <typename Kind>
cudaError_t set_node(const char* name, cudaGraphNode_t node, const Make<Kind>& make) {
  return run_call(name, Needs::device,
                  [&](State& state) { change_work<Kind>(state, state.graphs.require_node(node), make); });
}

/// Does the same for the executable's copy of the node.
template <typename Kind>
cudaError_t set_copy(const char* name, cudaGraphExec_t executable, cudaGraphNode_t node, const Make<Kind>& make) {
  return run_call(name, Needs::device, [&](State& state) {
    const auto found = state.graphs.require_executable(executable);
    change_work<Kind>(state, state.graphs.require_copy(*found, node), make);
  });
}

}  // namespace stagecraft::emulator::runtime
