// What chapter 11's test starts. launches.cu is compiled against every answer.
#pragma once

#include <cuda_bf16.h>

/// The clusters that the test starts gemm() with.
enum class Shape { one_block, two_down, two_across, square, pair, two_pairs, four_pairs };

/// C (m x n) = A (m x k) * B (n x k) transposed by the answer's multiply_by_pair(), on so many pairs at most; k is a
/// multiple of 8.
void launch_pair(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n, int k, int pairs);

/// The same by the answer's gemm(), on so many clusters of that shape at most.
/// @param slow_nanoseconds  how much longer than the others the first block of a cluster takes to store a tile.
void launch_gemm(Shape shape, const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n, int k,
                 int clusters, unsigned slow_nanoseconds);
