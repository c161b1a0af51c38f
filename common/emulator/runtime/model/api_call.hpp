// The frame around every function of the API: it takes the lock, checks what the function needs, runs its body, and
// turns what the body throws into an error code and a message.
#pragma once

#include <functional>

#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {

/// What a function of the API needs before its body may run.
enum class Needs {
  no_driver,   ///< not even the driver: it need not be initialised, and the call does not initialise it
  fork_safe,   ///< answers from nothing at all, in a process that was forked too (as on an H200, driver 580)
  nothing,     ///< answers from the settings, or from nothing at all
  device,      ///< touches the device: fails when a kernel was stopped before
  launch,      ///< the same, and launches: what is refused counts until the program looks at the error
  no_capture,  ///< the same, and is unsafe while a stream is captured
};

/// Whether this process is a copy (fork) of one that had initialised the driver.
bool is_forked();

/// Throws ApiError in a process that was forked before any call of the runtime API, which remembers the devices that it
/// has found: on an H200 (driver 580.159.04), the copy of a process that had called cuInit alone finds none.
void require_known_devices();

/// Runs `body` as the function of this name of the runtime API, and returns its error. No exception leaves. As on an
/// H100 (driver 580, 2026-11-22), every such call initialises the driver, for calls of the driver API that follow;
/// only those with `Needs::no_driver` do not.
cudaError_t run_call(const char* name, Needs needs, const std::function<void(State&)>& body) noexcept;
/// Does the same for a function of the driver API.
CUresult run_driver_call(const char* name, Needs needs, const std::function<void(State&)>& body) noexcept;

/// Runs `call`, which calls the runtime API, as the function of this name of the driver API: messages name that
/// function, the result is the driver's, and the runtime's last error does not change.
CUresult driver_call_through(const char* name, Needs needs, const std::function<cudaError_t()>& call) noexcept;

/// Calls a function that the program has given to a stream or a graph. Until it returns, calls of the API from this
/// thread that touch the device fail with cudaErrorNotPermitted. The lock must not be held, because the function may
/// wait for another thread that calls CUDA.
/// Source: CUDA Runtime API, cudaLaunchHostFunc and cudaStreamAddCallback ("must not make any CUDA API calls"); that
/// calls which only answer from what the process knows still work here is a choice.
void call_host_function(const std::function<void()>& function);

/// The last error of this thread, for cudaGetLastError and cudaPeekAtLastError.
cudaError_t take_last_error() noexcept;
cudaError_t peek_last_error() noexcept;

}  // namespace stagecraft::emulator::runtime
