// Which loads of shared memory ptxas joins.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::trace {

/// What surrounds an instruction of a kernel.
struct PlaceInCode {
  bool first = false;       ///< of a piece that only branches leave and enter
  uint32_t joined = 0;      ///< a load: bytes of each lane with the neighbours that are joined to it; else 0
  bool predicated = false;  ///< a branch that ptxas replaces: what it skips gets a guard
  uint32_t leader = kNone;  ///< a load that is joined to one before it: pc of that one
  static constexpr uint32_t kNone = 0xffffffffu;
};

/// Says for each pc where pieces of straight code begin and which loads are joined. The rule, after what ptxas 13.0
/// makes of loops over rows in shared memory: loads of 4 or 8 bytes from one base register (or variable) at
/// neighbouring constant offsets, in one piece of straight code without stores to shared memory, atomics, barriers and
/// calls between them, become loads of 16 or 8 bytes where these are aligned. Alignment follows from how the register
/// is computed: from shifts, products with constants, masks and sums. ptxas lays out variables itself, so they count
/// as aligned.
///
/// A branch over at most four instructions, none of which is a branch, a barrier or a call, is none in machine code:
/// ptxas gives the instructions a guard. Source: its code of tests/silicon/parallel_patterns.cu, block_scan.
std::vector<PlaceInCode> places_in_code(const machine::Kernel& kernel);

}  // namespace stagecraft::emulator::trace
