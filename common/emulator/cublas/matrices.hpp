// Matrices and vectors in device memory, read and written from the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/cublas/call.hpp"

namespace stagecraft::emulator::cublas {

/// A matrix in device memory, one column after the other.
struct Matrix {
  const void* data;
  cudaDataType type;
  int64_t rows, columns;
  int64_t leading;  ///< elements from one column to the next
};

/// Bytes of an element. Throws Failure for types that are not supported.
int64_t bytes_of(cudaDataType type);

/// Copies `rows` rows of `bytes` bytes between host and device, after all earlier work of the handle's stream, and
/// waits for the end. Throws Failure on a stream that is being captured.
void transfer(const cublasContext& context, void* to, size_t to_pitch, const void* from, size_t from_pitch,
              size_t bytes, size_t rows, cudaMemcpyKind kind);

/// @return the values, column by column without gaps, after all earlier work of the handle's stream
/// @tparam Value  float, double or int32_t: the type to compute in
template <typename Value>
std::vector<Value> read(const cublasContext& context, const Matrix& matrix);

/// Rounds the values to the matrix's type, ties to even, and writes them.
template <typename Value>
void write(const cublasContext& context, const Matrix& matrix, const std::vector<Value>& values);

/// Reads the scalar at `pointer`, which is in memory of the host or the device, as the handle's pointer mode says.
double read_scalar(const cublasContext& context, const void* pointer, cudaDataType type);

/// Writes a scalar to such a place.
void write_scalar(const cublasContext& context, void* pointer, cudaDataType type, double value);

}  // namespace stagecraft::emulator::cublas
