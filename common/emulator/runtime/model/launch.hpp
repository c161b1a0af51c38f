// Launching a kernel: its configuration checked as the driver checks it, its parameters packed, the grid run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/runtime/model/modules.hpp"
#include "emulator/runtime/model/streams.hpp"

namespace stagecraft::emulator::runtime {

class State;

struct LaunchConfiguration {
  machine::Extent3 grid, block;
  machine::Extent3 cluster{1, 1, 1};
  bool has_cluster = false;  ///< the launch gives a cluster itself
  uint64_t dynamic_shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;
  std::vector<cudaLaunchAttribute> attributes;  ///< as given, for who asks a graph's node
};
/// Reads a cudaLaunchConfig_t. Throws ApiError for attributes the emulated GPU does not have.
LaunchConfiguration read_configuration(const cudaLaunchConfig_t& config);
/// One without attributes.
LaunchConfiguration plain_configuration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                                        bool cooperative = false);

/// A launch, complete: it can be run now, or later as part of a graph.
struct KernelWork {
  const void* handle = nullptr;  ///< what the program calls the kernel
  Function* function = nullptr;
  LaunchConfiguration configuration;
  std::vector<std::byte> parameters;  ///< packed as the kernel has them
};

/// What a function can have at most; from the kernel, the chip and what cudaFuncSetAttribute has set.
struct FunctionLimits {
  uint32_t max_threads = 0;               ///< per block
  uint32_t max_dynamic_shared_bytes = 0;  ///< without further opting in
  uint32_t shared_bytes_left = 0;         ///< that dynamic shared memory may take when opted in
};
FunctionLimits limits_of(State& state, const Function& function, const machine::Kernel& kernel);

/// The cluster a launch of this kernel has. Throws ApiError when the launch contradicts the kernel.
machine::Extent3 cluster_of(const Function& function, const machine::Kernel& kernel,
                            const LaunchConfiguration& configuration);

/// A launch of the kernel of this stub or handle. `arguments` points to one value per parameter. Throws ApiError for a
/// configuration that the chip has not.
KernelWork prepare_launch(State& state, const void* stub_or_handle, LaunchConfiguration configuration,
                          void* const* arguments);
/// The same, with the arguments in `extra` as cuLaunchKernel takes them, unless that is null.
KernelWork prepare_launch(State& state, const void* stub_or_handle, LaunchConfiguration configuration,
                          void* const* arguments, void* const* extra);
/// Throws ApiError for a configuration that the chip has not.
void check_launch(State& state, const KernelWork& work);
/// Runs the kernel to its end. One that is stopped is reported, and its error comes back from the next call that
/// touches the device.
Cost run_kernel(State& state, const KernelWork& work);

/// Launches in the configuration's stream, now or when what is captured there is launched; and records the events that
/// the launch's attributes ask for (programmatic event, launch completion event).
void submit_launch(State& state, KernelWork work);

/// The kernel of a stub or handle. Throws ApiError: cudaErrorInvalidDeviceFunction for null, else
/// cudaErrorInvalidResourceHandle.
Function& require_function(State& state, const void* stub_or_handle);

}  // namespace stagecraft::emulator::runtime
