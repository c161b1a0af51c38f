// Launching a kernel: prepare_launch checks the configuration as the driver does and packs the parameters,
// submit_launch runs the grid, or captures the launch into a graph.
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
FunctionLimits limits_of(State& state, const Function& function, const machine::Kernel& kernel);

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
/// Throws ApiError for a configuration that the chip does not allow.
void check_launch(State& state, const KernelWork& work);
/// Runs the kernel to its end. A kernel that is stopped is reported, and the next call that touches the device returns
/// its error.
/// @param in_graph  it is a node of a graph.
Cost run_kernel(State& state, Stream& stream, const KernelWork& work, bool in_graph);

/// Runs the launch in its stream, or adds it to the graph that the stream is captured into. Records the events that the
/// launch's attributes ask for (programmatic event, launch completion event).
void submit_launch(State& state, KernelWork work);

/// The kernel of a stub or handle. Throws ApiError: cudaErrorInvalidDeviceFunction for null, else
/// cudaErrorInvalidResourceHandle.
Function& require_function(State& state, const void* stub_or_handle);

}  // namespace stagecraft::emulator::runtime
