#include "emulator/runtime/exports/not_supported.hpp"

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "emulator/runtime/model/api_call.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// What to do instead of calling functions whose names contain some text.
constexpr struct Advice {
  std::string_view part, text;
} kAdvice[] = {
    {"TexRef", "use a texture object in place of a texture reference"},
    {"SurfRef", "use a surface object in place of a surface reference"},
    {"cuArray", "make the array with cudaMallocArray, and its texture object with cudaCreateTextureObject"},
    {"cuTexObject", "make the texture object with cudaCreateTextureObject, which gives the same handle"},
    {"cuSurfObject", "make the surface object with cudaCreateSurfaceObject, which gives the same handle"},
    {"Green", "there are no green contexts: launch in the primary context, on all multiprocessors"},
    {"DevResource", "there are no green contexts: launch in the primary context, on all multiprocessors"},
};

/// The message, or nothing when it was printed before.
std::string message_once(std::string_view function, bool& reported) {
  if (std::exchange(reported, true)) return {};
  std::string message = "not supported by the emulated GPU; with -Dgpu_backend=gpu the program runs on a real one";
  for (const auto& [part, text] : kAdvice) {
    if (function.find(part) != std::string_view::npos) return message.append(". Here, ").append(text);
  }
  return message;
}

}  // namespace

int not_supported(const char* function, bool& reported) noexcept {
  return run_call(function, Needs::nothing,
                  [&](State&) { throw ApiError(cudaErrorNotSupported, message_once(function, reported)); });
}

int driver_not_supported(const char* function, bool& reported) noexcept {
  return run_driver_call(function, Needs::nothing,
                         [&](State&) { throw ApiError(cudaErrorNotSupported, message_once(function, reported)); });
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
