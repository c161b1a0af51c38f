#include "emulator/units/tensor_box.hpp"

#include <fmt/format.h>

#include <cstring>

namespace stagecraft::emulator::units {

uint32_t swizzled(uint32_t address, TensorSwizzle swizzle) {
  switch (swizzle) {
    case TensorSwizzle::none: return address;
    case TensorSwizzle::span_32: return address ^ (address >> 3 & 0x10);
    case TensorSwizzle::span_64: return address ^ (address >> 3 & 0x30);
    case TensorSwizzle::span_128: return address ^ (address >> 3 & 0x70);
    case TensorSwizzle::span_128_atom_32: return address ^ (address >> 2 & 0x60);
    // Which of two lines has its halves swapped is unconfirmed; taken to be the odd one.
    case TensorSwizzle::span_128_atom_32_flip_8: return address ^ (address >> 2 & 0x60) ^ (address >> 4 & 0x08);
    case TensorSwizzle::span_128_atom_64: return address ^ (address >> 1 & 0x40);
  }
  return address;
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

bool TensorBox::start_is_aligned() const {
  if (is_padded(map.element)) return start[0] % 128 == 0;
  return start[0] * static_cast<int64_t>(bits_of(map.element)) % 128 == 0;
}

std::string find_bad_access(const TensorBox& box, const machine::DeviceMemory& memory, bool write) {
  if (box.inside_first >= box.inside_end) return {};
  const auto allowed = [&](uint64_t first, uint64_t bytes) {
    const machine::Allocation* allocation = memory.find(first, bytes);
    return allocation != nullptr && (!write || allocation->writable_by_kernels);
  };
  // Nearly always the whole box lies in one allocation, which one look-up shows.
  uint64_t lowest = ~uint64_t{0}, highest = 0;
  box.for_each_row([&](uint32_t, bool inside, uint64_t address) {
    if (!inside) return;
    lowest = std::min(lowest, address + box.inside_first);
    highest = std::max(highest, address + box.inside_end);
  });
  if (lowest > highest || allowed(lowest, highest - lowest)) return {};

  std::string problem;
  const uint64_t bytes = box.inside_end - box.inside_first;
  box.for_each_row([&](uint32_t row, bool inside, uint64_t address) {
    address += box.inside_first;
    if (!inside || !problem.empty() || allowed(address, bytes)) return;
    uint64_t culprit = address;
    if (memory.find(address) != nullptr && memory.find(address, bytes) == nullptr) {
      const machine::Allocation* allocation = memory.find(address);
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

/// Bytes of global memory behind a 16-byte piece of shared memory.
uint32_t payload_of_piece(TensorElement element) {
  if (element == TensorElement::u4_unpacked) return 8;
  if (element == TensorElement::u6_unpacked) return 12;
  return kPiece;
}

/// Moves one piece of 16 bytes between linear memory and its swizzled place. The swizzle of an aligned address keeps
/// the piece together but for one that also swaps its halves.
struct Swizzler {
  std::byte* window;
  TensorSwizzle swizzle;
  bool flips = swizzle == TensorSwizzle::span_128_atom_32_flip_8;

  void put(uint32_t address, const std::byte* piece, uint32_t bytes = kPiece) const {
    const uint32_t place = swizzled(address, swizzle);
    if (!flips) {
      std::memcpy(window + place, piece, bytes);
    } else {
      std::memcpy(window + place, piece, 8);  // `place` has bit 3 set where the halves swap
      std::memcpy(window + (place ^ 8), piece + 8, bytes - 8);
    }
  }
};

void fill(std::byte* target, uint32_t bytes, TensorFill kind) {
  if (kind == TensorFill::zero) {
    std::memset(target, 0, bytes);
    return;
  }
  constexpr uint16_t kNan = 0x7ff7;  // measured: 16 bits of it in f16 and bf16, 0x7ff77ff7 in f32
  for (uint32_t i = 0; i + 2 <= bytes; i += 2) std::memcpy(target + i, &kNan, 2);
}

/// A row as it is to be in shared memory, but for padding and swizzle.
void compose_row(const TensorBox& box, bool inside, uint64_t address, std::byte* row) {
  if (!inside || box.inside_first >= box.inside_end) {
    fill(row, box.row_bytes, box.map.fill);
    return;
  }
  fill(row, box.inside_first, box.map.fill);
  std::memcpy(row + box.inside_first, machine::DeviceMemory::host(address + box.inside_first),
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

}  // namespace

void load_box(const TensorBox& box, std::byte* window, uint32_t offset) {
  const Swizzler swizzler{window, box.map.swizzle};
  const uint32_t payload = payload_of_piece(box.map.element);
  const bool verbatim =
      payload == kPiece && box.map.element != TensorElement::tf32 && box.map.element != TensorElement::tf32_ftz;
  const bool whole = box.inside_first == 0 && box.inside_end == box.row_bytes;
  const bool plain = box.map.swizzle == TensorSwizzle::none;
  std::array<std::byte, 256 * 8> composed;
  box.for_each_row([&](uint32_t row, bool inside, uint64_t address) {
    const uint32_t target = offset + row * box.pitch;
    const std::byte* source = composed.data();
    if (verbatim && plain) {
      if (inside && whole) {
        std::memcpy(window + target, machine::DeviceMemory::host(address), box.row_bytes);
      } else {
        compose_row(box, inside, address, window + target);
      }
      return;
    }
    if (verbatim && inside && whole) {
      source = machine::DeviceMemory::host(address);
    } else {
      compose_row(box, inside, address, composed.data());
    }
    for (uint32_t at = 0, from = 0; from < box.row_bytes; at += kPiece, from += payload) {
      swizzler.put(target + at, source + from, payload);
    }
  });
}

std::vector<std::byte> gather_box(const TensorBox& box, const std::byte* window, uint32_t offset) {
  std::vector<std::byte> rows(size_t{box.row_count} * box.row_bytes);
  const bool plain = box.map.swizzle == TensorSwizzle::none && !is_padded(box.map.element);
  const bool flips = box.map.swizzle == TensorSwizzle::span_128_atom_32_flip_8;
  for (uint32_t row = 0; row < box.row_count; ++row) {
    std::byte* target = rows.data() + size_t{row} * box.row_bytes;
    const uint32_t linear = offset + row * box.pitch;
    if (plain) {
      std::memcpy(target, window + linear, box.row_bytes);
      continue;
    }
    for (uint32_t at = 0; at < box.row_shared_bytes; at += kPiece) {
      std::array<std::byte, kPiece> piece;
      const uint32_t place = swizzled(linear + at, box.map.swizzle);
      if (flips) {
        std::memcpy(piece.data(), window + place, 8);
        std::memcpy(piece.data() + 8, window + (place ^ 8), 8);
      } else {
        std::memcpy(piece.data(), window + place, kPiece);
      }
      if (box.map.element == TensorElement::u6_unpacked) {
        // b6p2x16: 16 bytes, each with 6 bits of data at its low end, become 12.
        for (uint32_t group = 0; group < 4; ++group) {
          uint32_t bits = 0;
          for (uint32_t i = 0; i < 4; ++i) {
            bits |= (std::to_integer<uint32_t>(piece[group * 4 + i]) & 0x3f) << (6 * i);
          }
          std::memcpy(target + at / 16 * 12 + group * 3, &bits, 3);
        }
      } else {
        std::memcpy(target + at, piece.data(), kPiece);
      }
    }
  }
  return rows;
}

}  // namespace stagecraft::emulator::units
