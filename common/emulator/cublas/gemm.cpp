// C = alpha * op(A) * op(B) + beta * C in the forms that cuBLAS has.
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "emulator/cublas/matrices.hpp"
#include "emulator/cublas/product.hpp"

namespace stagecraft::emulator::cublas {
namespace {

struct Operand {
  const void* data;
  cudaDataType type;
  int64_t leading;
  cublasOperation_t op = CUBLAS_OP_N;
};

struct Gemm {
  int64_t m, n, k;
  Operand a, b;
  const void *alpha, *beta;  ///< of `scale`
  cudaDataType scale;
  Operand c;
};

/// The type of alpha and beta, which is also the one in which sums are taken, except that halves are summed in float.
cudaDataType scale_of(cublasComputeType_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC: return CUDA_R_16F;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
    case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT: return CUDA_R_64F;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC: return CUDA_R_32I;
    default: return CUDA_R_32F;
  }
}

void check_leading(const char* name, const Operand& operand, int64_t rows) {
  require(operand.leading >= std::max<int64_t>(rows, 1), std::string("ld") + name + " is " +
                                                             std::to_string(operand.leading) + ", but a column has " +
                                                             std::to_string(rows) + " elements");
}

/// op(operand), rows by columns.
template <typename Value>
std::vector<Value> read_operand(const cublasContext& context, const Operand& operand, int64_t rows, int64_t columns) {
  if (operand.op == CUBLAS_OP_N)
    return read<Value>(context, {operand.data, operand.type, rows, columns, operand.leading});
  return transposed(read<Value>(context, {operand.data, operand.type, columns, rows, operand.leading}), rows, columns);
}

template <typename Value>
void multiply_in(const cublasContext& context, const Gemm& gemm) {
  const auto alpha = static_cast<Value>(read_scalar(context, gemm.alpha, gemm.scale));
  const auto beta = static_cast<Value>(read_scalar(context, gemm.beta, gemm.scale));
  const Matrix c{gemm.c.data, gemm.c.type, gemm.m, gemm.n, gemm.c.leading};
  std::vector<Value> result(static_cast<size_t>(gemm.m * gemm.n));
  // As in BLAS, a matrix whose factor is zero is not read: it may hold anything.
  if (alpha != Value{0} && gemm.k > 0) {
    result = product(gemm.m, gemm.n, gemm.k, read_operand<Value>(context, gemm.a, gemm.m, gemm.k),
                     read_operand<Value>(context, gemm.b, gemm.k, gemm.n));
  }
  for (Value& value : result) value *= alpha;
  if (beta != Value{0}) {
    const std::vector<Value> before = read<Value>(context, c);
    for (size_t i = 0; i < result.size(); ++i) result[i] += beta * before[i];
  }
  write(context, c, result);
}

void multiply(const cublasContext& context, const Gemm& gemm) {
  for (const Operand& operand : {gemm.a, gemm.b, gemm.c}) {
    if (operand.type == CUDA_R_8F_E4M3 || operand.type == CUDA_R_8F_E5M2)
      throw Failure(CUBLAS_STATUS_NOT_SUPPORTED, "cuBLAS has 8-bit floats in cublasLtMatmul only");
  }
  require(gemm.m >= 0 && gemm.n >= 0 && gemm.k >= 0, "m, n or k is negative");
  check_leading("a", gemm.a, gemm.a.op == CUBLAS_OP_N ? gemm.m : gemm.k);
  check_leading("b", gemm.b, gemm.b.op == CUBLAS_OP_N ? gemm.k : gemm.n);
  check_leading("c", gemm.c, gemm.m);
  if (gemm.m == 0 || gemm.n == 0) return;
  if (gemm.scale == CUDA_R_64F) return multiply_in<double>(context, gemm);
  if (gemm.scale == CUDA_R_32I) return multiply_in<int32_t>(context, gemm);
  multiply_in<float>(context, gemm);
}

const void* behind(const void* data, int64_t elements, cudaDataType type) {
  return static_cast<const std::byte*>(data) + elements * bytes_of(type);
}

/// Computes one product after the other; the matrices of each are a stride after those of the one before.
void multiply_strided(const cublasContext& context, Gemm gemm, int64_t stride_a, int64_t stride_b, int64_t stride_c,
                      int64_t count) {
  require(count >= 0, "batchCount is negative");
  for (int64_t i = 0; i < count; ++i) {
    multiply(context, gemm);
    gemm.a.data = behind(gemm.a.data, stride_a, gemm.a.type);
    gemm.b.data = behind(gemm.b.data, stride_b, gemm.b.type);
    gemm.c.data = behind(gemm.c.data, stride_c, gemm.c.type);
  }
}

/// Computes one product after the other, of matrices whose addresses are in device memory.
void multiply_batch(const cublasContext& context, Gemm gemm, const void* as, const void* bs, const void* cs,
                    int64_t count) {
  require(count >= 0, "batchCount is negative");
  const auto addresses = [&](const void* array) {
    std::vector<const void*> result(static_cast<size_t>(count));
    const size_t bytes = result.size() * sizeof(void*);
    transfer(context, result.data(), bytes, array, bytes, bytes, 1, cudaMemcpyDeviceToHost);
    return result;
  };
  if (count == 0) return;
  const std::vector<const void*> a = addresses(as), b = addresses(bs), c = addresses(cs);
  for (size_t i = 0; i < a.size(); ++i) {
    gemm.a.data = a[i];
    gemm.b.data = b[i];
    gemm.c.data = c[i];
    multiply(context, gemm);
  }
}

}  // namespace
}  // namespace stagecraft::emulator::cublas

using namespace stagecraft::emulator::cublas;

// Each function exists for sizes of int and of int64_t.
#define STAGECRAFT_GEMM(Name, batch_suffix, Element, type, Int, suffix)                                               \
  STAGECRAFT_CUBLAS(                                                                                                  \
      Name##batch_suffix##suffix,                                                                                     \
      (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, Int m, Int n, Int k,                    \
       const Element* alpha, const Element* a, Int lda, const Element* b, Int ldb, const Element* beta, Element* c,   \
       Int ldc),                                                                                                      \
      multiply(context, {m, n, k, {a, type, lda, op_a}, {b, type, ldb, op_b}, alpha, beta, type, {c, type, ldc}}))    \
  STAGECRAFT_CUBLAS(                                                                                                  \
      Name##StridedBatched##suffix,                                                                                   \
      (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, Int m, Int n, Int k,                    \
       const Element* alpha, const Element* a, Int lda, long long stride_a, const Element* b, Int ldb,                \
       long long stride_b, const Element* beta, Element* c, Int ldc, long long stride_c, Int count),                  \
      multiply_strided(context,                                                                                       \
                       {m, n, k, {a, type, lda, op_a}, {b, type, ldb, op_b}, alpha, beta, type, {c, type, ldc}},      \
                       stride_a, stride_b, stride_c, count))                                                          \
  STAGECRAFT_CUBLAS(                                                                                                  \
      Name##Batched##suffix,                                                                                          \
      (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, Int m, Int n, Int k,                    \
       const Element* alpha, const Element* const a[], Int lda, const Element* const b[], Int ldb,                    \
       const Element* beta, Element* const c[], Int ldc, Int count),                                                  \
      multiply_batch(                                                                                                 \
          context,                                                                                                    \
          {m, n, k, {nullptr, type, lda, op_a}, {nullptr, type, ldb, op_b}, alpha, beta, type, {nullptr, type, ldc}}, \
          a, b, c, count))

#define STAGECRAFT_GEMM_EX(Int, suffix)                                                                                \
  STAGECRAFT_CUBLAS(                                                                                                   \
      GemmEx##suffix,                                                                                                  \
      (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, Int m, Int n, Int k, const void* alpha,  \
       const void* a, cudaDataType type_a, Int lda, const void* b, cudaDataType type_b, Int ldb, const void* beta,     \
       void* c, cudaDataType type_c, Int ldc, cublasComputeType_t compute, cublasGemmAlgo_t),                          \
      multiply(context, {m,                                                                                            \
                         n,                                                                                            \
                         k,                                                                                            \
                         {a, type_a, lda, op_a},                                                                       \
                         {b, type_b, ldb, op_b},                                                                       \
                         alpha,                                                                                        \
                         beta,                                                                                         \
                         scale_of(compute),                                                                            \
                         {c, type_c, ldc}}))                                                                           \
  STAGECRAFT_CUBLAS(                                                                                                   \
      GemmStridedBatchedEx##suffix,                                                                                    \
      (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, Int m, Int n, Int k, const void* alpha,  \
       const void* a, cudaDataType type_a, Int lda, long long stride_a, const void* b, cudaDataType type_b, Int ldb,   \
       long long stride_b, const void* beta, void* c, cudaDataType type_c, Int ldc, long long stride_c, Int count,     \
       cublasComputeType_t compute, cublasGemmAlgo_t),                                                                 \
      multiply_strided(                                                                                                \
          context,                                                                                                     \
          {m, n, k, {a, type_a, lda, op_a}, {b, type_b, ldb, op_b}, alpha, beta, scale_of(compute), {c, type_c, ldc}}, \
          stride_a, stride_b, stride_c, count))                                                                        \
  STAGECRAFT_CUBLAS(GemmBatchedEx##suffix,                                                                             \
                    (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, Int m, Int n, Int k,       \
                     const void* alpha, const void* const a[], cudaDataType type_a, Int lda, const void* const b[],    \
                     cudaDataType type_b, Int ldb, const void* beta, void* const c[], cudaDataType type_c, Int ldc,    \
                     Int count, cublasComputeType_t compute, cublasGemmAlgo_t),                                        \
                    multiply_batch(context,                                                                            \
                                   {m,                                                                                 \
                                    n,                                                                                 \
                                    k,                                                                                 \
                                    {nullptr, type_a, lda, op_a},                                                      \
                                    {nullptr, type_b, ldb, op_b},                                                      \
                                    alpha,                                                                             \
                                    beta,                                                                              \
                                    scale_of(compute),                                                                 \
                                    {nullptr, type_c, ldc}},                                                           \
                                   a, b, c, count))                                                                    \
  STAGECRAFT_CUBLAS(                                                                                                   \
      SgemmEx##suffix,                                                                                                 \
      (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, Int m, Int n, Int k, const float* alpha, \
       const void* a, cudaDataType type_a, Int lda, const void* b, cudaDataType type_b, Int ldb, const float* beta,    \
       void* c, cudaDataType type_c, Int ldc),                                                                         \
      multiply(context,                                                                                                \
               {m, n, k, {a, type_a, lda, op_a}, {b, type_b, ldb, op_b}, alpha, beta, CUDA_R_32F, {c, type_c, ldc}}))

extern "C" {

STAGECRAFT_GEMM(Sgemm, _v2, float, CUDA_R_32F, int, )
STAGECRAFT_GEMM(Sgemm, _v2, float, CUDA_R_32F, int64_t, _64)
STAGECRAFT_GEMM(Dgemm, _v2, double, CUDA_R_64F, int, )
STAGECRAFT_GEMM(Dgemm, _v2, double, CUDA_R_64F, int64_t, _64)
STAGECRAFT_GEMM(Hgemm, , __half, CUDA_R_16F, int, )
STAGECRAFT_GEMM(Hgemm, , __half, CUDA_R_16F, int64_t, _64)
STAGECRAFT_GEMM_EX(int, )
STAGECRAFT_GEMM_EX(int64_t, _64)

}  // extern "C"
