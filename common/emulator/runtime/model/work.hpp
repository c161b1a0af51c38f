// What a program can ask of a stream: kernels, copies, fills, calls of the host, events, memory.
//
// A work is a description, complete in itself. It is done at once (submission.hpp), or becomes a node of a graph that
// does it whenever the graph is launched (graphs.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "emulator/runtime/model/boxes.hpp"
#include "emulator/runtime/model/cuda_headers.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::runtime {

struct Function;
class Graph;
class GraphMemory;

/// What a launch asks for besides the kernel and its arguments.
struct LaunchConfiguration {
  machine::Extent3 grid, block;
  machine::Extent3 cluster{1, 1, 1};
  machine::Extent3 preferred_cluster{0, 0, 0};  ///< all zeros: none
  bool has_cluster = false;                     ///< `cluster` was given by the launch; otherwise the kernel decides
  uint64_t dynamic_shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;
  std::vector<cudaLaunchAttribute> attributes;  ///< as given; a graph's node reports them
};

struct EmptyWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeEmpty;
};
/// A launch of a kernel (launch.hpp makes it, kernel_runs.hpp runs it).
struct KernelWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeKernel;
  const void* handle = nullptr;  ///< the stub or handle by which the program names the kernel
  Function* function = nullptr;
  LaunchConfiguration configuration;
  machine::LaunchRequest request;  ///< the same for the machine, with the parameters; as prepare_launch found it
};

struct CopyWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeMemcpy;
  void* to = nullptr;
  Layout to_layout;
  const void* from = nullptr;
  Layout from_layout;
  Box box;
  cudaMemcpyKind kind = cudaMemcpyDefault;
};
struct FillWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeMemset;
  void* to = nullptr;
  Layout layout;
  Box box;  ///< in bytes
  uint32_t value = 0;
  uint32_t value_bytes = 1;
};
struct HostWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeHost;
  cudaHostFn_t function = nullptr;
  void* data = nullptr;
};
struct RecordWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeEventRecord;
  cudaEvent_t event = nullptr;
};
struct WaitWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeWaitEvent;
  cudaEvent_t event = nullptr;
};
/// Only nodes of graphs have this work and the three that follow.
struct AllocateWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeMemAlloc;
  std::shared_ptr<GraphMemory> memory;
  cudaMemAllocNodeParams parameters{};
};
struct FreeWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeMemFree;
  void* pointer = nullptr;
};
struct ChildWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeGraph;
  std::shared_ptr<Graph> graph;  ///< the node's own
};
/// Graphs among which a value chooses. Kernels set it with cudaGraphSetConditional.
struct ConditionalWork {
  static constexpr cudaGraphNodeType kNodeType = cudaGraphNodeTypeConditional;
  cudaGraphConditionalHandle handle = 0;  ///< the address of the value
  cudaGraphConditionalNodeType type = cudaGraphCondTypeIf;
  std::vector<std::shared_ptr<Graph>> bodies;  ///< the node's own
};

/// Everything that a stream can do.
using Work = std::variant<EmptyWork, KernelWork, CopyWork, FillWork, HostWork, RecordWork, WaitWork, AllocateWork,
                          FreeWork, ChildWork, ConditionalWork>;

/// The type of a graph's node that does the work.
inline cudaGraphNodeType type_of(const Work& work) {
  return std::visit([](const auto& kind) { return kind.kNodeType; }, work);
}

}  // namespace stagecraft::emulator::runtime
