#include "emulator/runtime/model/graphs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// The graphs and nodes that handles may refer to. The sets are never destroyed: programs destroy graphs in static
/// destructors.
std::unordered_set<const Graph*>& live_graphs() {
  static auto* const graphs = new std::unordered_set<const Graph*>;
  return *graphs;
}
std::unordered_set<const GraphNode*>& live_nodes() {
  static auto* const nodes = new std::unordered_set<const GraphNode*>;
  return *nodes;
}

}  // namespace

GraphMemory::GraphMemory(State& state, uint64_t size) : bytes(size), state_(state) {
  address = allocate(state, size, machine::AllocationKind::device, "graph memory");
  state.graphs.memory[reinterpret_cast<uint64_t>(address)] = this;
}

GraphMemory::~GraphMemory() {
  state_.graphs.memory.erase(reinterpret_cast<uint64_t>(address));
  // Memory that a launch has allocated and nobody has freed stays valid; the program releases it with cudaFree.
  if (!is_live && state_.machine_is_started()) state_.machine().memory().release(reinterpret_cast<uint64_t>(address));
}

Graph::Graph() { live_graphs().insert(this); }

Graph::~Graph() {
  live_graphs().erase(this);
  for (const auto& node : nodes_) live_nodes().erase(node.get());
}

GraphNode& Graph::add(Work work, std::vector<Edge> dependencies) {
  auto node = std::make_unique<GraphNode>();
  node->graph = this;
  node->work = std::move(work);
  node->dependencies = std::move(dependencies);
  live_nodes().insert(node.get());
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

void Graph::remove(GraphNode& node) {
  for (const auto& other : nodes_) {
    std::erase_if(other->dependencies, [&](const Edge& edge) { return edge.from == &node; });
  }
  live_nodes().erase(&node);
  std::erase_if(nodes_, [&](const auto& other) { return other.get() == &node; });
}

std::vector<GraphNode*> Graph::order() const {
  std::unordered_map<const GraphNode*, size_t> missing;
  std::unordered_map<const GraphNode*, std::vector<size_t>> followers;
  std::vector<GraphNode*> result;
  std::vector<size_t> ready;  // a heap: the node made first comes first
  for (size_t index = 0; index < nodes_.size(); ++index) {
    missing[nodes_[index].get()] = nodes_[index]->dependencies.size();
    for (const Edge& edge : nodes_[index]->dependencies) followers[edge.from].push_back(index);
    if (nodes_[index]->dependencies.empty()) ready.push_back(index);
  }
  std::make_heap(ready.begin(), ready.end(), std::greater<>());
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), std::greater<>());
    GraphNode* node = nodes_[ready.back()].get();
    ready.pop_back();
    result.push_back(node);
    for (const size_t follower : followers[node]) {
      if (--missing[nodes_[follower].get()] != 0) continue;
      ready.push_back(follower);
      std::push_heap(ready.begin(), ready.end(), std::greater<>());
    }
  }
  if (result.size() != nodes_.size()) {
    throw ApiError(cudaErrorInvalidValue, "nodes of the graph depend on each other in a circle");
  }
  return result;
}

std::shared_ptr<Graph> Graph::clone(NodeMap& copies) const {
  auto result = std::make_shared<Graph>();
  for (const auto& node : nodes_) {
    Work work = node->work;
    if (auto* child = std::get_if<ChildWork>(&work)) child->graph = child->graph->clone(copies);
    if (auto* conditional = std::get_if<ConditionalWork>(&work)) {
      for (std::shared_ptr<Graph>& body : conditional->bodies) body = body->clone(copies);
    }
    GraphNode& copy = result->add(std::move(work), {});
    copy.is_enabled = node->is_enabled;
    copies[node.get()] = &copy;
  }
  for (const auto& node : nodes_) {
    for (Edge edge : node->dependencies) {
      edge.from = copies.at(edge.from);
      copies.at(node.get())->dependencies.push_back(edge);
    }
  }
  result->user_objects = user_objects;
  result->conditions = conditions;
  return result;
}

Graph& GraphTable::add(std::shared_ptr<Graph> graph) {
  const Graph* key = graph.get();
  return *graphs_.emplace(key, std::move(graph)).first->second;
}

Graph& GraphTable::require(cudaGraph_t graph) const {
  auto* found = reinterpret_cast<Graph*>(graph);
  if (!live_graphs().contains(found)) {
    throw ApiError(cudaErrorInvalidValue,
                   graph == nullptr
                       ? std::string("the graph is a null pointer")
                       : fmt::format("{} is no graph: it was never created, or is already destroyed", fmt::ptr(graph)));
  }
  return *found;
}

void GraphTable::destroy(cudaGraph_t graph) {
  const auto found = graphs_.find(&require(graph));
  if (found == graphs_.end()) {
    throw ApiError(cudaErrorInvalidValue, "the graph belongs to a node of another graph, or is still being captured");
  }
  const std::shared_ptr<Graph> keep = std::move(found->second);
  graphs_.erase(found);
}

GraphNode& GraphTable::require_node(cudaGraphNode_t node) const {
  auto* found = reinterpret_cast<GraphNode*>(node);
  if (!live_nodes().contains(found)) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("{} is no node of a graph", fmt::ptr(node)));
  }
  return *found;
}

GraphExecutable& GraphTable::add_executable(std::shared_ptr<GraphExecutable> executable) {
  const GraphExecutable* key = executable.get();
  return *executables_.emplace(key, std::move(executable)).first->second;
}

std::shared_ptr<GraphExecutable> GraphTable::require_executable(cudaGraphExec_t executable) const {
  const auto found = executables_.find(reinterpret_cast<const GraphExecutable*>(executable));
  if (found == executables_.end()) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("{} is no executable graph: cudaGraphInstantiate makes them", fmt::ptr(executable)));
  }
  return found->second;
}

void GraphTable::destroy_executable(cudaGraphExec_t executable) {
  const std::shared_ptr<GraphExecutable> keep = require_executable(executable);
  executables_.erase(keep.get());
}

GraphNode& GraphTable::require_copy(const GraphExecutable& executable, cudaGraphNode_t node) const {
  const auto found = executable.nodes.find(reinterpret_cast<const GraphNode*>(node));
  if (found == executable.nodes.end()) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("{} is no node of the graph that this executable was made of", fmt::ptr(node)));
  }
  return *found->second;
}

std::vector<std::shared_ptr<UserObject>>& GraphTable::require_references(cudaUserObject_t object, size_t count) {
  const auto found = user_objects.find(object);
  if (found == user_objects.end() || found->second.size() < count) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("the program does not hold {} references to the user object {}",
                                                      count, fmt::ptr(object)));
  }
  return found->second;
}

void GraphTable::reset() {
  executables_.clear();
  graphs_.clear();
  user_objects.clear();
}

std::shared_ptr<GraphExecutable> instantiate(const Graph& graph, unsigned long long flags) {
  graph.order();
  auto result = std::make_shared<GraphExecutable>();
  result->graph = graph.clone(result->nodes);
  result->flags = flags;
  return result;
}

uint32_t& condition(const GraphTable& graphs, cudaGraphConditionalHandle handle) {
  if (!graphs.memory.contains(handle)) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("{:#x} is no handle of a condition: "
                                                      "cudaGraphConditionalHandleCreate gives one",
                                                      handle));
  }
  return *reinterpret_cast<uint32_t*>(machine::DeviceMemory::host(handle));
}

void update(const Graph& to, const Graph& from, cudaGraphExecUpdateResultInfo& info) {
  const auto refuse = [&](cudaGraphExecUpdateResult result, const GraphNode* node, std::string message) {
    info.result = result;
    info.errorNode = node == nullptr ? nullptr : reinterpret_cast<cudaGraphNode_t>(const_cast<GraphNode*>(node));
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

}  // namespace stagecraft::emulator::runtime
