// The functions of vectors, of a matrix times a vector, and of sums of matrices.
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

/// A vector of n elements, `stride` apart. As in BLAS, a negative stride goes from the last element to the first.
/// @tparam Value  the type to compute in, and that of the elements unless `type` is another
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

/// Does y += alpha * x.
template <typename Value>
void axpy(const cublasContext& context, const Value* alpha, const Vector<Value>& x, const Vector<Value>& y) {
  const auto factor = static_cast<Value>(read_scalar(context, alpha, kType<Value>));
  const std::vector<Value> terms = x.read();
  std::vector<Value> sum = y.read();
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += factor * terms[i];
  y.write(std::move(sum));
}

/// Does x *= alpha.
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

/// The index, counted from 1, of the first element of the largest (or least) magnitude; 0 for an empty vector.
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

/// Writes the index of the element of the least or largest magnitude.
template <typename Value>
cublasStatus_t write_extreme(const char* function, cublasHandle_t handle, int n, const Value* x, int incx, int* result,
                             bool least) {
  return run(function, handle, [&](cublasContext& context) {
    write_scalar(context, result, CUDA_R_32I, extreme(Vector<Value>{context, x, n, incx}.read(), least));
  });
}

/// Elements of any type; the sum is taken in double, whatever type the program asks for.
cublasStatus_t write_dot(const char* function, cublasHandle_t handle, int64_t n, const void* x, cudaDataType x_type,
                         int64_t incx, const void* y, cudaDataType y_type, int64_t incy, void* result,
                         cudaDataType result_type) {
  return run(function, handle, [&](cublasContext& context) {
    const std::vector<double> first = Vector<double>{context, x, n, incx, x_type}.read();
    write_scalar(context, result, result_type, dot(first, Vector<double>{context, y, n, incy, y_type}.read()));
  });
}
cublasStatus_t write_length(const char* function, cublasHandle_t handle, int64_t n, const void* x, cudaDataType x_type,
                            int64_t incx, void* result, cudaDataType result_type) {
  return run(function, handle, [&](cublasContext& context) {
    write_scalar(context, result, result_type, length_of(Vector<double>{context, x, n, incx, x_type}.read()));
  });
}

}  // namespace
}  // namespace stagecraft::emulator::cublas

using namespace stagecraft::emulator::cublas;

extern "C" {

#define VALUE float
#define INT int
#define NAME(stem) cublasS##stem
#include "emulator/cublas/vector_calls.inc"
#undef INT
#undef NAME
#define INT int64_t
#define NAME(stem) cublasS##stem##_64
#include "emulator/cublas/vector_calls.inc"
#undef VALUE
#undef NAME
#define VALUE double
#define NAME(stem) cublasD##stem##_64
#include "emulator/cublas/vector_calls.inc"
#undef INT
#undef NAME
#define INT int
#define NAME(stem) cublasD##stem
#include "emulator/cublas/vector_calls.inc"

cublasStatus_t cublasIsamax_v2(cublasHandle_t handle, int n, const float* x, int incx, int* result) {
  return write_extreme(__func__, handle, n, x, incx, result, /*least=*/false);
}
cublasStatus_t cublasIdamax_v2(cublasHandle_t handle, int n, const double* x, int incx, int* result) {
  return write_extreme(__func__, handle, n, x, incx, result, /*least=*/false);
}
cublasStatus_t cublasIsamin_v2(cublasHandle_t handle, int n, const float* x, int incx, int* result) {
  return write_extreme(__func__, handle, n, x, incx, result, /*least=*/true);
}
cublasStatus_t cublasIdamin_v2(cublasHandle_t handle, int n, const double* x, int incx, int* result) {
  return write_extreme(__func__, handle, n, x, incx, result, /*least=*/true);
}

cublasStatus_t cublasDotEx(cublasHandle_t handle, int n, const void* x, cudaDataType x_type, int incx, const void* y,
                           cudaDataType y_type, int incy, void* result, cudaDataType result_type, cudaDataType) {
  return write_dot(__func__, handle, n, x, x_type, incx, y, y_type, incy, result, result_type);
}
cublasStatus_t cublasDotEx_64(cublasHandle_t handle, int64_t n, const void* x, cudaDataType x_type, int64_t incx,
                              const void* y, cudaDataType y_type, int64_t incy, void* result, cudaDataType result_type,
                              cudaDataType) {
  return write_dot(__func__, handle, n, x, x_type, incx, y, y_type, incy, result, result_type);
}
cublasStatus_t cublasNrm2Ex(cublasHandle_t handle, int n, const void* x, cudaDataType x_type, int incx, void* result,
                            cudaDataType result_type, cudaDataType) {
  return write_length(__func__, handle, n, x, x_type, incx, result, result_type);
}
cublasStatus_t cublasNrm2Ex_64(cublasHandle_t handle, int64_t n, const void* x, cudaDataType x_type, int64_t incx,
                               void* result, cudaDataType result_type, cudaDataType) {
  return write_length(__func__, handle, n, x, x_type, incx, result, result_type);
}

}  // extern "C"
