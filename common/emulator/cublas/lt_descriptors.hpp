// The descriptions of a product of cuBLASLt. They are stored in the program's own opaque structures, which may be on
// its stack.
#pragma once

#pragma GCC visibility push(default)  // the library exports what this header declares
#include <cublasLt.h>
#pragma GCC visibility pop

#include <cstdint>

namespace stagecraft::emulator::cublas {

struct Layout {
  Layout(cudaDataType elements, uint64_t row_count, uint64_t column_count, int64_t leading_dimension)
      : type(elements), rows(row_count), columns(column_count), leading(leading_dimension) {}

  uint32_t type;  ///< a cudaDataType
  int32_t order = CUBLASLT_ORDER_COL;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batch_count = 1;
  uint32_t batch_mode = CUBLASLT_BATCH_MODE_STRIDED;
  int64_t batch_stride = 0, plane_offset = 0;
};

/// The factor before a matrix.
struct Scale {
  const void* pointer = nullptr;  ///< to a float in device memory; null for 1
  int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
};

struct Description {
  Description(cublasComputeType_t compute_type, cudaDataType type_of_scalars)
      : compute(compute_type), scale_type(type_of_scalars) {}

  int32_t compute, scale_type;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N, op_c = CUBLAS_OP_N;
  int32_t fill = CUBLAS_FILL_MODE_FULL;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int64_t bias_stride = 0;
  void* aux = nullptr;
  int64_t aux_leading = 0, aux_stride = 0;
  int32_t bias_type = -1, aux_type = -1;  ///< -1: not set
  Scale a, b, c, d;
  void* amax_d = nullptr;
  int32_t multiprocessors = 0;   // without effect here
  int8_t fast_accumulation = 0;  // without effect here
};

struct Preference {
  uint64_t workspace = 0, implementations = ~uint64_t{0};
  uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT, reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignments[4] = {256, 256, 256, 256};
  float waves = 0;
};

// Both throw Failure when the structure was never made.
const Layout& layout_of(const cublasLtMatrixLayoutOpaque_t* layout);
const Description& description_of(const cublasLtMatmulDescOpaque_t* description);

}  // namespace stagecraft::emulator::cublas
