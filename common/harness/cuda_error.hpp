// CUDA errors as exceptions that say what was being done, where, and what CUDA calls it.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace stagecraft::harness {

/// A CUDA call that failed.
class CudaError : public std::runtime_error {
 public:
  /// @param message  what() returns it.
  CudaError(cudaError_t code, const std::string& message) : std::runtime_error(message), code_(code) {}

  /// What the call returned.
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

/// Throws CudaError unless `error` is cudaSuccess.
/// @param doing  what was tried, to follow "cannot": "copy C to the host".
/// @param file, line  of the call; leave them out.
inline void check(cudaError_t error, const std::string& doing, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // it is reported here; the next call starts clean, unless the error is one that sticks
  const std::string path = file;
  throw CudaError(error, "cannot " + doing + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) +
                             ", at " + path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line) + ")");
}

}  // namespace stagecraft::harness
