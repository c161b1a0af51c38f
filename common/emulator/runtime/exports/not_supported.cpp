#include "emulator/runtime/exports/not_supported.hpp"

#include <mutex>
#include <utility>

#include "emulator/runtime/model/api_call.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// The message, or nothing when it was printed before.
std::string message_once(bool& reported) {
  if (std::exchange(reported, true)) return {};
  return "not supported by the emulated GPU; with -Dgpu_backend=gpu the program runs on a real one";
}

}  // namespace

int not_supported(const char* function, bool& reported) noexcept {
  return run_call(function, Needs::nothing,
                  [&](State&) { throw ApiError(cudaErrorNotSupported, message_once(reported)); });
}

int driver_not_supported(const char* function, bool& reported) noexcept {
  return run_driver_call(function, Needs::nothing,
                         [&](State&) { throw ApiError(cudaErrorNotSupported, message_once(reported)); });
}

}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

/// Reports a refused call of a library that stands in for one of NVIDIA, such as cuBLAS.
[[gnu::visibility("default")]] void stagecraft_refuse(const char* function, const char* message,
                                                      const char* error) noexcept {
  try {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.reporter.refuse(function, message, error);
  } catch (...) {
    // The caller returns the error in any case.
  }
}

}  // extern "C"
