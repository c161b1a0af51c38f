// The runtime API: nodes of graphs that launch kernels, and their attributes.
#include <vector>

#include "emulator/runtime/cudart/graph_node_calls.hpp"
#include "emulator/runtime/model/work_parameters.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// A launch with these parameters and the attributes that the node had before.
Make<KernelWork> kernel_from(const cudaKernelNodeParams* parameters) {
  return [parameters](State& state, const KernelWork& before) {
    return kernel_work(state, *required(parameters, "pNodeParams"), before.configuration.attributes);
  };
}

cudaLaunchAttributeValue attribute_of(const KernelWork& work, cudaLaunchAttributeID id) {
  for (const cudaLaunchAttribute& attribute : work.configuration.attributes) {
    if (attribute.id == id) return attribute.val;
  }
  return {};
}

/// The node's launch with attributes added or replaced.
KernelWork with_attributes(State& state, GraphNode& node, const std::vector<cudaLaunchAttribute>& added) {
  const auto& known = std::get<KernelWork>(node.work);
  std::vector<cudaLaunchAttribute> attributes = known.configuration.attributes;
  for (const cudaLaunchAttribute& attribute : added) {
    std::erase_if(attributes, [&](const cudaLaunchAttribute& other) { return other.id == attribute.id; });
    attributes.push_back(attribute);
  }
  return kernel_work(state, kernel_parameters_of(state.machine(), node), attributes);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                   size_t count, const cudaKernelNodeParams* parameters) {
  return add_node("cudaGraphAddKernelNode", node, graph, dependencies, nullptr, count, kernel_from(parameters));
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* parameters) {
  return run_call("cudaGraphKernelNodeGetParams", Needs::device, [&](State& state) {
    node_work<KernelWork>(state, node);
    *required(parameters, "pNodeParams") = kernel_parameters_of(state.machine(), state.graphs.require_node(node));
  });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* parameters) {
  return set_node("cudaGraphKernelNodeSetParams", node, kernel_from(parameters));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* parameters) {
  return set_copy("cudaGraphExecKernelNodeSetParams", executable, node, kernel_from(parameters));
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                            cudaLaunchAttributeValue* value) {
  return run_call("cudaGraphKernelNodeGetAttribute", Needs::device, [&](State& state) {
    *required(value, "value_out") = attribute_of(node_work<KernelWork>(state, node), id);
  });
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                            const cudaLaunchAttributeValue* value) {
  return set_node<KernelWork>("cudaGraphKernelNodeSetAttribute", node, [&](State& state, const KernelWork&) {
    cudaLaunchAttribute attribute{};
    attribute.id = id;
    attribute.val = *required(value, "value");
    return with_attributes(state, state.graphs.require_node(node), {attribute});
  });
}

cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
  return set_node<KernelWork>("cudaGraphKernelNodeCopyAttributes", to, [&](State& state, const KernelWork&) {
    return with_attributes(state, state.graphs.require_node(to),
                           node_work<KernelWork>(state, from).configuration.attributes);
  });
}

}  // extern "C"
