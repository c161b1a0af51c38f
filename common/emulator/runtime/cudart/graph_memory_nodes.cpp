// The runtime API: nodes of graphs that allocate and free memory, and how much memory graphs have.
#include <algorithm>

#include "emulator/runtime/cudart/graph_node_calls.hpp"
#include "emulator/runtime/model/work_parameters.hpp"

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                     size_t count, cudaMemAllocNodeParams* parameters) {
  return add_node<AllocateWork>(
      "cudaGraphAddMemAllocNode", node, graph, dependencies, nullptr, count,
      [&](State& state, const AllocateWork&) { return allocate_work(state, *required(parameters, "nodeParams")); });
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* parameters) {
  return run_call("cudaGraphMemAllocNodeGetParams", Needs::device, [&](State& state) {
    *required(parameters, "params_out") = node_work<AllocateWork>(state, node).parameters;
  });
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                    size_t count, void* pointer) {
  return add_node<FreeWork>(
      "cudaGraphAddMemFreeNode", node, graph, dependencies, nullptr, count, [&](State& state, const FreeWork&) {
        if (!state.graphs.memory.contains(reinterpret_cast<uint64_t>(pointer))) {
          throw ApiError(cudaErrorInvalidValue,
                         fmt::format("{} is no memory that a graph allocates", fmt::ptr(pointer)));
        }
        return FreeWork{pointer};
      });
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
  return run_call("cudaGraphMemFreeNodeGetParams", Needs::device, [&](State& state) {
    *static_cast<void**>(required(pointer, "dptr_out")) = node_work<FreeWork>(state, node).pointer;
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

// The memory of a graph is returned to the device when its last graph is destroyed.
cudaError_t cudaDeviceGraphMemTrim(int device) {
  return run_call("cudaDeviceGraphMemTrim", Needs::device, [&](State&) { check_device(device); });
}

}  // extern "C"
