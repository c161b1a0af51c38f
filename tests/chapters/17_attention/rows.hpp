// How the tests of chapter 17 try its first part, the softmax of a row, without a kernel of roles around it.
#pragma once

#include <cstdint>

inline constexpr int kRows = 128;     ///< one for each thread
inline constexpr int kRowKeys = 128;  ///< in a block of keys
inline constexpr int kRowBlocks = 4;  ///< blocks of keys

/// What the answer makes of a row in a block of keys.
struct RowOfBlock {
  uint16_t powers[kRowKeys];  ///< bf16, as they are in tensor memory
  float factor;               ///< for what was summed before
};

/// One block of 128 threads, each with a row: masks the scores, raises the maximum, stores the powers, block by block.
/// @param scores      kRows x kRowBlocks x kRowKeys.
/// @param visible     for each row, how many of all keys it sees: the first ones.
/// @param polynomials whether the answer computes half of the powers by polynomials.
/// @param found       kRows x kRowBlocks.
/// @param ends        for each row inverse_sum() and logsumexp().
void launch_rows(const float* scores, const int* visible, float scale_log2, bool polynomials, RowOfBlock* found,
                 float (*ends)[2]);
