#include "emulator/engines/copies/tma_box.hpp"

#include <fmt/format.h>

#include <cstring>

namespace stagecraft::emulator::machine {

namespace {

/// A swizzle flips these bits of an address where the bits `shift` places above them are set.
struct FlippedBits {
  uint32_t shift, mask;
};
constexpr FlippedBits bits_that_flip(TensorSwizzle swizzle) {
  switch (swizzle) {
    case TensorSwizzle::none: break;
    case TensorSwizzle::span_32: return {3, 0x10};
    case TensorSwizzle::span_64: return {3, 0x30};
    case TensorSwizzle::span_128: return {3, 0x70};
    case TensorSwizzle::span_128_atom_32:
    case TensorSwizzle::span_128_atom_32_flip_8: return {2, 0x60};  // `swizzled` adds one more for the latter
    case TensorSwizzle::span_128_atom_64: return {1, 0x40};
  }
  return {0, 0};
}

}  // namespace

uint32_t swizzled(uint32_t address, TensorSwizzle swizzle) {
  const auto [shift, mask] = bits_that_flip(swizzle);
  const uint32_t moved = address ^ (address >> shift & mask);
  // Which of two lines has its halves swapped is unconfirmed; we assume the odd one.
  return swizzle == TensorSwizzle::span_128_atom_32_flip_8 ? moved ^ (address >> 4 & 0x08) : moved;
}

uint32_t round_to_tf32(uint32_t bits) {
  if ((bits & 0x7fff'ffffu) > 0x7f80'0000u) return 0x7fff'e000u;
  return (bits + 0x0fffu + (bits >> 13 & 1)) & ~0x1fffu;
}

void TensorBox::measure() {
  const uint32_t bits = bits_of(map.element);
  row_bytes = map.box[0] * bits / 8;
  row_shared_bytes = is_padded(map.element) ? map.box[0] : row_bytes;
  const uint32_t span = span_of(map.swizzle);
  pitch = span != 0 ? span : row_shared_bytes;
  row_count = 1;
  if (four_rows) {
    row_count = 4;
  } else if (map.mode != TensorMode::box) {
    row_count = map.pixels;
    for (int i = 0; i < map.corners(); ++i) {
      lowest[i] = map.lower[i] + offsets[i];
      highest[i] = static_cast<int64_t>(map.last_index[i + 1]) + map.upper[i] + offsets[i];
    }
  } else {
    for (int i = 1; i < map.rank; ++i) {
      count[i] = (map.box[i] + map.element_strides[i] - 1u) / map.element_strides[i];
      row_count *= count[i];
    }
  }
  const int64_t first = start[0] * static_cast<int64_t>(bits) / 8;  // exact: the box start is aligned
  const int64_t end = static_cast<int64_t>(map.extent(0)) * bits / 8;
  inside_first = static_cast<uint32_t>(std::clamp<int64_t>(-first, 0, row_bytes));
  inside_end = static_cast<uint32_t>(std::clamp<int64_t>(end - first, 0, row_bytes));
}

std::pair<uint64_t, uint64_t> TensorBox::inside_rows() const {
  const uint64_t first = map.address + static_cast<uint64_t>(start[0] * static_cast<int64_t>(bits_of(map.element)) / 8);
  std::pair<uint64_t, uint64_t> result{first, first};
  if (four_rows || map.mode != TensorMode::box) {
    result = {~uint64_t{0}, 0};
    for_each_row([&](uint32_t, bool inside, uint64_t address) {
      if (!inside) return;
      result = {std::min(result.first, address), std::max(result.second, address)};
    });
    return result;
  }
  for (int i = 1; i < map.rank; ++i) {
    const int64_t step = map.element_strides[i], extent = static_cast<int64_t>(map.extent(i));
    const int64_t before = start[i] < 0 ? (-start[i] + step - 1) / step : 0;  // rows in front of the tensor
    const int64_t lowest = start[i] + before * step;
    int64_t highest = start[i] + (int64_t{count[i]} - 1) * step;
    if (highest >= extent) highest -= (highest - extent + step) / step * step;
    if (lowest > highest) return {~uint64_t{0}, 0};
    result.first += static_cast<uint64_t>(lowest) * map.strides[i - 1];
    result.second += static_cast<uint64_t>(highest) * map.strides[i - 1];
  }
  return result;
}

bool TensorBox::start_is_aligned() const {
  if (is_padded(map.element)) return start[0] % 128 == 0;
  return start[0] * static_cast<int64_t>(bits_of(map.element)) % 128 == 0;
}

std::string find_bad_access(const TensorBox& box, const DeviceMemory& memory, bool write) {
  if (box.inside_first >= box.inside_end) return {};
  const auto allowed = [&](uint64_t first, uint64_t bytes) {
    const Allocation* allocation = memory.find(first, bytes);
    return allocation != nullptr && (!write || allocation->writable_by_kernels);
  };
  // Nearly always the whole box is in one allocation, which one look-up shows.
  const auto [lowest, highest] = box.inside_rows();
  if (lowest > highest || allowed(lowest + box.inside_first, highest - lowest + box.inside_end - box.inside_first)) {
    return {};
  }

  std::string problem;
  const uint64_t bytes = box.inside_end - box.inside_first;
  box.for_each_row([&](uint32_t row, bool inside, uint64_t address) {
    address += box.inside_first;
    if (!inside || !problem.empty() || allowed(address, bytes)) return;
    uint64_t culprit = address;
    if (memory.find(address) != nullptr && memory.find(address, bytes) == nullptr) {
      const Allocation* allocation = memory.find(address);
      culprit = allocation->address + allocation->size;  // the first byte past the end
    }
    problem = memory.find(address, bytes) != nullptr
                  ? fmt::format("row {} of the box, {} bytes at 0x{:x}, is in memory that kernels may not write ({})",
                                row, bytes, address, memory.describe(address))
                  : fmt::format("row {} of the box, {} bytes at 0x{:x}, is not in allocated memory: 0x{:x} is {}", row,
                                bytes, address, culprit, memory.describe(culprit));
  });
  return problem;
}

namespace {

constexpr uint32_t kPiece = 16;

/// Returns the bytes of global memory that a 16-byte piece of shared memory comes from.
uint32_t payload_of_piece(TensorElement element) {
  if (element == TensorElement::u4_unpacked) return 8;
  if (element == TensorElement::u6_unpacked) return 12;
  return kPiece;
}

/// Where the pieces of one row are. A row stays within a line of 128 bytes, and all bits that a swizzle reads are those
/// of the line, so it flips the same bits for every piece of the row.
struct SwizzledRow {
  std::byte* window;
  uint32_t linear;
  uint32_t flips;

  SwizzledRow(std::byte* window_, uint32_t linear_, TensorSwizzle swizzle)
      : window(window_), linear(linear_), flips(swizzled(linear_, swizzle) ^ linear_) {}

  std::byte* piece(uint32_t at) const { return window + ((linear + at) ^ (flips & ~8u)); }
  bool swaps_halves() const { return (flips & 8) != 0; }
};

/// Writes a row that has the same bytes in shared memory as in global memory.
void put_row(const SwizzledRow target, const std::byte* row, uint32_t bytes) {
  if (target.swaps_halves()) {
    for (uint32_t at = 0; at < bytes; at += kPiece) {
      std::memcpy(target.piece(at) + 8, row + at, 8);
      std::memcpy(target.piece(at), row + at + 8, 8);
    }
  } else {
    for (uint32_t at = 0; at < bytes; at += kPiece) std::memcpy(target.piece(at), row + at, kPiece);
  }
}

void take_row(const SwizzledRow source, std::byte* row, uint32_t bytes) {
  if (source.swaps_halves()) {
    for (uint32_t at = 0; at < bytes; at += kPiece) {
      std::memcpy(row + at, source.piece(at) + 8, 8);
      std::memcpy(row + at + 8, source.piece(at), 8);
    }
  } else {
    for (uint32_t at = 0; at < bytes; at += kPiece) std::memcpy(row + at, source.piece(at), kPiece);
  }
}

void fill(std::byte* target, uint32_t bytes, TensorFill kind) {
  if (kind == TensorFill::zero) {
    std::memset(target, 0, bytes);
    return;
  }
  constexpr uint16_t kNan = 0x7ff7;  // measured: 16 bits of it in f16 and bf16, 0x7ff77ff7 in f32
  for (uint32_t i = 0; i + 2 <= bytes; i += 2) std::memcpy(target + i, &kNan, 2);
}

/// Makes the row that goes to shared memory, without padding and swizzle.
void compose_row(const TensorBox& box, bool inside, uint64_t address, std::byte* row) {
  if (!inside || box.inside_first >= box.inside_end) {
    fill(row, box.row_bytes, box.map.fill);
    return;
  }
  fill(row, box.inside_first, box.map.fill);
  std::memcpy(row + box.inside_first, DeviceMemory::host(address + box.inside_first),
              box.inside_end - box.inside_first);
  fill(row + box.inside_end, box.row_bytes - box.inside_end, box.map.fill);
  if (box.map.element == TensorElement::tf32 || box.map.element == TensorElement::tf32_ftz) {
    for (uint32_t i = box.inside_first; i + 4 <= box.inside_end; i += 4) {
      uint32_t bits;
      std::memcpy(&bits, row + i, 4);
      bits = round_to_tf32(bits);
      std::memcpy(row + i, &bits, 4);
    }
  }
}

using PieceHalf = uint64_t;
/// Two pieces, which the host moves at once if its vectors are wide enough.
using PiecePair [[gnu::vector_size(2 * kPiece)]] = PieceHalf;

/// Does `load_box` for whole rows of `kBytes` bytes that are swizzled in pieces and otherwise unchanged, as in nearly
/// all copies.
template <uint32_t kBytes>
void load_whole_rows(const TensorBox& box, std::byte* const window, const uint32_t offset) {
  const auto [shift, mask] = bits_that_flip(box.map.swizzle);
  const uint32_t pitch = box.pitch;
  const TensorFill kind = box.map.fill;
  box.for_each_row([=, shift = shift, mask = mask](uint32_t row, bool inside, uint64_t address) {
    const uint32_t target = offset + row * pitch, flips = target >> shift & mask;
    const std::byte* const from = DeviceMemory::host(address);
    if (!inside) {
      for (uint32_t at = 0; at < kBytes; at += kPiece) fill(window + ((target + at) ^ flips), kPiece, kind);
      return;
    }
    const bool swaps = (flips & kPiece) != 0;
#pragma GCC unroll 4
    for (uint32_t at = 0; at < kBytes; at += sizeof(PiecePair)) {
      PiecePair pair;
      std::memcpy(&pair, from + at, sizeof pair);
      if (swaps) pair = PiecePair{pair[2], pair[3], pair[0], pair[1]};
      std::memcpy(window + ((target + at) ^ (flips & ~kPiece)), &pair, sizeof pair);
    }
  });
}

}  // namespace

void load_box(const TensorBox& box, std::byte* window, uint32_t offset) {
  const uint32_t payload = payload_of_piece(box.map.element);
  const bool verbatim =
      payload == kPiece && box.map.element != TensorElement::tf32 && box.map.element != TensorElement::tf32_ftz;
  const bool whole = box.inside_first == 0 && box.inside_end == box.row_bytes;
  const bool plain = box.map.swizzle == TensorSwizzle::none;
  if (verbatim && whole && !plain && box.map.swizzle != TensorSwizzle::span_128_atom_32_flip_8) {
    switch (box.row_bytes) {
      case 128: return load_whole_rows<128>(box, window, offset);
      case 64: return load_whole_rows<64>(box, window, offset);
      case 32: return load_whole_rows<32>(box, window, offset);
      default: break;
    }
  }
  std::array<std::byte, 256 * 8> composed;
  box.for_each_row([&](uint32_t row, bool inside, uint64_t address) {
    const uint32_t target = offset + row * box.pitch;
    if (payload != kPiece) {
      compose_row(box, inside, address, composed.data());
      const SwizzledRow places(window, target, box.map.swizzle);
      for (uint32_t at = 0, from = 0; from < box.row_bytes; at += kPiece, from += payload) {
        std::memcpy(places.piece(at), composed.data() + from, payload);  // their swizzles do not swap halves
      }
    } else if (plain && verbatim && inside && whole) {
      std::memcpy(window + target, DeviceMemory::host(address), box.row_bytes);
    } else if (plain) {
      compose_row(box, inside, address, window + target);
    } else if (verbatim && inside && whole) {
      put_row({window, target, box.map.swizzle}, DeviceMemory::host(address), box.row_bytes);
    } else {
      compose_row(box, inside, address, composed.data());
      put_row({window, target, box.map.swizzle}, composed.data(), box.row_bytes);
    }
  });
}

std::vector<SharedRange> shared_ranges(const TensorBox& box, uint32_t address) {
  // A swizzle permutes the pieces of a line; a full line stays one.
  if (box.row_shared_bytes == box.pitch) return {{address, box.row_count * box.pitch}};
  std::vector<SharedRange> ranges;
  for (uint32_t row = 0; row < box.row_count; ++row) {
    const uint32_t linear = address + row * box.pitch;
    for (uint32_t at = 0; at < box.row_shared_bytes; at += kPiece) {
      ranges.push_back({swizzled(linear + at, box.map.swizzle) & ~8u, kPiece});
    }
  }
  return ranges;
}

std::vector<std::byte> gather_box(const TensorBox& box, const std::byte* window, uint32_t offset) {
  std::vector<std::byte> rows(size_t{box.row_count} * box.row_bytes);
  std::array<std::byte, 128> unpacked;
  for (uint32_t row = 0; row < box.row_count; ++row) {
    std::byte* target = rows.data() + size_t{row} * box.row_bytes;
    const uint32_t linear = offset + row * box.pitch;
    const SwizzledRow source(const_cast<std::byte*>(window), linear, box.map.swizzle);
    if (box.map.element == TensorElement::u6_unpacked) {
      // b6p2x16: 16 bytes, each with 6 bits of data at its low end, become 12.
      take_row(source, unpacked.data(), 128);
      for (uint32_t group = 0; group < 32; ++group) {
        uint32_t bits = 0;
        for (uint32_t i = 0; i < 4; ++i) {
          bits |= (std::to_integer<uint32_t>(unpacked[group * 4 + i]) & 0x3f) << (6 * i);
        }
        std::memcpy(target + group * 3, &bits, 3);
      }
    } else if (box.map.swizzle == TensorSwizzle::none) {
      std::memcpy(target, window + linear, box.row_bytes);
    } else {
      take_row(source, target, box.row_bytes);
    }
  }
  return rows;
}

}  // namespace stagecraft::emulator::machine
