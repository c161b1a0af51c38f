// Graphs: works (work.hpp) that are described once, by nodes or by capturing a stream, and done at every launch of the
// graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "emulator/runtime/model/work.hpp"

namespace stagecraft::emulator::runtime {

class GraphTable;
class State;
struct GraphNode;

/// Memory that a graph allocates. Its address is fixed when the node is made. The program may use it between the node
/// that allocates it and the node, or the cudaFree, that frees it.
class GraphMemory {
 public:
  GraphMemory(State& state, uint64_t bytes);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  void* address = nullptr;
  uint64_t bytes = 0;
  bool is_live = false;

 private:
  State& state_;
};

struct Edge {
  GraphNode* from = nullptr;
  cudaGraphEdgeData data{};
};

struct GraphNode {
  Graph* graph = nullptr;
  Work work;
  std::vector<Edge> dependencies;
  bool is_enabled = true;
  std::vector<cudaGraph_t> bodies;  ///< of a conditional node, as cudaGraphAddNode returns them
  std::vector<void*> arguments;     ///< of a kernel, for cudaGraphKernelNodeGetParams: each points into its parameters
};

/// The value of a conditional handle. Throws ApiError (cudaErrorInvalidValue) for a handle of no condition.
uint32_t& condition(const GraphTable& graphs, cudaGraphConditionalHandle handle);
/// A value that a graph's launch resets, and to what.
struct Condition {
  std::shared_ptr<GraphMemory> memory;
  uint32_t default_value = 0;
  bool is_assigned = false;
};

/// An object of the program that graphs keep alive by counted pointers; it is destroyed with the last of them.
struct UserObject {
  void* object = nullptr;
  cudaHostFn_t destroy = nullptr;
  ~UserObject() { destroy(object); }
};

/// The node of a copy that stands for each node of the original.
using NodeMap = std::unordered_map<const GraphNode*, GraphNode*>;

/// Owner of its nodes.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  GraphNode& add(Work work, std::vector<Edge> dependencies);
  void remove(GraphNode& node);
  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }
  /// The nodes in an order in which each comes after those that it depends on; otherwise in the order in which they
  /// were made. Throws ApiError (cudaErrorInvalidValue) when they depend on each other in a circle.
  std::vector<GraphNode*> order() const;
  /// A copy with copies of its nodes, also those of graphs inside, which are added to `copies`.
  std::shared_ptr<Graph> clone(NodeMap& copies) const;

  std::map<UserObject*, std::vector<std::shared_ptr<UserObject>>> user_objects;  ///< one pointer for each reference
  std::vector<Condition> conditions;
  NodeMap clones_of;  ///< of a graph made by cudaGraphClone: the original's nodes

 private:
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

/// A graph made ready to run: a copy, which later changes of the graph do not reach.
struct GraphExecutable {
  std::shared_ptr<Graph> graph;
  NodeMap nodes;  ///< by the original's
  unsigned long long flags = 0;
  uint64_t launches = 0;
};

/// All graphs of the process, and what handles refer to. Every function that throws throws ApiError
/// (cudaErrorInvalidValue).
class GraphTable {
 public:
  Graph& add(std::shared_ptr<Graph> graph);
  Graph& require(cudaGraph_t graph) const;
  /// Throws for a graph inside another.
  void destroy(cudaGraph_t graph);

  GraphNode& require_node(cudaGraphNode_t node) const;

  GraphExecutable& add_executable(std::shared_ptr<GraphExecutable> executable);
  std::shared_ptr<GraphExecutable> require_executable(cudaGraphExec_t executable) const;
  void destroy_executable(cudaGraphExec_t executable);
  /// The executable's copy of a node. Throws.
  GraphNode& require_copy(const GraphExecutable& executable, cudaGraphNode_t node) const;

  /// Memory that graphs have allocated, by address; the nodes own it.
  std::map<uint64_t, GraphMemory*> memory;
  uint64_t used_high = 0, reserved_high = 0;  ///< of that memory, as last reported
  std::map<cudaUserObject_t, std::vector<std::shared_ptr<UserObject>>> user_objects;  ///< references of the program
  /// The program's references to an object, which are at least `count`. Throws.
  std::vector<std::shared_ptr<UserObject>>& require_references(cudaUserObject_t object, size_t count);

  void reset();

 private:
  std::unordered_map<const Graph*, std::shared_ptr<Graph>> graphs_;
  std::unordered_map<const GraphExecutable*, std::shared_ptr<GraphExecutable>> executables_;
};

/// Makes an executable of a graph. Throws ApiError when its nodes depend on each other in a circle.
std::shared_ptr<GraphExecutable> instantiate(const Graph& graph, unsigned long long flags);

/// Gives the nodes of `to` the work of those of `from`, a graph of the same shape. Throws ApiError, and says in `info`
/// why, when the graphs differ.
void update(const Graph& to, const Graph& from, cudaGraphExecUpdateResultInfo& info);

}  // namespace stagecraft::emulator::runtime
