// Where the tensor core finds its operands in shared memory: a word of bit fields for each, in which here every field
// has its name; and the word of a tile, made from the tile's type.
#pragma once

#include <cuda_runtime.h>

#include <concepts>
#include <cstdint>

#include "stagecraft/mma_instruction.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft {

/// Where the tensor core finds the operand tile of one MMA in shared memory.
///
/// Source: PTX ISA, "Tensorcore 5th Generation Instructions: shared memory descriptor".
struct SharedMemoryDescriptor {
  uint32_t start_address = 0;        ///< shared-window address in bytes, 16-byte aligned
  uint32_t leading_byte_offset = 0;  ///< bytes, multiple of 16; not used for swizzled K-major tiles
  uint32_t stride_byte_offset = 0;   ///< bytes, multiple of 16; K-major: from one group of eight rows to the next
  uint32_t base_offset = 0;          ///< 0 to 7; 0 for whatever TMA has placed
  Swizzle swizzle = Swizzle::none;   ///< permutation of the tile's bytes, the same as that of the copy that brought it

  /// The word that `tcgen05.mma` takes. It checks nothing; where all fields are constants,
  /// `shared_memory_descriptor()` does.
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

/// The word of a descriptor whose fields are constants; one that the tensor core cannot take does not compile.
template <uint32_t StartAddress, uint32_t LeadingByteOffset, uint32_t StrideByteOffset, uint32_t BaseOffset,
          Swizzle DescriptorSwizzle>
consteval uint64_t shared_memory_descriptor() {
  static_assert(StartAddress % swizzle_atom(DescriptorSwizzle) == 0,
                "shared memory descriptor: the start address must be a multiple of 16 bytes, and of 32 where the "
                "swizzle moves chunks of 32");
  static_assert(LeadingByteOffset % 16 == 0 && StrideByteOffset % 16 == 0,
                "shared memory descriptor: the leading and the stride byte offset must be multiples of 16");
  static_assert(LeadingByteOffset < (1u << 18) && StrideByteOffset < (1u << 18),
                "shared memory descriptor: the leading and the stride byte offset must be less than 2^18");
  static_assert(BaseOffset <= 7 && (BaseOffset == 0 || DescriptorSwizzle != Swizzle::none),
                "shared memory descriptor: the base offset must be 0 to 7, and 0 without a swizzle");
  return SharedMemoryDescriptor{.start_address = StartAddress,
                                .leading_byte_offset = LeadingByteOffset,
                                .stride_byte_offset = StrideByteOffset,
                                .base_offset = BaseOffset,
                                .swizzle = DescriptorSwizzle}
      .encode();
}

/// Moves a descriptor's start address, for the next slice of K inside a tile: swizzles permute absolute addresses, so
/// that no other field changes.
/// @param bytes  multiple of 16.
__host__ __device__ constexpr uint64_t advance_descriptor(uint64_t descriptor, uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

// ---- From tiles -----------------------------------------------------------------------------------------------------

/// A tile that an MMA can read: one whose type has a swizzle and a major.
template <typename T>
concept OperandTile = SharedTile<T> && requires {
  { T::swizzle } -> std::convertible_to<Swizzle>;
  { T::major } -> std::convertible_to<Major>;
  { T::linear_offset_of(0, 0) } -> std::same_as<uint32_t>;
};

/// Elements along K that one MMA takes of a tile: 32 bytes of them.
template <OperandTile T>
inline constexpr int k_of_mma = 256 / T::bits;

/// The descriptor of a tile at address 0; a tile that no MMA can read does not compile.
template <OperandTile T>
consteval uint64_t tile_descriptor() {
  constexpr ElementFormat format = element_format<typename T::element_type>();
  static_assert(T::columns % k_of_mma<T> == 0,
                "tcgen05.mma: the columns of an operand tile, along K, must be a multiple of the 32 bytes that one MMA "
                "takes: 8 of tf32, 16 of 16 bits, 32 of 8 bits, 64 of 4 bits");
  static_assert(T::major == Major::k || detail::may_be_mn_major(format),
                "tcgen05.mma: operands of 4- and 6-bit elements must be contiguous along K (Major::k)");
  static_assert((T::swizzle == Swizzle::bytes_128_atom_32) == (T::major == Major::mn && format == ElementFormat::tf32),
                "tcgen05.mma: Swizzle::bytes_128_atom_32 is for tf32 tiles contiguous along M or N, and they take no "
                "other; all other tiles take none, bytes_32, bytes_64 or bytes_128");
  constexpr uint32_t kSpan = swizzle_span(T::swizzle);
  constexpr uint32_t kRows = swizzle_rows(T::swizzle) * kSpan;  // what the tensor core takes as one block
  constexpr bool kSwizzled = T::swizzle != Swizzle::none;
  if constexpr (T::major == Major::k) {
    // Leading: to the next 16 bytes along K, which a swizzled line holds itself. Stride: to the next 8 rows.
    return shared_memory_descriptor < 0, kSwizzled ? 0 : T::bytes_per_box, kRows, 0, T::swizzle > ();
  } else if constexpr (kSwizzled) {
    // Leading: to the next line's width along M or N. Stride: to the next 8 (or 4) of K.
    return shared_memory_descriptor<0, T::bytes_per_box, kRows, 0, T::swizzle>();
  } else {
    // Here the two exchange their meanings: leading is to the next 8 of K, stride to the next 16 bytes along M or N.
    return shared_memory_descriptor<0, kRows, T::bytes_per_box, 0, T::swizzle>();
  }
}

/// The descriptor of a tile in the shared memory of the block. Any thread.
template <OperandTile T>
__device__ __forceinline__ uint64_t describe_tile(const T& tile) {
  return advance_descriptor(tile_descriptor<T>(), tile.shared_address() & 0x3ffff);
}

/// Bytes from the start of a tile to the operand of its MMA number `slice` along K: what to advance its descriptor by.
template <OperandTile T>
__host__ __device__ constexpr uint32_t slice_offset(int slice) {
  return T::linear_offset_of(0, slice * k_of_mma<T>);
}

/// The descriptor of scale factors in shared memory, for `tcgen05.cp` of .32x128b.warpx4: one atom of 512 bytes.
/// @param atom  0 to bytes / 512 - 1: 128 rows and 4 blocks of K each, those along K first.
/// Source: CUTLASS, cutlass/detail/sm100_blockscaled_layout.hpp; PTX ISA, "tcgen05.cp".
template <TileElement Scale, int Rows, int Blocks>
__device__ __forceinline__ uint64_t describe_scale_factors(const ScaleFactorTile<Scale, Rows, Blocks>& tile, int atom) {
  return advance_descriptor(shared_memory_descriptor<0, 0, 128, 0, Swizzle::none>(),
                            (tile.shared_address() & 0x3ffff) + atom * tile.bytes_per_atom);
}

}  // namespace stagecraft
