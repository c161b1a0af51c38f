// CUDA errors as exceptions that say what was being done, where, and what CUDA calls it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>

#include "stagecraft/errors.hpp"

namespace stagecraft::harness {

/// A CUDA call that failed.
class CudaError : public FormattedError {
 public:
  /// @param doing, file, line  as of `check`.
  CudaError(cudaError_t code, const char* doing, const char* file, int line) : code_(code) {
    const char* slash = std::strrchr(file, '/');
    append("cannot %s: %s (%s, at %s:%d)", doing, cudaGetErrorString(code), cudaGetErrorName(code),
           slash != nullptr ? slash + 1 : file, line);
  }

  /// What the call returned.
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

/// Throws CudaError unless `error` is cudaSuccess.
/// @param doing  what was tried, to follow "cannot": "copy C to the host".
/// @param file, line  of the call; leave them out.
inline void check(cudaError_t error, const char* doing, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // it is reported here; the next call starts clean, unless the error is one that sticks
  throw CudaError(error, doing, file, line);
}

}  // namespace stagecraft::harness
