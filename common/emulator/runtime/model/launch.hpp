// What a launch of a kernel asks for: its configuration is checked as the driver does, and its parameters are packed.
// submission.hpp runs it.
#pragma once

#include <cstdint>

#include "emulator/machine/machine.hpp"
#include "emulator/runtime/model/modules.hpp"
#include "emulator/runtime/model/streams.hpp"
#include "emulator/runtime/model/work.hpp"

namespace stagecraft::emulator::runtime {

class State;

/// Reads a cudaLaunchConfig_t. Throws ApiError for attributes that the emulated GPU does not have.
LaunchConfiguration read_configuration(const cudaLaunchConfig_t& config);
/// The configuration of `<<<>>>`: no attribute, except that of a cooperative launch.
LaunchConfiguration plain_configuration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                                        bool cooperative = false);

/// The most that a launch of a function may ask for, by the kernel, the chip and cudaFuncSetAttribute.
struct FunctionLimits {
  uint32_t max_threads = 0;               ///< per block
  uint32_t max_dynamic_shared_bytes = 0;  ///< without further opting in
  uint32_t shared_bytes_left = 0;         ///< that dynamic shared memory may take when opted in
};
FunctionLimits limits_of(const machine::Architecture& chip, const Function& function, const machine::Kernel& kernel);

/// The cluster a launch of this kernel has. Throws ApiError when the launch contradicts the kernel.
machine::Extent3 cluster_of(const Function& function, const machine::Kernel& kernel,
                            const LaunchConfiguration& configuration);

/// Describes a launch of the kernel with this stub or handle. `arguments` points to one value per parameter. Throws
/// ApiError for a configuration that the chip does not allow.
KernelWork prepare_launch(State& state, const void* stub_or_handle, LaunchConfiguration configuration,
                          void* const* arguments);
/// Does the same with the arguments in `extra`, as cuLaunchKernel takes them, unless that is null.
KernelWork prepare_launch(State& state, const void* stub_or_handle, LaunchConfiguration configuration,
                          void* const* arguments, void* const* extra);
/// Prepares the launch of a graph's node, whose function may have got other attributes since the node was made. Throws
/// ApiError when the launch contradicts the kernel.
KernelWork prepare_again(State& state, KernelWork work);
/// Throws ApiError for a configuration that the chip does not allow.
void check_launch(State& state, const KernelWork& work);

/// The kernel of a stub or handle. Throws ApiError: cudaErrorInvalidDeviceFunction for null, else
/// cudaErrorInvalidResourceHandle.
Function& require_function(const ModuleTable& modules, const void* stub_or_handle);

}  // namespace stagecraft::emulator::runtime
