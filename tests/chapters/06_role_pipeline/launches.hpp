// What the test of chapter 06 calls in roles.cu, and what both must know. All pointers are to device memory.
#pragma once

/// Floats in a row, and in the stage that holds one.
inline constexpr int kRow = 256;
inline constexpr int kHalf = kRow / 2;
/// Stages in the rings of the first kernel and of the blank page.
inline constexpr int kStages = 2;
/// How long the consumer of the second kernel works on the second half of a row.
inline constexpr unsigned kSlowNanoseconds = 4000;

/// TODO 1. sums[r] becomes the sum of the squares of row r of `in`.
void launch_sum_squares(const float* in, float* sums, int rows);

/// TODO 2. The sum of row r of `in`, through one stage that is freed by halves. began[r]: how many halves the producer
/// had begun to fill when the consumer was done with row r, and had not yet freed its second half.
void launch_sum_by_halves(const float* in, float* sums, int* began, int rows);

/// TODO 3. Rounds in which the tensor core arrives for the producer; *seen becomes how many the consumer has seen, or
/// stays as it is on a chip without tcgen05.
void launch_commit_rounds(int* seen, int rounds);

/// TODO 4, the blank page. roughness[r] becomes the sum of |row[i + 1] - row[i]| over row r of `in`. One block of three
/// roles and two rings of kStages stages: a warp has the rows copied into the first ring; a second writes the
/// differences of each row into the second ring; a third adds up their magnitudes. Any
/// number of rows, also none.
void launch_measure_roughness(const float* in, float* roughness, int rows);

/// The same by one warp, which does all of it in turn. Given: see in_turn.cu.
void launch_measure_roughness_in_turn(const float* in, float* roughness, int rows);
