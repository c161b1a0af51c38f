// The products of this chapter as the host calls them.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>
#include <utility>

#include "stagecraft/block_scaled_types.hpp"
#include "stagecraft/errors.hpp"

namespace stagecraft {

/// The largest M, N and K.
inline constexpr int64_t kLargestSize = 65535 * 128;

/// Throws IllegalProblem, saying what is legal, for sizes that the kernels cannot take.
/// @param bits  of an element of A and B: rows must be a multiple of 16 bytes long.
inline void require_legal_sizes(int64_t m, int64_t n, int64_t k, int bits) {
  for (const auto& [name, size] : {std::pair{"M", m}, {"N", n}, {"K", k}}) {
    if (size >= 1 && size <= kLargestSize) continue;
    throw IllegalProblem("%s = %lld is too %s. Legal are 1 to %lld.", name, static_cast<long long>(size),
                         size < 1 ? "small" : "large", static_cast<long long>(kLargestSize));
  }
  const int64_t multiple = 128 / bits;
  if (k % multiple == 0) return;
  throw IllegalProblem(
      "K = %lld is not a multiple of %lld: a row of elements of %d bits would start off a 16-byte boundary, which the "
      "tensor map cannot address. Pad K to %lld.",
      static_cast<long long>(k), static_cast<long long>(multiple), bits,
      static_cast<long long>((k + multiple - 1) / multiple * multiple));
}

/// An operand in device memory, 16-byte aligned.
struct BlockScaledOperand {
  const void* elements;       ///< row-major
  const void* scale_factors;  ///< in atoms, as ScaleFactorTile: rows padded to 128, blocks to 4, by numbers
};

/// Starts C = A * B transposed on the current device, in the default stream: A is m x k, B is n x k, and C is m x n,
/// row-major floats.
/// @tparam Type    Mxfp8, Mxfp4 or Nvfp4.
/// @param tile_n   columns of C that a block computes at a time: 128, with two accumulators, or 256, with one.
/// @param blocks   how many share the work at most; 0: one for each multiprocessor.
/// @throws IllegalProblem as `require_legal_sizes`, TensorMapError for a misaligned address, harness::CudaError
///         when the launch fails.
template <typename Type>
void launch_block_scaled(const BlockScaledOperand& a, const BlockScaledOperand& b, float* c, int64_t m, int64_t n,
                         int64_t k, int tile_n = 128, int blocks = 0);

/// An FP8 operand with f32 scales in device memory, 16-byte aligned.
struct BlockwiseOperand {
  const __nv_fp8_e4m3* elements;  ///< row-major
  /// For each 128 columns of the matrix a row of scales: of A one for each row of the matrix, of B one for each 128.
  const float* scales;
  int64_t scales_in_row;  ///< a multiple of 4
};

/// Starts C = A * B transposed with blockwise scales. All else is as in `launch_block_scaled`.
void launch_blockwise(const BlockwiseOperand& a, const BlockwiseOperand& b, float* c, int64_t m, int64_t n, int64_t k,
                      int blocks = 0);

}  // namespace stagecraft
