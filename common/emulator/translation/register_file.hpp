// The register file of a warp: where the vectors are that a kernel uses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::machine {

/// Rounds up to a multiple of `alignment`; 0 counts as 1.
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return alignment == 0 ? value : (value + alignment - 1) / alignment * alignment;
}

/// Bytes of a register in each lane of its vector; 0 for a predicate, which is one mask.
inline uint32_t bytes_per_lane(ptx::Type type) {
  return type == ptx::Type::pred ? 0 : std::max<uint32_t>(2, ptx::size_of(type));
}

/// Lays out the register file: registers, and each constant and each special register once.
class RegisterFile {
 public:
  explicit RegisterFile(Kernel& kernel) : kernel_(kernel) {}
  /// A fresh vector of `bytes_per_lane` per lane; 0 for a predicate.
  RegisterOffset allocate(uint32_t bytes_per_lane);
  /// `bytes` bytes that are not a vector (the area of a call's parameters).
  RegisterOffset allocate_area(uint32_t bytes);
  RegisterOffset constant(uint64_t low, uint64_t high, uint32_t bytes_per_lane);
  RegisterOffset special(Special special, uint32_t bytes_per_lane, uint32_t parameter = 0);
  /// Bytes of all vectors so far, rounded up so that the next register file is aligned.
  uint32_t bytes() const;

 private:
  Kernel& kernel_;
  uint32_t next_ = 0;
  std::map<std::tuple<uint64_t, uint64_t, uint32_t>, RegisterOffset> constants_;
  std::map<std::tuple<Special, uint32_t, uint32_t>, RegisterOffset> specials_;
};

}  // namespace stagecraft::emulator::machine
