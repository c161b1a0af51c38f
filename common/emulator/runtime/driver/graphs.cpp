// The driver API: graphs and capturing, through the runtime's functions that do the same.
#include "emulator/runtime/model/graphs.hpp"

#include <fmt/format.h>

#include <optional>

#include "emulator/runtime/driver/runtime_calls.hpp"
#include "emulator/runtime/model/api_call.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// The parameters of a kernel's node; none for a null pointer, which the runtime's function then refuses.
std::optional<cudaKernelNodeParams> runtime_kernel(const CUDA_KERNEL_NODE_PARAMS* what) {
  if (what == nullptr) return std::nullopt;
  cudaKernelNodeParams result{};
  result.func = what->func != nullptr ? static_cast<void*>(what->func) : static_cast<void*>(what->kern);
  result.gridDim = {what->gridDimX, what->gridDimY, what->gridDimZ};
  result.blockDim = {what->blockDimX, what->blockDimY, what->blockDimZ};
  result.sharedMemBytes = what->sharedMemBytes;
  result.kernelParams = what->kernelParams;
  result.extra = what->extra;
  return result;
}

std::optional<cudaMemcpy3DParms> runtime_copy(const CUDA_MEMCPY3D* what) {
  if (what == nullptr) return std::nullopt;
  return runtime::runtime_copy(*what);
}

std::optional<cudaMemsetParams> runtime_fill(const CUDA_MEMSET_NODE_PARAMS* what) {
  if (what == nullptr) return std::nullopt;
  return cudaMemsetParams{
      reinterpret_cast<void*>(what->dst), what->pitch, what->value, what->elementSize, what->width, what->height};
}

template <typename T>
const T* pointer(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

#undef cuStreamGetCaptureInfo
#undef cuGraphInstantiate
#undef cuGraphExecUpdate

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return through<cudaStreamBeginCapture>("cuStreamBeginCapture", stream, static_cast<cudaStreamCaptureMode>(mode));
}
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode) {
  return through<cudaStreamBeginCaptureToGraph>("cuStreamBeginCaptureToGraph", stream, graph, dependencies,
                                                same<const cudaGraphEdgeData>(data), count,
                                                static_cast<cudaStreamCaptureMode>(mode));
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return through<cudaStreamEndCapture>("cuStreamEndCapture", stream, graph);
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return through<cudaStreamIsCapturing>("cuStreamIsCapturing", stream, same<cudaStreamCaptureStatus>(status));
}
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  return through<cudaStreamGetCaptureInfo>("cuStreamGetCaptureInfo", stream, same<cudaStreamCaptureStatus>(status),
                                           same<unsigned long long>(id), graph, dependencies,
                                           same<const cudaGraphEdgeData*>(edges), count);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* dependencies, const CUgraphEdgeData* data,
                                              size_t count, unsigned flags) {
  return through<cudaStreamUpdateCaptureDependencies>("cuStreamUpdateCaptureDependencies", stream, dependencies,
                                                      same<const cudaGraphEdgeData>(data), count, flags);
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return through<cudaThreadExchangeStreamCaptureMode>("cuThreadExchangeStreamCaptureMode",
                                                      same<cudaStreamCaptureMode>(mode));
}

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  return through<cudaGraphCreate>("cuGraphCreate", graph, flags);
}
CUresult cuGraphDestroy(CUgraph graph) { return through<cudaGraphDestroy>("cuGraphDestroy", graph); }
CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  return through<cudaGraphClone>("cuGraphClone", clone, original);
}
CUresult cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original, CUgraph clone) {
  return through<cudaGraphNodeFindInClone>("cuGraphNodeFindInClone", node, original, clone);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* parameters) {
  const auto kernel = runtime_kernel(parameters);
  return through<cudaGraphAddKernelNode>("cuGraphAddKernelNode", node, graph, dependencies, count, pointer(kernel));
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  const auto kernel = runtime_kernel(parameters);
  return through<cudaGraphKernelNodeSetParams>("cuGraphKernelNodeSetParams", node, pointer(kernel));
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cudaKernelNodeParams kernel{};
  const CUresult result = through<cudaGraphKernelNodeGetParams>("cuGraphKernelNodeGetParams", node, &kernel);
  if (result != CUDA_SUCCESS) return result;
  *parameters = {static_cast<CUfunction>(kernel.func),
                 kernel.gridDim.x,
                 kernel.gridDim.y,
                 kernel.gridDim.z,
                 kernel.blockDim.x,
                 kernel.blockDim.y,
                 kernel.blockDim.z,
                 kernel.sharedMemBytes,
                 kernel.kernelParams,
                 kernel.extra,
                 nullptr,
                 nullptr};
  return CUDA_SUCCESS;
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* parameters) {
  const auto kernel = runtime_kernel(parameters);
  return through<cudaGraphExecKernelNodeSetParams>("cuGraphExecKernelNodeSetParams", executable, node, pointer(kernel));
}
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue* value) {
  return through<cudaGraphKernelNodeGetAttribute>("cuGraphKernelNodeGetAttribute", node,
                                                  static_cast<cudaLaunchAttributeID>(id),
                                                  same<cudaLaunchAttributeValue>(value));
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUlaunchAttributeID id, const CUlaunchAttributeValue* value) {
  return through<cudaGraphKernelNodeSetAttribute>("cuGraphKernelNodeSetAttribute", node,
                                                  static_cast<cudaLaunchAttributeID>(id),
                                                  same<const cudaLaunchAttributeValue>(value));
}
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return through<cudaGraphKernelNodeCopyAttributes>("cuGraphKernelNodeCopyAttributes", to, from);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMCPY3D* parameters, CUcontext) {
  const auto copy = runtime_copy(parameters);
  return through<cudaGraphAddMemcpyNode>("cuGraphAddMemcpyNode", node, graph, dependencies, count, pointer(copy));
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* parameters) {
  const auto copy = runtime_copy(parameters);
  return through<cudaGraphMemcpyNodeSetParams>("cuGraphMemcpyNodeSetParams", node, pointer(copy));
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D* parameters,
                                        CUcontext) {
  const auto copy = runtime_copy(parameters);
  return through<cudaGraphExecMemcpyNodeSetParams>("cuGraphExecMemcpyNodeSetParams", executable, node, pointer(copy));
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  const auto fill = runtime_fill(parameters);
  return through<cudaGraphAddMemsetNode>("cuGraphAddMemsetNode", node, graph, dependencies, count, pointer(fill));
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  const auto fill = runtime_fill(parameters);
  return through<cudaGraphMemsetNodeSetParams>("cuGraphMemsetNodeSetParams", node, pointer(fill));
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  const auto fill = runtime_fill(parameters);
  return through<cudaGraphExecMemsetNodeSetParams>("cuGraphExecMemsetNodeSetParams", executable, node, pointer(fill));
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS* parameters) {
  return through<cudaGraphAddHostNode>("cuGraphAddHostNode", node, graph, dependencies, count,
                                       same<const cudaHostNodeParams>(parameters));
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* parameters) {
  return through<cudaGraphHostNodeGetParams>("cuGraphHostNodeGetParams", node, same<cudaHostNodeParams>(parameters));
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* parameters) {
  return through<cudaGraphHostNodeSetParams>("cuGraphHostNodeSetParams", node,
                                             same<const cudaHostNodeParams>(parameters));
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* parameters) {
  return through<cudaGraphExecHostNodeSetParams>("cuGraphExecHostNodeSetParams", executable, node,
                                                 same<const cudaHostNodeParams>(parameters));
}
CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
  return through<cudaGraphAddEmptyNode>("cuGraphAddEmptyNode", node, graph, dependencies, count);
}
CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                   CUevent event) {
  return through<cudaGraphAddEventRecordNode>("cuGraphAddEventRecordNode", node, graph, dependencies, count, event);
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                 CUevent event) {
  return through<cudaGraphAddEventWaitNode>("cuGraphAddEventWaitNode", node, graph, dependencies, count, event);
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                  CUgraph child) {
  return through<cudaGraphAddChildGraphNode>("cuGraphAddChildGraphNode", node, graph, dependencies, count, child);
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return through<cudaGraphChildGraphNodeGetGraph>("cuGraphChildGraphNodeGetGraph", node, graph);
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               CUdeviceptr pointer_to_free) {
  return through<cudaGraphAddMemFreeNode>("cuGraphAddMemFreeNode", node, graph, dependencies, count,
                                          reinterpret_cast<void*>(pointer_to_free));
}
CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  return through<cudaGraphAddMemAllocNode>("cuGraphAddMemAllocNode", node, graph, dependencies, count,
                                           same<cudaMemAllocNodeParams>(parameters));
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return through<cudaGraphNodeGetType>("cuGraphNodeGetType", node, same<cudaGraphNodeType>(type));
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return through<cudaGraphGetNodes>("cuGraphGetNodes", graph, nodes, count);
}
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return through<cudaGraphGetRootNodes>("cuGraphGetRootNodes", graph, nodes, count);
}
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  return through<cudaGraphGetEdges>("cuGraphGetEdges", graph, from, to, same<cudaGraphEdgeData>(data), count);
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* dependencies, CUgraphEdgeData* data,
                                       size_t* count) {
  return through<cudaGraphNodeGetDependencies>("cuGraphNodeGetDependencies", node, dependencies,
                                               same<cudaGraphEdgeData>(data), count);
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* dependents, CUgraphEdgeData* data,
                                         size_t* count) {
  return through<cudaGraphNodeGetDependentNodes>("cuGraphNodeGetDependentNodes", node, dependents,
                                                 same<cudaGraphEdgeData>(data), count);
}
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, size_t count) {
  return through<cudaGraphAddDependencies>("cuGraphAddDependencies", graph, from, to,
                                           same<const cudaGraphEdgeData>(data), count);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* data, size_t count) {
  return through<cudaGraphRemoveDependencies>("cuGraphRemoveDependencies", graph, from, to,
                                              same<const cudaGraphEdgeData>(data), count);
}
CUresult cuGraphDestroyNode(CUgraphNode node) { return through<cudaGraphDestroyNode>("cuGraphDestroyNode", node); }
CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned flags) {
  return through<cudaGraphDebugDotPrint>("cuGraphDebugDotPrint", graph, path, flags);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  return through<cudaGraphInstantiateWithFlags>("cuGraphInstantiate", executable, graph, flags);
}
// This is the form before CUDA 12; its log stays empty.
CUresult cuGraphInstantiate_v2(CUgraphExec* executable, CUgraph graph, CUgraphNode* error_node, char* log,
                               size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes > 0) log[0] = '\0';
  return cuGraphInstantiateWithFlags(executable, graph, 0);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* executable, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return through<cudaGraphInstantiateWithParams>("cuGraphInstantiateWithParams", executable, graph,
                                                 same<cudaGraphInstantiateParams>(parameters));
}
CUresult cuGraphExecGetFlags(CUgraphExec executable, cuuint64_t* flags) {
  return through<cudaGraphExecGetFlags>("cuGraphExecGetFlags", executable, same<unsigned long long>(flags));
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  return through<cudaGraphExecDestroy>("cuGraphExecDestroy", executable);
}
CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) {
  return through<cudaGraphUpload>("cuGraphUpload", executable, stream);
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  return through<cudaGraphLaunch>("cuGraphLaunch", executable, stream);
}
CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* result) {
  return through<cudaGraphExecUpdate>("cuGraphExecUpdate", executable, graph,
                                      same<cudaGraphExecUpdateResultInfo>(result));
}
CUresult cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned is_enabled) {
  return through<cudaGraphNodeSetEnabled>("cuGraphNodeSetEnabled", executable, node, is_enabled);
}
CUresult cuGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node, unsigned* is_enabled) {
  return through<cudaGraphNodeGetEnabled>("cuGraphNodeGetEnabled", executable, node, is_enabled);
}

}  // extern "C"
