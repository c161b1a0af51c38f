// Between the structures of the API that describe work and Work itself.
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
/// The arguments belong to the node, which has a kernel.
cudaKernelNodeParams kernel_parameters_of(State& state, GraphNode& node);

AllocateWork allocate_work(State& state, cudaMemAllocNodeParams& parameters);

/// Any node's work but that of a kernel's attributes, which `before` has. Throws ApiError for what there is not.
Work work_of(State& state, cudaGraphNodeParams& parameters, const Work* before = nullptr);

}  // namespace stagecraft::emulator::runtime
