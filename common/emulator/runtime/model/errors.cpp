#include "emulator/runtime/model/errors.hpp"

#include <fmt/format.h>

#include <span>

namespace stagecraft::emulator::runtime {

namespace {

struct ErrorRow {
  int number;
  const char *name, *text;
};
constexpr ErrorRow kErrors[] = {
#define STAGECRAFT_ERROR(name, driver_name, text) {name, #name, text},
#define STAGECRAFT_RUNTIME_ERROR(name, text) {name, #name, text},
#define STAGECRAFT_DRIVER_ERROR(name, text)
#include "emulator/runtime/model/error_table.inc"
#undef STAGECRAFT_ERROR
#undef STAGECRAFT_RUNTIME_ERROR
#undef STAGECRAFT_DRIVER_ERROR
};
constexpr ErrorRow kDriverErrors[] = {
#define STAGECRAFT_ERROR(runtime_name, name, text) {name, #name, text},
#define STAGECRAFT_RUNTIME_ERROR(name, text)
#define STAGECRAFT_DRIVER_ERROR(name, text) {name, #name, text},
#include "emulator/runtime/model/error_table.inc"
};

/// What `part` says of the error with that number; null if there is none.
const char* part_of(std::span<const ErrorRow> errors, int number, const char* ErrorRow::*part) {
  for (const ErrorRow& error : errors) {
    if (error.number == number) return error.*part;
  }
  return nullptr;
}

}  // namespace

const char* error_name(cudaError_t error) { return part_of(kErrors, error, &ErrorRow::name); }
const char* error_text(cudaError_t error) { return part_of(kErrors, error, &ErrorRow::text); }
const char* driver_error_name(CUresult error) { return part_of(kDriverErrors, error, &ErrorRow::name); }
const char* driver_error_text(CUresult error) { return part_of(kDriverErrors, error, &ErrorRow::text); }

cudaError_t error_of(machine::FaultKind fault) {
  switch (fault) {
    case machine::FaultKind::illegal_address:
    // Measured on an H200 (driver 580): these two are reported as illegal addresses as well.
    case machine::FaultKind::invalid_pc:
    case machine::FaultKind::stack_overflow: return cudaErrorIllegalAddress;
    case machine::FaultKind::misaligned_address: return cudaErrorMisalignedAddress;
    case machine::FaultKind::illegal_instruction: return cudaErrorIllegalInstruction;
    case machine::FaultKind::invalid_address_space: return cudaErrorInvalidAddressSpace;
    case machine::FaultKind::assertion: return cudaErrorAssert;
    case machine::FaultKind::launch_failure: return cudaErrorLaunchFailure;
    case machine::FaultKind::deadlock: return cudaErrorLaunchTimeout;
    case machine::FaultKind::host_memory: return cudaErrorMemoryAllocation;
    case machine::FaultKind::timeout: return cudaErrorLaunchTimeout;
  }
  return cudaErrorUnknown;
}

CUresult driver_error(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidDeviceFunction: return CUDA_ERROR_INVALID_HANDLE;
    case cudaErrorInvalidSymbol: return CUDA_ERROR_NOT_FOUND;
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidPitchValue:
    case cudaErrorInvalidMemcpyDirection: return CUDA_ERROR_INVALID_VALUE;
    default: break;
  }
  const auto same_number = static_cast<CUresult>(error);
  return driver_error_name(same_number) != nullptr ? same_number : CUDA_ERROR_UNKNOWN;
}

void check_device(int device) {
  if (device != 0) {
    throw ApiError(cudaErrorInvalidDevice, fmt::format("there is no device {}; the emulated GPU is device 0", device));
  }
}

void check_no_flags(unsigned flags) {
  if (flags != 0) throw ApiError(cudaErrorInvalidValue, fmt::format("flags are {}; legal is 0", flags));
}

void check_cache_preference(int preference) {
  if (preference < cudaFuncCachePreferNone || preference > cudaFuncCachePreferEqual) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("the preference is {}; legal are 0 to 3", preference));
  }
}

void throw_once(std::optional<ApiError>& failure) {
  const ApiError error = *failure;
  failure = ApiError(error.code(), "");
  throw error;
}

}  // namespace stagecraft::emulator::runtime
