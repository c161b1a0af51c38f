// The driver API: functions by name.
#include <cstring>
#include <mutex>
#include <utility>

#include "emulator/runtime/exports/driver_functions.hpp"
#include "emulator/runtime/model/api_call.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// The table that the CUDA runtime 13.0 asks its driver for first.
constexpr unsigned char kRuntimesTable[] = {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e,
                                            0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9};

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

CUresult cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = find_driver_function(name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  if (status != nullptr) {
    *status = *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// This is the form before CUDA 12, which has no status.
#undef cuGetProcAddress
CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

/// Refuses the private tables of functions that NVIDIA's libraries ask their driver for, even before cuInit. Only a
/// CUDA runtime cannot work without its table; NVRTC can, and is refused silently.
CUresult cuGetExportTable(const void**, const CUuuid* id) {
  try {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    static bool reported = false;
    if (id != nullptr && std::memcmp(id, kRuntimesTable, sizeof kRuntimesTable) == 0 &&
        !std::exchange(reported, true)) {
      state.settings();  // they say where reports go
      state.reporter.refuse(
          "cuGetExportTable",
          "asked for by a CUDA runtime that was linked into the program, or into a library that it "
          "loads (cuBLASLt, cuFFT and other libraries of NVIDIA have one, and the chip's machine code "
          "in place of PTX; so have CuPy, Warp and cuda.bindings.runtime). That cannot run on the emulated GPU: link "
          "with -cudart shared, and compute on the host what such a library is used for; in Python, use "
          "cuda.bindings.driver, cuda.core or Triton",
          "CUDA_ERROR_NOT_SUPPORTED");
    }
    return CUDA_ERROR_NOT_SUPPORTED;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

}  // extern "C"
