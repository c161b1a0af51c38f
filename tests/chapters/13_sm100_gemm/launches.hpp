// What chapter 13's test starts. launches.cu is compiled against every answer.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

inline constexpr int kValues = 32;         ///< that an operation gets at a time
inline constexpr int kValueThreads = 128;  ///< rows of such values, one for each thread

/// Each of 128 threads applies AddPerColumn to its row of 32 values, of which the matrix has `valid`; columns from 64
/// on.
/// @param bias    entries of the columns 0 to 64 + valid - 1, and no more.
/// @param values  128 x 32, in place.
void launch_add_per_column(const float* bias, float* values, int valid);

/// Each of 128 threads applies GatedSilu to its row of 32 values: 16 results, the first of the row.
void launch_gated_silu(float* values);

/// Each of 128 threads shows AbsoluteMaximum its row of 32 values, of which the matrix has `valid`, and ends the tile.
void launch_absolute_maximum(const float* values, int valid, float* maximum);

/// One block puts row * 256 + column into an accumulator of 128 x 128, `tiles` times, and writes it to D by the
/// answer's TileWriter, each tile below the one before, with one buffer or two.
/// @param d  m x n, n a multiple of 4.
void launch_write_known(float* d, int m, int n, int tiles, int buffers);

/// accumulators_that_fit(columns) of the answer.
int accumulators_of_answer(int columns);

/// D (m x n) = A (m x k) * B (n x k) transposed, then bias, by the answer's kernel, in tiles of 128 columns on so many
/// blocks at most. k and n are multiples of 8.
void launch_gemm_with_bias(const __nv_bfloat16* a, const __nv_bfloat16* b, float alpha, const float* bias,
                           __nv_bfloat16* d, int m, int n, int k, int blocks);

/// D (m x n / 2): silu of each even column times the odd column beside it, in tiles of 256 columns. n is a multiple
/// of 16.
void launch_gated_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* d, int m, int n, int k,
                       int blocks);

/// D (m x n) by the answer's quantising_epilogue, in tiles of 64 columns. n is a multiple of 16.
void launch_quantising_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, float* maximum, float scale,
                            __nv_fp8_e4m3* d, int m, int n, int k, int blocks);

// ---- The complete kernel: complete_launches.cu ----------------------------------------------------------------------

/// What the complete kernel is compiled for.
enum class CompleteConfig {
  one_block,  ///< tiles of 128 x 64, two k-tiles to a stage, a static schedule
  pairs,      ///< tiles of 256 x 64 by pairs of blocks, launch control
  adds_c,     ///< tiles of 128 x 64, launch control, bias and C
  divides_k,  ///< the same with a static schedule of pieces along K
};

/// D (m x n) = A (m x k) * B (n x k) transposed, and where asked for + beta * C + bias. k is a multiple of 8; so is n,
/// where there is a C.
struct CompleteGemm {
  const __nv_bfloat16 *a, *b;
  __nv_bfloat16* d;
  int m, n, k;
  int clusters;  ///< at most, with a static schedule
  const __nv_bfloat16* c = nullptr;
  const float* bias = nullptr;
  float beta = 0;
  int pieces = 1;  ///< of each tile along K
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};
void launch_complete_gemm(CompleteConfig config, const CompleteGemm& gemm);

// ---- The blank page -------------------------------------------------------------------------------------------------

/// TODO 15. With C (m x n) = A (m x k) * B (n x k) transposed: D[r][c] becomes C[r][c] divided by the largest |element|
/// of row r of C, in float and then rounded to bf16; a row of zeros stays one. n is a multiple of 8 and at most 256, k
/// is a multiple of 8. Three roles on so many blocks at most: a warp has tiles copied into a ring, a second multiplies
/// them into two accumulators that take turns, four more divide and have D stored by TMA. Everything of
/// problem.cuh may be used.
void launch_normalise_rows(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* d, int m, int n, int k,
                           int blocks);
