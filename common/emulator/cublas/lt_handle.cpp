// Handles of cuBLASLt, and its version and properties.
#include "emulator/cublas/call.hpp"
#include "emulator/cublas/lt_descriptors.hpp"

/// What a cublasLtHandle_t points to. Programs may also pass a cublasHandle_t, so nothing reads it.
struct cublasLtContext {};

using namespace stagecraft::emulator::cublas;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return run("cublasLtCreate", [&] {
    require(handle != nullptr, "the result is a null pointer");
    check(cudaFree(nullptr));  // no handle without a device
    *handle = new cublasLtContext;
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }
size_t cublasLtGetCudartVersion(void) { return CUDART_VERSION; }

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) {
  return run("cublasLtGetProperty", [&] {
    require(value != nullptr && type >= MAJOR_VERSION && type <= PATCH_LEVEL,
            "the property is neither major, minor nor patch level, or there is no place for it");
    const int versions[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
    *value = versions[type];
  });
}

const char* cublasLtGetStatusName(cublasStatus_t status) { return name_of(status); }
const char* cublasLtGetStatusString(cublasStatus_t status) { return name_of(status); }

/// Nothing here chooses among the processor's instructions, so the previous mask is 0.
unsigned cublasLtDisableCpuInstructionsSetMask(unsigned) { return 0; }

}  // extern "C"
