// What the test of chapter 08 calls in tensor_memory.cu. All pointers are to device memory; all matrices are row-major.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

/// Rows that a block remembers, one in each lane of tensor memory, and the words of a row.
constexpr int kLanes = 128;
constexpr int kWords = 32;

/// TODO 1 to 3. out becomes in: `blocks` times kLanes rows of kWords words, which go through tensor memory.
void launch_remember(const uint32_t* in, uint32_t* out, int blocks);

/// D (kM x kN) = A (kM x kK) times B (kN x kK) transposed: one tile.
constexpr int kM = 128;
constexpr int kN = 128;
constexpr int kK = 64;

/// What describe() makes of a tile of A, and the tile's address in shared memory.
struct Described {
  uint64_t descriptor;
  uint32_t address;
};

/// TODO 4.
void launch_describe(Described* described);

/// TODO 4 to 6. TMA brings both tiles.
void launch_multiply_tile(const __nv_bfloat16* a, const __nv_bfloat16* b, float* d);

/// TODO 7. The same, but A comes as floats, which threads round to bf16 and write to shared memory.
void launch_multiply_rounded(const float* a, const __nv_bfloat16* b, float* d);
