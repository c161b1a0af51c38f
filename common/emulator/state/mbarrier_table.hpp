// State of the mbarriers in one block's shared memory.
//
// An mbarrier counts arrivals and bytes down. When both reach zero, its phase ends and the count is refilled:
//
//     init(2)            pending 2   transaction    0   phase 0
//     expect_tx 4096     pending 2   transaction 4096   phase 0
//     arrive             pending 1   transaction 4096   phase 0
//     arrive             pending 0   transaction 4096   phase 0     not yet: the bytes are still to come
//     complete_tx 4096   pending 2   transaction    0   phase 1     every waiter for parity 0 goes on
//
// This file has only the state. The operations, with their checks, and the end of a phase are in
// engines/mbarrier/mbarrier.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::emulator::machine {
struct Fragment;
}

namespace stagecraft::emulator::machine {

/// Largest arrival count, and largest magnitude of the transaction count (PTX ISA, "Contents of the mbarrier object").
inline constexpr uint32_t kMbarrierLimit = (1u << 20) - 1;
inline constexpr uint32_t kMbarrierBytes = 8;

/// The instruction that did something to a barrier, for reports.
struct BarrierPlace {
  uint32_t pc = 0xffffffffu;
  uint32_t warp = 0;  ///< in the block
  uint32_t lanes = 0;
  bool announces = false;  ///< an arrival by arrive.expect_tx

  bool is_same_thread(const BarrierPlace& other) const { return warp == other.warp && lanes == other.lanes; }
};

/// One mbarrier object (PTX ISA, "Contents of the mbarrier object").
struct Mbarrier {
  uint32_t expected = 0;  ///< arrivals per phase
  uint32_t pending = 0;   ///< arrivals still to come in the current phase
  int64_t transaction =
      0;               ///< bytes announced and not yet delivered; negative while bytes came before they were announced
  uint64_t phase = 0;  ///< phases completed
  /// Bytes announced in the current phase, for reports ("16384 of 32768 bytes outstanding").
  int64_t announced = 0;
  BarrierPlace initialised, last_arrival;
  uint64_t meetings_before = 0;    ///< how often threads of the block had met when it was initialised
  std::vector<Fragment*> waiting;  ///< asleep until the phase completes, in the order in which they came

  /// Whether a wait for `parity` may go on: the phase of that parity is no longer the current one. A wait for parity 1
  /// passes a fresh barrier (measured on an H200).
  bool passes(uint32_t parity) const { return (phase & 1) != (parity & 1); }
  bool complete() const { return pending == 0 && transaction == 0; }
  /// Whether nothing has been done in the current phase, and nothing sleeps on the barrier.
  bool at_rest() const { return pending == expected && announced == 0 && transaction == 0 && waiting.empty(); }
};

/// Returns the 64 bits that a barrier has in memory, and that an arrival returns as its `state`. As on the chip, bit 63
/// is the phase's parity and [62:43] is 2^20 - pending (read from an arrival's state and from ptxas's pending_count).
/// The rest is our choice: the transaction count in [42:21], 2^20 - expected in [20:1].
uint64_t word_of(const Mbarrier& barrier);
/// Returns the pending arrivals that such a word contains.
inline uint32_t pending_of_word(uint64_t word) {
  return (1u << 20) - static_cast<uint32_t>(word >> 43 & ((1u << 20) - 1));
}
inline uint32_t parity_of_word(uint64_t word) { return static_cast<uint32_t>(word >> 63); }

/// The live barriers of a block, by offset in its shared memory.
struct MbarrierTable {
  std::map<uint32_t, Mbarrier> live;
  /// The mbarrier.inval that ended a barrier, by the offset that held it, for reports.
  std::map<uint32_t, BarrierPlace> invalidated;
  /// Fragments that sleep on more than one barrier, because their lanes wait for different ones.
  std::vector<Fragment*> waiting_on_several;

  /// Removes a sleeping fragment from the lists of all barriers that it sleeps on. Must be called before a fragment is
  /// woken for another reason than its barrier.
  void forget(Fragment& fragment);
};

/// Describes a barrier for a report: `full[2]: phase 0, 0 of 1 arrivals pending, 16384 of 32768 bytes outstanding`.
/// Further lines name what is unusual (bytes that nobody announced).
std::vector<std::string> describe(const Mbarrier& barrier, std::string_view name);

}  // namespace stagecraft::emulator::machine
