// CUDA errors: their names and texts, and how a function of the API ends with one.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "emulator/runtime/model/cuda_headers.hpp"
#include "emulator/state/fault.hpp"

namespace stagecraft::emulator::runtime {

/// Ends a function of the API: its caller gets `code`, and the report one line with the function's name and the
/// message. An empty message prints nothing: for answers that are not mistakes (cudaErrorNotReady), or that were
/// reported before.
class ApiError : public std::runtime_error {
 public:
  ApiError(cudaError_t code, std::string message) : std::runtime_error(std::move(message)), code_(code) {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

/// Throws the failure; with its message only the first time.
[[noreturn]] void throw_once(std::optional<ApiError>& failure);

/// "cudaErrorInvalidValue", or null for a number that is no error.
const char* error_name(cudaError_t error);
/// "invalid argument", or null.
const char* error_text(cudaError_t error);
const char* driver_error_name(CUresult error);
const char* driver_error_text(CUresult error);

/// What the runtime reports for a kernel that was stopped.
cudaError_t error_of(machine::FaultKind fault);
/// The driver's number for what the runtime reports as `error`. They agree where both have the error.
CUresult driver_error(cudaError_t error);

/// `pointer` itself; throws ApiError (cudaErrorInvalidValue) when it is null.
template <typename T>
T* required(T* pointer, const char* parameter) {
  if (pointer == nullptr) throw ApiError(cudaErrorInvalidValue, std::string(parameter) + " is a null pointer");
  return pointer;
}

/// Throws ApiError (cudaErrorInvalidDevice) unless the number is that of the one device.
void check_device(int device);

/// Throws ApiError (cudaErrorInvalidValue) unless the flags of a call that has none are 0.
void check_no_flags(unsigned flags);

/// Throws ApiError (cudaErrorInvalidValue) unless this is a preference for shared memory or L1, which nothing here has.
void check_cache_preference(int preference);

}  // namespace stagecraft::emulator::runtime
