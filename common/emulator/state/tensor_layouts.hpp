// Layouts of the tensor core: matrix operands in shared memory, accumulators and register fragments in tensor memory.
//
// Everything here is a small map from logical coordinates to places, without state, so that tests can check that each
// map is one-to-one. Sources: PTX ISA, "Matrix and Data Movement Shape", "Shared Memory Layout and Swizzling",
// "Data Path Layout Organization"; CUTLASS, cute/atom/{copy_traits_sm100,mma_traits_sm100_frag}.hpp. The addressing of
// operands was measured on an H200 (wgmma) and is documented to be the same for tcgen05.
#pragma once

#include <cstdint>

namespace stagecraft::emulator::machine {

inline constexpr uint32_t kTensorLanes = 128;
inline constexpr uint32_t kTensorColumns = 512;

/// A 32-bit cell of tensor memory, or a distance between two.
struct TensorCell {
  uint32_t lane = 0;
  uint32_t column = 0;
  bool operator==(const TensorCell&) const = default;
};

/// A tensor memory address has the lane in its upper and the column in its lower 16 bits.
constexpr TensorCell cell_at(uint32_t address) { return {address >> 16, address & 0xffff}; }
constexpr uint32_t address_of(TensorCell cell) { return cell.lane << 16 | cell.column; }

// ---- Swizzling of shared memory ------------------------------------------------------------------------------------

enum class Swizzle : uint8_t { none, bytes32, bytes64, bytes128, bytes128_atom32 };

/// Returns the bytes of one row of a swizzle atom; 16 without swizzling.
constexpr uint32_t span_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none: return 16;
    case Swizzle::bytes32: return 32;
    case Swizzle::bytes64: return 64;
    case Swizzle::bytes128:
    case Swizzle::bytes128_atom32: return 128;
  }
  return 16;
}

/// Returns the shared address of the byte with linear address `address`. The pattern is fixed to absolute addresses, in
/// lines of 128 bytes; `base_offset` (0 to 7) shifts its phase by lines.
constexpr uint32_t swizzled(Swizzle swizzle, uint32_t address, uint32_t base_offset = 0) {
  const uint32_t line = (address >> 7) - base_offset;
  switch (swizzle) {
    case Swizzle::none: return address;
    case Swizzle::bytes32: return address ^ (line & 1) << 4;
    case Swizzle::bytes64: return address ^ (line & 3) << 4;
    case Swizzle::bytes128: return address ^ (line & 7) << 4;
    case Swizzle::bytes128_atom32: return address ^ (line & 3) << 5;
  }
  return address;
}

// ---- Matrix operands in shared memory ------------------------------------------------------------------------------

/// Returns the distance in bytes, before swizzling, from the start of a K-major operand to byte `k_byte` of row `row`
/// (a row of A or a column of B). `leading` and `stride` are the descriptor's byte offsets.
constexpr uint32_t k_major_offset(Swizzle swizzle, uint32_t leading, uint32_t stride, uint32_t row, uint32_t k_byte) {
  if (swizzle == Swizzle::none) return row / 8 * stride + row % 8 * 16 + k_byte / 16 * leading + k_byte % 16;
  return row / 8 * stride + row % 8 * span_of(swizzle) + k_byte;
}

/// Does the same for an MN-major operand: `mn_byte` counts along M (of A) or N (of B), `k` is the element along K.
constexpr uint32_t mn_major_offset(Swizzle swizzle, uint32_t leading, uint32_t stride, uint32_t mn_byte, uint32_t k) {
  if (swizzle == Swizzle::none) return mn_byte / 16 * stride + mn_byte % 16 + k % 8 * 16 + k / 8 * leading;
  const uint32_t span = span_of(swizzle);
  const uint32_t rows = swizzle == Swizzle::bytes128_atom32 ? 4 : 8;  // k rows of one swizzle atom
  return mn_byte / span * leading + mn_byte % span + k % rows * span + k / rows * stride;
}

// ---- Accumulators in tensor memory ---------------------------------------------------------------------------------

/// How the rows and columns of D that one block has are spread over its tensor memory; the letters are those of the PTX
/// ISA. In a pair of blocks (cta_group::2), the even block has the upper half of the rows: 128 rows as in layout d (the
/// PTX ISA's A), or 64 as in layout e (its B), or with a sparse A as in layout f (its C).
enum class AccumulatorLayout : uint8_t {
  d,  ///< 128 rows: row m in lane m
  f,  ///< 64 rows: 16 in each quarter of the lanes
  e,  ///< 64 rows of .ws or of a pair: the right half of the columns in lanes 64..127
  g,  ///< 32 rows of .ws: each quarter of the columns in its own 32 lanes
};

/// Returns the lane and column of element (m, n), relative to the address of D (whose lane is 0, or 16 for layout f).
constexpr TensorCell accumulator_cell(AccumulatorLayout layout, uint32_t m, uint32_t n, uint32_t columns) {
  switch (layout) {
    case AccumulatorLayout::d: return {m, n};
    case AccumulatorLayout::f: return {m / 16 * 32 + m % 16, n};
    case AccumulatorLayout::e: return {m + n / (columns / 2) * 64, n % (columns / 2)};
    case AccumulatorLayout::g: return {m + n / (columns / 4) * 32, n % (columns / 4)};
  }
  return {};
}

/// Returns into how many groups of lanes the columns of D are split.
constexpr uint32_t column_groups(AccumulatorLayout layout) {
  return layout == AccumulatorLayout::e ? 2 : layout == AccumulatorLayout::g ? 4 : 1;
}

// ---- Register fragments (tcgen05.ld, tcgen05.st) -------------------------------------------------------------------

enum class FragmentShape : uint8_t { s32x32b, s16x64b, s16x128b, s16x256b, s16x32bx2 };

constexpr uint32_t lanes_of(FragmentShape shape) { return shape == FragmentShape::s32x32b ? 32 : 16; }

/// Returns the registers of each thread per repetition (xN).
constexpr uint32_t registers_of(FragmentShape shape) {
  return shape == FragmentShape::s16x256b ? 4 : shape == FragmentShape::s16x128b ? 2 : 1;
}

/// Returns the columns per repetition; for 16x32bx2, those of each half.
constexpr uint32_t columns_of(FragmentShape shape) {
  switch (shape) {
    case FragmentShape::s32x32b:
    case FragmentShape::s16x32bx2: return 1;
    case FragmentShape::s16x64b: return 2;
    case FragmentShape::s16x128b: return 4;
    case FragmentShape::s16x256b: return 8;
  }
  return 1;
}

/// Returns the largest xN: an instruction has at most 128 registers.
constexpr uint32_t repetitions_of(FragmentShape shape) { return 128 / registers_of(shape); }

/// Returns the cell of register `index` of thread `thread` (0 to 31), relative to the address. `split` is the immediate
/// of 16x32bx2: the columns from its first half to its second.
constexpr TensorCell fragment_cell(FragmentShape shape, uint32_t thread, uint32_t index, uint32_t split = 0) {
  switch (shape) {
    case FragmentShape::s32x32b: return {thread, index};
    case FragmentShape::s16x64b: return {thread / 4 + 8 * (thread & 1), 2 * index + (thread >> 1 & 1)};
    case FragmentShape::s16x128b: return {thread / 4 + 8 * (index & 1), index / 2 * 4 + thread % 4};
    case FragmentShape::s16x256b:
      return {thread / 4 + 8 * (index >> 1 & 1), index / 4 * 8 + thread % 4 * 2 + (index & 1)};
    case FragmentShape::s16x32bx2: return {thread % 16, index + (thread >= 16 ? split : 0)};
  }
  return {};
}

// ---- Copies from shared memory (tcgen05.cp) ------------------------------------------------------------------------

enum class CopyShape : uint8_t {
  c128x256b,
  c128x128b,
  c64x128b_02_13,  ///< .warpx2::02_13
  c64x128b_01_23,  ///< .warpx2::01_23
  c32x128b,        ///< .warpx4
  c4x256b,
};

constexpr uint32_t rows_of(CopyShape shape) {
  switch (shape) {
    case CopyShape::c128x256b:
    case CopyShape::c128x128b: return 128;
    case CopyShape::c64x128b_02_13:
    case CopyShape::c64x128b_01_23: return 64;
    case CopyShape::c32x128b: return 32;
    case CopyShape::c4x256b: return 4;
  }
  return 0;
}

/// Returns the bytes of one row in tensor memory, that is after decompression: 4 per column.
constexpr uint32_t row_bytes_of(CopyShape shape) {
  return shape == CopyShape::c128x256b || shape == CopyShape::c4x256b ? 32 : 16;
}

/// Returns into how many lanes each row is written.
constexpr uint32_t copies_of(CopyShape shape) {
  return shape == CopyShape::c32x128b                                               ? 4
         : shape == CopyShape::c64x128b_02_13 || shape == CopyShape::c64x128b_01_23 ? 2
                                                                                    : 1;
}

/// Returns the lane, relative to the address, of copy `copy` of row `row`.
constexpr uint32_t copy_lane(CopyShape shape, uint32_t row, uint32_t copy) {
  switch (shape) {
    case CopyShape::c128x256b:
    case CopyShape::c128x128b: return row;
    case CopyShape::c64x128b_02_13: return row + 64 * copy;
    case CopyShape::c64x128b_01_23: return row / 32 * 64 + row % 32 + 32 * copy;
    case CopyShape::c32x128b: return row + 32 * copy;
    case CopyShape::c4x256b: return 32 * row;
  }
  return 0;
}

// ---- Scale factors of the block-scaled kinds -----------------------------------------------------------------------

/// Returns the cell, relative to the address, of the scale factors of row `row` (of A, or column of B) that the lanes
/// of quarter `quarter` use. The byte in the cell is the descriptor's scale factor id plus the block number along K.
constexpr TensorCell scale_cell(uint32_t row, uint32_t quarter) { return {row % 32 + 32 * quarter, row / 32}; }

// ---- Metadata of a sparse A ----------------------------------------------------------------------------------------

/// Four bits in tensor memory.
struct MetadataPlace {
  TensorCell cell;  ///< its column counts from that of the metadata's address, with the selector
  uint32_t shift;   ///< of its lowest bit in the cell
};

/// Returns where the metadata of chunk `chunk` along K are for the row of A whose D is in lane `lane`. Kinds of 8 and 4
/// bits have two columns, whose lanes are those of the rows. Those of 16 and 32 bits (`paired`) have one: a cell has
/// half of the chunks for each of two rows, 8 apart; the other half is in the lane that is 8 further.
constexpr MetadataPlace metadata_place(bool paired, uint32_t lane, uint32_t chunk) {
  if (!paired) return {{lane, chunk / 8}, chunk % 8 * 4};
  return {{lane / 16 * 16 + lane % 8 + chunk / 4 * 8, 0}, lane / 8 % 2 * 16 + chunk % 4 * 4};
}

}  // namespace stagecraft::emulator::machine
