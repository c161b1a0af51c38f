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

STAGECRAFT_THROUGH(cuStreamBeginCapture_v2, cudaStreamBeginCapture)
STAGECRAFT_THROUGH(cuStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph)
STAGECRAFT_THROUGH(cuStreamEndCapture, cudaStreamEndCapture)
STAGECRAFT_THROUGH(cuStreamIsCapturing, cudaStreamIsCapturing)
STAGECRAFT_THROUGH(cuStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo)
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}
STAGECRAFT_THROUGH(cuStreamUpdateCaptureDependencies_v2, cudaStreamUpdateCaptureDependencies)
STAGECRAFT_THROUGH(cuThreadExchangeStreamCaptureMode, cudaThreadExchangeStreamCaptureMode)
STAGECRAFT_THROUGH(cuGraphCreate, cudaGraphCreate)
STAGECRAFT_THROUGH(cuGraphDestroy, cudaGraphDestroy)
STAGECRAFT_THROUGH(cuGraphClone, cudaGraphClone)
STAGECRAFT_THROUGH(cuGraphNodeFindInClone, cudaGraphNodeFindInClone)

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
STAGECRAFT_THROUGH(cuGraphKernelNodeGetAttribute, cudaGraphKernelNodeGetAttribute)
STAGECRAFT_THROUGH(cuGraphKernelNodeSetAttribute, cudaGraphKernelNodeSetAttribute)
STAGECRAFT_THROUGH(cuGraphKernelNodeCopyAttributes, cudaGraphKernelNodeCopyAttributes)

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

STAGECRAFT_THROUGH(cuGraphAddHostNode, cudaGraphAddHostNode)
STAGECRAFT_THROUGH(cuGraphHostNodeGetParams, cudaGraphHostNodeGetParams)
STAGECRAFT_THROUGH(cuGraphHostNodeSetParams, cudaGraphHostNodeSetParams)
STAGECRAFT_THROUGH(cuGraphExecHostNodeSetParams, cudaGraphExecHostNodeSetParams)
STAGECRAFT_THROUGH(cuGraphAddEmptyNode, cudaGraphAddEmptyNode)
STAGECRAFT_THROUGH(cuGraphAddEventRecordNode, cudaGraphAddEventRecordNode)
STAGECRAFT_THROUGH(cuGraphAddEventWaitNode, cudaGraphAddEventWaitNode)
STAGECRAFT_THROUGH(cuGraphAddChildGraphNode, cudaGraphAddChildGraphNode)
STAGECRAFT_THROUGH(cuGraphChildGraphNodeGetGraph, cudaGraphChildGraphNodeGetGraph)
STAGECRAFT_THROUGH(cuGraphAddMemFreeNode, cudaGraphAddMemFreeNode)
STAGECRAFT_THROUGH(cuGraphAddMemAllocNode, cudaGraphAddMemAllocNode)
STAGECRAFT_THROUGH(cuGraphNodeGetType, cudaGraphNodeGetType)
STAGECRAFT_THROUGH(cuGraphGetNodes, cudaGraphGetNodes)
STAGECRAFT_THROUGH(cuGraphGetRootNodes, cudaGraphGetRootNodes)
STAGECRAFT_THROUGH(cuGraphGetEdges_v2, cudaGraphGetEdges)
STAGECRAFT_THROUGH(cuGraphNodeGetDependencies_v2, cudaGraphNodeGetDependencies)
STAGECRAFT_THROUGH(cuGraphNodeGetDependentNodes_v2, cudaGraphNodeGetDependentNodes)
STAGECRAFT_THROUGH(cuGraphAddDependencies_v2, cudaGraphAddDependencies)
STAGECRAFT_THROUGH(cuGraphRemoveDependencies_v2, cudaGraphRemoveDependencies)
STAGECRAFT_THROUGH(cuGraphDestroyNode, cudaGraphDestroyNode)
STAGECRAFT_THROUGH(cuGraphDebugDotPrint, cudaGraphDebugDotPrint)

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
STAGECRAFT_THROUGH(cuGraphInstantiateWithParams, cudaGraphInstantiateWithParams)
STAGECRAFT_THROUGH(cuGraphExecGetFlags, cudaGraphExecGetFlags)
STAGECRAFT_THROUGH(cuGraphExecDestroy, cudaGraphExecDestroy)
STAGECRAFT_THROUGH(cuGraphUpload, cudaGraphUpload)
STAGECRAFT_THROUGH(cuGraphLaunch, cudaGraphLaunch)
STAGECRAFT_THROUGH(cuGraphExecUpdate_v2, cudaGraphExecUpdate)
STAGECRAFT_THROUGH(cuGraphNodeSetEnabled, cudaGraphNodeSetEnabled)
STAGECRAFT_THROUGH(cuGraphNodeGetEnabled, cudaGraphNodeGetEnabled)

}  // extern "C"
