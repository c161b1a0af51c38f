// What the test of chapter 01 calls in phases.cu. All pointers are to device memory.
#pragma once

#include <cstdint>

/// TODO 1 to 3. out[i] becomes in[31 - i], for i = 0 to 31; one warp writes into shared memory, another reads.
void launch_mirror(const uint32_t* in, uint32_t* out);

/// Words in a row.
constexpr int kRow = 256;

/// TODO 4 and 5. *sum becomes the sum of one row of `in`, modulo 2^32; TMA brings the row.
void launch_sum_row(const uint32_t* in, uint32_t* sum);

/// TODO 6. sums[r] becomes the sum of row r; one buffer and one barrier are used for all rows.
void launch_sum_rows(const uint32_t* in, int rows, uint32_t* sums);
