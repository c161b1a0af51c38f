// How the lanes of a warp come together for an instruction with .sync and a member mask.
#pragma once

#include "emulator/machine/grid.hpp"

namespace stagecraft::emulator::machine {

/// Whether each lane of `mask` finds all lanes that it names among those of `mask` that name the same.
inline bool every_group_is_complete(const Fragment& fragment, const uint32_t* wanted, LaneMask mask) {
  for (LaneMask rest = mask; rest != 0;) {
    const uint32_t members = wanted[first_lane(rest)];
    const LaneMask group = members & fragment.warp->live;
    if ((group & ~rest) != 0 || (rest & (1u << first_lane(rest)) & group) == 0) return false;
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      if ((group >> lane & 1) != 0 && wanted[lane] != members) return false;
    }
    rest &= ~group;
  }
  return true;
}

/// Runs `body` for the lanes that meet in the instruction: those whose register `members` names the same lanes. Most
/// often that is one group. The lanes of one fragment may name several, as the tiles of a warp do that cooperative
/// groups makes; when all of each are here, they are served at once. Observed, or when lanes are still to come, the
/// groups part, and each executes the instruction by itself.
template <typename Body>
Outcome meet(Fragment& fragment, RegisterOffset members, LaneMask mask, Body&& body) {
  const auto* wanted = lanes_at<uint32_t>(fragment.registers, members);
  LaneMask same = 0;
  for_each_lane(mask, [&](uint32_t lane) { same |= wanted[lane] == wanted[first_lane(mask)] ? 1u << lane : 0u; });
  if (same != mask) {
    if (fragment.grid().memory_observers.empty() && every_group_is_complete(fragment, wanted, mask)) {
      for (LaneMask rest = mask; rest != 0;) {
        const LaneMask group = wanted[first_lane(rest)] & fragment.warp->live;
        body(group);
        rest &= ~group;
      }
      return Outcome::next;
    }
    split_off(fragment, mask & ~same, fragment.pc);
    mask = same;
  }
  mask = converge(fragment, mask, wanted[first_lane(mask)]);
  if (mask == 0) return Outcome::blocked;
  body(mask);
  return Outcome::next;
}

}  // namespace stagecraft::emulator::machine
