#include "emulator/runtime/model/state.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <utility>

#include "emulator/ptx/diagnostics.hpp"
#include "emulator/runtime/model/driver_calls.hpp"

namespace stagecraft::emulator::runtime {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

/// While the driver API does its work through the runtime API: the driver's function.
thread_local const char* driver_function = nullptr;

const char* environment_variable(const char* name) { return std::getenv(name); }

/// Throws the failure; with its message only the first time.
[[noreturn]] void throw_once(std::optional<ApiError>& failure) {
  const ApiError error = *failure;
  failure = ApiError(error.code(), "");
  throw error;
}

/// A program whose kernel was diagnosed must not look as if it had succeeded.
void check_exit_status(int status, void*) {
  State& state = State::instance();
  state.reporter.tell_repetitions();
  if (status != 0 || state.reporter.diagnosed() == 0 || !state.settings().strict_exit_status) return;
  std::fflush(nullptr);
  if (state.settings().report_format == ReportFormat::text) {
    std::fprintf(stderr, "stagecraft: exit status 1, because of what was reported\n");
  }
  std::_Exit(1);
}

/// Runs `body`; gives its error, and the message to print with it.
cudaError_t run_body(State& state, Needs needs, const std::function<void(State&)>& body, std::string& message) {
  try {
    if (needs != Needs::nothing) {
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

}  // namespace

State& State::instance() {
  static State* const state = [] {
    on_exit(check_exit_status, nullptr);
    return new State();
  }();
  return *state;
}

const Settings& State::settings() {
  if (settings_) return *settings_;
  if (settings_failure_) throw_once(settings_failure_);
  try {
    Settings settings = read_settings(environment_variable);
    reporter.configure(settings);
    settings_ = std::move(settings);
  } catch (const std::invalid_argument& error) {
    settings_failure_ = ApiError(cudaErrorInitializationError, error.what());
    throw_once(settings_failure_);
  }
  return *settings_;
}

machine::Machine& State::machine() {
  if (machine_) return *machine_;
  if (machine_failure_) throw_once(machine_failure_);
  const machine::Architecture& chip = architecture();
  try {
    machine_ = std::make_unique<machine::Machine>(chip);
    machine_->announce_memory_events(settings().observes_memory());
  } catch (const std::exception& error) {
    machine_failure_ = ApiError(
        cudaErrorInitializationError,
        fmt::format("the emulated {} cannot start: {}; a limit on virtual memory (ulimit -v) must allow for its device "
                    "memory, of which only what is used costs host memory",
                    chip.name, error.what()));
    throw_once(machine_failure_);
  }
  return *machine_;
}

void State::reset() {
  modules.unload_all();
  graphs.reset();
  streams.reset();
  memory_advice.clear();
  pools.reset();
  arrays.reset();
  host_allocation_flags.clear();
  limits = {};
  fault_.reset();
  machine_.reset();
}

cudaError_t run_call(const char* name, Needs needs, const std::function<void(State&)>& body) noexcept {
  try {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    std::string message;
    const cudaError_t error = run_body(state, needs, body, message);
    if (driver_function != nullptr) {
      if (!message.empty()) state.reporter.refuse(driver_function, message, driver_error_name(driver_error(error)));
      return error;
    }
    // The runtime API makes a context current by itself, the driver API does not.
    if (needs != Needs::nothing && state.contexts.current() == nullptr) state.contexts.push(state.contexts.primary());
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
    const std::lock_guard lock(state.mutex);
    std::string message;
    CUresult result = CUDA_SUCCESS;
    const Context* const context = state.contexts.current();
    if (!state.driver_initialised && context == nullptr) {
      message = "the driver is not initialised: call cuInit(0) first";
      result = CUDA_ERROR_NOT_INITIALIZED;
    } else if (needs != Needs::nothing && context == nullptr) {
      message = "this thread has no current context: call cuDevicePrimaryCtxRetain and cuCtxSetCurrent first";
      result = CUDA_ERROR_INVALID_CONTEXT;
    } else if (needs != Needs::nothing && !state.contexts.is_live(context)) {
      message = "this thread's current context was destroyed by another thread";
      result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else {
      result = driver_error(run_body(state, needs, body, message));
    }
    if (result != CUDA_SUCCESS && !message.empty()) state.reporter.refuse(name, message, driver_error_name(result));
    return result;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

CUresult driver_call_through(const char* name, Needs needs, const std::function<cudaError_t()>& call) noexcept {
  // Not under the lock, which `call` takes by itself: it may call a function of the program.
  const CUresult result = run_driver_call(name, needs, [](State&) {});
  if (result != CUDA_SUCCESS) return result;
  const char* const outer = std::exchange(driver_function, name);
  const cudaError_t error = call();
  driver_function = outer;
  return driver_error(error);
}

cudaError_t take_last_error() noexcept { return std::exchange(last_error, cudaSuccess); }
cudaError_t peek_last_error() noexcept { return last_error; }

void check_device(int device) {
  if (device != 0) {
    throw ApiError(cudaErrorInvalidDevice, fmt::format("there is no device {}; the emulated GPU is device 0", device));
  }
}

}  // namespace stagecraft::emulator::runtime
