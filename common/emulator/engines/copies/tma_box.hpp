// The box of elements that one bulk tensor copy moves: where its rows are in global memory, where their 16-byte pieces
// are in swizzled shared memory, and what is out of bounds.
//
// A row is the run of elements along dimension 0; of a column of pixels (im2col), the channels of one pixel. In shared
// memory, row r of the box begins at linear offset r * pitch. The pitch is the swizzle's span, or the row itself
// without a swizzle. Then the swizzle moves each 16-byte piece by flipping bits of its absolute address (`swizzled`).
// This was measured on an H200 for the 32, 64 and 128-byte swizzles, and follows the PTX ISA's tables for the others.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "emulator/engines/copies/tensor_map.hpp"
#include "emulator/state/device_memory.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {

/// Returns where a byte of a tile is whose linear shared memory address is `address` (offset in the block's window).
uint32_t swizzled(uint32_t address, TensorSwizzle swizzle);

/// Rounds the 32-bit pattern of a float to TF32 as loads do: to nearest even, any NaN to 0x7fffe000.
uint32_t round_to_tf32(uint32_t bits);

struct TensorBox {
  TensorMap map;                                    ///< legal: `find_flaw` found none
  std::array<int64_t, kTensorMaximumRank> start{};  ///< of the box, innermost dimension first
  bool four_rows = false;                           ///< gather4, scatter4: `rows` are the indices of dimension 1
  std::array<int64_t, 4> rows{};
  std::array<int64_t, 3> offsets{};  ///< im2col offsets of W, H and D, which `start` contains

  // Derived by `measure`.
  std::array<uint32_t, kTensorMaximumRank> count{};  ///< rows visited per dimension; [0] is not used
  uint32_t row_count = 0;
  uint32_t row_bytes = 0;                      ///< of a row in global memory
  uint32_t row_shared_bytes = 0;               ///< of a row in shared memory, without the gap up to the pitch
  uint32_t pitch = 0;                          ///< from row to row in shared memory
  std::array<int64_t, 3> lowest{}, highest{};  ///< W, H and D of pixels, after the first
  uint32_t inside_first = 0, inside_end = 0;   ///< bytes of a row that are within dimension 0, as half-open range

  void measure();
  /// Returns the bytes that the copy counts on a barrier: every element of the box, out of bounds or not, without gaps.
  uint32_t bytes() const { return row_count * row_bytes; }
  /// Returns the bytes of shared memory that the box may touch, from its address on.
  uint32_t shared_bytes() const { return row_count == 0 ? 0 : (row_count - 1) * pitch + last_row_bytes(); }
  /// Whether the box begins at a 16-byte boundary of global memory, as the chip requires.
  bool start_is_aligned() const;

  /// Returns the addresses of the lowest and the highest row that is inside the tensor, before clipping to dimension 0.
  /// The first is above the second when no row is inside.
  std::pair<uint64_t, uint64_t> inside_rows() const;

  /// Calls `visit(row, inside, address)` for each row in the order of shared memory; `address` is that of the row's
  /// first byte in global memory, before clipping to dimension 0.
  template <typename Visit>
  void for_each_row(Visit&& visit) const;

 private:
  template <typename Visit>
  void for_each_pixel(uint64_t first, Visit&& visit) const;
  uint32_t last_row_bytes() const { return map.swizzle == TensorSwizzle::none ? row_shared_bytes : pitch; }
};

/// Returns the message of a Fault about the first row that is not in an allocation (or, if `write`, not in a writable
/// one); empty when all are.
std::string find_bad_access(const TensorBox& box, const DeviceMemory& memory, bool write);

/// Fills a box of shared memory. `window` is the block's shared memory, `offset` the box's place in it, a multiple of
/// 128; source and destination have been checked.
void load_box(const TensorBox& box, std::byte* window, uint32_t offset);
/// Returns the bytes of shared memory that a box at a shared address occupies, without gaps. The rank bits are kept.
std::vector<SharedRange> shared_ranges(const TensorBox& box, uint32_t address);
/// Returns the rows of a box in shared memory, unswizzled, `row_bytes` each.
std::vector<std::byte> gather_box(const TensorBox& box, const std::byte* window, uint32_t offset);
/// Calls `put(address, bytes, count)` for the parts of the gathered rows that are inside the tensor. Dimension 0 is cut
/// at multiples of 16 bytes, as the chip does (measured): up to 15 bytes past a row's end are written.
template <typename Put>
void scatter_box(const TensorBox& box, const std::vector<std::byte>& rows, Put&& put);

template <typename Visit>
void TensorBox::for_each_row(Visit&& visit) const {
  const uint64_t first = map.address + static_cast<uint64_t>(start[0] * static_cast<int64_t>(bits_of(map.element)) / 8);
  if (four_rows) {
    for (uint32_t row = 0; row < 4; ++row) {
      const bool inside = rows[row] >= 0 && rows[row] < static_cast<int64_t>(map.extent(1));
      visit(row, inside, first + static_cast<uint64_t>(rows[row]) * map.strides[0]);
    }
    return;
  }
  if (map.mode != TensorMode::box) return for_each_pixel(first, visit);
  if (map.rank == 1) return visit(0u, true, first);
  std::array<uint32_t, kTensorMaximumRank> index{};  // of dimension 2 and above
  for (uint32_t row = 0; row < row_count;) {
    bool plane_inside = true;
    uint64_t plane = first;
    for (int i = 2; i < map.rank; ++i) {
      const int64_t coordinate = start[i] + int64_t{index[i]} * map.element_strides[i];
      plane_inside = plane_inside && coordinate >= 0 && coordinate < static_cast<int64_t>(map.extent(i));
      plane += static_cast<uint64_t>(coordinate) * map.strides[i - 1];
    }
    // These are copied because the compiler must assume that `visit` may write the originals.
    const uint32_t rows_here = count[1], step = map.element_strides[1];
    const uint64_t extent = map.extent(1), stride = map.strides[0];
    auto coordinate = static_cast<uint64_t>(start[1]);  // below zero: beyond every extent
    for (uint32_t i = 0; i < rows_here; ++i, ++row, coordinate += step) {
      visit(row, plane_inside && coordinate < extent, plane + coordinate * stride);
    }
    for (int i = 2; i < map.rank && ++index[i] == count[i]; ++i) index[i] = 0;
  }
}

// As measured on an H200: a start between the steps of the traversal is kept, and each later row of the box begins at
// its lower corner; N is stepped, too.
template <typename Visit>
void TensorBox::for_each_pixel(uint64_t first, Visit&& visit) const {
  std::array<int64_t, kTensorMaximumRank> at = start;
  for (uint32_t row = 0; row < row_count; ++row) {
    bool inside = true;
    uint64_t address = first;
    for (int i = 1; i < map.rank; ++i) {
      inside = inside && at[i] >= 0 && at[i] < static_cast<int64_t>(map.extent(i));
      address += static_cast<uint64_t>(at[i]) * map.strides[i - 1];
    }
    visit(row, inside, address);
    int i = 1;
    for (; i <= map.corners(); ++i) {
      at[i] += map.element_strides[i];
      if (at[i] <= highest[i - 1]) break;
      at[i] = lowest[i - 1];
    }
    if (i > map.corners()) at[map.rank - 1] += map.element_strides[map.rank - 1];
  }
}

template <typename Put>
void scatter_box(const TensorBox& box, const std::vector<std::byte>& rows, Put&& put) {
  if (box.inside_first >= box.inside_end) return;
  const uint32_t end = std::min(box.row_bytes, (box.inside_end + 15) / 16 * 16);
  box.for_each_row([&](uint32_t row, bool inside, uint64_t address) {
    if (inside) {
      put(address + box.inside_first, rows.data() + size_t{row} * box.row_bytes + box.inside_first,
          end - box.inside_first);
    }
  });
}

}  // namespace stagecraft::emulator::machine
