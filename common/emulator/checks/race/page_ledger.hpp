// Who accessed each unit of a page of shared memory last, since the last barrier of all threads.
//
// It holds one writer and one reader of each unit, and knows of no order but that among the threads of a warp. That is
// enough to see that a thread works on what is its own, and a warp on what is its own between two __syncwarp. What it
// cannot answer for may still be right: then the histories decide (shadow_memory.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/checks/ordering/vector_clock.hpp"
#include "emulator/checks/ordering/warp_addresses.hpp"

namespace stagecraft::emulator::checks {

/// Accesses of a warp at a time of its own.
struct LedgerEntry {
  uint32_t warp = 0;
  bool writes = false;
  Time time = 0;
  Time known = 0;  ///< what all of the lanes know of their own warp
};

class PageLedger {
 public:
  /// Forgets all accesses. Units are of 1 << shift bytes.
  void begin(uint32_t page_bytes, uint32_t shift);
  uint32_t shift() const { return shift_; }

  /// Takes note of what some lanes do in the page that begins at `page`; false: it may be a race. Of one place, all of
  /// it lies in the page.
  bool note(const WarpAddresses& access, uint32_t page, uint32_t page_bytes, const LedgerEntry& entry);

 private:
  bool note_unit(uint32_t unit, uint32_t who, const LedgerEntry& entry);
  /// Of threads from `who` on, with 1 << shift units each; `before` units of theirs are in the page before.
  bool note_row(uint32_t unit, uint32_t count, uint32_t who, uint32_t shift, uint32_t before, const LedgerEntry& entry);

  uint32_t shift_ = 0;
  std::vector<uint32_t> writers_, readers_;  ///< by unit: the last access, as page_ledger.cpp has it
};

}  // namespace stagecraft::emulator::checks
