#include "emulator/cublas/call.hpp"

#include <new>
#include <string>
#include <string_view>
#include <utility>

/// A function of libcudart, which reports a refused call as all reports are.
extern "C" void stagecraft_refuse(const char* function, const char* message, const char* error) noexcept;

namespace stagecraft::emulator::cublas {
namespace {

/// Reports the refusal under the name by which programs call the function; cublas_v2.h adds _v2 to it.
cublasStatus_t refused(std::string_view function, const char* message, cublasStatus_t status) {
  if (*message != '\0')
    stagecraft_refuse(std::string(function.substr(0, function.find('_'))).c_str(), message, name_of(status));
  return status;
}

}  // namespace

cublasStatus_t run(const char* function, const std::function<void()>& body) noexcept {
  try {
    try {
      body();
      return CUBLAS_STATUS_SUCCESS;
    } catch (const Failure& failure) {
      return refused(function, failure.what(), failure.status());
    } catch (const std::bad_alloc&) {
      return refused(function, "the host has no memory left for this", CUBLAS_STATUS_ALLOC_FAILED);
    }
  } catch (...) {
    return CUBLAS_STATUS_INTERNAL_ERROR;
  }
}

cublasStatus_t run(const char* function, cublasHandle_t handle,
                   const std::function<void(cublasContext&)>& body) noexcept {
  return run(function, [&] {
    if (handle == nullptr) throw Failure(CUBLAS_STATUS_NOT_INITIALIZED, "the handle is null: cublasCreate makes one");
    body(*handle);
  });
}

void check(cudaError_t error) {
  if (error != cudaSuccess) throw Failure(CUBLAS_STATUS_EXECUTION_FAILED, cudaGetErrorString(error));
}

void require(bool legal, const std::string& message) {
  if (!legal) throw Failure(CUBLAS_STATUS_INVALID_VALUE, message);
}

const char* name_of(cublasStatus_t status) noexcept {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR: return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unrecognized CUBLAS_STATUS";
}

}  // namespace stagecraft::emulator::cublas

using namespace stagecraft::emulator::cublas;

extern "C" {

/// The stubs call this (make_cublas_stubs.py).
int stagecraft_cublas_stub(const char* function, bool* reported) noexcept {
  return run(function, [&] {
    throw Failure(
        CUBLAS_STATUS_NOT_SUPPORTED,
        std::exchange(*reported, true) ? "" : "the stand-in for cuBLAS, which computes on the host, does not have it");
  });
}

const char* cublasGetStatusName(cublasStatus_t status) { return name_of(status); }
const char* cublasGetStatusString(cublasStatus_t status) { return name_of(status); }

}  // extern "C"
