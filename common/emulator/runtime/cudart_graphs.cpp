// The runtime API: graphs, and capturing streams into them.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <type_traits>
#include <utility>

#include "emulator/runtime/graph_parameters.hpp"
#include "emulator/runtime/graphs.hpp"
#include "emulator/runtime/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

cudaGraph_t handle_of(const Graph& graph) { return reinterpret_cast<cudaGraph_t>(const_cast<Graph*>(&graph)); }
cudaGraphNode_t handle_of(const GraphNode& node) {
  return reinterpret_cast<cudaGraphNode_t>(const_cast<GraphNode*>(&node));
}

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

std::vector<Edge> edges_from(State& state, const Graph& graph, const cudaGraphNode_t* from,
                             const cudaGraphEdgeData* data, size_t count) {
  std::vector<Edge> edges;
  for (size_t index = 0; index < count; ++index) {
    GraphNode& node = state.graphs.require_node(required(from, "pDependencies")[index]);
    if (node.graph != &graph) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("dependency {} is a node of another graph", index));
    }
    edges.push_back({&node, data == nullptr ? cudaGraphEdgeData{} : data[index]});
  }
  return edges;
}

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
cudaError_t set_node(const char* name, cudaGraphNode_t node, const char* what,
                     const std::function<Kind(State&, const Kind&)>& make) {
  return run_call(name, Needs::device, [&](State& state) {
    Kind& known = work_of_kind<Kind>(state.graphs.require_node(node), what);
    Kind changed = make(state, known);
    check_work(state, changed);
    known = std::move(changed);
  });
}

/// The same for the executable's copy of the node.
template <typename Kind>
cudaError_t set_copy(const char* name, cudaGraphExec_t executable, cudaGraphNode_t node, const char* what,
                     const std::function<Kind(State&, const Kind&)>& make) {
  return run_call(name, Needs::device, [&](State& state) {
    const auto found = state.graphs.require_executable(executable);
    Kind& known = work_of_kind<Kind>(state.graphs.require_copy(*found, node), what);
    Kind changed = make(state, known);
    check_work(state, changed);
    known = std::move(changed);
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

/// Answers as the API's lists do: how many there are, or as many as fit.
void tell_list(const std::vector<cudaGraphNode_t>& all, cudaGraphNode_t* out, size_t* count) {
  required(count, "the number of nodes");
  if (out != nullptr) {
    for (size_t index = 0; index < *count; ++index) out[index] = index < all.size() ? all[index] : nullptr;
  }
  *count = out == nullptr ? all.size() : std::min(*count, all.size());
}

void tell_edges(const std::vector<Edge>& edges, cudaGraphNode_t* out, cudaGraphEdgeData* data, size_t* count) {
  std::vector<cudaGraphNode_t> nodes;
  for (const Edge& edge : edges) nodes.push_back(handle_of(*edge.from));
  tell_list(nodes, out, count);
  if (data == nullptr || out == nullptr) return;
  for (size_t index = 0; index < *count; ++index) data[index] = edges[index].data;
}

cudaError_t instantiate_for(const char* name, cudaGraphExec_t* executable, cudaGraph_t graph,
                            unsigned long long flags) {
  return run_call(name, Needs::device, [&](State& state) {
    constexpr unsigned long long kLegal = cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload |
                                          cudaGraphInstantiateFlagUseNodePriority;
    if ((flags & cudaGraphInstantiateFlagDeviceLaunch) != 0) {
      throw ApiError(cudaErrorNotSupported, "graphs cannot be launched from kernels of the emulated GPU");
    }
    if ((flags & ~kLegal) != 0) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("flags 0x{:x}; legal are those of 0x{:x}", flags, kLegal));
    }
    required(executable, "pGraphExec");
    *executable = reinterpret_cast<cudaGraphExec_t>(
        &state.graphs.add_executable(instantiate(state, state.graphs.require(graph), flags)));
  });
}

/// Lets the work of `to` be that of `from`, a graph of the same shape. Throws ApiError and says why.
void update(const Graph& to, const Graph& from, cudaGraphExecUpdateResultInfo& info) {
  const auto refuse = [&](cudaGraphExecUpdateResult result, const GraphNode* node, std::string message) {
    info.result = result;
    info.errorNode = node == nullptr ? nullptr : handle_of(*node);
    throw ApiError(cudaErrorGraphExecUpdateFailure, std::move(message));
  };
  if (to.nodes().size() != from.nodes().size()) {
    refuse(cudaGraphExecUpdateErrorTopologyChanged, nullptr,
           fmt::format("the graph has {} nodes, the executable {}", from.nodes().size(), to.nodes().size()));
  }
  // Nodes correspond in the order in which they were made.
  std::unordered_map<const GraphNode*, size_t> number;
  for (size_t index = 0; index < to.nodes().size(); ++index) {
    number[to.nodes()[index].get()] = number[from.nodes()[index].get()] = index;
  }
  const auto numbers = [&](const GraphNode& node) {
    std::vector<size_t> result;
    for (const Edge& edge : node.dependencies) result.push_back(number.at(edge.from));
    std::sort(result.begin(), result.end());
    return result;
  };
  for (size_t index = 0; index < to.nodes().size(); ++index) {
    const GraphNode& target = *to.nodes()[index];
    const GraphNode& source = *from.nodes()[index];
    if (target.work.index() != source.work.index()) {
      refuse(cudaGraphExecUpdateErrorNodeTypeChanged, &source, fmt::format("node {} is of another type", index));
    }
    if (numbers(target) != numbers(source)) {
      refuse(cudaGraphExecUpdateErrorTopologyChanged, &source,
             fmt::format("node {} depends on other nodes than in the executable", index));
    }
    const auto* allocation = std::get_if<AllocateWork>(&source.work);
    if (allocation != nullptr && allocation->memory != std::get<AllocateWork>(target.work).memory) {
      refuse(cudaGraphExecUpdateErrorNotSupported, &source, "nodes that allocate memory cannot be updated");
    }
  }
  for (size_t index = 0; index < to.nodes().size(); ++index) {
    GraphNode& target = *to.nodes()[index];
    const GraphNode& source = *from.nodes()[index];
    if (const auto* child = std::get_if<ChildWork>(&source.work)) {
      update(*std::get<ChildWork>(target.work).graph, *child->graph, info);
    } else {
      target.work = source.work;
    }
  }
}

const char* name_of(const Work& work) {
  constexpr const char* kNames[] = {"empty", "kernel", "memcpy", "memset", "host",       "record",
                                    "wait",  "alloc",  "free",   "graph",  "conditional"};
  return kNames[work.index()];
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

/// Frees what earlier launches have allocated and nobody has freed.
void free_all(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (const auto* allocation = std::get_if<AllocateWork>(&node->work)) allocation->memory->is_live = false;
    if (const auto* child = std::get_if<ChildWork>(&node->work)) free_all(*child->graph);
  }
}

cudaError_t run_graph(const Graph& graph, cudaStream_t stream);

/// The graph that the value of a conditional node chooses, as long as it does.
cudaError_t run_conditional(const ConditionalWork& work, cudaStream_t stream) {
  while (true) {
    uint32_t value = 0;
    cudaError_t error =
        run_call("cudaGraphLaunch", Needs::device, [&](State& state) { value = condition(state, work.handle); });
    if (error != cudaSuccess) return error;
    const bool is_switch = work.type == cudaGraphCondTypeSwitch;
    const bool is_while = work.type == cudaGraphCondTypeWhile;
    if (is_while && value == 0) return cudaSuccess;
    const size_t chosen = is_switch ? value : value != 0 ? 0 : 1;
    if (chosen >= work.bodies.size()) return cudaSuccess;
    error = run_graph(*work.bodies[chosen], stream);
    if (error != cudaSuccess || !is_while) return error;
  }
}

/// Not under the lock as a whole: host functions may wait for another thread that calls CUDA.
cudaError_t run_graph(const Graph& graph, cudaStream_t stream) {
  std::vector<GraphNode*> order;
  cudaError_t error = run_call("cudaGraphLaunch", Needs::device, [&](State& state) {
    order = graph.order();
    for (const Condition& each : graph.conditions) {
      if (each.is_assigned) {
        condition(state, reinterpret_cast<cudaGraphConditionalHandle>(each.memory->address)) = each.default_value;
      }
    }
  });
  for (const GraphNode* node : order) {
    if (error != cudaSuccess) break;
    if (!node->is_enabled) continue;
    if (const auto* host = std::get_if<HostWork>(&node->work)) {
      host->function(host->data);
    } else if (const auto* child = std::get_if<ChildWork>(&node->work)) {
      error = run_graph(*child->graph, stream);
    } else if (const auto* conditional = std::get_if<ConditionalWork>(&node->work)) {
      error = run_conditional(*conditional, stream);
    } else {
      error = run_call("cudaGraphLaunch", Needs::device,
                       [&](State& state) { perform(state, state.streams.require(stream), node->work); });
    }
  }
  return error;
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

// ---- Capture
// ----------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return run_call("cudaStreamBeginCapture", Needs::device, [&](State& state) {
    if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("mode {}; legal are 0 to 2", static_cast<int>(mode)));
    }
    state.streams.begin_capture(state.streams.require(stream), mode, nullptr, {});
  });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                          const cudaGraphEdgeData* data, size_t count, cudaStreamCaptureMode mode) {
  return run_call("cudaStreamBeginCaptureToGraph", Needs::device, [&](State& state) {
    Graph& found = state.graphs.require(graph);
    std::vector<GraphNode*> front;
    for (const Edge& edge : edges_from(state, found, dependencies, data, count)) front.push_back(edge.from);
    state.streams.begin_capture(state.streams.require(stream), mode, &found, std::move(front));
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return run_call("cudaStreamEndCapture", Needs::device, [&](State& state) {
    if (graph != nullptr) *graph = nullptr;
    Graph* captured = nullptr;
    std::shared_ptr<Graph> made = state.streams.end_capture(state.streams.require(stream), captured);
    // Who captured into a graph of his own need not ask for it.
    if (made != nullptr) required(graph, "pGraph");
    if (made != nullptr) state.graphs.add(std::move(made));
    if (graph != nullptr) *graph = handle_of(*captured);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  return run_call("cudaStreamGetCaptureInfo", Needs::device, [&](State& state) {
    Stream& found = state.streams.require(stream);
    const Capture* capture = found.capture;
    if (capture == nullptr) state.streams.forbid_implicit_order(found);
    *required(status, "captureStatus_out") = capture == nullptr    ? cudaStreamCaptureStatusNone
                                             : capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                                                   : cudaStreamCaptureStatusActive;
    if (*status != cudaStreamCaptureStatusActive) return;
    if (id != nullptr) *id = capture->id;
    if (graph != nullptr) *graph = handle_of(*capture->graph);
    // Lists of the stream's own, which stay as they are until the next call that concerns it.
    found.captured_edges.assign(found.captured_front.size(), {});
    if (dependencies != nullptr) *dependencies = reinterpret_cast<cudaGraphNode_t*>(found.captured_front.data());
    if (edges != nullptr) *edges = found.captured_edges.data();
    if (count != nullptr) *count = found.captured_front.size();
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                const cudaGraphEdgeData* data, size_t count, unsigned flags) {
  return run_call("cudaStreamUpdateCaptureDependencies", Needs::device, [&](State& state) {
    Stream& found = state.streams.require_for_work(stream);
    if (found.capture == nullptr) throw ApiError(cudaErrorIllegalState, "the stream is not being captured");
    if (flags > cudaStreamSetCaptureDependencies) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("flags are {}; legal are 0 (add) and 1 (set)", flags));
    }
    if (flags == cudaStreamSetCaptureDependencies) found.captured_front.clear();
    for (const Edge& edge : edges_from(state, *found.capture->graph, dependencies, data, count)) {
      found.captured_front.push_back(edge.from);
    }
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return run_call("cudaThreadExchangeStreamCaptureMode", Needs::nothing,
                  [&](State&) { std::swap(Streams::thread_capture_mode(), *required(mode, "mode")); });
}

// ---- Graphs and their nodes
// -------------------------------------------------------------------------------------------

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return run_call("cudaGraphCreate", Needs::device, [&](State& state) {
    if (flags != 0) throw ApiError(cudaErrorInvalidValue, fmt::format("flags are {}; legal is 0", flags));
    *required(graph, "pGraph") = handle_of(state.graphs.add(std::make_shared<Graph>()));
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return run_call("cudaGraphDestroy", Needs::nothing, [&](State& state) { state.graphs.destroy(graph); });
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  return run_call("cudaGraphClone", Needs::device, [&](State& state) {
    NodeMap copies;
    Graph& made = state.graphs.add(state.graphs.require(original).clone(copies));
    made.clones_of = std::move(copies);
    *required(clone, "pGraphClone") = handle_of(made);
  });
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone) {
  return run_call("cudaGraphNodeFindInClone", Needs::device, [&](State& state) {
    const Graph& found = state.graphs.require(clone);
    const auto copy = found.clones_of.find(reinterpret_cast<const GraphNode*>(original));
    if (copy == found.clones_of.end()) {
      throw ApiError(cudaErrorInvalidValue, "the graph is no clone of the one that the node is of");
    }
    *required(node, "pNode") = handle_of(*copy->second);
  });
}

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

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return run_call("cudaGraphNodeGetType", Needs::device,
                  [&](State& state) { *required(type, "pType") = type_of(state.graphs.require_node(node).work); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return run_call("cudaGraphGetNodes", Needs::device, [&](State& state) {
    std::vector<cudaGraphNode_t> all;
    for (const auto& node : state.graphs.require(graph).nodes()) all.push_back(handle_of(*node));
    tell_list(all, nodes, count);
  });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return run_call("cudaGraphGetRootNodes", Needs::device, [&](State& state) {
    std::vector<cudaGraphNode_t> all;
    for (const auto& node : state.graphs.require(graph).nodes()) {
      if (node->dependencies.empty()) all.push_back(handle_of(*node));
    }
    tell_list(all, nodes, count);
  });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data,
                              size_t* count) {
  return run_call("cudaGraphGetEdges", Needs::device, [&](State& state) {
    std::vector<Edge> edges;
    std::vector<cudaGraphNode_t> ends;
    for (const auto& node : state.graphs.require(graph).nodes()) {
      for (const Edge& edge : node->dependencies) {
        edges.push_back(edge);
        ends.push_back(handle_of(*node));
      }
    }
    if ((from == nullptr) != (to == nullptr)) {
      throw ApiError(cudaErrorInvalidValue, "from and to are both given, or both null");
    }
    size_t given = *required(count, "numEdges");
    tell_edges(edges, from, data, count);
    tell_list(ends, to, &given);
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies, cudaGraphEdgeData* data,
                                         size_t* count) {
  return run_call("cudaGraphNodeGetDependencies", Needs::device, [&](State& state) {
    tell_edges(state.graphs.require_node(node).dependencies, dependencies, data, count);
  });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* dependents, cudaGraphEdgeData* data,
                                           size_t* count) {
  return run_call("cudaGraphNodeGetDependentNodes", Needs::device, [&](State& state) {
    const GraphNode& found = state.graphs.require_node(node);
    std::vector<Edge> edges;
    for (const auto& other : found.graph->nodes()) {
      for (const Edge& edge : other->dependencies) {
        if (edge.from == &found) edges.push_back({other.get(), edge.data});
      }
    }
    tell_edges(edges, dependents, data, count);
  });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData* data, size_t count) {
  return run_call("cudaGraphAddDependencies", Needs::device, [&](State& state) {
    const Graph& found = state.graphs.require(graph);
    const std::vector<Edge> sources = edges_from(state, found, from, data, count);
    const std::vector<Edge> targets = edges_from(state, found, to, nullptr, count);
    for (size_t index = 0; index < count; ++index) {
      std::vector<Edge>& known = targets[index].from->dependencies;
      if (std::any_of(known.begin(), known.end(), [&](const Edge& edge) { return edge.from == sources[index].from; })) {
        throw ApiError(cudaErrorInvalidValue, fmt::format("dependency {} is there already", index));
      }
      known.push_back(sources[index]);
    }
  });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                        const cudaGraphEdgeData*, size_t count) {
  return run_call("cudaGraphRemoveDependencies", Needs::device, [&](State& state) {
    const Graph& found = state.graphs.require(graph);
    const std::vector<Edge> sources = edges_from(state, found, from, nullptr, count);
    const std::vector<Edge> targets = edges_from(state, found, to, nullptr, count);
    for (size_t index = 0; index < count; ++index) {
      if (std::erase_if(targets[index].from->dependencies,
                        [&](const Edge& edge) { return edge.from == sources[index].from; }) == 0) {
        throw ApiError(cudaErrorInvalidValue, fmt::format("dependency {} is not there", index));
      }
    }
  });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return run_call("cudaGraphDestroyNode", Needs::device, [&](State& state) {
    GraphNode& found = state.graphs.require_node(node);
    found.graph->remove(found);
  });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  return run_call("cudaGraphDebugDotPrint", Needs::device, [&](State& state) {
    const Graph& found = state.graphs.require(graph);
    std::ofstream file(required(path, "path"));
    file << "digraph graph_of_the_program {\n";
    for (const auto& node : found.nodes()) {
      const auto* kernel = std::get_if<KernelWork>(&node->work);
      file << fmt::format("  \"{}\" [label=\"{}\"];\n", fmt::ptr(node.get()),
                          kernel == nullptr ? name_of(node->work) : kernel->function->name.c_str());
      for (const Edge& edge : node->dependencies) {
        file << fmt::format("  \"{}\" -> \"{}\";\n", fmt::ptr(edge.from), fmt::ptr(node.get()));
      }
    }
    file << "}\n";
    file.close();
    if (!file) throw ApiError(cudaErrorOperatingSystem, fmt::format("{} cannot be written", path));
  });
}

// ---- Executables
// ------------------------------------------------------------------------------------------------------

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return instantiate_for("cudaGraphInstantiate", executable, graph, flags);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return instantiate_for("cudaGraphInstantiateWithFlags", executable, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* executable, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* parameters) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  const cudaError_t error = instantiate_for("cudaGraphInstantiateWithParams", executable, graph, parameters->flags);
  parameters->errNode_out = nullptr;
  parameters->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
  return error;
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t executable, unsigned long long* flags) {
  return run_call("cudaGraphExecGetFlags", Needs::device, [&](State& state) {
    *required(flags, "flags") = state.graphs.require_executable(executable)->flags;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return run_call("cudaGraphExecDestroy", Needs::nothing,
                  [&](State& state) { state.graphs.destroy_executable(executable); });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return run_call("cudaGraphUpload", Needs::device, [&](State& state) {
    state.graphs.require_executable(executable);
    state.streams.require_for_work(stream);
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  std::shared_ptr<GraphExecutable> found;
  bool is_captured = false;
  const cudaError_t error = run_call("cudaGraphLaunch", Needs::device, [&](State& state) {
    Stream& target = state.streams.require_for_work(stream);
    found = state.graphs.require_executable(executable);
    is_captured = target.capture != nullptr;
    if (is_captured) {
      NodeMap copies;
      capture_work(state, target, ChildWork{found->graph->clone(copies)});
    } else if ((found->flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0) {
      free_all(*found->graph);
    }
  });
  return error != cudaSuccess || is_captured ? error : run_graph(*found->graph, stream);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result) {
  return run_call("cudaGraphExecUpdate", Needs::device, [&](State& state) {
    cudaGraphExecUpdateResultInfo ignored{};
    cudaGraphExecUpdateResultInfo& info = result == nullptr ? ignored : *result;
    info = {};
    info.result = cudaGraphExecUpdateError;
    const auto found = state.graphs.require_executable(executable);
    const Graph& wanted = state.graphs.require(graph);
    for (const auto& node : wanted.nodes()) check_work(state, node->work);
    update(*found->graph, wanted, info);
    info.result = cudaGraphExecUpdateSuccess;
  });
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned is_enabled) {
  return run_call("cudaGraphNodeSetEnabled", Needs::device, [&](State& state) {
    GraphNode& found = state.graphs.require_copy(*state.graphs.require_executable(executable), node);
    const cudaGraphNodeType type = type_of(found.work);
    if (type != cudaGraphNodeTypeKernel && type != cudaGraphNodeTypeMemcpy && type != cudaGraphNodeTypeMemset) {
      throw ApiError(cudaErrorInvalidValue, "only nodes that launch kernels, copy or set memory can be switched off");
    }
    found.is_enabled = is_enabled != 0;
  });
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned* is_enabled) {
  return run_call("cudaGraphNodeGetEnabled", Needs::device, [&](State& state) {
    *required(is_enabled, "isEnabled") =
        state.graphs.require_copy(*state.graphs.require_executable(executable), node).is_enabled;
  });
}

// ---- User objects
// -----------------------------------------------------------------------------------------------------

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy, unsigned references,
                                 unsigned flags) {
  return run_call("cudaUserObjectCreate", Needs::device, [&](State& state) {
    if (flags != cudaUserObjectNoDestructorSync || references == 0) {
      throw ApiError(cudaErrorInvalidValue,
                     "the flags must be cudaUserObjectNoDestructorSync, and there is at least one reference");
    }
    required(reinterpret_cast<void*>(destroy), "destroy");
    required(object, "object_out");
    auto made = std::make_shared<UserObject>();
    made->object = pointer;
    made->destroy = destroy;
    *object = reinterpret_cast<cudaUserObject_t>(made.get());
    state.graphs.user_objects[*object].assign(references, std::move(made));
  });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return run_call("cudaUserObjectRetain", Needs::device, [&](State& state) {
    auto& references = state.graphs.require_references(object, 1);
    references.insert(references.end(), count, std::shared_ptr<UserObject>(references.front()));
  });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return run_call("cudaUserObjectRelease", Needs::device, [&](State& state) {
    auto& references = state.graphs.require_references(object, count);
    references.resize(references.size() - count);
    if (references.empty()) state.graphs.user_objects.erase(object);
  });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags) {
  return run_call("cudaGraphRetainUserObject", Needs::device, [&](State& state) {
    Graph& found = state.graphs.require(graph);
    const bool moves = flags == cudaGraphUserObjectMove;
    auto& references = state.graphs.require_references(object, moves ? count : 1);
    auto& kept = found.user_objects[references.front().get()];
    kept.insert(kept.end(), count, references.front());
    if (!moves) return;
    references.resize(references.size() - count);
    if (references.empty()) state.graphs.user_objects.erase(object);
  });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  return run_call("cudaGraphReleaseUserObject", Needs::device, [&](State& state) {
    auto& objects = state.graphs.require(graph).user_objects;
    const auto found = objects.find(reinterpret_cast<UserObject*>(object));
    if (found == objects.end() || found->second.size() < count) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("the graph does not hold {} references to the object", count));
    }
    found->second.resize(found->second.size() - count);
    if (found->second.empty()) objects.erase(found);
  });
}

}  // extern "C"
