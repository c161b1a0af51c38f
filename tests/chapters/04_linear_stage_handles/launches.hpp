// What the test of chapter 04 calls in sparse_rows.cu, and what both must know. All pointers are to device memory.
#pragma once

/// Floats in a stage: the longest row.
inline constexpr int kLongestRow = 512;
/// Rows start at multiples of this many floats, because a bulk copy starts at a multiple of 16 bytes.
inline constexpr int kRowPitch = kLongestRow;
inline constexpr int kStages = 3;
/// What the first float of a row can say in place of a number: this row is corrupt.
inline constexpr float kSpoilt = -1e30f;

/// sums[r] becomes the sum of the first lengths[r] floats of row r of `in`; 0 for an empty row, kSpoilt for a spoilt
/// one.
/// @param lengths  0 to kLongestRow, multiples of 4.
void launch_sum_sparse_rows(const float* in, const int* lengths, float* sums, int rows);
