// What the test of chapter 02 calls in ring.cu. All pointers are to device memory.
#pragma once

#include <cstdint>

/// Words in a row, and bytes.
constexpr int kRow = 256;
constexpr int kRowBytes = kRow * sizeof(uint32_t);

/// TODO 1. Steps a PipelineState that starts at (0, first_phase) and writes its position before each step.
/// `stages` is 1, 2, 3 or 4.
void launch_walk(int stages, uint32_t first_phase, int steps, uint32_t* indices, uint32_t* phases);

/// What the producer and the consumer note for each row: clock cycles of the block's SM.
struct RowTimes {
  long long asked;  ///< the stage was free, and the copy was asked for
  long long taken;  ///< the row had arrived, and adding it up began
  long long freed;  ///< the consumer freed the stage
};

/// TODO 2 to 6. sums[r] becomes the sum of row r, modulo 2^32, through a ring of `stages` (1, 2, 3 or 4) stages.
/// @param left  null, or the producer wipes the ring after the last row, and left[i] becomes what word i of the ring's
///              memory then holds: zero.
/// @param work  clock cycles that the consumer spends on each row in addition to adding it up.
/// @param times  one for each row, or null.
void launch_sum_rows(int stages, const uint32_t* in, int rows, uint32_t* sums, uint32_t* left, int work = 0,
                     RowTimes* times = nullptr);
