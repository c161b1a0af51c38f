// State of the mbarriers in one block's shared memory.
//
// An mbarrier counts arrivals and bytes down; when both reach nothing, its phase ends and the count is refilled:
//
//     init(2)            pending 2   transaction    0   phase 0
//     expect_tx 4096     pending 2   transaction 4096   phase 0
//     arrive             pending 1   transaction 4096   phase 0
//     arrive             pending 0   transaction 4096   phase 0     not yet: the bytes are still to come
//     complete_tx 4096   pending 2   transaction    0   phase 1     every waiter for parity 0 goes on
//
// What can be done to a barrier, with its checks, is in mbarrier.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <set>
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

/// Where something was done to a barrier, for reports.
struct BarrierPlace {
  uint32_t pc = 0xffffffffu;
  uint32_t warp = 0;  ///< in the block
  uint32_t lanes = 0;
};

/// One mbarrier object (PTX ISA, "Contents of the mbarrier object").
struct Mbarrier {
  uint32_t expected = 0;    ///< arrivals per phase
  uint32_t pending = 0;     ///< arrivals still to come in the current phase
  int64_t transaction = 0;  ///< bytes announced and not yet delivered; may be negative for a while
  uint64_t phase = 0;       ///< phases completed
  /// Bytes announced in the current phase, for reports ("16384 of 32768 bytes outstanding").
  int64_t announced = 0;
  BarrierPlace initialised, last_arrival;
  std::vector<Fragment*> waiting;  ///< asleep until the phase completes, in the order of their coming

  /// Whether a wait for `parity` may go on: the phase of that parity is no longer the current one. A fresh barrier lets
  /// a wait for parity 1 pass (measured on an H200).
  bool passes(uint32_t parity) const { return (phase & 1) != (parity & 1); }
  bool complete() const { return pending == 0 && transaction == 0; }
};

/// The 64 bits that a barrier shows in memory, and that an arrival returns as its `state`: bit 63 is the phase's parity
/// and [62:43] is 2^20 - pending, as on the chip (read from an arrival's state and from ptxas's pending_count). The
/// rest is ours: transaction count in [42:21], 2^20 - expected in [20:1].
uint64_t word_of(const Mbarrier& barrier);
/// Pending arrivals that such a word holds.
inline uint32_t pending_of_word(uint64_t word) {
  return (1u << 20) - static_cast<uint32_t>(word >> 43 & ((1u << 20) - 1));
}
inline uint32_t parity_of_word(uint64_t word) { return static_cast<uint32_t>(word >> 63); }

/// The live barriers of a block, by offset in its shared memory.
struct MbarrierTable {
  std::map<uint32_t, Mbarrier> live;
  std::set<uint32_t> invalidated;  ///< offsets that held a barrier until mbarrier.inval, for reports
  /// Fragments that sleep on more than one barrier, because their lanes wait for different ones.
  std::vector<Fragment*> waiting_on_several;

  /// Takes a sleeping fragment off the lists of all barriers it sleeps on. To be called, before its wake, by whoever
  /// makes such a fragment ready for another reason than its barrier.
  void forget(Fragment& fragment);
};

/// What a report says of a barrier: `full[2]: phase 0, 0 of 1 arrivals pending, 16384 of 32768 bytes outstanding`.
/// Further lines name what is peculiar (bytes that came unannounced).
std::vector<std::string> describe(const Mbarrier& barrier, std::string_view name);

}  // namespace stagecraft::emulator::machine
