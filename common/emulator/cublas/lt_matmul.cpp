// D = epilogue(alpha * op(A) * op(B) + beta * C), as cuBLASLt has it.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "emulator/cublas/lt_descriptors.hpp"
#include "emulator/cublas/matrices.hpp"
#include "emulator/cublas/product.hpp"

namespace stagecraft::emulator::cublas {
namespace {

/// Descriptors of a product, which belong together.
struct Product {
  const Description& how;
  const Layout &a, &b, &c, &d;

  int64_t m() const { return static_cast<int64_t>(d.rows); }
  int64_t n() const { return static_cast<int64_t>(d.columns); }
  int64_t k() const { return static_cast<int64_t>(how.op_a == CUBLAS_OP_N ? a.columns : a.rows); }
  bool epilogue_has(uint32_t bits) const { return (how.epilogue & bits) == bits; }
};

// The parts that epilogues are made of (cublasLtEpilogue_t).
constexpr uint32_t kRelu = CUBLASLT_EPILOGUE_RELU, kBias = CUBLASLT_EPILOGUE_BIAS, kGelu = CUBLASLT_EPILOGUE_GELU,
                   kAux = CUBLASLT_EPILOGUE_GELU_AUX & ~CUBLASLT_EPILOGUE_GELU,
                   kGeluGradient = CUBLASLT_EPILOGUE_DGELU & ~kAux,
                   kBiasGradient = CUBLASLT_EPILOGUE_DGELU_BGRAD & ~CUBLASLT_EPILOGUE_DGELU,
                   kSumsOfA = CUBLASLT_EPILOGUE_BGRADA, kSumsOfB = CUBLASLT_EPILOGUE_BGRADB;

void require_supported(bool supported, const std::string& what) {
  if (!supported) throw Failure(CUBLAS_STATUS_NOT_SUPPORTED, "the stand-in for cuBLASLt has no " + what);
}

bool is_float(uint32_t type) {
  switch (type) {
    case CUDA_R_32F:
    case CUDA_R_16F:
    case CUDA_R_16BF:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2: return true;
    default: return false;
  }
}
bool is_float8(uint32_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

void check_layout(const char* name, const Layout& layout, const Layout& d) {
  const std::string matrix = std::string("matrix ") + name;
  require_supported(is_float(layout.type), matrix + " of cudaDataType " + std::to_string(layout.type) +
                                               ": there are CUDA_R_32F, _16F, _16BF, _8F_E4M3 and _8F_E5M2");
  require_supported(layout.order == CUBLASLT_ORDER_COL || layout.order == CUBLASLT_ORDER_ROW,
                    matrix + " in an order other than by columns and by rows");
  require_supported(layout.batch_mode == CUBLASLT_BATCH_MODE_STRIDED, "batches of pointers");
  require(layout.plane_offset == 0, matrix + " has a plane offset, but its numbers are not complex");
  require(layout.batch_count == d.batch_count, matrix + " has " + std::to_string(layout.batch_count) +
                                                   " matrices in its batch, and D " + std::to_string(d.batch_count));
  const uint64_t least = layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.columns;
  require(layout.leading >= static_cast<int64_t>(least), "the leading dimension of " + matrix + " is " +
                                                             std::to_string(layout.leading) + ", but it needs " +
                                                             std::to_string(least));
}

void check_scale(const char* name, const Scale& scale, const Layout& layout) {
  require_supported(scale.mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
                    std::string("scale factors of ") + name + " other than one for all of the matrix");
  require(scale.pointer == nullptr || is_float8(layout.type),
          std::string(name) + " has a scale factor, but its elements are no 8-bit floats");
}

void check_description(const Product& product) {
  const Description& how = product.how;
  switch (how.compute) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32: break;
    default: require_supported(false, "compute type " + std::to_string(how.compute) + ": there is CUBLAS_COMPUTE_32F");
  }
  require_supported(how.scale_type == CUDA_R_32F, "scalars other than CUDA_R_32F");
  require_supported(how.pointer_mode == CUBLASLT_POINTER_MODE_HOST || how.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE,
                    "vectors of alpha and beta");
  require_supported(how.op_c == CUBLAS_OP_N, "transposed C");
  require_supported(how.fill == CUBLAS_FILL_MODE_FULL, "fill mode other than full");

  const uint32_t parts = how.epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 0 : how.epilogue;
  constexpr uint32_t kParts = kRelu | kBias | kGelu | kAux | kGeluGradient | kBiasGradient | kSumsOfA | kSumsOfB;
  require_supported((parts & ~kParts) == 0 && (parts & (kRelu | kAux)) != (kRelu | kAux),
                    "epilogue " + std::to_string(how.epilogue) +
                        ": there are RELU, GELU and BIAS, GELU_AUX, DGELU, BGRADA and BGRADB");
  constexpr uint32_t kVectors = kBias | kBiasGradient | kSumsOfA | kSumsOfB;
  require((parts & kVectors) == 0 || how.bias != nullptr, "the epilogue has a bias, but its pointer is null");
  if ((parts & kAux) != 0) {
    require(how.aux != nullptr, "the epilogue has an auxiliary matrix, but its pointer is null");
    require(how.aux_leading >= product.m() && how.aux_leading % 8 == 0,
            "the leading dimension of the auxiliary matrix must be a multiple of 8, and no less than the rows of D");
    require_supported(product.d.order == CUBLASLT_ORDER_COL, "auxiliary matrix beside a D by rows");
  }
}

void check(const Product& product) {
  check_description(product);
  const auto& [how, a, b, c, d] = product;
  check_layout("A", a, d);
  check_layout("B", b, d);
  check_layout("C", c, d);
  check_layout("D", d, d);
  const bool plain_a = how.op_a == CUBLAS_OP_N, plain_b = how.op_b == CUBLAS_OP_N;
  require((plain_a ? a.rows : a.columns) == d.rows && (plain_b ? b.columns : b.rows) == d.columns &&
              (plain_b ? b.rows : b.columns) == (plain_a ? a.columns : a.rows) && c.rows == d.rows &&
              c.columns == d.columns,
          "the rows and columns of op(A), op(B), C and D do not go together");
  check_scale("A", how.a, a);
  check_scale("B", how.b, b);
  check_scale("C", how.c, c);
  check_scale("D", how.d, d);
  require(how.amax_d == nullptr || is_float8(d.type), "the maximum of D is asked for, but D has no 8-bit floats");
}

cudaDataType type_of(const Layout& layout) { return static_cast<cudaDataType>(layout.type); }

/// The type of the bias and its gradient, unless the description sets one.
cudaDataType bias_type(const Product& product) {
  if (product.how.bias_type >= 0) return static_cast<cudaDataType>(product.how.bias_type);
  if (!is_float8(product.a.type)) return type_of(product.d);
  if (product.d.type == CUDA_R_32F) return CUDA_R_16BF;
  return is_float8(product.d.type) ? type_of(product.c) : type_of(product.d);
}

/// One matrix of a batch; `elements` is the distance from one to the next.
const void* one_of(const void* data, int64_t elements, cudaDataType type, int32_t index) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + elements * index * bytes_of(type);
}

/// The values of a matrix, or of its transpose, column by column. A matrix stored by rows is its transpose stored by
/// columns.
std::vector<float> read_matrix(const cublasContext& context, const void* data, const Layout& layout, bool transpose) {
  const auto rows = static_cast<int64_t>(layout.rows), columns = static_cast<int64_t>(layout.columns);
  const bool by_rows = layout.order == CUBLASLT_ORDER_ROW;
  const Matrix stored{data, type_of(layout), by_rows ? columns : rows, by_rows ? rows : columns, layout.leading};
  std::vector<float> values = read<float>(context, stored);
  return by_rows == transpose ? values : transposed(values, stored.columns, stored.rows);
}

void write_matrix(const cublasContext& context, const void* data, const Layout& layout, std::vector<float> values) {
  const auto rows = static_cast<int64_t>(layout.rows), columns = static_cast<int64_t>(layout.columns);
  if (layout.order == CUBLASLT_ORDER_COL) {
    return write(context, {data, type_of(layout), rows, columns, layout.leading}, values);
  }
  write(context, {data, type_of(layout), columns, rows, layout.leading}, transposed(values, columns, rows));
}

/// sqrt(2 / pi) * (x + 0.044715 * x^3): GELU here is 0.5 * x * (1 + tanh of that), as cuBLASLt has it.
float gelu_argument(float x) { return 0.7978845608f * (x + 0.044715f * x * x * x); }
float gelu(float x) { return 0.5f * x * (1.0f + std::tanh(gelu_argument(x))); }
float gelu_gradient(float x) {
  const float t = std::tanh(gelu_argument(x));
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
}

/// Applies the epilogue to the values of D, before they are scaled and rounded.
void finish(const cublasContext& context, const Product& product, int32_t index, std::vector<float>& values) {
  const Description& how = product.how;
  const int64_t m = product.m(), n = product.n();
  const auto rows = static_cast<size_t>(m);
  const Matrix bias{one_of(how.bias, how.bias_stride, bias_type(product), index), bias_type(product), m, 1, m};
  if (product.epilogue_has(kBias)) {
    const std::vector<float> vector = read<float>(context, bias);
    for (size_t i = 0; i < values.size(); ++i) values[i] += vector[i % rows];
  }
  if (product.epilogue_has(kAux)) {
    const cudaDataType type = how.aux_type >= 0 ? static_cast<cudaDataType>(how.aux_type) : type_of(product.d);
    const Matrix aux{one_of(how.aux, how.aux_stride, type, index), type, m, n, how.aux_leading};
    if (product.epilogue_has(kGeluGradient)) {
      const std::vector<float> inputs = read<float>(context, aux);
      for (size_t i = 0; i < values.size(); ++i) values[i] *= gelu_gradient(inputs[i]);
    } else {
      write(context, aux, values);
    }
  }
  for (float& value : values) {
    if (product.epilogue_has(kRelu)) value = std::max(value, 0.0f);
    if (product.epilogue_has(kGelu)) value = gelu(value);
  }
  if (product.epilogue_has(kBiasGradient)) {
    std::vector<float> sums(rows);
    for (size_t i = 0; i < values.size(); ++i) sums[i % rows] += values[i];
    write(context, bias, sums);
  }
}

/// Writes sums along K: of the rows of op(A), or of the columns of op(B).
void write_sums(const cublasContext& context, const Product& product, int32_t index, const std::vector<float>& a,
                const std::vector<float>& b) {
  const bool of_a = product.epilogue_has(kSumsOfA);
  const auto length = static_cast<size_t>(of_a ? product.m() : product.n());
  const std::vector<float>& from = of_a ? a : b;
  std::vector<float> sums(length);
  for (size_t i = 0; i < from.size(); ++i) sums[of_a ? i % length : i / (from.size() / length)] += from[i];
  const cudaDataType type = bias_type(product);
  const auto rows = static_cast<int64_t>(length);
  write(context, {one_of(product.how.bias, product.how.bias_stride, type, index), type, rows, 1, rows}, sums);
}

struct Pointers {
  const void *alpha, *beta, *a, *b, *c;
  void* d;
};

void multiply(cudaStream_t stream, const Product& product, const Pointers& at) {
  check(product);
  const Description& how = product.how;
  cublasContext context, device;  // for scalars of the host, and of the device
  context.stream = device.stream = stream;
  device.pointer_mode = CUBLAS_POINTER_MODE_DEVICE;
  if (how.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) context.pointer_mode = CUBLAS_POINTER_MODE_DEVICE;
  const auto factor = [&](const Scale& scale) {
    return scale.pointer == nullptr ? 1.0f : static_cast<float>(read_scalar(device, scale.pointer, CUDA_R_32F));
  };
  const float alpha = static_cast<float>(read_scalar(context, at.alpha, CUDA_R_32F)) * factor(how.a) * factor(how.b);
  const float beta =
      at.beta == nullptr ? 0.0f : static_cast<float>(read_scalar(context, at.beta, CUDA_R_32F)) * factor(how.c);
  const float scale_d = factor(how.d);
  if (product.m() == 0 || product.n() == 0) return;
  const auto one = [&](const void* data, const Layout& layout, int32_t index) {
    return one_of(data, layout.batch_stride, type_of(layout), index);
  };

  float largest = 0;
  for (int32_t i = 0; i < product.d.batch_count; ++i) {
    const auto a = read_matrix(context, one(at.a, product.a, i), product.a, how.op_a != CUBLAS_OP_N);
    const auto b = read_matrix(context, one(at.b, product.b, i), product.b, how.op_b != CUBLAS_OP_N);
    std::vector<float> values = cublas::product(product.m(), product.n(), product.k(), a, b);
    for (float& value : values) value *= alpha;
    if (beta != 0) {
      const std::vector<float> before = read_matrix(context, one(at.c, product.c, i), product.c, false);
      for (size_t j = 0; j < values.size(); ++j) values[j] += beta * before[j];
    }
    finish(context, product, i, values);
    for (float& value : values) {
      largest = std::max(largest, std::abs(value));
      value *= scale_d;
    }
    write_matrix(context, one(at.d, product.d, i), product.d, std::move(values));
    if (product.epilogue_has(kSumsOfA) || product.epilogue_has(kSumsOfB)) write_sums(context, product, i, a, b);
  }
  if (how.amax_d != nullptr) write_scalar(device, how.amax_d, CUDA_R_32F, static_cast<double>(largest));
}

void require_handle(cublasLtHandle_t handle) {
  if (handle == nullptr) throw Failure(CUBLAS_STATUS_NOT_INITIALIZED, "the handle is null: cublasLtCreate gives one");
}

}  // namespace
}  // namespace stagecraft::emulator::cublas

using namespace stagecraft::emulator::cublas;

extern "C" {

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
  return run("cublasLtMatmul", [&] {
    require_handle(handle);
    multiply(stream,
             {description_of(description), layout_of(layout_a), layout_of(layout_b), layout_of(layout_c),
              layout_of(layout_d)},
             {alpha, beta, a, b, c, d});
  });
}

/// There is one algorithm, and it needs no workspace.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t layout_a, cublasLtMatrixLayout_t layout_b,
                                              cublasLtMatrixLayout_t layout_c, cublasLtMatrixLayout_t layout_d,
                                              cublasLtMatmulPreference_t, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  return run("cublasLtMatmulAlgoGetHeuristic", [&] {
    require_handle(handle);
    require(requested > 0 && results != nullptr && count != nullptr, "no result is asked for");
    *count = 0;
    check({description_of(description), layout_of(layout_a), layout_of(layout_b), layout_of(layout_c),
           layout_of(layout_d)});
    results[0] = {};
    results[0].wavesCount = 1;
    *count = 1;
  });
}

}  // extern "C"
