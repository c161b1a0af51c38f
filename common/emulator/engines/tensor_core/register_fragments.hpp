// How the matrices of mma.sync, wmma and wgmma are spread over the registers of a warp.
//
// All shapes with rows of 8 or 16 follow one rule. In each register of A, lane 4 * g + q has one 32-bit piece of a row:
// 1 element of tf32, 2 of 16 bits, 4 of 8, 8 of 4 or 32 single bits; for f64, one element in a 64-bit register:
//
//     A, register r    row g + 8 * (r & 1), piece q + 4 * (r >> 1) along K; with 8 rows: row g, piece q + 4 * r
//     B, register r    column g, piece q + 4 * r
//     C and D, element i    row g + 8 * (i >> 1 & 1), column 8 * (i >> 2) + 2 * q + (i & 1)
//
// wgmma has the same fragments, 16 rows in each of its four warps, and N / 8 groups of 8 columns. The old m8n8k4 of f16
// differs: four quarters of the warp multiply matrices of their own.
// Sources: PTX ISA, "Matrix Fragments for mma" of each shape and "Register Fragments" of wgmma; CUTLASS,
// cute/atom/mma_traits_sm{70,80,89,90,90_gmma}.hpp. There is no state, so that tests can check each map.
#pragma once

#include <cstdint>

namespace stagecraft::emulator::machine {

/// A row of A, C or D (for B, a column), and a place along K (for C and D, a column).
struct FragmentPlace {
  uint32_t row = 0;
  uint32_t column = 0;
  bool operator==(const FragmentPlace&) const = default;
};

/// Returns the piece of A in register `index` of a lane; `rows` is 8 or 16. `column` counts pieces along K.
constexpr FragmentPlace place_in_a(uint32_t rows, uint32_t lane, uint32_t index) {
  if (rows == 8) return {lane / 4, lane % 4 + 4 * index};
  return {lane / 4 + 8 * (index & 1), lane % 4 + 4 * (index >> 1)};
}
/// Does the same for B: `row` is the column of B.
constexpr FragmentPlace place_in_b(uint32_t lane, uint32_t index) { return {lane / 4, lane % 4 + 4 * index}; }
/// Returns the place of element `index` of C or D. Two f16 elements are in one register, the first in the low half.
constexpr FragmentPlace place_in_d(uint32_t lane, uint32_t index) {
  return {lane / 4 + 8 * (index >> 1 & 1), 8 * (index >> 2) + 2 * (lane % 4) + (index & 1)};
}

// ---- mma.sync.m8n8k4 of f16 ----------------------------------------------------------------------------------------

/// Returns which of the four matrices a lane works on: lanes 4 * i to 4 * i + 3, and those 16 further on, have matrix
/// i.
constexpr uint32_t quad_pair_of(uint32_t lane) { return lane % 16 / 4; }
/// Returns the number of a lane among the eight of its matrix.
constexpr uint32_t lane_in_quad_pair(uint32_t lane) { return lane % 4 + lane / 16 * 4; }

/// Returns the place of element `index` (0 to 3) of A, or of B with `row` its column. `along_k`: a lane has four
/// elements along K (A of .row, B of .col), otherwise four of one k.
constexpr FragmentPlace place_in_quad_pair(bool along_k, uint32_t lane, uint32_t index) {
  const uint32_t member = lane_in_quad_pair(lane);
  if (along_k) return {member, index};
  return {member / 4 * 4 + index, member % 4};
}
/// Returns the place of element `index` (0 to 7) of C or D in f16.
constexpr FragmentPlace place_in_quad_pair_f16(uint32_t lane, uint32_t index) {
  return {lane_in_quad_pair(lane), index};
}
/// Returns the place of element `index` (0 to 7) of C or D in f32.
constexpr FragmentPlace place_in_quad_pair_f32(uint32_t lane, uint32_t index) {
  return {(lane & 1) + (index & 2) + lane / 16 * 4, (index & 4) + (lane & 2) + (index & 1)};
}

// ---- wmma ----------------------------------------------------------------------------------------------------------

/// The fragments of wmma, whose layout PTX leaves open, are those of one or two products of mma.sync: 16 rows by 8
/// columns, or 8 by 8. With 32 rows there are two products one below another, with 16 columns two side by side; m8n32
/// is computed as the transpose of m32n8. A and B of f16 always fill eight registers; the values repeat.
/// This was measured on an H200: tests/conformance/wmma.cu.
struct WmmaShape {
  uint32_t m = 16, n = 16;
  uint32_t pieces = 8;  ///< registers along K of one row, in lanes

  constexpr bool transposed() const { return n == 32; }
  constexpr uint32_t rows() const { return transposed() ? n : m; }
  constexpr uint32_t columns() const { return transposed() ? m : n; }
  constexpr uint32_t tile_rows() const { return rows() < 16 ? rows() : 16; }
  constexpr uint32_t tiles() const { return rows() / tile_rows() * (columns() / 8); }
  /// Returns the registers of one tile.
  constexpr uint32_t row_registers() const { return tile_rows() * pieces / 32; }
  constexpr uint32_t column_registers() const { return 8 * pieces / 32; }
  constexpr uint32_t tile_elements() const { return tile_rows() * 8 / 32; }
  /// Returns the first register of a tile's rows; below, that of its columns.
  constexpr uint32_t first_row_register(uint32_t tile) const { return rows() == 32 ? tile * row_registers() : 0; }
  constexpr uint32_t first_column_register(uint32_t tile) const {
    return columns() == 16 ? tile * column_registers() : 0;
  }

  /// Returns a piece of the operand with the rows (A, or B if transposed): `row` in D, and the piece along K.
  constexpr FragmentPlace place_in_rows(uint32_t lane, uint32_t index) const {
    const FragmentPlace place = place_in_a(tile_rows(), lane, index % row_registers());
    return {place.row + index / row_registers() % (rows() / tile_rows()) * 16, place.column};
  }
  /// Returns a piece of the operand with the columns; `row` is the column in D.
  constexpr FragmentPlace place_in_columns(uint32_t lane, uint32_t index) const {
    const FragmentPlace place = place_in_b(lane, index % column_registers());
    return {place.row + index / column_registers() % (columns() / 8) * 8, place.column};
  }
  /// Returns the place of an element of C or D, before it is transposed.
  constexpr FragmentPlace place_in_sum(uint32_t lane, uint32_t index) const {
    const FragmentPlace place = place_in_d(lane, index % tile_elements());
    const uint32_t tile = index / tile_elements();
    return {place.row + (rows() == 32 ? tile * 16 : 0), place.column + (columns() == 16 ? tile * 8 : 0)};
  }
};

}  // namespace stagecraft::emulator::machine
