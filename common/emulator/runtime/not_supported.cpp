#include "emulator/runtime/not_supported.hpp"

#include <utility>

#include "emulator/runtime/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// The message, or nothing when it was given before.
std::string message_once(bool& told) {
  if (std::exchange(told, true)) return {};
  return "not supported by the emulated GPU; with -Dgpu_backend=gpu the program runs on a real one";
}

}  // namespace

int not_supported(const char* function, bool& told) noexcept {
  return run_call(function, Needs::nothing, [&](State&) { throw ApiError(cudaErrorNotSupported, message_once(told)); });
}

int driver_not_supported(const char* function, bool& told) noexcept {
  return run_driver_call(function, Needs::nothing,
                         [&](State&) { throw ApiError(cudaErrorNotSupported, message_once(told)); });
}

}  // namespace stagecraft::emulator::runtime
