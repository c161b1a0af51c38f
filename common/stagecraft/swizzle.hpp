// How the bytes of a tile are permuted in shared memory. The tensor map that fills a tile and the descriptor that reads
// it must name the same permutation, so both take it from here.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace stagecraft {

/// 16-byte chunks of shared memory change places so that a column of a tile meets all banks.
///
/// bytes_32 exchanges address bit 4 with bit 7 by exclusive or, bytes_64 bits 5:4 with 8:7, bytes_128 bits 6:4 with
/// 9:7. Source: CUDA driver API, CUtensorMapSwizzle; PTX ISA, "Swizzling modes".
enum class Swizzle : uint8_t { none, bytes_32, bytes_64, bytes_128 };

/// Bytes of one row of a tile under this swizzle; 16 without one, where a row is a single chunk.
__host__ __device__ constexpr uint32_t swizzle_span(Swizzle swizzle) {
  return swizzle == Swizzle::none ? 16u : 16u << static_cast<uint32_t>(swizzle);
}

/// Where a byte that belongs at shared-memory address `address` of an unswizzled tile lies in the swizzled one.
///
/// It permutes absolute addresses: the start of the tile plays no part. Applied twice, it gives the address back.
__host__ __device__ constexpr uint32_t swizzled(uint32_t address, Swizzle swizzle) {
  const uint32_t chunks = swizzle_span(swizzle) / 16 - 1;
  return address ^ (((address >> 7) & chunks) << 4);
}

}  // namespace stagecraft
