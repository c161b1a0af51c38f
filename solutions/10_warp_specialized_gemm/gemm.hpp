// The product as the host calls it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace stagecraft {

/// The largest M and N: 65535 tiles of 128, as many blocks as a grid's second dimension holds. K has the same limit.
inline constexpr int64_t kLargestGemmSize = 65535 * 128;

/// Throws std::invalid_argument, saying what is legal, for sizes that the kernel cannot take.
/// @param m, n, k  1 to kLargestGemmSize; k a multiple of 8.
void require_legal_sizes(int64_t m, int64_t n, int64_t k);

/// Starts C = A * B transposed on the current device, in the default stream.
///
/// All matrices are row-major in device memory: A is m x k, B is n x k, C is m x n, 16-byte aligned.
/// @throws std::invalid_argument as `require_legal_sizes`, harness::CudaError when the launch fails. What goes wrong
///         while the kernel runs, the next synchronising call reports.
void launch_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t m, int64_t n, int64_t k);

}  // namespace stagecraft
