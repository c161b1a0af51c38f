// The runtime API: executable graphs, and launching them.
#include <fmt/format.h>

#include <vector>

#include "emulator/runtime/cudart/graph_handles.hpp"
#include "emulator/runtime/model/submission.hpp"

namespace stagecraft::emulator::runtime {
namespace {

cudaError_t instantiate_for(const char* name, cudaGraphExec_t* executable, cudaGraph_t graph,
                            unsigned long long flags) {
  return run_call(name, Needs::device, [&](State& state) {
    constexpr unsigned long long kLegal = cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload |
                                          cudaGraphInstantiateFlagUseNodePriority;
    if ((flags & cudaGraphInstantiateFlagDeviceLaunch) != 0) {
      throw ApiError(cudaErrorNotSupported,
                     "graphs cannot be launched from kernels of the emulated GPU: let the host launch it, and where a "
                     "kernel decides whether or how often, make it the body of a conditional node");
    }
    if ((flags & ~kLegal) != 0) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("flags 0x{:x}; legal are those of 0x{:x}", flags, kLegal));
    }
    required(executable, "pGraphExec");
    const Graph& described = state.graphs.require(graph);
    auto made = instantiate(described, flags);
    check_works(state, described);
    *executable = reinterpret_cast<cudaGraphExec_t>(&state.graphs.add_executable(std::move(made)));
  });
}

/// Frees the memory that earlier launches have allocated and nobody has freed.
void free_all(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (const auto* allocation = std::get_if<AllocateWork>(&node->work)) allocation->memory->is_live = false;
    if (const auto* child = std::get_if<ChildWork>(&node->work)) free_all(*child->graph);
  }
}

cudaError_t run_graph(const Graph& graph, cudaStream_t stream);

/// Runs the graph that the value of a conditional node chooses; a while node repeats it as long as the value is not 0.
cudaError_t run_conditional(const ConditionalWork& work, cudaStream_t stream) {
  while (true) {
    uint32_t value = 0;
    cudaError_t error =
        run_call("cudaGraphLaunch", Needs::launch, [&](State& state) { value = condition(state.graphs, work.handle); });
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

/// Runs the nodes one after the other. The lock is not held throughout, because a host function may wait for another
/// thread that calls CUDA.
cudaError_t run_graph(const Graph& graph, cudaStream_t stream) {
  std::vector<GraphNode*> order;
  cudaError_t error = run_call("cudaGraphLaunch", Needs::launch, [&](State& state) {
    order = graph.order();
    for (const Condition& each : graph.conditions) {
      if (each.is_assigned) {
        condition(state.graphs, reinterpret_cast<cudaGraphConditionalHandle>(each.memory->address)) =
            each.default_value;
      }
    }
  });
  bool is_chain = true;
  for (size_t i = 1; i < order.size(); ++i) {
    const std::vector<Edge>& dependencies = order[i]->dependencies;
    is_chain = is_chain && dependencies.size() == 1 && dependencies.front().from == order[i - 1];
  }
  for (const GraphNode* node : order) {
    if (error != cudaSuccess) break;
    if (!node->is_enabled) continue;
    if (const auto* host = std::get_if<HostWork>(&node->work)) {
      call_host_function([&] { host->function(host->data); });
    } else if (const auto* child = std::get_if<ChildWork>(&node->work)) {
      error = run_graph(*child->graph, stream);
    } else if (const auto* conditional = std::get_if<ConditionalWork>(&node->work)) {
      error = run_conditional(*conditional, stream);
    } else {
      error = run_call("cudaGraphLaunch", Needs::launch, [&](State& state) {
        Stream& target = state.streams.require(stream);
        // The first one comes after all of the stream; where there are branches, the next one may not depend on this.
        if (node == order.front()) Streams::all_ended(target);
        perform(state, target, node->work, /*in_graph=*/true);
        if (!is_chain) Streams::all_ended(target);
      });
    }
  }
  return error;
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

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
  const cudaError_t error = run_call("cudaGraphLaunch", Needs::launch, [&](State& state) {
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
    check_works(state, wanted);
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

}  // extern "C"
