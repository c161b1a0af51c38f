// What the test of chapter 07 calls in tiles.cu. All pointers are to device memory; all matrices are row-major.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

/// A box of floats: its rows are 128 bytes.
constexpr int kBoxRows = 8;
constexpr int kBoxColumns = 32;

/// TODO 1 to 3. out[r][c] becomes matrix[row + r][column + c] for the kBoxRows x kBoxColumns elements of a box, and 0
/// where the matrix (rows x columns) has no such element.
/// @param column  a multiple of 4; it and `row` may be negative.
/// @throws TensorMapError  when a tensor map cannot describe such a matrix.
void launch_copy_box(const float* matrix, int rows, int columns, int row, int column, float* out);

/// Rows of the tiles that TODO 4 reads, each of 128 bytes.
constexpr int kTileRows = 32;

/// TODO 4. out becomes the first kTileRows x 32 elements of `matrix`, which has as many rows and columns. They go
/// through a swizzled tile, from which each lane reads a row.
void launch_read_rows(const float* matrix, float* out);

/// Elements of a stage's tiles: A has kTileM x kTileK of them, B kTileN x kTileK.
constexpr int kTileM = 128;
constexpr int kTileN = 32;
constexpr int kTileK = 64;

/// TODO 5 and 6. C (m x n) = A (m x k) times B (n x k) transposed.
/// @param k  a multiple of 8.
void launch_multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n, int k);
