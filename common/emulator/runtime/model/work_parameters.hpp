// Conversions between Work and the structures by which the API describes it.
#pragma once

#include "emulator/runtime/model/graphs.hpp"

namespace stagecraft::emulator::runtime {

/// Throws ApiError for places that an array does not have.
CopyWork copy_work(const cudaMemcpy3DParms& parameters);
cudaMemcpy3DParms parameters_of(const CopyWork& work);

/// Throws ApiError (cudaErrorInvalidValue) for an element that does not have 1, 2 or 4 bytes.
FillWork fill_work(const cudaMemsetParams& parameters);
cudaMemsetParams parameters_of(const FillWork& work);

/// `attributes` are those of the launch. Throws ApiError.
KernelWork kernel_work(State& state, const cudaKernelNodeParams& parameters,
                       const std::vector<cudaLaunchAttribute>& attributes);
/// The parameters of a node that launches a kernel. The array of arguments belongs to the node.
cudaKernelNodeParams kernel_parameters_of(machine::Machine& machine, GraphNode& node);

AllocateWork allocate_work(State& state, cudaMemAllocNodeParams& parameters);

/// Work of any type. The attributes of a launch, which `parameters` does not have, are those of `before`. Throws
/// ApiError for types that are not supported.
Work work_of(State& state, cudaGraphNodeParams& parameters, const Work* before = nullptr);

}  // namespace stagecraft::emulator::runtime
