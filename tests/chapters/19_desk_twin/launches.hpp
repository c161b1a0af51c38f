// What chapter 19's tests of bf16 start. launches.cu is compiled against every answer.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

// ---- Fragments ------------------------------------------------------------------------------------------------------

/// Tiles of A and B that launch_load_known copies: rows, and columns along K.
inline constexpr int kKnownRows = 64, kKnownColumns = 64;
/// The rows of both whose fragments it loads, from which on, and in how many slices.
inline constexpr int kLoadedRows = 32, kFirstOfA = 32, kFirstOfB = 16, kKnownSlices = 4;

/// A lane's registers of one slice, as Fragments has them.
struct KnownFragments {
  uint32_t a[kLoadedRows / 16][4];
  uint32_t b[kLoadedRows / 16][4];
};

/// One warp loads slices 0 to 3 of two tiles by the answer's Fragments.
/// @param a, b   of kKnownRows x kKnownColumns.
/// @param found  kKnownSlices x 32 lanes.
/// @param plain  the tiles are stored row by row; else they are swizzled.
void launch_load_known(const __nv_bfloat16* a, const __nv_bfloat16* b, KnownFragments* found, bool plain);

/// One warp adds the product of A (32 x 64) and B (32 x 64) transposed, slice by slice, to its sums by the answer's
/// multiply(). They hold `first` before.
/// @param sums  32 x 32, row-major.
void launch_multiply_known(const __nv_bfloat16* a, const __nv_bfloat16* b, float* sums, float first);

// ---- The writer -----------------------------------------------------------------------------------------------------

/// Eight warps put (row + 3 * column) % 251 into their sums and write them to D by the answer's RegisterWriter, `tiles`
/// times, each tile 128 rows below the one before. After the sums, `bias[column]` is added.
/// @param d  m x n, n a multiple of 8.
void launch_write_known(__nv_bfloat16* d, const float* bias, int m, int n, int tiles);

// ---- The kernel -----------------------------------------------------------------------------------------------------

/// Who decides which tiles a block computes.
enum class Schedule {
  before_launch,   ///< block i of g computes tiles i, i + g, ...
  launch_control,  ///< the hardware
};

/// D (m x n) = A (m x k) * B (n x k) transposed, + bias[column], by the answer's kernel.
/// @param n, k    multiples of 8.
/// @param blocks  at most, where the schedule is made before the launch.
void launch_gemm(Schedule schedule, const __nv_bfloat16* a, const __nv_bfloat16* b, const float* bias, __nv_bfloat16* d,
                 int m, int n, int k, uint32_t blocks);

// ---- The blank page -------------------------------------------------------------------------------------------------

/// The product of each row of A with itself and all others: D (m x m) = A (m x k) * A transposed, of which only the
/// tiles on and below the diagonal are computed. The others stay as they are.
/// @param k       a multiple of 8; m likewise.
/// @param blocks  at most.
void launch_lower_triangle(const __nv_bfloat16* a, __nv_bfloat16* d, int m, int k, int blocks);
