// The runtime API: nodes of graphs of any kind, and those that call the host, record events, wait for them, do nothing
// or hold a graph.
#include "emulator/runtime/cudart/graph_node_calls.hpp"
#include "emulator/runtime/model/work_parameters.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Work of any kind, which must be the kind of the node.
Make<Work> work_from(cudaGraphNodeParams* parameters) {
  return [=](State& state, const Work& before) {
    Work changed = work_of(state, *required(parameters, "nodeParams"), &before);
    if (changed.index() != before.index()) throw ApiError(cudaErrorInvalidValue, "the node is of another type");
    return changed;
  };
}

Make<HostWork> host_from(const cudaHostNodeParams* parameters) {
  return [=](State&, const HostWork&) {
    return HostWork{required(parameters, "pNodeParams")->fn, parameters->userData};
  };
}

/// RecordWork or WaitWork with this event.
template <typename Kind>
Make<Kind> with_event(cudaEvent_t event) {
  return [=](State&, const Kind&) { return Kind{event}; };
}

template <typename Kind>
cudaError_t get_event(const char* name, cudaGraphNode_t node, cudaEvent_t* event) {
  return run_call(name, Needs::device,
                  [&](State& state) { *required(event, "event_out") = node_work<Kind>(state, node).event; });
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

// ---- Any kind ----

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                             const cudaGraphEdgeData* data, size_t count, cudaGraphNodeParams* parameters) {
  const cudaError_t error =
      add_node<Work>("cudaGraphAddNode", node, graph, dependencies, data, count,
                     [&](State& state, const Work&) { return work_of(state, *required(parameters, "nodeParams")); });
  if (error != cudaSuccess || parameters->type != cudaGraphNodeTypeConditional) return error;
  return run_call("cudaGraphAddNode", Needs::device, [&](State& state) {
    GraphNode& added = state.graphs.require_node(*node);
    for (const auto& body : std::get<ConditionalWork>(added.work).bodies) added.bodies.push_back(handle_of(*body));
    parameters->conditional.phGraph_out = added.bodies.data();
  });
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* parameters) {
  return set_node("cudaGraphNodeSetParams", node, work_from(parameters));
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                       cudaGraphNodeParams* parameters) {
  return set_copy("cudaGraphExecNodeSetParams", executable, node, work_from(parameters));
}

// ---- Calls of the host ----

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                 size_t count, const cudaHostNodeParams* parameters) {
  return add_node("cudaGraphAddHostNode", node, graph, dependencies, nullptr, count, host_from(parameters));
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* parameters) {
  return run_call("cudaGraphHostNodeGetParams", Needs::device, [&](State& state) {
    const auto& work = node_work<HostWork>(state, node);
    *required(parameters, "pNodeParams") = {work.function, work.data};
  });
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* parameters) {
  return set_node("cudaGraphHostNodeSetParams", node, host_from(parameters));
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                           const cudaHostNodeParams* parameters) {
  return set_copy("cudaGraphExecHostNodeSetParams", executable, node, host_from(parameters));
}

// ---- Events ----

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                        size_t count, cudaEvent_t event) {
  return add_node("cudaGraphAddEventRecordNode", node, graph, dependencies, nullptr, count,
                  with_event<RecordWork>(event));
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return get_event<RecordWork>("cudaGraphEventRecordNodeGetEvent", node, event);
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return set_node("cudaGraphEventRecordNodeSetEvent", node, with_event<RecordWork>(event));
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event) {
  return set_copy("cudaGraphExecEventRecordNodeSetEvent", executable, node, with_event<RecordWork>(event));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                      size_t count, cudaEvent_t event) {
  return add_node("cudaGraphAddEventWaitNode", node, graph, dependencies, nullptr, count, with_event<WaitWork>(event));
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return get_event<WaitWork>("cudaGraphEventWaitNodeGetEvent", node, event);
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return set_node("cudaGraphEventWaitNodeSetEvent", node, with_event<WaitWork>(event));
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event) {
  return set_copy("cudaGraphExecEventWaitNodeSetEvent", executable, node, with_event<WaitWork>(event));
}

// ---- Empty nodes, graphs inside graphs, conditions ----

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                  size_t count) {
  return add_node<EmptyWork>("cudaGraphAddEmptyNode", node, graph, dependencies, nullptr, count,
                             [](State&, const EmptyWork& before) { return before; });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                       size_t count, cudaGraph_t child) {
  return add_node<ChildWork>("cudaGraphAddChildGraphNode", node, graph, dependencies, nullptr, count,
                             [&](State& state, const ChildWork&) {
                               NodeMap copies;
                               return ChildWork{state.graphs.require(child).clone(copies)};
                             });
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return run_call("cudaGraphChildGraphNodeGetGraph", Needs::device, [&](State& state) {
    *required(graph, "pGraph") = handle_of(*node_work<ChildWork>(state, node).graph);
  });
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraph_t child) {
  return run_call("cudaGraphExecChildGraphNodeSetParams", Needs::device, [&](State& state) {
    const auto found = state.graphs.require_executable(executable);
    const auto& known = work_of_kind<ChildWork>(state.graphs.require_copy(*found, node));
    cudaGraphExecUpdateResultInfo info{};
    update(*known.graph, state.graphs.require(child), info);
  });
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph,
                                             unsigned default_value, unsigned flags) {
  return run_call("cudaGraphConditionalHandleCreate", Needs::device, [&](State& state) {
    if (flags > cudaGraphCondAssignDefault) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("flags are {}; legal are 0 and cudaGraphCondAssignDefault", flags));
    }
    Graph& found = state.graphs.require(graph);
    Condition made{std::make_shared<GraphMemory>(state, sizeof(uint32_t)), default_value, flags != 0};
    *required(handle, "pHandle_out") = reinterpret_cast<cudaGraphConditionalHandle>(made.memory->address);
    condition(state.graphs, *handle) = default_value;
    found.conditions.push_back(std::move(made));
  });
}

}  // extern "C"
