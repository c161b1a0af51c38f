// The runtime API: graphs, the order of their nodes, and the objects of the program that they keep alive.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "emulator/runtime/cudart/graph_handles.hpp"
#include "emulator/runtime/model/report_file.hpp"

namespace stagecraft::emulator::runtime {

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

namespace {

/// Returns a list as the API does: with `out` null the number of nodes, otherwise as many of them as fit.
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

const char* name_of(const Work& work) {
  constexpr const char* kNames[] = {"empty", "kernel", "memcpy", "memset", "host",       "record",
                                    "wait",  "alloc",  "free",   "graph",  "conditional"};
  return kNames[work.index()];
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return run_call("cudaGraphCreate", Needs::device, [&](State& state) {
    check_no_flags(flags);
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
      if (targets[index].from == sources[index].from) {
        throw ApiError(cudaErrorInvalidValue, fmt::format("dependency {} is of a node on itself", index));
      }
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
    const FileSizeSignalHeldBack held_back;
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
