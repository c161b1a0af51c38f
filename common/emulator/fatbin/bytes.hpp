// Reads numbers from bytes that may be anything.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace stagecraft::emulator::fatbin {

static_assert(std::endian::native == std::endian::little, "fat binaries are little-endian");

/// Whether [offset, offset + size) is within `bytes`; the values may be anything.
inline bool has_range(std::span<const std::byte> bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

/// Reads a value. The caller has checked the range.
template <typename T>
T read_at(std::span<const std::byte> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace stagecraft::emulator::fatbin
