// Tiles in shared memory whose type says everything about them: element, shape, swizzle, which index is contiguous. The
// tensor map, the copy and the descriptor are all made from the type, so that they cannot disagree.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <concepts>
#include <cstdint>

#include "stagecraft/element.hpp"
#include "stagecraft/swizzle.hpp"

namespace stagecraft {

/// Bytes of shared memory that one block can have, static and dynamic together, on sm_90 and sm_100.
/// Source: CUDA C++ Programming Guide, "Compute Capabilities" (227 KB).
inline constexpr uint32_t kSharedBytesPerBlock = 227 * 1024;

/// Which index of an operand runs through contiguous memory: k (its columns), or m of A and n of B (its rows).
enum class Major : uint8_t { k = 0, mn = 1 };

/// Bytes to which a tile must be aligned: the period of its swizzle's pattern, and at least the 128 bytes that TMA
/// needs.
__host__ __device__ constexpr uint32_t tile_alignment(Swizzle swizzle) { return 8 * swizzle_span(swizzle); }

/// A matrix of `Rows` x `Columns` elements in shared memory, laid out as TMA writes it and the tensor core
/// reads it. Declare it `__shared__`, alone, in an array or in a structure.
///
/// It consists of boxes, one after the other. A box holds `swizzle_span` bytes of the contiguous index and all of the
/// other one, in lines of that many bytes, swizzled. An operand that is contiguous along K (Major::k) has its rows as
/// lines; one that is contiguous along M or N (Major::mn) has its columns as lines.
/// @tparam Element  one of element.hpp.
/// @tparam Rows     along M of A, N of B.
/// @tparam Columns  along K.
/// Source: PTX ISA, "Tensorcore 5th Generation Instructions: shared memory layout and swizzling".
template <TileElement Element, int Rows, int Columns, Swizzle TileSwizzle = Swizzle::bytes_128,
          Major TileMajor = Major::k>
struct alignas(tile_alignment(TileSwizzle)) Tile {
  using element_type = Element;                       ///< what the matrix is made of
  static constexpr int rows = Rows;                   ///< along M or N
  static constexpr int columns = Columns;             ///< along K
  static constexpr Swizzle swizzle = TileSwizzle;     ///< how its bytes are permuted
  static constexpr Major major = TileMajor;           ///< which index is contiguous
  static constexpr int bits = element_bits<Element>;  ///< of one element

  static constexpr int contiguous = TileMajor == Major::k ? Columns : Rows;  ///< elements along the contiguous index
  static constexpr int lines = TileMajor == Major::k ? Rows : Columns;       ///< lines of a box, along the other index
  static constexpr int box_elements = swizzle_span(TileSwizzle) * 8 / bits;  ///< elements in a line of a box
  static constexpr int num_boxes = contiguous / box_elements;                ///< boxes side by side

  static constexpr uint32_t bytes_per_box = lines * swizzle_span(TileSwizzle);  ///< of one copy
  static constexpr uint32_t bytes = num_boxes * bytes_per_box;                  ///< of the whole tile

  static_assert(Rows >= 1 && Columns >= 1, "Tile: Rows and Columns must be at least 1");
  static_assert(contiguous % box_elements == 0,
                "Tile: the contiguous index (Columns for Major::k, Rows for Major::mn) must fill whole lines of the "
                "swizzle: 16 bytes for none, 32, 64 or 128 bytes for the others. Choose a narrower swizzle or a wider "
                "tile");
  static_assert(lines % 8 == 0,
                "Tile: the index that is not contiguous (Rows for Major::k, Columns for Major::mn) must be a multiple "
                "of 8, the lines that the tensor core takes together");
  static_assert(lines <= 256, "Tile: a box has at most 256 lines (Rows for Major::k, Columns for Major::mn)");

  /// The offset of element (row, column) without the swizzle, in bytes from the start of the tile: descriptors use it,
  /// because the tensor core swizzles the addresses that it computes.
  __host__ __device__ static constexpr uint32_t linear_offset_of(int row, int column) {
    const uint32_t index = TileMajor == Major::k ? column : row;
    const uint32_t line = TileMajor == Major::k ? row : column;
    return index / box_elements * bytes_per_box + line * swizzle_span(TileSwizzle) + index % box_elements * bits / 8;
  }

  /// The offset of element (row, column), in bytes from the start of the tile; for 4-bit elements, of the shared byte.
  __host__ __device__ static constexpr uint32_t offset_of(int row, int column) {
    return swizzled(linear_offset_of(row, column), TileSwizzle);
  }

  /// The element of a row and a column, for threads that read or write the tile themselves. Whole bytes only.
  __device__ Element& at(int row, int column) requires(bits >= 8) {
    return *reinterpret_cast<Element*>(storage + offset_of(row, column));
  }

  /// The tile's address in the window of shared memory, as descriptors take it.
  __device__ uint32_t shared_address() const { return static_cast<uint32_t>(__cvta_generic_to_shared(storage)); }

  unsigned char storage[bytes];  ///< the boxes
};

/// A row-major matrix in shared memory without swizzle, for what no MMA reads: scales per row, biases. One copy fills
/// it.
template <TileElement Element, int Rows, int Columns>
struct alignas(128) PlainTile {
  using element_type = Element;                                 ///< what the matrix is made of
  static constexpr int rows = Rows;                             ///< lines
  static constexpr int columns = Columns;                       ///< elements in a line
  static constexpr int bits = element_bits<Element>;            ///< of one element
  static constexpr uint32_t bytes = Rows * Columns * bits / 8;  ///< of the matrix, without the padding of the alignment

  static_assert(Rows >= 1 && Rows <= 256 && Columns >= 1 && Columns <= 256,
                "PlainTile: Rows and Columns must be 1 to 256, what one copy can bring");
  static_assert(Columns * bits % 128 == 0, "PlainTile: a row must be a multiple of 16 bytes, as TMA needs");

  /// The offset of element (row, column), in bytes from the start of the tile.
  __host__ __device__ static constexpr uint32_t offset_of(int row, int column) {
    return (row * Columns + column) * bits / 8;
  }

  /// The element of a row and a column. Whole bytes only.
  __device__ Element& at(int row, int column) requires(bits >= 8) {
    return *reinterpret_cast<Element*>(storage + offset_of(row, column));
  }

  /// The tile's address in the window of shared memory.
  __device__ uint32_t shared_address() const { return static_cast<uint32_t>(__cvta_generic_to_shared(storage)); }

  unsigned char storage[bytes];  ///< the rows
};

//! [scale factor offset]
/// The offset in bytes of a scale factor in memory where scale factors are in atoms of 128 rows x 4 blocks of K, those
/// along K one after the other: a matrix of them in global memory, or a ScaleFactorTile.
/// @param blocks  of K that each row has, a multiple of 4.
/// Source: CUTLASS, cutlass/detail/sm100_blockscaled_layout.hpp (SfAtom).
__host__ __device__ constexpr uint32_t scale_factor_offset(uint32_t row, uint32_t block, uint32_t blocks) {
  const uint32_t atom = row / 128 * (blocks / 4) + block / 4;
  return atom * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}
//! [scale factor offset]

/// Scale factors of a block-scaled operand in shared memory, one byte per row and block of K, in the order in which
/// `tcgen05.cp` (.32x128b.warpx4) spreads them over tensor memory.
///
/// They are stored in atoms of 128 rows x 4 blocks = 512 bytes, those along K one after the other.
/// @tparam Scale   `__nv_fp8_e8m0` (ue8m0), or `__nv_fp8_e4m3` for ue4m3.
/// @tparam Rows    rows of A or B, a multiple of 128: pad B's.
/// @tparam Blocks  blocks of 32 or 16 elements along K, a multiple of 4.
template <TileElement Scale, int Rows, int Blocks>
struct alignas(512) ScaleFactorTile {
  using element_type = Scale;                       ///< the type of a scale factor
  static constexpr int rows = Rows;                 ///< along M or N
  static constexpr int columns = Blocks;            ///< along K
  static constexpr int bits = 8;                    ///< of one scale factor
  static constexpr uint32_t bytes_per_atom = 512;   ///< 128 rows x 4 blocks: one `tcgen05.cp`, four columns
  static constexpr uint32_t bytes = Rows * Blocks;  ///< of the whole tile

  static_assert(element_bits<Scale> == 8,
                "ScaleFactorTile: scale factors are one byte: __nv_fp8_e8m0 or __nv_fp8_e4m3");
  static_assert(Rows >= 128 && Rows % 128 == 0, "ScaleFactorTile: Rows must be a multiple of 128; pad the operand's");
  static_assert(Blocks >= 4 && Blocks % 4 == 0,
                "ScaleFactorTile: Blocks must be a multiple of 4, the scale factors in one cell of tensor memory");

  /// The offset of the scale factor of a row and a block, in bytes from the start of the tile.
  __host__ __device__ static constexpr uint32_t offset_of(int row, int block) {
    return scale_factor_offset(row, block, Blocks);
  }

  /// The tile's address in the window of shared memory.
  __device__ uint32_t shared_address() const { return static_cast<uint32_t>(__cvta_generic_to_shared(storage)); }

  unsigned char storage[bytes];  ///< the atoms
};

/// A tile in shared memory: its address, and how many bytes copies bring to fill it.
template <typename T>
concept SharedTile = requires(const T& tile) {
  typename T::element_type;
  { T::bytes } -> std::convertible_to<uint32_t>;
  { T::offset_of(0, 0) } -> std::same_as<uint32_t>;
  { tile.shared_address() } -> std::same_as<uint32_t>;
};

/// The tensor map of a matrix for copies of tiles of type `T`: pass it to a kernel as `const __grid_constant__
/// TileMap<T>`, or in a structure, and a copy of any other tile by it does not compile. `make_tile_map<T>()` makes it
/// on the host.
/// @tparam Slices  equal slices in which the tile is copied, where as many blocks of a cluster share it: each copy then
///                 brings one. A slice has `T::lines / Slices` of the lines of each box, a multiple of the 8 lines
///                 after which a swizzle's pattern repeats.
template <typename T, int Slices = 1>
struct TileMap {
  using tile_type = T;                   ///< what it was made for
  static constexpr int slices = Slices;  ///< in which the tile is copied
  CUtensorMap map;                       ///< what TMA takes

  /// The map alone, without the type of its tile: for instructions, and for kernels that take any map.
  __host__ __device__ operator const CUtensorMap&() const { return map; }
};

}  // namespace stagecraft
