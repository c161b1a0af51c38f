// The two words by which a tcgen05.mma knows its operands: where a tile lies in shared memory, and what the product is.
// Both are plain bit fields; here every field has its name.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "stagecraft/swizzle.hpp"

namespace stagecraft {

/// Where the tensor core finds the operand tile of one MMA in shared memory.
///
/// Source: PTX ISA, "Tensorcore 5th Generation Instructions: shared memory descriptor".
struct SharedMemoryDescriptor {
  uint32_t start_address = 0;        ///< shared-window address in bytes, 16-byte aligned
  uint32_t leading_byte_offset = 0;  ///< bytes, multiple of 16; not used for swizzled K-major tiles
  uint32_t stride_byte_offset = 0;   ///< bytes from one group of eight rows to the next, multiple of 16
  uint32_t base_offset = 0;          ///< 0 to 7; 0 for whatever the copy engine has placed
  Swizzle swizzle = Swizzle::none;   ///< how the tile's bytes lie, as the copy that brought it was told

  /// The word that `tcgen05.mma` takes.
  __host__ __device__ constexpr uint64_t encode() const {
    constexpr uint64_t kConstantOne = uint64_t{1} << 46;
    return sixteenths(start_address & 0x3ffff) << 0 | sixteenths(leading_byte_offset) << 16 |
           sixteenths(stride_byte_offset) << 32 | kConstantOne | uint64_t{base_offset & 7} << 49 | swizzle_code() << 61;
  }

 private:
  __host__ __device__ static constexpr uint64_t sixteenths(uint32_t bytes) { return (bytes >> 4) & 0x3fff; }

  __host__ __device__ constexpr uint64_t swizzle_code() const {
    switch (swizzle) {
      case Swizzle::none: return 0;
      case Swizzle::bytes_32: return 6;
      case Swizzle::bytes_64: return 4;
      case Swizzle::bytes_128: return 2;
      case Swizzle::bytes_128_atom_32: return 1;
    }
    return 0;
  }
};

/// Moves a descriptor's start address, for the next slice of K inside a tile: swizzles permute absolute addresses, so
/// that no other field changes.
/// @param bytes  multiple of 16.
__host__ __device__ constexpr uint64_t advance_descriptor(uint64_t descriptor, uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

/// The operand formats of `.kind::f16`.
enum class HalfFormat : uint8_t { f16 = 0, bf16 = 1 };
/// What the tensor core sums in. f16 only for f16 operands.
enum class AccumulatorFormat : uint8_t { f16 = 0, f32 = 1 };
/// Which index of an operand runs through contiguous memory: k, or m (of A) and n (of B).
enum class Major : uint8_t { k = 0, mn = 1 };

/// What one `tcgen05.mma` of `.kind::f16` computes: D[m x n] = A[m x 16] * B[n x 16] transposed (+ D).
///
/// Source: PTX ISA, "Tensorcore 5th Generation Instructions: instruction descriptor".
struct HalfMma {
  int m = 0;                                               ///< rows of D: 64 or 128
  int n = 0;                                               ///< columns of D: 8 to 256, see below
  HalfFormat a = HalfFormat::bf16;                         ///< format of A's elements
  HalfFormat b = HalfFormat::bf16;                         ///< format of B's elements
  AccumulatorFormat accumulator = AccumulatorFormat::f32;  ///< format of D's elements
  Major a_major = Major::k;                                ///< how A lies in shared memory
  Major b_major = Major::k;                                ///< how B lies in shared memory
  bool negate_a = false;                                   ///< A's elements change their sign
  bool negate_b = false;                                   ///< B's elements change their sign

  /// Products summed per element by one instruction: 32 bytes of each operand row.
  static constexpr int k = 16;
};

/// The word that `tcgen05.mma` of one CTA (`.cta_group::1`) and of `.kind::f16` takes; an MMA that the tensor core has
/// not does not compile.
template <HalfMma Mma>
consteval uint32_t instruction_descriptor() {
  static_assert(Mma.m == 64 || Mma.m == 128, "tcgen05.mma of one CTA: M must be 64 or 128");
  static_assert(Mma.n >= 8 && Mma.n <= 256 && Mma.n % (Mma.m == 128 ? 16 : 8) == 0,
                "tcgen05.mma of one CTA: N must be 16, 32, ..., 256 for M = 128 and 8, 16, ..., 256 for M = 64");
  static_assert(Mma.accumulator == AccumulatorFormat::f32 || (Mma.a == HalfFormat::f16 && Mma.b == HalfFormat::f16),
                "tcgen05.mma: an f16 accumulator needs f16 operands; bf16 sums in f32");
  return uint32_t(Mma.accumulator) << 4 | uint32_t(Mma.a) << 7 | uint32_t(Mma.b) << 10 | uint32_t(Mma.negate_a) << 13 |
         uint32_t(Mma.negate_b) << 14 | uint32_t(Mma.a_major) << 15 | uint32_t(Mma.b_major) << 16 |
         uint32_t(Mma.n / 8) << 17 | uint32_t(Mma.m / 16) << 24;
}

}  // namespace stagecraft
