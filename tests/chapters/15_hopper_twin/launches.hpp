// What chapter 15's test starts. launches.cu is compiled against every answer.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

/// Which of the answer's kernels.
enum class TwinKernel {
  cooperative,  ///< tiles of 128 x 128 by both warpgroups, each block alone
  ping_pong,    ///< tiles of 64 x 128 by one warpgroup in turn, each block alone
  cluster,      ///< as cooperative, by clusters of two blocks that share tiles of B
};

/// One warpgroup multiplies a tile of A (64 x 64) with one of B (64 x 64) by the answer's multiply_tiles, `times`
/// times, the first time overwriting what its registers hold.
/// @param sums  64 x 64, row-major.
void launch_multiply_known(const __nv_bfloat16* a, const __nv_bfloat16* b, float* sums, int times);

/// Two warpgroups put (row + 3 * column) % 251 into their sums and write them to D by the answer's RegisterWriter,
/// `tiles` times, each tile 128 rows below the one before. After the sums, `bias[column]` is added.
/// @param d  m x n, n a multiple of 8.
void launch_write_known(__nv_bfloat16* d, const float* bias, int m, int n, int tiles);

/// D (m x n) = A (m x k) * B (n x k) transposed, + bias[column], by the answer's kernel.
/// @param n, k      multiples of 8.
/// @param clusters  at most.
void launch_gemm(TwinKernel kernel, const __nv_bfloat16* a, const __nv_bfloat16* b, const float* bias, __nv_bfloat16* d,
                 int m, int n, int k, int clusters);
