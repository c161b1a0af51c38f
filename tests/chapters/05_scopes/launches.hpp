// What the test of chapter 05 calls in scopes.cu, and what both must know. All pointers are to device memory.
#pragma once

/// Floats in a row, and in the stage that holds one.
inline constexpr int kRow = 256;
inline constexpr int kStages = 2;
/// Blocks in the cluster of the second kernel.
inline constexpr int kClusterSize = 2;

/// TODO 1 and 2. sums[r] becomes the sum of row r of `in`, unless the row begins with a negative number: 0 then.
void launch_sum_positive_rows(const float* in, float* sums, int rows);

/// TODO 3. sums[b * rows + r] becomes the sum of row r of `in`, as block b of a cluster of kClusterSize has computed
/// it.
void launch_sum_rows_in_cluster(const float* in, float* sums, int rows);
