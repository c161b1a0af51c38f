// How the bytes of a tile are permuted in shared memory. The tensor map that fills a tile and the descriptor that reads
// it must name the same permutation, so both take it from here.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace stagecraft {

/// Permutes chunks of shared memory so that a column of a tile is spread over all banks.
///
/// In the address, bytes_32 replaces bit 4 by its exclusive or with bit 7, bytes_64 bits 5:4 by that with 8:7,
/// bytes_128 bits 6:4 by that with 9:7: they move chunks of 16 bytes. bytes_128_atom_32 moves chunks of 32 bytes, bits
/// 6:5 with 8:7, for tf32 operands that are contiguous along M or N; only sm_100 has it. The numbers are those of the
/// driver. Source: CUDA driver API, CUtensorMapSwizzle; PTX ISA, "Swizzling modes".
enum class Swizzle : uint8_t { none = 0, bytes_32 = 1, bytes_64 = 2, bytes_128 = 3, bytes_128_atom_32 = 4 };

/// Bytes of one row of a tile under this swizzle; 16 without one, where a row is a single chunk.
__host__ __device__ constexpr uint32_t swizzle_span(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none: return 16;
    case Swizzle::bytes_32: return 32;
    case Swizzle::bytes_64: return 64;
    default: return 128;
  }
}

/// The widest swizzle whose lines fill rows of so many bytes.
__host__ __device__ constexpr Swizzle widest_swizzle(int row_bytes) {
  if (row_bytes % 128 == 0) return Swizzle::bytes_128;
  if (row_bytes % 64 == 0) return Swizzle::bytes_64;
  return row_bytes % 32 == 0 ? Swizzle::bytes_32 : Swizzle::none;
}

/// Bytes of one chunk, which the swizzle moves as a whole.
__host__ __device__ constexpr uint32_t swizzle_atom(Swizzle swizzle) {
  return swizzle == Swizzle::bytes_128_atom_32 ? 32 : 16;
}

/// Rows of `swizzle_span` bytes that the tensor core takes as one block: 8, and 4 where chunks are of 32 bytes.
__host__ __device__ constexpr uint32_t swizzle_rows(Swizzle swizzle) {
  return swizzle == Swizzle::bytes_128_atom_32 ? 4 : 8;
}

/// The address, in a swizzled tile, of the byte that an unswizzled tile has at shared-memory address `address`.
///
/// It permutes absolute addresses: the start of the tile plays no part. Applied twice, it returns the original address.
__host__ __device__ constexpr uint32_t swizzled(uint32_t address, Swizzle swizzle) {
  const uint32_t atom = swizzle_atom(swizzle);
  const uint32_t chunks = swizzle_span(swizzle) / atom - 1;
  return address ^ (((address >> 7) & chunks) * atom);
}

}  // namespace stagecraft
