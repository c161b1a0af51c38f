// The five kernels of chapter 16: what each computes, for its tests and for the program that runs it on a chip. All
// pointers are to device memory.
#pragma once

#include <cuda_runtime_api.h>

// ---- 1. Sums --------------------------------------------------------------------------------------------------------

/// Floats in a stage of the first, third and fifth kernel.
inline constexpr int kTile = 2048;

/// sums[b] becomes the sum of the `count` floats from in + b * count on, for each of `blocks` blocks.
/// @param count  a multiple of 4, above 0.
void launch_sums(const float* in, float* sums, int blocks, int count);

// ---- 2. Row sums of groups ------------------------------------------------------------------------------------------

/// Floats in a row, and rows in a stage.
inline constexpr int kRow = 256, kRowsInStage = 8;

/// Group g has the `rows[g]` rows from in + g * most_rows * kRow on; sums[g * most_rows + r] becomes the sum of its row
/// r.
/// @param rows  1 to most_rows. One block does all `groups`.
void launch_row_sums(const float* in, const int* rows, float* sums, int groups, int most_rows);

// ---- 3. Softmax's denominators --------------------------------------------------------------------------------------

/// out[r] becomes the logarithm of the sum of exp(x) over the kTile floats x of row r, each block of `blocks` taking
/// every `blocks`th row.
void launch_log_sums(const float* in, float* out, int rows, int blocks);

// ---- 4. Noise -------------------------------------------------------------------------------------------------------

/// Numbers in a piece of the table.
inline constexpr int kPiece = 4096;

/// What the table has at `index`.
__host__ __device__ inline unsigned noise(unsigned index) {
  index = (index ^ 61) ^ (index >> 16);
  index *= 9;
  index ^= index >> 4;
  index *= 0x27d4eb2d;
  return index ^ (index >> 15);
}

/// table[i] becomes noise(i), for `pieces` * kPiece numbers, each block of `blocks` taking every `blocks`th piece.
void launch_noise(unsigned* table, int pieces, int blocks);

// ---- 5. Maxima ------------------------------------------------------------------------------------------------------

/// maxima[b] becomes the largest of the `tiles` * kTile floats from in + b * tiles * kTile on, for each of `blocks`.
void launch_maxima(const float* in, float* maxima, int blocks, int tiles);
