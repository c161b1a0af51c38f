// What the test of chapter 03 calls in two_warps.cu, and what both must know. All pointers are to device memory.
#pragma once

/// Floats in a row, and in the stage that holds one.
inline constexpr int kRow = 256;
/// Stages in the ring of two_jobs.
inline constexpr int kStages = 2;
/// How many steps the quick warp of walk_together may be ahead.
inline constexpr int kLead = 3;
/// How long a step of the slow warp takes.
inline constexpr unsigned kSlowStepNanoseconds = 2000;

/// TODO 1. sums[r] becomes the sum of row r of `in`, through a ring of 1, 2 or 4 stages.
void launch_sum_rows(const float* in, float* sums, int rows, int stages);

/// TODO 2. The same, and 32 * pieces numbers are squared; *while_waiting: how many pieces before the last row came.
void launch_two_jobs(const float* in, float* sums, int rows, float* numbers, int pieces, int* while_waiting);

/// TODO 3. leads[s]: how far ahead the quick warp was in its step s.
void launch_walk_together(int* leads, int steps);
