// What the test of chapter 00 calls in first_kernel.cu. All pointers are to device memory.
#pragma once

/// TODO 1. places[t] becomes 100 * warp + lane of thread t of one block.
void launch_write_places(int* places, int threads);

/// TODO 2. Adds to *count the number of warps in the grid.
void launch_count_warps(int* count, int blocks, int threads);

/// TODO 3. sums[r] becomes 0*0 + 1*1 + ... + (limits[r]-1)*(limits[r]-1), for the two readers r = 0 and 1.
void launch_sum_squares(const int* limits, int* sums);
