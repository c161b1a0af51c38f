// The frame around each function of the stand-ins for cuBLAS and cuBLASLt.
#pragma once

#pragma GCC visibility push(default)  // the library exports what this header declares
#include <cublas_v2.h>
#pragma GCC visibility pop

#include <functional>
#include <stdexcept>
#include <string>

/// What a cublasHandle_t points to.
struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  int multiprocessors = 0;
};

namespace stagecraft::emulator::cublas {

/// Why a function fails: the status it returns, and a sentence for people (empty when it was reported before).
class Failure : public std::runtime_error {
 public:
  Failure(cublasStatus_t status, const std::string& message) : std::runtime_error(message), status_(status) {}
  cublasStatus_t status() const { return status_; }

 private:
  cublasStatus_t status_;
};

const char* name_of(cublasStatus_t status) noexcept;

/// Runs `body`, and reports why it failed.
/// @param function  its name, which may end in _v2, _64 or both
/// @param handle  the caller's; null is refused
cublasStatus_t run(const char* function, cublasHandle_t handle,
                   const std::function<void(cublasContext&)>& body) noexcept;

/// Does the same for functions without a handle.
cublasStatus_t run(const char* function, const std::function<void()>& body) noexcept;

// Defines a function of cuBLAS with a handle from its NAME, its (PARAMETERS) and its body, which uses `context`.
#define STAGECRAFT_CUBLAS(name, parameters, body)                                                     \
  cublasStatus_t cublas##name parameters {                                                            \
    return stagecraft::emulator::cublas::run("cublas" #name, handle,                                  \
                                             [&]([[maybe_unused]] cublasContext& context) { body; }); \
  }

/// Throws Failure when a call of the CUDA runtime did not succeed. The runtime has reported why.
void check(cudaError_t error);

/// Throws Failure with `message` unless `legal`.
void require(bool legal, const std::string& message);

}  // namespace stagecraft::emulator::cublas
