// What the test of chapter 09 calls in products.cu, and what both must know. All pointers are to device memory; all
// matrices are row-major floats: A is m x k, B is n x k, C = A times B transposed is m x n. k is a multiple of 4.
#pragma once

#include <cstdint>

/// Elements of the tiles of one k-tile: A has kTileM x kTileK of them, B kTileN x kTileK.
constexpr int kTileM = 128;
constexpr int kTileN = 16;
constexpr int kTileK = 16;

/// Blocks that share the tiles of B in launch_multiply_in_pairs.
constexpr int kClusterSize = 2;
/// How much longer the second block of a pair takes for a group of tiles than the first.
constexpr unsigned kSlowNanoseconds = 3000;
/// Numbers that are added up at a time in launch_multiply_and_add.
constexpr int kPiece = 64;

/// TODO 1 and 2. C, by threads, from four tiles in shared memory: 4 stages of 1, 2 stages of 2 or 1 stage of 4.
/// @param k_group_size  1, 2 or 4.
void launch_multiply(const float* a, const float* b, float* c, int m, int n, int k, int k_group_size);

/// TODO 3. C (one tile, or less) and, by the copying thread, *sum of `pieces` pieces of `numbers`, modulo 2^32.
/// *while_waiting becomes how many pieces were added while the stage that it had to fill next was not free.
void launch_multiply_and_add(const float* a, const float* b, float* c, int m, int n, int k, const uint32_t* numbers,
                             int pieces, uint32_t* sum, int* while_waiting);

/// How often launch_ask_after_each_move asks: in a fresh ring of 2, and after each move of a round of both roles.
constexpr int kQuestions = 5;

/// TODO 3. filled[i] and free[i]: what the two roles are answered, as one thread plays both.
void launch_ask_after_each_move(int* filled, int* free);

/// TODO 4. C by pairs of blocks, each of which brings half of the tiles of B for both.
void launch_multiply_in_pairs(const float* a, const float* b, float* c, int m, int n, int k);

/// TODO 5. C by the tensor core, which reads the elements as tf32. Does nothing on a chip without tcgen05.
void launch_multiply_on_tensor_core(const float* a, const float* b, float* c, int m, int n, int k);
