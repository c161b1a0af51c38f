// Vectors, a matrix times a vector, and sums of matrices.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "emulator/cublas/matrices.hpp"
#include "emulator/cublas/product.hpp"

namespace stagecraft::emulator::cublas {
namespace {

template <typename Value>
constexpr cudaDataType kType = std::is_same_v<Value, float> ? CUDA_R_32F : CUDA_R_64F;

/// n elements, `stride` apart; from the last to the first when it is negative, as BLAS has it.
/// @tparam Value  what is computed in, and what the elements are where no other type is given
template <typename Value>
struct Vector {
  const cublasContext& context;
  const void* data;
  int64_t n, stride;
  cudaDataType type = kType<Value>;

  Matrix matrix() const {
    require(stride != 0, "the stride of a vector is 0");
    return {data, type, 1, std::max<int64_t>(n, 0), std::abs(stride)};
  }
  std::vector<Value> read() const {
    std::vector<Value> values = cublas::read<Value>(context, matrix());
    if (stride < 0) std::reverse(values.begin(), values.end());
    return values;
  }
  void write(std::vector<Value> values) const {
    if (stride < 0) std::reverse(values.begin(), values.end());
    cublas::write(context, matrix(), values);
  }
};

/// y += alpha * x
template <typename Value>
void axpy(const cublasContext& context, const Value* alpha, const Vector<Value>& x, const Vector<Value>& y) {
  const auto factor = static_cast<Value>(read_scalar(context, alpha, kType<Value>));
  const std::vector<Value> terms = x.read();
  std::vector<Value> sum = y.read();
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += factor * terms[i];
  y.write(std::move(sum));
}

/// x *= alpha
template <typename Value>
void scale(const cublasContext& context, const Value* alpha, const Vector<Value>& x) {
  const auto factor = static_cast<Value>(read_scalar(context, alpha, kType<Value>));
  std::vector<Value> values = x.read();
  for (Value& value : values) value *= factor;
  x.write(std::move(values));
}

/// The sum of products, taken in double.
template <typename Value>
double dot(const std::vector<Value>& x, const std::vector<Value>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += double{x[i]} * y[i];
  return sum;
}

template <typename Value>
double length_of(const std::vector<Value>& x) {
  return std::sqrt(dot(x, x));
}

template <typename Value>
double sum_of_magnitudes(const std::vector<Value>& x) {
  double sum = 0;
  for (const Value value : x) sum += std::abs(double{value});
  return sum;
}

/// 1 and more: the first element of the largest (or least) magnitude; 0 where there is none.
template <typename Value>
double extreme(const std::vector<Value>& x, bool least) {
  const auto less = [](Value a, Value b) { return std::abs(a) < std::abs(b); };
  if (x.empty()) return 0;
  const auto found = least ? std::min_element(x.begin(), x.end(), less) : std::max_element(x.begin(), x.end(), less);
  return static_cast<double>(found - x.begin() + 1);
}

template <typename Value>
void gemv(const cublasContext& context, cublasOperation_t op, int64_t m, int64_t n, const Value* alpha, const Value* a,
          int64_t lda, Vector<Value> x, const Value* beta, Vector<Value> y) {
  require(m >= 0 && n >= 0 && lda >= std::max<int64_t>(m, 1), "m or n is negative, or lda is less than m");
  if (m == 0 || n == 0) return;
  const auto scale = static_cast<Value>(read_scalar(context, alpha, kType<Value>));
  const auto keep = static_cast<Value>(read_scalar(context, beta, kType<Value>));
  std::vector<Value> matrix = read<Value>(context, {a, kType<Value>, m, n, lda});
  if (op != CUBLAS_OP_N) matrix = transposed(matrix, n, m);
  x.n = op == CUBLAS_OP_N ? n : m;
  y.n = op == CUBLAS_OP_N ? m : n;
  std::vector<Value> result = product(y.n, 1, x.n, matrix, x.read());
  for (Value& value : result) value *= scale;
  if (keep != Value{0}) {
    const std::vector<Value> before = y.read();
    for (size_t i = 0; i < result.size(); ++i) result[i] += keep * before[i];
  }
  y.write(std::move(result));
}

template <typename Value>
void geam(const cublasContext& context, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n,
          const Value* alpha, const Value* a, int64_t lda, const Value* beta, const Value* b, int64_t ldb, Value* c,
          int64_t ldc) {
  require(m >= 0 && n >= 0 && ldc >= std::max<int64_t>(m, 1), "m or n is negative, or ldc is less than m");
  std::vector<Value> sum(static_cast<size_t>(m * n));
  const auto add = [&](const char* name, cublasOperation_t op, const Value* factor, const Value* data,
                       int64_t leading) {
    const auto scale = static_cast<Value>(read_scalar(context, factor, kType<Value>));
    if (scale == Value{0}) return;
    const int64_t rows = op == CUBLAS_OP_N ? m : n, columns = op == CUBLAS_OP_N ? n : m;
    require(leading >= std::max<int64_t>(rows, 1), std::string(name) + " is less than the rows of its matrix");
    std::vector<Value> values = read<Value>(context, {data, kType<Value>, rows, columns, leading});
    if (op != CUBLAS_OP_N) values = transposed(values, m, n);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += scale * values[i];
  };
  add("lda", op_a, alpha, a, lda);
  add("ldb", op_b, beta, b, ldb);
  write(context, {c, kType<Value>, m, n, ldc}, sum);
}

}  // namespace
}  // namespace stagecraft::emulator::cublas

using namespace stagecraft::emulator::cublas;

// For S and D, and for sizes of int and of int64_t.
#define STAGECRAFT_VECTORS(S, Value, Int, suffix)                                                                      \
  STAGECRAFT_CUBLAS(S##axpy_v2##suffix,                                                                                \
                    (cublasHandle_t handle, Int n, const Value* alpha, const Value* x, Int incx, Value* y, Int incy),  \
                    axpy<Value>(context, alpha, {context, x, n, incx}, {context, y, n, incy}))                         \
  STAGECRAFT_CUBLAS(S##scal_v2##suffix, (cublasHandle_t handle, Int n, const Value* alpha, Value* x, Int incx),        \
                    scale<Value>(context, alpha, {context, x, n, incx}))                                               \
  STAGECRAFT_CUBLAS(S##copy_v2##suffix, (cublasHandle_t handle, Int n, const Value* x, Int incx, Value* y, Int incy),  \
                    (Vector<Value>{context, y, n, incy}.write(Vector<Value>{context, x, n, incx}.read())))             \
  STAGECRAFT_CUBLAS(                                                                                                   \
      S##dot_v2##suffix,                                                                                               \
      (cublasHandle_t handle, Int n, const Value* x, Int incx, const Value* y, Int incy, Value* result),               \
      write_scalar(context, result, kType<Value>,                                                                      \
                   dot(Vector<Value>{context, x, n, incx}.read(), Vector<Value>{context, y, n, incy}.read())))         \
  STAGECRAFT_CUBLAS(S##nrm2_v2##suffix, (cublasHandle_t handle, Int n, const Value* x, Int incx, Value* result),       \
                    write_scalar(context, result, kType<Value>, length_of(Vector<Value>{context, x, n, incx}.read()))) \
  STAGECRAFT_CUBLAS(                                                                                                   \
      S##asum_v2##suffix, (cublasHandle_t handle, Int n, const Value* x, Int incx, Value* result),                     \
      write_scalar(context, result, kType<Value>, sum_of_magnitudes(Vector<Value>{context, x, n, incx}.read())))       \
  STAGECRAFT_CUBLAS(S##gemv_v2##suffix,                                                                                \
                    (cublasHandle_t handle, cublasOperation_t op, Int m, Int n, const Value* alpha, const Value* a,    \
                     Int lda, const Value* x, Int incx, const Value* beta, Value* y, Int incy),                        \
                    gemv<Value>(context, op, m, n, alpha, a, lda, {context, x, 0, incx}, beta, {context, y, 0, incy})) \
  STAGECRAFT_CUBLAS(                                                                                                   \
      S##geam##suffix,                                                                                                 \
      (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, Int m, Int n, const Value* alpha,        \
       const Value* a, Int lda, const Value* beta, const Value* b, Int ldb, Value* c, Int ldc),                        \
      geam<Value>(context, op_a, op_b, m, n, alpha, a, lda, beta, b, ldb, c, ldc))

#define STAGECRAFT_EXTREMES(s, Value)                                                                                 \
  STAGECRAFT_CUBLAS(                                                                                                  \
      I##s##amax_v2, (cublasHandle_t handle, int n, const Value* x, int incx, int* result),                           \
      write_scalar(context, result, CUDA_R_32I, extreme(Vector<Value>{context, x, n, incx}.read(), /*least=*/false))) \
  STAGECRAFT_CUBLAS(                                                                                                  \
      I##s##amin_v2, (cublasHandle_t handle, int n, const Value* x, int incx, int* result),                           \
      write_scalar(context, result, CUDA_R_32I, extreme(Vector<Value>{context, x, n, incx}.read(), /*least=*/true)))

// With the types of the elements as arguments; the sums are taken in double, whatever type is asked for.
#define STAGECRAFT_TYPED_VECTORS(Int, suffix)                                                                   \
  STAGECRAFT_CUBLAS(DotEx##suffix,                                                                              \
                    (cublasHandle_t handle, Int n, const void* x, cudaDataType x_type, Int incx, const void* y, \
                     cudaDataType y_type, Int incy, void* result, cudaDataType result_type, cudaDataType),      \
                    write_scalar(context, result, result_type,                                                  \
                                 dot(Vector<double>{context, x, n, incx, x_type}.read(),                        \
                                     Vector<double>{context, y, n, incy, y_type}.read())))                      \
  STAGECRAFT_CUBLAS(                                                                                            \
      Nrm2Ex##suffix,                                                                                           \
      (cublasHandle_t handle, Int n, const void* x, cudaDataType x_type, Int incx, void* result,                \
       cudaDataType result_type, cudaDataType),                                                                 \
      write_scalar(context, result, result_type, length_of(Vector<double>{context, x, n, incx, x_type}.read())))

extern "C" {

STAGECRAFT_TYPED_VECTORS(int, )
STAGECRAFT_TYPED_VECTORS(int64_t, _64)
STAGECRAFT_VECTORS(S, float, int, )
STAGECRAFT_VECTORS(S, float, int64_t, _64)
STAGECRAFT_VECTORS(D, double, int, )
STAGECRAFT_VECTORS(D, double, int64_t, _64)
STAGECRAFT_EXTREMES(s, float)
STAGECRAFT_EXTREMES(d, double)

}  // extern "C"
