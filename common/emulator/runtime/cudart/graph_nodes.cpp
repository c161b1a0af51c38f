// The runtime API: the nodes of graphs, by what they do.
#include <fmt/format.h>

#include <functional>
#include <type_traits>
#include <utility>

#include "emulator/runtime/cudart/graph_handles.hpp"
#include "emulator/runtime/model/work_parameters.hpp"
#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/submission.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// The node's work as what the call is for. Throws ApiError when it is something else.
template <typename Kind>
Kind& work_of_kind(GraphNode& node, const char* what) {
  if constexpr (std::is_same_v<Kind, Work>) {
    return node.work;
  } else {
    auto* work = std::get_if<Kind>(&node.work);
    if (work == nullptr) throw ApiError(cudaErrorInvalidValue, fmt::format("the node is none that {}", what));
    return *work;
  }
}
constexpr const char* kLaunches = "launches a kernel";
constexpr const char* kCopies = "copies memory";
constexpr const char* kFills = "sets memory";
constexpr const char* kCallsHost = "calls a host function";
constexpr const char* kHoldsGraph = "holds a graph";
constexpr const char* kAllocates = "allocates memory";
constexpr const char* kFrees = "frees memory";
constexpr const char* kRecords = "records an event";
constexpr const char* kWaits = "waits for an event";

cudaError_t add_node(const char* name, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* data, size_t count, const std::function<Work(State&)>& make) {
  return run_call(name, Needs::device, [&](State& state) {
    Graph& found = state.graphs.require(graph);
    std::vector<Edge> edges = edges_from(state, found, dependencies, data, count);
    Work work = make(state);
    check_work(state, work);
    *required(node, "pGraphNode") = handle_of(found.add(std::move(work), std::move(edges)));
  });
}

/// Gives a node other work of the same kind; `make` has what it did before.
template <typename Kind>
void change_work(State& state, GraphNode& node, const char* what,
                 const std::function<Kind(State&, const Kind&)>& make) {
  Kind& known = work_of_kind<Kind>(node, what);
  Kind changed = make(state, known);
  check_work(state, changed);
  known = std::move(changed);
}
template <typename Kind>
cudaError_t set_node(const char* name, cudaGraphNode_t node, const char* what,
                     const std::function<Kind(State&, const Kind&)>& make) {
  return run_call(name, Needs::device,
                  [&](State& state) { change_work<Kind>(state, state.graphs.require_node(node), what, make); });
}

/// The same for the executable's copy of the node.
template <typename Kind>
cudaError_t set_copy(const char* name, cudaGraphExec_t executable, cudaGraphNode_t node, const char* what,
                     const std::function<Kind(State&, const Kind&)>& make) {
  return run_call(name, Needs::device, [&](State& state) {
    const auto found = state.graphs.require_executable(executable);
    change_work<Kind>(state, state.graphs.require_copy(*found, node), what, make);
  });
}

Work same_type(Work changed, const Work& known) {
  if (changed.index() != known.index()) throw ApiError(cudaErrorInvalidValue, "the node is of another type");
  return changed;
}

template <typename Kind>
const Kind& node_work(State& state, cudaGraphNode_t node, const char* what) {
  return work_of_kind<Kind>(state.graphs.require_node(node), what);
}

cudaLaunchAttributeValue attribute_of(const KernelWork& work, cudaLaunchAttributeID id) {
  for (const cudaLaunchAttribute& attribute : work.configuration.attributes) {
    if (attribute.id == id) return attribute.val;
  }
  return {};
}

/// The same launch with an attribute added or changed.
KernelWork with_attributes(State& state, GraphNode& node, const std::vector<cudaLaunchAttribute>& added) {
  const auto& known = std::get<KernelWork>(node.work);
  std::vector<cudaLaunchAttribute> attributes = known.configuration.attributes;
  for (const cudaLaunchAttribute& attribute : added) {
    std::erase_if(attributes, [&](const cudaLaunchAttribute& other) { return other.id == attribute.id; });
    attributes.push_back(attribute);
  }
  return kernel_work(state, kernel_parameters_of(state, node), attributes);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                             const cudaGraphEdgeData* data, size_t count, cudaGraphNodeParams* parameters) {
  const cudaError_t error = add_node("cudaGraphAddNode", node, graph, dependencies, data, count,
                                     [&](State& state) { return work_of(state, *required(parameters, "nodeParams")); });
  if (error != cudaSuccess || parameters->type != cudaGraphNodeTypeConditional) return error;
  return run_call("cudaGraphAddNode", Needs::device, [&](State& state) {
    GraphNode& added = state.graphs.require_node(*node);
    for (const auto& body : std::get<ConditionalWork>(added.work).bodies) added.bodies.push_back(handle_of(*body));
    parameters->conditional.phGraph_out = added.bodies.data();
  });
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* parameters) {
  return set_node<Work>("cudaGraphNodeSetParams", node, "", [&](State& state, const Work& known) {
    return same_type(work_of(state, *required(parameters, "nodeParams"), &known), known);
  });
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                       cudaGraphNodeParams* parameters) {
  return set_copy<Work>("cudaGraphExecNodeSetParams", executable, node, "", [&](State& state, const Work& known) {
    return same_type(work_of(state, *required(parameters, "nodeParams"), &known), known);
  });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                   size_t count, const cudaKernelNodeParams* parameters) {
  return add_node("cudaGraphAddKernelNode", node, graph, dependencies, nullptr, count,
                  [&](State& state) { return kernel_work(state, *required(parameters, "pNodeParams"), {}); });
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
    condition(state, *handle) = default_value;
    found.conditions.push_back(std::move(made));
  });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* parameters) {
  return run_call("cudaGraphKernelNodeGetParams", Needs::device, [&](State& state) {
    node_work<KernelWork>(state, node, kLaunches);
    *required(parameters, "pNodeParams") = kernel_parameters_of(state, state.graphs.require_node(node));
  });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* parameters) {
  return set_node<KernelWork>(
      "cudaGraphKernelNodeSetParams", node, kLaunches, [&](State& state, const KernelWork& known) {
        return kernel_work(state, *required(parameters, "pNodeParams"), known.configuration.attributes);
      });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* parameters) {
  return set_copy<KernelWork>(
      "cudaGraphExecKernelNodeSetParams", executable, node, kLaunches, [&](State& state, const KernelWork& known) {
        return kernel_work(state, *required(parameters, "pNodeParams"), known.configuration.attributes);
      });
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                            cudaLaunchAttributeValue* value) {
  return run_call("cudaGraphKernelNodeGetAttribute", Needs::device, [&](State& state) {
    *required(value, "value_out") = attribute_of(node_work<KernelWork>(state, node, kLaunches), id);
  });
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                            const cudaLaunchAttributeValue* value) {
  return set_node<KernelWork>("cudaGraphKernelNodeSetAttribute", node, kLaunches, [&](State& state, const KernelWork&) {
    cudaLaunchAttribute attribute{};
    attribute.id = id;
    attribute.val = *required(value, "value");
    return with_attributes(state, state.graphs.require_node(node), {attribute});
  });
}

cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
  return set_node<KernelWork>("cudaGraphKernelNodeCopyAttributes", to, kLaunches, [&](State& state, const KernelWork&) {
    return with_attributes(state, state.graphs.require_node(to),
                           node_work<KernelWork>(state, from, kLaunches).configuration.attributes);
  });
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                   size_t count, const cudaMemcpy3DParms* parameters) {
  return add_node("cudaGraphAddMemcpyNode", node, graph, dependencies, nullptr, count,
                  [&](State&) { return copy_work(*required(parameters, "pCopyParams")); });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                     size_t count, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return add_node("cudaGraphAddMemcpyNode1D", node, graph, dependencies, nullptr, count,
                  [&](State&) { return CopyWork{to, {}, from, {}, {bytes}, kind}; });
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* dependencies, size_t count, const void* symbol,
                                           const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return add_node("cudaGraphAddMemcpyNodeToSymbol", node, graph, dependencies, nullptr, count, [&](State& state) {
    return CopyWork{symbol_range(state, symbol, offset, bytes), {}, from, {}, {bytes}, kind};
  });
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, size_t count, void* to,
                                             const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return add_node("cudaGraphAddMemcpyNodeFromSymbol", node, graph, dependencies, nullptr, count, [&](State& state) {
    return CopyWork{to, {}, symbol_range(state, symbol, offset, bytes), {}, {bytes}, kind};
  });
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* parameters) {
  return run_call("cudaGraphMemcpyNodeGetParams", Needs::device, [&](State& state) {
    *required(parameters, "pNodeParams") = parameters_of(node_work<CopyWork>(state, node, kCopies));
  });
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* parameters) {
  return set_node<CopyWork>("cudaGraphMemcpyNodeSetParams", node, kCopies,
                            [&](State&, const CopyWork&) { return copy_work(*required(parameters, "pNodeParams")); });
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                                           cudaMemcpyKind kind) {
  return set_node<CopyWork>("cudaGraphMemcpyNodeSetParams1D", node, kCopies,
                            [&](State&, const CopyWork&) { return CopyWork{to, {}, from, {}, {bytes}, kind}; });
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* from,
                                                 size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return set_node<CopyWork>("cudaGraphMemcpyNodeSetParamsToSymbol", node, kCopies, [&](State& state, const CopyWork&) {
    return CopyWork{symbol_range(state, symbol, offset, bytes), {}, from, {}, {bytes}, kind};
  });
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to, const void* symbol, size_t bytes,
                                                   size_t offset, cudaMemcpyKind kind) {
  return set_node<CopyWork>("cudaGraphMemcpyNodeSetParamsFromSymbol", node, kCopies,
                            [&](State& state, const CopyWork&) {
                              return CopyWork{to, {}, symbol_range(state, symbol, offset, bytes), {}, {bytes}, kind};
                            });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* parameters) {
  return set_copy<CopyWork>("cudaGraphExecMemcpyNodeSetParams", executable, node, kCopies,
                            [&](State&, const CopyWork&) { return copy_work(*required(parameters, "pNodeParams")); });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes, cudaMemcpyKind kind) {
  return set_copy<CopyWork>("cudaGraphExecMemcpyNodeSetParams1D", executable, node, kCopies,
                            [&](State&, const CopyWork&) { return CopyWork{to, {}, from, {}, {bytes}, kind}; });
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                     const void* symbol, const void* from, size_t bytes, size_t offset,
                                                     cudaMemcpyKind kind) {
  return set_copy<CopyWork>("cudaGraphExecMemcpyNodeSetParamsToSymbol", executable, node, kCopies,
                            [&](State& state, const CopyWork&) {
                              return CopyWork{symbol_range(state, symbol, offset, bytes), {}, from, {}, {bytes}, kind};
                            });
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t executable, cudaGraphNode_t node, void* to,
                                                       const void* symbol, size_t bytes, size_t offset,
                                                       cudaMemcpyKind kind) {
  return set_copy<CopyWork>("cudaGraphExecMemcpyNodeSetParamsFromSymbol", executable, node, kCopies,
                            [&](State& state, const CopyWork&) {
                              return CopyWork{to, {}, symbol_range(state, symbol, offset, bytes), {}, {bytes}, kind};
                            });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                   size_t count, const cudaMemsetParams* parameters) {
  return add_node("cudaGraphAddMemsetNode", node, graph, dependencies, nullptr, count,
                  [&](State&) { return fill_work(*required(parameters, "pMemsetParams")); });
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* parameters) {
  return run_call("cudaGraphMemsetNodeGetParams", Needs::device, [&](State& state) {
    *required(parameters, "pNodeParams") = parameters_of(node_work<FillWork>(state, node, kFills));
  });
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* parameters) {
  return set_node<FillWork>("cudaGraphMemsetNodeSetParams", node, kFills,
                            [&](State&, const FillWork&) { return fill_work(*required(parameters, "pNodeParams")); });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaMemsetParams* parameters) {
  return set_copy<FillWork>("cudaGraphExecMemsetNodeSetParams", executable, node, kFills,
                            [&](State&, const FillWork&) { return fill_work(*required(parameters, "pNodeParams")); });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                 size_t count, const cudaHostNodeParams* parameters) {
  return add_node("cudaGraphAddHostNode", node, graph, dependencies, nullptr, count, [&](State&) {
    return HostWork{required(parameters, "pNodeParams")->fn, parameters->userData};
  });
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* parameters) {
  return run_call("cudaGraphHostNodeGetParams", Needs::device, [&](State& state) {
    const auto& work = node_work<HostWork>(state, node, kCallsHost);
    *required(parameters, "pNodeParams") = {work.function, work.data};
  });
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* parameters) {
  return set_node<HostWork>("cudaGraphHostNodeSetParams", node, kCallsHost, [&](State&, const HostWork&) {
    return HostWork{required(parameters, "pNodeParams")->fn, parameters->userData};
  });
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                           const cudaHostNodeParams* parameters) {
  return set_copy<HostWork>("cudaGraphExecHostNodeSetParams", executable, node, kCallsHost,
                            [&](State&, const HostWork&) {
                              return HostWork{required(parameters, "pNodeParams")->fn, parameters->userData};
                            });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                  size_t count) {
  return add_node("cudaGraphAddEmptyNode", node, graph, dependencies, nullptr, count,
                  [](State&) { return EmptyWork{}; });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                        size_t count, cudaEvent_t event) {
  return add_node("cudaGraphAddEventRecordNode", node, graph, dependencies, nullptr, count,
                  [&](State&) { return RecordWork{event}; });
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return run_call("cudaGraphEventRecordNodeGetEvent", Needs::device, [&](State& state) {
    *required(event, "event_out") = node_work<RecordWork>(state, node, kRecords).event;
  });
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return set_node<RecordWork>("cudaGraphEventRecordNodeSetEvent", node, kRecords,
                              [&](State&, const RecordWork&) { return RecordWork{event}; });
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event) {
  return set_copy<RecordWork>("cudaGraphExecEventRecordNodeSetEvent", executable, node, kRecords,
                              [&](State&, const RecordWork&) { return RecordWork{event}; });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                      size_t count, cudaEvent_t event) {
  return add_node("cudaGraphAddEventWaitNode", node, graph, dependencies, nullptr, count,
                  [&](State&) { return WaitWork{event}; });
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return run_call("cudaGraphEventWaitNodeGetEvent", Needs::device, [&](State& state) {
    *required(event, "event_out") = node_work<WaitWork>(state, node, kWaits).event;
  });
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return set_node<WaitWork>("cudaGraphEventWaitNodeSetEvent", node, kWaits,
                            [&](State&, const WaitWork&) { return WaitWork{event}; });
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event) {
  return set_copy<WaitWork>("cudaGraphExecEventWaitNodeSetEvent", executable, node, kWaits,
                            [&](State&, const WaitWork&) { return WaitWork{event}; });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                       size_t count, cudaGraph_t child) {
  return add_node("cudaGraphAddChildGraphNode", node, graph, dependencies, nullptr, count, [&](State& state) {
    NodeMap copies;
    return ChildWork{state.graphs.require(child).clone(copies)};
  });
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return run_call("cudaGraphChildGraphNodeGetGraph", Needs::device, [&](State& state) {
    *required(graph, "pGraph") = handle_of(*node_work<ChildWork>(state, node, kHoldsGraph).graph);
  });
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraph_t child) {
  return run_call("cudaGraphExecChildGraphNodeSetParams", Needs::device, [&](State& state) {
    const auto found = state.graphs.require_executable(executable);
    const auto& known = work_of_kind<ChildWork>(state.graphs.require_copy(*found, node), kHoldsGraph);
    cudaGraphExecUpdateResultInfo info{};
    update(*known.graph, state.graphs.require(child), info);
  });
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                     size_t count, cudaMemAllocNodeParams* parameters) {
  return add_node("cudaGraphAddMemAllocNode", node, graph, dependencies, nullptr, count,
                  [&](State& state) { return allocate_work(state, *required(parameters, "nodeParams")); });
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* parameters) {
  return run_call("cudaGraphMemAllocNodeGetParams", Needs::device, [&](State& state) {
    *required(parameters, "params_out") = node_work<AllocateWork>(state, node, kAllocates).parameters;
  });
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                    size_t count, void* pointer) {
  return add_node("cudaGraphAddMemFreeNode", node, graph, dependencies, nullptr, count, [&](State& state) {
    if (!state.graphs.memory.contains(reinterpret_cast<uint64_t>(pointer))) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("{} is no memory that a graph allocates", fmt::ptr(pointer)));
    }
    return FreeWork{pointer};
  });
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
  return run_call("cudaGraphMemFreeNodeGetParams", Needs::device, [&](State& state) {
    *static_cast<void**>(required(pointer, "dptr_out")) = node_work<FreeWork>(state, node, kFrees).pointer;
  });
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return run_call("cudaDeviceGetGraphMemAttribute", Needs::device, [&](State& state) {
    check_device(device);
    uint64_t used = 0, reserved = 0;
    for (const auto& [address, memory] : state.graphs.memory) {
      reserved += memory->bytes;
      if (memory->is_live) used += memory->bytes;
    }
    state.graphs.used_high = std::max(state.graphs.used_high, used);
    state.graphs.reserved_high = std::max(state.graphs.reserved_high, reserved);
    auto& answer = *static_cast<uint64_t*>(required(value, "value"));
    switch (attribute) {
      case cudaGraphMemAttrUsedMemCurrent: answer = used; return;
      case cudaGraphMemAttrUsedMemHigh: answer = state.graphs.used_high; return;
      case cudaGraphMemAttrReservedMemCurrent: answer = reserved; return;
      case cudaGraphMemAttrReservedMemHigh: answer = state.graphs.reserved_high; return;
    }
    throw ApiError(cudaErrorInvalidValue, fmt::format("there is no attribute {}", static_cast<int>(attribute)));
  });
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return run_call("cudaDeviceSetGraphMemAttribute", Needs::device, [&](State& state) {
    check_device(device);
    if ((attribute != cudaGraphMemAttrUsedMemHigh && attribute != cudaGraphMemAttrReservedMemHigh) ||
        *static_cast<const uint64_t*>(required(value, "value")) != 0) {
      throw ApiError(cudaErrorInvalidValue, "only the two high marks can be set, and only to 0");
    }
    (attribute == cudaGraphMemAttrUsedMemHigh ? state.graphs.used_high : state.graphs.reserved_high) = 0;
  });
}

// Memory of graphs goes back to the device when its last graph is destroyed.
cudaError_t cudaDeviceGraphMemTrim(int device) {
  return run_call("cudaDeviceGraphMemTrim", Needs::device, [&](State&) { check_device(device); });
}

}  // extern "C"
