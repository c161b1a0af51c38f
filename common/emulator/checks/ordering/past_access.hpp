// A past access of shared memory, in 16 bytes: who made it, when, and at which instruction.
#pragma once

#include <cstdint>

#include "emulator/checks/ordering/vector_clock.hpp"
#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

/// An access that a later one may race with: by lanes of a warp at a time of that warp, or by an asynchronous
/// operation.
struct PastAccess {
  static constexpr uint32_t kNobody = 0x7fffffffu;
  static constexpr uint32_t kAsynchronous = 0x80000000u;  ///< with it, the rest of `agent` is the index of an operation

  static constexpr uint32_t kStrong = 0x80000000u;
  static constexpr uint32_t kWrites = 0x40000000u;
  // With one of these flags, `lanes` is not a mask: the lanes that accessed a given byte are computed from it.
  static constexpr uint32_t kRow = 0x20000000u;        ///< `lanes`: the offset of lane 0; the others follow it in a row
  static constexpr uint32_t kScattered = 0x10000000u;  ///< `lanes`: the number of a Scatter (shadow_memory.hpp)
  static constexpr uint32_t kRowShift = 25;            ///< three bits, in a row: log2 of the bytes of each lane
  static constexpr uint32_t kPcMask = 0x01ffffffu;

  uint32_t agent = kNobody;  ///< number of the warp in the cluster, or an operation
  machine::LaneMask lanes = 0;
  Time time = 0;
  uint32_t pc_and_flags = 0;

  bool operator==(const PastAccess&) const = default;

  bool is_asynchronous() const { return (agent & kAsynchronous) != 0; }
  uint32_t operation() const { return agent & ~kAsynchronous; }
  bool strong() const { return (pc_and_flags & kStrong) != 0; }
  bool writes() const { return (pc_and_flags & kWrites) != 0; }
  bool is_row() const { return (pc_and_flags & kRow) != 0; }
  bool scattered() const { return (pc_and_flags & kScattered) != 0; }
  /// Whether the same lanes accessed all bytes: `lanes` is their mask.
  bool is_even() const { return (pc_and_flags & (kRow | kScattered)) == 0; }
  machine::LaneMask lane_in_row(uint32_t offset) const {
    return 1u << ((offset - lanes) >> (pc_and_flags >> kRowShift & 7));
  }
  uint32_t pc() const { return pc_and_flags & kPcMask; }
  /// Whether both are by the same warp or operation, and of the same kind.
  bool is_like(const PastAccess& other) const {
    return agent == other.agent && ((pc_and_flags ^ other.pc_and_flags) & (kStrong | kWrites)) == 0;
  }
  bool is_same_except_lanes(const PastAccess& other) const {
    return agent == other.agent && time == other.time && pc_and_flags == other.pc_and_flags;
  }
};

}  // namespace stagecraft::emulator::checks
