#include "emulator/runtime/exports/not_supported.hpp"

#include <cstring>
#include <mutex>
#include <utility>

#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// The message, or nothing when it was given before.
std::string message_once(bool& told) {
  if (std::exchange(told, true)) return {};
  return "not supported by the emulated GPU; with -Dgpu_backend=gpu the program runs on a real one";
}

/// What the CUDA runtime 13.0 asks its driver for first.
constexpr unsigned char kRuntimesTable[] = {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e,
                                            0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9};

}  // namespace

int not_supported(const char* function, bool& told) noexcept {
  return run_call(function, Needs::nothing, [&](State&) { throw ApiError(cudaErrorNotSupported, message_once(told)); });
}

int driver_not_supported(const char* function, bool& told) noexcept {
  return run_driver_call(function, Needs::nothing,
                         [&](State&) { throw ApiError(cudaErrorNotSupported, message_once(told)); });
}

}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

/// The private ways by which NVIDIA's libraries talk to their driver, asked for even before cuInit. Only the runtime's
/// is missed; NVRTC asks too, and does without.
CUresult cuGetExportTable(const void**, const CUuuid* id) {
  try {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    static bool told = false;
    if (id != nullptr && std::memcmp(id, kRuntimesTable, sizeof kRuntimesTable) == 0 && !std::exchange(told, true)) {
      state.settings();  // tell it where all else is told
      state.reporter.refuse(
          "cuGetExportTable",
          "asked for by a CUDA runtime that was linked into the program, or into a library that it "
          "loads (cuBLASLt, cuFFT and other libraries of NVIDIA have one, and the chip's machine code "
          "in place of PTX). That cannot run on the emulated GPU: link with -cudart shared, and "
          "compute on the host what such a library is used for",
          "CUDA_ERROR_NOT_SUPPORTED");
    }
    return CUDA_ERROR_NOT_SUPPORTED;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

/// For libraries that stand in for others of NVIDIA: their refused calls are told where all are.
[[gnu::visibility("default")]] void stagecraft_refuse(const char* function, const char* message,
                                                      const char* error) noexcept {
  try {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.reporter.refuse(function, message, error);
  } catch (...) {
    // The caller returns the error all the same.
  }
}

}  // extern "C"
