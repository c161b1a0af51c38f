#include "emulator/cublas/matrices.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

namespace stagecraft::emulator::cublas {
namespace {

/// Calls `function` with a value of the type.
template <typename Function>
auto with_type(cudaDataType type, const Function& function) {
  switch (type) {
    case CUDA_R_16F: return function(__half{});
    case CUDA_R_16BF: return function(__nv_bfloat16{});
    case CUDA_R_32F: return function(float{});
    case CUDA_R_64F: return function(double{});
    case CUDA_R_8F_E4M3: return function(__nv_fp8_e4m3{});
    case CUDA_R_8F_E5M2: return function(__nv_fp8_e5m2{});
    case CUDA_R_8I: return function(int8_t{});
    case CUDA_R_32I: return function(int32_t{});
    default:
      throw Failure(CUBLAS_STATUS_NOT_SUPPORTED,
                    "elements of cudaDataType " + std::to_string(static_cast<int>(type)) +
                        " are not supported; supported are CUDA_R_16F, _16BF, _32F, _64F, _8I, _32I, _8F_E4M3 and "
                        "_8F_E5M2");
  }
}

/// A float of 16 or 8 bits, whose type in the toolkit's headers converts to float and from double.
template <typename Element>
constexpr bool kIsNarrowFloat = std::is_same_v<Element, __half> || std::is_same_v<Element, __nv_bfloat16> ||
                                std::is_same_v<Element, __nv_fp8_e4m3> || std::is_same_v<Element, __nv_fp8_e5m2>;

template <typename Value, typename Element>
Value value_of(const std::byte* bytes) {
  Element element;
  std::memcpy(&element, bytes, sizeof element);
  if constexpr (kIsNarrowFloat<Element>) {
    return static_cast<Value>(static_cast<float>(element));
  } else {
    return static_cast<Value>(element);
  }
}

/// Rounds once, from the value itself. A float of 8 bits becomes the largest number where the value is beyond its
/// range.
template <typename Element, typename Value>
void store(std::byte* bytes, Value value) {
  Element element;
  if constexpr (kIsNarrowFloat<Element>) {
    element = Element(static_cast<double>(value));
  } else {
    element = static_cast<Element>(value);
  }
  std::memcpy(bytes, &element, sizeof element);
}

}  // namespace

void transfer(const cublasContext& context, void* to, size_t to_pitch, const void* from, size_t from_pitch,
              size_t bytes, size_t rows, cudaMemcpyKind kind) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(context.stream, &capture));
  if (capture != cudaStreamCaptureStatusNone) {
    throw Failure(CUBLAS_STATUS_NOT_SUPPORTED,
                  "the stream is being captured, but the stand-in for cuBLAS computes on the host, at once");
  }
  check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, bytes, rows, kind, context.stream));
  check(cudaStreamSynchronize(context.stream));
}

int64_t bytes_of(cudaDataType type) {
  return with_type(type, [](auto element) { return static_cast<int64_t>(sizeof element); });
}

template <typename Value>
std::vector<Value> read(const cublasContext& context, const Matrix& matrix) {
  const auto count = static_cast<size_t>(matrix.rows * matrix.columns);
  std::vector<Value> values(count);
  if (count == 0) return values;
  const auto size = static_cast<size_t>(bytes_of(matrix.type)), column = static_cast<size_t>(matrix.rows) * size;
  std::vector<std::byte> bytes(count * size);
  transfer(context, bytes.data(), column, matrix.data, static_cast<size_t>(matrix.leading) * size, column,
           static_cast<size_t>(matrix.columns), cudaMemcpyDeviceToHost);
  with_type(matrix.type, [&](auto element) {
    const std::byte* from = bytes.data();
    for (Value& value : values) {
      value = value_of<Value, decltype(element)>(from);
      from += sizeof element;
    }
  });
  return values;
}

template <typename Value>
void write(const cublasContext& context, const Matrix& matrix, const std::vector<Value>& values) {
  if (values.empty()) return;
  const auto size = static_cast<size_t>(bytes_of(matrix.type)), column = static_cast<size_t>(matrix.rows) * size;
  std::vector<std::byte> bytes(values.size() * size);
  with_type(matrix.type, [&](auto element) {
    std::byte* to = bytes.data();
    for (const Value value : values) {
      store<decltype(element)>(to, value);
      to += sizeof element;
    }
  });
  transfer(context, const_cast<void*>(matrix.data), static_cast<size_t>(matrix.leading) * size, bytes.data(), column,
           column, static_cast<size_t>(matrix.columns), cudaMemcpyHostToDevice);
}

double read_scalar(const cublasContext& context, const void* pointer, cudaDataType type) {
  require(pointer != nullptr, "a scalar is a null pointer");
  std::byte bytes[sizeof(double)];
  const auto size = static_cast<size_t>(bytes_of(type));
  if (context.pointer_mode == CUBLAS_POINTER_MODE_HOST) {
    std::memcpy(bytes, pointer, size);
  } else {
    transfer(context, bytes, size, pointer, size, size, 1, cudaMemcpyDeviceToHost);
  }
  return with_type(type, [&](auto element) { return value_of<double, decltype(element)>(bytes); });
}

void write_scalar(const cublasContext& context, void* pointer, cudaDataType type, double value) {
  require(pointer != nullptr, "the result is a null pointer");
  std::byte bytes[sizeof(double)];
  const auto size = static_cast<size_t>(bytes_of(type));
  with_type(type, [&](auto element) { store<decltype(element)>(bytes, value); });
  if (context.pointer_mode == CUBLAS_POINTER_MODE_HOST) {
    std::memcpy(pointer, bytes, size);
  } else {
    transfer(context, pointer, size, bytes, size, size, 1, cudaMemcpyHostToDevice);
  }
}

template std::vector<float> read(const cublasContext&, const Matrix&);
template std::vector<double> read(const cublasContext&, const Matrix&);
template std::vector<int32_t> read(const cublasContext&, const Matrix&);
template void write(const cublasContext&, const Matrix&, const std::vector<float>&);
template void write(const cublasContext&, const Matrix&, const std::vector<double>&);
template void write(const cublasContext&, const Matrix&, const std::vector<int32_t>&);

}  // namespace stagecraft::emulator::cublas
