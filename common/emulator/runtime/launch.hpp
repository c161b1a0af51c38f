// Launching a kernel: its configuration checked as the driver checks it, its parameters packed, the grid run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "emulator/machine/machine.hpp"
#include "emulator/runtime/state.hpp"

namespace stagecraft::emulator::runtime {

struct LaunchConfiguration {
  machine::Extent3 grid, block;
  machine::Extent3 cluster{1, 1, 1};
  bool has_cluster = false;  ///< the launch gives a cluster itself
  uint64_t dynamic_shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;
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

/// Runs the kernel to its end. A configuration the chip has not throws ApiError; a kernel that is stopped is reported,
/// and its error comes back from the next call that touches the device. `arguments` points to one value per parameter.
void launch(State& state, Function& function, const LaunchConfiguration& configuration, void* const* arguments);
/// The same with all parameters packed into one buffer, as CU_LAUNCH_PARAM_BUFFER_POINTER has them.
void launch_packed(State& state, Function& function, const LaunchConfiguration& configuration,
                   std::span<const std::byte> buffer);

/// Reads a cudaLaunchConfig_t. Throws ApiError for attributes the emulated GPU does not have.
LaunchConfiguration read_configuration(const cudaLaunchConfig_t& config);

/// Records the events that a launch's attributes ask for (programmatic event, launch completion event).
void record_launch_events(State& state, const cudaLaunchConfig_t& config);

/// The kernel of a stub or handle. Throws ApiError: cudaErrorInvalidDeviceFunction for null, else
/// cudaErrorInvalidResourceHandle.
Function& require_function(State& state, const void* stub_or_handle);

/// Throws ApiError (cudaErrorInvalidResourceHandle) when the event is none.
Event& require_event(State& state, cudaEvent_t event);

/// Throws ApiError (cudaErrorInvalidResourceHandle) when the stream is none; null for the default streams.
Stream* require_stream(State& state, cudaStream_t stream);

}  // namespace stagecraft::emulator::runtime
