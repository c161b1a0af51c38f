// What chapter 10's test starts. launches.cu is compiled against every answer.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

/// One block puts row * 1000 + column into each place of an accumulator and stores it, by store_quarter, to C:
/// row-major m x n, with no more rows and columns than the accumulator's 128.
void launch_store_known(float* c, int m, int n);

/// C (m x n) = A (m x k) * B (n x k) transposed by the answer's kernel, on so many blocks at most; k is a multiple
/// of 8.
void launch_answer(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t m, int64_t n, int64_t k,
                   int blocks);

/// TODO 6, the blank page. maxima[r] becomes the largest element of row r of A (m x k) * B (n x k) transposed, which is
/// never stored: A and B are row-major, k is a multiple of 8, m and n are 1 or more. A block for each 128 rows of A, of
/// three roles: a warp has tiles copied into a ring of 4 stages, a second multiplies them into two accumulators that
/// take turns, and four more read those. Everything of problem.cuh may be used.
void launch_find_row_maxima(const __nv_bfloat16* a, const __nv_bfloat16* b, float* maxima, int m, int n, int k);

/// The same by four warps that do all of it in turn. Given: see in_turn.cu.
void launch_find_row_maxima_in_turn(const __nv_bfloat16* a, const __nv_bfloat16* b, float* maxima, int m, int n, int k);
