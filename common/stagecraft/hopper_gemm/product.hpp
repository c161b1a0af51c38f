// What the kernel computes, as the host describes it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

namespace stagecraft {

/// What A and B are made of.
enum class OperandType { bf16, e4m3 };

/// C (m x n) = A (m x k) * B (n x k) transposed, in device memory.
struct MatrixProduct {
  OperandType type;  ///< of A and B
  const void* a;     ///< m x k, row-major without gaps; 16-byte aligned, as the others
  const void* b;     ///< n x k, row-major without gaps
  __nv_bfloat16* c;  ///< m x n, row-major without gaps
  int64_t m;         ///< rows of C
  int64_t n;         ///< columns of C
  int64_t k;         ///< that are added up for each element
};

/// Starts a product that was prepared.
using Launch = std::function<void(cudaStream_t)>;

}  // namespace stagecraft
