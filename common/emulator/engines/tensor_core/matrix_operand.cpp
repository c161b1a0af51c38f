#include "emulator/engines/tensor_core/matrix_operand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr uint32_t kChunk = 16;       // the largest piece that is contiguous in all layouts
constexpr uint32_t kSliceBytes = 32;  // of every row of A, along the K of one instruction

// Does the same as `swizzled`, but looks up the mode's shifts only once.
class Placement {
 public:
  explicit Placement(const SharedDescriptor& place)
      : start_(place.start),
        base_offset_(place.base_offset),
        mask_(place.swizzle == Swizzle::none              ? 0
              : place.swizzle == Swizzle::bytes128_atom32 ? 3
                                                          : span_of(place.swizzle) / 16 - 1),
        shift_(place.swizzle == Swizzle::bytes128_atom32 ? 5 : 4) {}

  uint32_t operator()(uint32_t offset) const {
    const uint32_t address = start_ + offset;
    return address ^ (((address >> 7) - base_offset_) & mask_) << shift_;
  }

 private:
  uint32_t start_, base_offset_, mask_, shift_;
};

// Calls visit(linear offset) for the 16-byte chunks of a matrix in the order of its rows (of k, if MN-major).
template <typename Visit>
void for_each_k_major_chunk(const SharedDescriptor& place, uint32_t rows, uint32_t row_bytes, Visit visit) {
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t byte = 0; byte < row_bytes; byte += kChunk) {
      visit(k_major_offset(place.swizzle, place.leading, place.stride, row, byte));
    }
  }
}

template <typename Visit>
void for_each_mn_major_chunk(const SharedMatrix& matrix, Visit visit) {
  const SharedDescriptor& place = matrix.place;
  const uint32_t bytes = matrix.rows * bits_of(matrix.format) / 8;
  for (uint32_t k = 0; k < matrix.k; ++k) {
    for (uint32_t byte = 0; byte < bytes; byte += kChunk) {
      visit(mn_major_offset(place.swizzle, place.leading, place.stride, byte, k));
    }
  }
}

// Returns an upper bound of the end of a matrix. Offsets never decrease along a row, a group of 8 rows, or the groups,
// and a swizzle stays within lines of 128 bytes; so no offset is beyond the line of the last row of the last group.
// This is enough for nearly all matrices; the others are checked chunk by chunk. `last_row` is the part of a row that
// is read at a time.
uint64_t largest_end(const SharedDescriptor& place, uint64_t groups_by_stride, uint64_t groups_by_leading,
                     uint64_t last_row) {
  const uint64_t end = place.start + (groups_by_stride - 1) * place.stride + (groups_by_leading - 1) * place.leading +
                       uint64_t{span_of(place.swizzle)} * 7 + last_row;
  return place.swizzle == Swizzle::none ? end : (end + 127) / 128 * 128;
}

template <typename ForEachChunk>
void check_bytes(const SharedDescriptor& place, const Block& block, uint64_t bound, std::string_view what,
                 ForEachChunk for_each_chunk) {
  const uint64_t size = block.shared.size();
  if (place.start < kSharedReservedBytes) {
    throw Fault(
        FaultKind::illegal_address,
        fmt::format("{}: start address 0x{:x} is in the first KiB, which the system reserves", what, place.start),
        {fmt::format("the block's shared memory goes from 0x{:x} to 0x{:x}", kSharedReservedBytes, size),
         "the start address field holds the shared address >> 4"});
  }
  if (bound <= size) return;
  const Placement placement(place);
  uint64_t end = 0;
  for_each_chunk([&](uint32_t offset) { end = std::max<uint64_t>(end, uint64_t{placement(offset)} + kChunk); });
  if (end <= size) return;
  throw Fault(
      FaultKind::illegal_address,
      fmt::format("{}: the operand ends at 0x{:x}, beyond the block's shared memory (0x{:x} bytes)", what, end, size),
      {fmt::format("start address 0x{:x}, leading offset {}, stride offset {} bytes", place.start, place.leading,
                   place.stride),
       "an operand may lie anywhere between the first KiB and the end of the block's shared memory"});
}

bool is_narrow(ElementFormat format) {
  return format == ElementFormat::e2m1 || format == ElementFormat::e2m3 || format == ElementFormat::e3m2;
}

const float* table_for(ElementFormat format) { return bits_of(format) <= 8 ? values_of(format).data() : nullptr; }

// Copies the rows of a K-major matrix in order, with 4- and 6-bit elements unpacked to byte containers.
void gather_slice(const SharedMatrix& matrix, const Block& block, uint8_t* out) {
  gather_k_major(matrix.place, block, matrix.rows, matrix.row_bytes, out);
  if (!is_narrow(matrix.format)) return;
  uint8_t packed[kChunk];
  for (uint32_t chunk = 0; chunk < matrix.rows * matrix.row_bytes / kChunk; ++chunk, out += kChunk) {
    std::memcpy(packed, out, kChunk);
    unpack_chunk(matrix.format, packed, out);
  }
}

// Copies the bytes of an MN-major matrix as rows of k, without gaps.
void gather_mn_major(const SharedMatrix& matrix, const Block& block, uint8_t* out) {
  const Placement placement(matrix.place);
  for_each_mn_major_chunk(matrix, [&](uint32_t offset) {
    std::memcpy(out, block.shared.data() + placement(offset), kChunk);
    out += kChunk;
  });
}

}  // namespace

void check_k_major(const SharedDescriptor& place, const Block& block, uint32_t rows, uint32_t row_bytes,
                   std::string_view what) {
  const bool plain = place.swizzle == Swizzle::none;
  const uint64_t columns = plain ? row_bytes / kChunk : 1;
  check_bytes(place, block, largest_end(place, (rows + 7) / 8, columns, plain ? kChunk : row_bytes), what,
              [&](auto visit) { for_each_k_major_chunk(place, rows, row_bytes, visit); });
}

void check(const SharedMatrix& matrix, const Block& block, std::string_view what) {
  const SharedDescriptor& place = matrix.place;
  const bool atoms_of_32 = place.swizzle == Swizzle::bytes128_atom32;
  if (matrix.mn_major && atoms_of_32 != (bits_of(matrix.format) == 32)) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("{}: {}", what,
                            atoms_of_32 ? "swizzle 1 (128 bytes in atoms of 32) of an MN-major matrix that is not tf32"
                                        : "an MN-major tf32 matrix without swizzle 1 (128 bytes in atoms of 32)"),
                {"legal for MN-major matrices: swizzle 1 (bits 63:61) for tf32, any other for the other types"});
  }
  if (!matrix.mn_major) {
    if (matrix.row_bytes > span_of(place.swizzle) && place.swizzle != Swizzle::none) {
      throw Fault(FaultKind::illegal_instruction,
                  fmt::format("{}: rows of {} bytes along K with swizzle 6 (32 bytes) are not implemented: where their "
                              "second half is is not known here",
                              what, matrix.row_bytes),
                  {"with a sparse A, use swizzle 0 (none), 2 (128 bytes) or 4 (64 bytes) for a K-major B"});
    }
    return check_k_major(place, block, matrix.rows, matrix.row_bytes, what);
  }

  const uint32_t bytes = matrix.rows * bits_of(matrix.format) / 8;
  const uint32_t along_mn = (bytes + span_of(place.swizzle) - 1) / span_of(place.swizzle);
  const uint32_t along_k = (matrix.k + 3) / (atoms_of_32 ? 4 : 8);
  const bool plain = place.swizzle == Swizzle::none;
  check_bytes(place, block,
              largest_end(place, plain ? along_mn : along_k, plain ? along_k : along_mn, span_of(place.swizzle)), what,
              [&](auto visit) { for_each_mn_major_chunk(matrix, visit); });
}

namespace {

SharedLayout layout_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none: return SharedLayout::linear;
    case Swizzle::bytes32: return SharedLayout::swizzle_32;
    case Swizzle::bytes64: return SharedLayout::swizzle_64;
    case Swizzle::bytes128: return SharedLayout::swizzle_128;
    case Swizzle::bytes128_atom32: return SharedLayout::swizzle_128_atom_32;
  }
  return SharedLayout::unknown;
}

template <typename ForEachChunk>
void append_chunks(const SharedDescriptor& place, const Block& block, const char* name, OperationFootprint& footprint,
                   ForEachChunk for_each_chunk) {
  std::vector<SharedRange>& ranges = footprint.reads;
  const size_t first = ranges.size();
  footprint.matrices.push_back({name, layout_of(place.swizzle), place.start, place.base_offset, first});
  const Placement placement(place);
  for_each_chunk([&](uint32_t offset) {
    const uint32_t address = block.shared_base() + placement(offset);
    if (ranges.size() > first && ranges.back().address + ranges.back().bytes == address) {
      ranges.back().bytes += kChunk;
    } else {
      ranges.push_back({address, kChunk});
    }
  });
}

}  // namespace

void append_matrix(const SharedDescriptor& place, const Block& block, uint32_t rows, uint32_t row_bytes,
                   const char* name, OperationFootprint& footprint) {
  append_chunks(place, block, name, footprint,
                [&](auto visit) { for_each_k_major_chunk(place, rows, row_bytes, visit); });
}

void append_matrix(const SharedMatrix& matrix, const Block& block, const char* name, OperationFootprint& footprint) {
  if (!matrix.mn_major) return append_matrix(matrix.place, block, matrix.rows, matrix.row_bytes, name, footprint);
  append_chunks(matrix.place, block, name, footprint, [&](auto visit) { for_each_mn_major_chunk(matrix, visit); });
}

void gather_k_major(const SharedDescriptor& place, const Block& block, uint32_t rows, uint32_t row_bytes,
                    uint8_t* out) {
  const Placement placement(place);
  const std::byte* const shared = block.shared.data();
  // The columns of a row are `leading` apart without a swizzle, and adjacent with one.
  const uint32_t column_step = place.swizzle == Swizzle::none ? place.leading : kChunk;
  const uint32_t row_step = span_of(place.swizzle);
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t offset = row / 8 * place.stride + row % 8 * row_step;
    for (uint32_t column = 0; column < row_bytes / kChunk; ++column, out += kChunk) {
      std::memcpy(out, shared + placement(offset + column * column_step), kChunk);
    }
  }
}

PanelSpace& panel_space() {
  thread_local const std::unique_ptr<PanelSpace> space = std::make_unique<PanelSpace>();
  return *space;
}

void load_a(const SharedMatrix& matrix, const Block& block, PanelSpace& space) {
  const PanelKernels& kernels = panel_kernels();
  uint8_t* const raw = reinterpret_cast<uint8_t*>(space.raw);
  if (!matrix.mn_major) {
    gather_slice(matrix, block, raw);
    kernels.transpose(space.raw, kSliceBytes / 4, matrix.rows, kSliceBytes / 4, space.cells, kPanelLanes);
    return load_a(space.cells, matrix.format, space);
  }
  gather_mn_major(matrix, block, raw);
  const uint32_t row_bytes = matrix.rows * bits_of(matrix.format) / 8;
  for (uint32_t k = 0; k < matrix.k; ++k) {
    kernels.decode(matrix.format, raw + k * row_bytes, matrix.rows, table_for(matrix.format),
                   space.a + k * kPanelLanes);
  }
}

void load_a(const uint32_t* cells, ElementFormat format, PanelSpace& space) {
  panel_kernels().decode_cells(format, cells, kSliceBytes / 4, table_for(format), space.a);
}

void load_b(const SharedMatrix& matrix, const Block& block, PanelSpace& space, uint32_t first_column) {
  const PanelKernels& kernels = panel_kernels();
  float* const b = space.b + size_t{first_column} * matrix.k;
  uint8_t* const raw = reinterpret_cast<uint8_t*>(space.raw);
  if (!matrix.mn_major) {
    gather_slice(matrix, block, raw);
    kernels.decode(matrix.format, raw, matrix.rows * matrix.k, table_for(matrix.format), b);
    return;
  }
  constexpr uint32_t kRowFloats = 256;
  gather_mn_major(matrix, block, raw);
  const uint32_t row_bytes = matrix.rows * bits_of(matrix.format) / 8;
  for (uint32_t k = 0; k < matrix.k; ++k) {
    kernels.decode(matrix.format, raw + k * row_bytes, matrix.rows, table_for(matrix.format),
                   space.rows + k * kRowFloats);
  }
  kernels.transpose(reinterpret_cast<const uint32_t*>(space.rows), kRowFloats, matrix.k, matrix.rows,
                    reinterpret_cast<uint32_t*>(b), matrix.k);
}

}  // namespace stagecraft::emulator::machine
