// Who accessed each unit of a page of shared memory last, since the last barrier of all threads: a cheap test that an
// access cannot race.
//
// The ledger keeps one writer and one reader for each unit: the thread, and the time of its warp. An access cannot race
// with them when each of them is
//
//   - nobody: the unit has not been accessed in this interval; or
//   - the very same thread, whose own accesses are in order; or
//   - a lane of the same warp, at a time that all accessing lanes know (they met in a __syncwarp since then).
//
// The ledger knows no other order. Where it cannot say that there is no race, there may be none all the same: then the
// histories decide (../ordering/shadow_memory.hpp).
//
// Several lanes of one warp that read the same unit are remembered as "some lanes of this warp", several warps as
// "many"; neither can be recognised as the very same thread.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/checks/ordering/vector_clock.hpp"
#include "emulator/checks/ordering/warp_addresses.hpp"

namespace stagecraft::emulator::checks {

/// What the accesses of a warp in one instruction have in common.
struct LedgerEntry {
  uint32_t warp = 0;
  bool writes = false;
  Time time = 0;   ///< of the warp
  Time known = 0;  ///< the time of their own warp up to which all of the lanes know what it did
};

class PageLedger {
 public:
  /// Forgets all accesses.
  /// @param shift  log2 of the bytes of a unit
  void begin(uint32_t page_bytes, uint32_t shift);
  uint32_t shift() const { return shift_; }

  /// Takes note of the part of an access that is in the page which begins at address `page`. Returns false if it may be
  /// a race. An access of one place must be in the page as a whole.
  bool note(const WarpAddresses& access, uint32_t page, uint32_t page_bytes, const LedgerEntry& entry);

 private:
  bool note_unit(uint32_t unit, uint32_t who, const LedgerEntry& entry);
  /// Takes note of `count` units that consecutive threads access, 1 << shift units each.
  /// @param who     the first thread of the whole row
  /// @param before  units of the row that are in the page before
  bool note_row(uint32_t unit, uint32_t count, uint32_t who, uint32_t shift, uint32_t before, const LedgerEntry& entry);

  uint32_t shift_ = 0;
  /// By unit: the last access since the barrier, packed as page_ledger.cpp says. A write removes the reader.
  std::vector<uint32_t> writers_, readers_;
};

}  // namespace stagecraft::emulator::checks
