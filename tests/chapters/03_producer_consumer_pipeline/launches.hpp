// What the test of chapter 03 calls in two_warps.cu and questions.cu, and what both must know. All pointers are to
// device memory.
#pragma once

#include <cuda_bf16.h>

/// Floats in a row, and in the stage that holds one.
inline constexpr int kRow = 256;
/// Stages in the rings of two_jobs and of the blank page.
inline constexpr int kStages = 2;
/// How many steps the quick warp of walk_together may be ahead.
inline constexpr int kLead = 3;
/// How long a step of the slow warp takes.
inline constexpr unsigned kSlowStepNanoseconds = 2000;

/// TODO 1. sums[r] becomes the sum of row r of `in`, through a ring of 1, 2 or 4 stages.
void launch_sum_rows(const float* in, float* sums, int rows, int stages);

/// How often ask_after_each_move asks: before its first move, and after each.
inline constexpr int kQuestions = 5;

/// TODO 2. One thread plays both roles in a ring of 2 stages: it fills both, then frees both, and asks
/// try_wait_producer() and try_wait_consumer() in between. Given: see questions.cu.
void launch_ask_after_each_move(int* filled, int* free);

/// TODO 2. As launch_sum_rows, and 32 * pieces numbers are squared; *while_waiting: how many pieces before the last row
/// had arrived.
void launch_two_jobs(const float* in, float* sums, int rows, float* numbers, int pieces, int* while_waiting);

/// TODO 3. As launch_ask_after_each_move, but the moves are producer_signal_and_step() and consumer_signal_and_step().
void launch_ask_after_each_signal(int* filled, int* free);

/// TODO 3. *seen: 1 when consumer_signal_and_step() has waited for the producer's signal. Given: see questions.cu.
void launch_count_a_late_signal(int* seen);

/// TODO 3. leads[s]: how far ahead the quick warp was in its step s.
void launch_walk_together(int* leads, int steps);

/// Rows and columns of the product of multiply_tile, and columns of A and of B that a stage of its ring holds.
inline constexpr int kTile = 128;
inline constexpr int kTileK = 32;

/// TODO 4. c (kTile x kTile) becomes A * B transposed, by the tensor core: A and B have kTile rows of k_tiles * kTileK
/// numbers.
void launch_multiply_tile(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int k_tiles);

/// TODO 5, the blank page. smallest[r] and largest[r] become the smallest and the largest number of row r of `in`. One
/// block of three roles: a warp has the rows copied into a ring of kStages stages; of two others, each reads every row,
/// one for the smallest and one for the largest number. Any number of rows, also none.
void launch_find_extremes(const float* in, float* smallest, float* largest, int rows);

/// The same by one warp, which copies and reads in turn. Given: see in_turn.cu.
void launch_find_extremes_in_turn(const float* in, float* smallest, float* largest, int rows);
