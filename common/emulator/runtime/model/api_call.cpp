#include "emulator/runtime/model/api_call.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "emulator/ptx/diagnostics.hpp"

namespace stagecraft::emulator::runtime {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

/// The driver's function whose work the runtime API does at the moment; null otherwise.
thread_local const char* driver_function = nullptr;

thread_local bool is_in_host_function = false;

/// The process that has initialised the driver; 0: none has.
std::atomic<pid_t> owner = 0;

/// Whether that process has called the runtime API.
std::atomic<bool> has_found_devices = false;

/// As State::mutex, which in a forked process may be held by a thread that is not there.
std::unique_lock<std::recursive_mutex> lock_of(State& state) {
  return is_forked() ? std::unique_lock(state.mutex, std::defer_lock) : std::unique_lock(state.mutex);
}

/// Throws the ApiError of a forked process, the explanation once.
void refuse_in_forked_process() {
  static std::optional<ApiError> failure(
      std::in_place, cudaErrorInitializationError,
      "this process was forked from one that had used CUDA, and cannot use it: let the new process start a program of "
      "its own (exec; in Python, multiprocessing with \"spawn\"), or fork before the first call of CUDA");
  throw_once(failure);
}

/// Throws ApiError in a process that was forked from one that uses CUDA. An H200's driver refuses the same.
void forbid_in_forked_process(Needs needs) {
  if (owner == 0) owner = getpid();
  if (needs != Needs::fork_safe && is_forked()) refuse_in_forked_process();
}

/// Throws ApiError inside a host function.
void forbid_in_host_function(Needs needs) {
  if (!is_in_host_function || needs < Needs::device) return;
  throw ApiError(cudaErrorNotPermitted,
                 "a function that a stream or a graph calls on the host may not call CUDA: let it signal a thread of "
                 "the program that does");
}

/// Runs `body`; returns its error, and in `message` what to print with it.
cudaError_t run_body(State& state, Needs needs, const std::function<void(State&)>& body, std::string& message) {
  try {
    forbid_in_host_function(needs);
    if (needs != Needs::no_driver) {
      forbid_in_forked_process(needs);
      state.initialise_driver();
    }
    if (needs >= Needs::device) {
      if (const auto fault = state.fault()) return *fault;
      state.machine();
    }
    if (needs == Needs::no_capture) state.streams.forbid_unsafe_call("the call is not allowed");
    body(state);
    return cudaSuccess;
  } catch (const ApiError& error) {
    message = error.what();
    return error.code();
  } catch (const ptx::Error& error) {
    message = error.what();
    return cudaErrorInvalidPtx;
  } catch (const std::bad_alloc&) {
    message = "the host has no memory left for the emulated GPU";
    return cudaErrorMemoryAllocation;
  } catch (const std::exception& error) {
    message = fmt::format("internal error: {}; please report it with the program", error.what());
    return cudaErrorUnknown;
  }
}

void note_refusal(State& state, Needs needs, CUresult error) {
  // After a kernel was stopped, which is reported, nothing else is launched.
  if (error != CUDA_SUCCESS && needs == Needs::launch && !state.fault()) state.refused_work.add(error);
}

}  // namespace

bool is_forked() { return owner != 0 && owner != getpid(); }

void require_known_devices() {
  if (is_forked() && !has_found_devices) refuse_in_forked_process();
}

cudaError_t run_call(const char* name, Needs needs, const std::function<void(State&)>& body) noexcept {
  try {
    State& state = State::instance();
    const auto lock = lock_of(state);
    if (driver_function == nullptr && needs != Needs::no_driver && !is_forked()) has_found_devices = true;
    std::string message;
    const cudaError_t error = run_body(state, needs, body, message);
    note_refusal(state, needs, driver_error(error));
    if (driver_function != nullptr) {
      if (!message.empty()) state.reporter.refuse(driver_function, message, driver_error_name(driver_error(error)));
      return error;
    }
    // The runtime API makes a context current on its own; the driver API does not.
    if (needs >= Needs::device && state.contexts.current() == nullptr) state.contexts.push(state.contexts.primary());
    if (error != cudaSuccess) {
      if (!message.empty()) state.reporter.refuse(name, message, error_name(error));
      if (error != cudaErrorNotReady) last_error = error;
    }
    return error;
  } catch (...) {
    return last_error = cudaErrorUnknown;
  }
}

CUresult run_driver_call(const char* name, Needs needs, const std::function<void(State&)>& body) noexcept {
  try {
    State& state = State::instance();
    const auto lock = lock_of(state);
    std::string message;
    CUresult result = CUDA_SUCCESS;
    const Context* const context = state.contexts.current();
    if (needs != Needs::no_driver && is_forked()) {
      result = driver_error(run_body(state, needs, body, message));
    } else if (needs != Needs::no_driver && !state.driver_is_initialised() && context == nullptr) {
      message = "the driver is not initialised: call cuInit(0) first";
      result = CUDA_ERROR_NOT_INITIALIZED;
    } else if (needs >= Needs::device && context == nullptr) {
      message = "this thread has no current context: call cuDevicePrimaryCtxRetain and cuCtxSetCurrent first";
      result = CUDA_ERROR_INVALID_CONTEXT;
    } else if (needs >= Needs::device && !state.contexts.is_live(context)) {
      message = "this thread's current context was destroyed by another thread";
      result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else {
      result = driver_error(run_body(state, needs, body, message));
    }
    note_refusal(state, needs, result);
    if (result != CUDA_SUCCESS && !message.empty()) state.reporter.refuse(name, message, driver_error_name(result));
    return result;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

CUresult driver_call_through(const char* name, Needs needs, const std::function<cudaError_t()>& call) noexcept {
  // The lock is not held here. `call` takes it on its own, because it may call a function of the program.
  const CUresult result = run_driver_call(name, needs, [](State&) {});
  if (result != CUDA_SUCCESS) return result;
  const char* const outer = std::exchange(driver_function, name);
  const cudaError_t error = call();
  driver_function = outer;
  return driver_error(error);
}

void call_host_function(const std::function<void()>& function) {
  // Restores both even when the program's function throws.
  struct Scope {
    const bool was_in_host_function = std::exchange(is_in_host_function, true);
    const char* const outer_driver_function = std::exchange(driver_function, nullptr);
    ~Scope() {
      is_in_host_function = was_in_host_function;
      driver_function = outer_driver_function;
    }
  };
  const Scope scope;
  function();
}

cudaError_t take_last_error() noexcept {
  peek_last_error();
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t peek_last_error() noexcept {
  if (last_error != cudaSuccess) State::instance().refused_work.read_last_error();
  return last_error;
}

}  // namespace stagecraft::emulator::runtime
