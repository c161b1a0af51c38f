// The runtime API: nodes of graphs that copy or set memory.
#include "emulator/runtime/cudart/graph_node_calls.hpp"
#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/work_parameters.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// `name` is what the call names the parameters.
Make<CopyWork> box_from(const cudaMemcpy3DParms* parameters, const char* name) {
  return [=](State&, const CopyWork&) { return copy_work(*required(parameters, name)); };
}
Make<CopyWork> bytes_from(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return [=](State&, const CopyWork&) { return CopyWork{to, {}, from, {}, {bytes}, kind}; };
}
Make<CopyWork> to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return [=](State& state, const CopyWork&) {
    return CopyWork{symbol_range(state, symbol, offset, bytes), {}, from, {}, {bytes}, kind};
  };
}
Make<CopyWork> from_symbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return [=](State& state, const CopyWork&) {
    return CopyWork{to, {}, symbol_range(state, symbol, offset, bytes), {}, {bytes}, kind};
  };
}
Make<FillWork> fill_from(const cudaMemsetParams* parameters, const char* name) {
  return [=](State&, const FillWork&) { return fill_work(*required(parameters, name)); };
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

// ---- Copies ----

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                   size_t count, const cudaMemcpy3DParms* parameters) {
  return add_node("cudaGraphAddMemcpyNode", node, graph, dependencies, nullptr, count,
                  box_from(parameters, "pCopyParams"));
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* parameters) {
  return set_node("cudaGraphMemcpyNodeSetParams", node, box_from(parameters, "pNodeParams"));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* parameters) {
  return set_copy("cudaGraphExecMemcpyNodeSetParams", executable, node, box_from(parameters, "pNodeParams"));
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* parameters) {
  return run_call("cudaGraphMemcpyNodeGetParams", Needs::device, [&](State& state) {
    *required(parameters, "pNodeParams") = parameters_of(node_work<CopyWork>(state, node));
  });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                     size_t count, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return add_node("cudaGraphAddMemcpyNode1D", node, graph, dependencies, nullptr, count,
                  bytes_from(to, from, bytes, kind));
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                                           cudaMemcpyKind kind) {
  return set_node("cudaGraphMemcpyNodeSetParams1D", node, bytes_from(to, from, bytes, kind));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes, cudaMemcpyKind kind) {
  return set_copy("cudaGraphExecMemcpyNodeSetParams1D", executable, node, bytes_from(to, from, bytes, kind));
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* dependencies, size_t count, const void* symbol,
                                           const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return add_node("cudaGraphAddMemcpyNodeToSymbol", node, graph, dependencies, nullptr, count,
                  to_symbol(symbol, from, bytes, offset, kind));
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* from,
                                                 size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return set_node("cudaGraphMemcpyNodeSetParamsToSymbol", node, to_symbol(symbol, from, bytes, offset, kind));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                     const void* symbol, const void* from, size_t bytes, size_t offset,
                                                     cudaMemcpyKind kind) {
  return set_copy("cudaGraphExecMemcpyNodeSetParamsToSymbol", executable, node,
                  to_symbol(symbol, from, bytes, offset, kind));
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, size_t count, void* to,
                                             const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return add_node("cudaGraphAddMemcpyNodeFromSymbol", node, graph, dependencies, nullptr, count,
                  from_symbol(to, symbol, bytes, offset, kind));
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to, const void* symbol, size_t bytes,
                                                   size_t offset, cudaMemcpyKind kind) {
  return set_node("cudaGraphMemcpyNodeSetParamsFromSymbol", node, from_symbol(to, symbol, bytes, offset, kind));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t executable, cudaGraphNode_t node, void* to,
                                                       const void* symbol, size_t bytes, size_t offset,
                                                       cudaMemcpyKind kind) {
  return set_copy("cudaGraphExecMemcpyNodeSetParamsFromSymbol", executable, node,
                  from_symbol(to, symbol, bytes, offset, kind));
}

// ---- Fills ----

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                   size_t count, const cudaMemsetParams* parameters) {
  return add_node("cudaGraphAddMemsetNode", node, graph, dependencies, nullptr, count,
                  fill_from(parameters, "pMemsetParams"));
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* parameters) {
  return set_node("cudaGraphMemsetNodeSetParams", node, fill_from(parameters, "pNodeParams"));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaMemsetParams* parameters) {
  return set_copy("cudaGraphExecMemsetNodeSetParams", executable, node, fill_from(parameters, "pNodeParams"));
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* parameters) {
  return run_call("cudaGraphMemsetNodeGetParams", Needs::device, [&](State& state) {
    *required(parameters, "pNodeParams") = parameters_of(node_work<FillWork>(state, node));
  });
}

}  // extern "C"
