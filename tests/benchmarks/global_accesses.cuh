// Kernels that hardly do anything but access global memory, each in another pattern.
#pragma once

/// Each warp reads a row and writes a column. In blocks of 32 x 8 threads, each thread for 4 rows.
__global__ void transpose_naively(const float* in, float* out, int n) {
  const int column = blockIdx.x * 32 + threadIdx.x;
  for (int row = blockIdx.y * 32 + threadIdx.y; row < (blockIdx.y + 1) * 32; row += blockDim.y) {
    out[column * n + row] = in[row * n + column];
  }
}

/// Means of 3 x 3 elements; those at the rim stay as they are.
__global__ void smooth(const float* in, float* out, int n) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column == 0 || row == 0 || column == n - 1 || row == n - 1) return;
  float sum = 0;
  for (int y = -1; y <= 1; ++y) {
    for (int x = -1; x <= 1; ++x) sum += in[(row + y) * n + column + x];
  }
  out[row * n + column] = sum / 9;
}

/// Each thread goes from place to place, in no order. `n` is a power of two.
__global__ void load_at_random(const unsigned* in, unsigned* out, unsigned n) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at = thread * 2654435761u, sum = 0;
  for (int i = 0; i < 16; ++i) {
    at = at * 1664525u + 1013904223u;
    sum += in[(at >> 8) % n];
  }
  out[thread] = sum;
}

__global__ void copy_rows(const float4* in, float4* out) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  out[thread] = in[thread];
}

/// In place: each element is read and written by one thread.
__global__ void scale_in_place(float* values, float factor) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  values[thread] *= factor;
}

/// Counts values of `bins`, a power of two, in global memory.
__global__ void count_values(const unsigned* in, unsigned* counts, unsigned bins) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&counts[in[thread] % bins], 1u);
}
