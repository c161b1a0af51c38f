// Handles, their settings, and copies of matrices and vectors.
#include <string>

#include "emulator/cublas/call.hpp"

using namespace stagecraft::emulator::cublas;

namespace {

/// The place of a result; refuses a null pointer.
template <typename Value>
Value& result_at(Value* place) {
  require(place != nullptr, "the result is a null pointer");
  return *place;
}

void copy_matrix(int64_t rows, int64_t columns, int64_t bytes, const void* from, int64_t from_leading, void* to,
                 int64_t to_leading, cudaMemcpyKind kind) {
  require(rows >= 0 && columns >= 0 && bytes > 0, "a number of rows, columns or bytes is negative, or no bytes at all");
  require(from_leading >= rows && to_leading >= rows,
          "a leading dimension is less than the " + std::to_string(rows) + " rows of a column");
  if (rows == 0 || columns == 0) return;
  check(cudaMemcpy2D(to, static_cast<size_t>(to_leading * bytes), from, static_cast<size_t>(from_leading * bytes),
                     static_cast<size_t>(rows * bytes), static_cast<size_t>(columns), kind));
}

}  // namespace

// Defines Get and Set of a member.
#define STAGECRAFT_SETTING(Name, suffix, Type, member)                                                           \
  STAGECRAFT_CUBLAS(Get##Name##suffix, (cublasHandle_t handle, Type * value), result_at(value) = context.member) \
  STAGECRAFT_CUBLAS(Set##Name##suffix, (cublasHandle_t handle, Type value), context.member = value)

// Defines the copies of matrices and of vectors to the device or from it. The elements of a vector are like a matrix of
// one row.
#define STAGECRAFT_COPIES(Direction, kind, Int, suffix)                                                               \
  cublasStatus_t cublas##Direction##Matrix##suffix(Int rows, Int columns, Int bytes, const void* a, Int lda, void* b, \
                                                   Int ldb) {                                                         \
    return run("cublas" #Direction "Matrix", [&] { copy_matrix(rows, columns, bytes, a, lda, b, ldb, kind); });       \
  }                                                                                                                   \
  cublasStatus_t cublas##Direction##Vector##suffix(Int n, Int bytes, const void* x, Int incx, void* y, Int incy) {    \
    return run("cublas" #Direction "Vector", [&] { copy_matrix(1, n, bytes, x, incx, y, incy, kind); });              \
  }

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  return run("cublasCreate", [&] {
    check(cudaFree(nullptr));  // no handle without a device
    result_at(handle) = new cublasContext;
  });
}

STAGECRAFT_CUBLAS(Destroy_v2, (cublasHandle_t handle), delete &context)

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  return run("cublasGetVersion", [&] { result_at(version) = CUBLAS_VERSION; });
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  return run("cublasGetProperty", [&] {
    require(type >= MAJOR_VERSION && type <= PATCH_LEVEL, "the property is neither major, minor nor patch level");
    const int versions[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
    result_at(value) = versions[type];
  });
}

size_t cublasGetCudartVersion(void) { return CUDART_VERSION; }

/// There is nothing to keep in a workspace.
STAGECRAFT_CUBLAS(SetWorkspace_v2, (cublasHandle_t handle, void*, size_t), )

STAGECRAFT_SETTING(PointerMode, _v2, cublasPointerMode_t, pointer_mode)
STAGECRAFT_SETTING(MathMode, , cublasMath_t, math_mode)
STAGECRAFT_SETTING(AtomicsMode, , cublasAtomicsMode_t, atomics_mode)
STAGECRAFT_SETTING(SmCountTarget, , int, multiprocessors)
STAGECRAFT_SETTING(Stream, _v2, cudaStream_t, stream)
STAGECRAFT_COPIES(Set, cudaMemcpyHostToDevice, int, )
STAGECRAFT_COPIES(Set, cudaMemcpyHostToDevice, int64_t, _64)
STAGECRAFT_COPIES(Get, cudaMemcpyDeviceToHost, int, )
STAGECRAFT_COPIES(Get, cudaMemcpyDeviceToHost, int64_t, _64)

cublasStatus_t cublasLoggerConfigure(int, int, int, const char*) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetLoggerCallback(cublasLogCallback) { return CUBLAS_STATUS_SUCCESS; }

}  // extern "C"
