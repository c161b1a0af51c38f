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
