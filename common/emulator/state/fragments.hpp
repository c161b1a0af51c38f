// How the lanes of a warp split into fragments, meet again and wait for each other.
#pragma once

#include <string>

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Whether two fragments of a warp are at the same instruction of the same call.
inline bool same_place(const Fragment& left, const Fragment& right) {
  return left.pc == right.pc && left.local_frame == right.local_frame && left.return_stack == right.return_stack;
}
/// Moves all lanes of `other` into `fragment`. `other` gets the state `exited`; the execution loop removes it.
void absorb(Fragment& fragment, Fragment& other);
/// Moves lanes into another fragment that goes on at `pc`: one that is ready there, or a new one.
Fragment& split_off(Fragment& fragment, LaneMask lanes, uint32_t pc);

/// Whether a fragment will continue without the help of others: it is ready, or sleeps for a limited time.
bool continues_alone(const Fragment& fragment);

/// What is wrong when lanes execute a .sync operation with these members and are not among them, and what to do.
std::string describe_left_out(LaneMask members);
inline constexpr const char* kMembersAdvice =
    "every lane that executes it must be in the mask: pass the mask of the lanes that are active here";

/// Waits until all lanes of `wanted` that have not exited execute this instruction, and makes them one fragment.
/// Returns their mask, to be used instead of the handler's; 0 when some are missing: the handler then returns
/// Outcome::blocked. For `.sync` operations over a member mask; faults when a lane of `mask` is not in `wanted`, unless
/// the chip is known to carry on.
LaneMask converge(Fragment& fragment, LaneMask mask, LaneMask wanted);
/// Does the same for `.aligned` instructions, which the whole warp must execute.
LaneMask converge_warp(Fragment& fragment, LaneMask mask);
/// Returns the lanes of `mask` whose member mask is that of the lowest lane.
LaneMask lanes_of_first_group(const Fragment& fragment, LaneMask mask, RegisterOffset members);

/// Executes a .sync operation of a warp, `body(lanes)`, for lanes whose member masks may differ: tiles of a warp that
/// each execute it among themselves. When members of some mask are missing here, the lanes of the first mask go on as
/// with `converge`, and the others become fragments that execute the instruction on their own.
template <typename Body>
Outcome among_members(Fragment& fragment, LaneMask mask, RegisterOffset members, Body body) {
  const auto wanted = [&](LaneMask group) {
    return lanes_at<LaneMask>(fragment.registers, members)[first_lane(group)];
  };
  LaneMask group = lanes_of_first_group(fragment, mask, members);
  if (group != mask) {
    bool complete = true;
    for (LaneMask rest = mask; rest != 0 && complete; rest &= ~group) {
      group = lanes_of_first_group(fragment, rest, members);
      complete = (wanted(group) & fragment.warp->live) == group;
    }
    if (complete) {
      for (LaneMask rest = mask; rest != 0; rest &= ~group) {
        group = lanes_of_first_group(fragment, rest, members);
        body(group);
      }
      return Outcome::next;
    }
    group = lanes_of_first_group(fragment, mask, members);
    split_off(fragment, mask & ~group, fragment.pc);
  }
  group = converge(fragment, group, wanted(group));
  if (group == 0) return Outcome::blocked;
  body(group);
  return Outcome::next;
}

/// Must be called by every instruction whose effect others can see (stores, atomics, arrivals, asynchronous issues).
[[gnu::always_inline]] static inline void note_effect(Fragment& fragment) {
  fragment.idle_poll_pc = Fragment::kEffect;
  ++*fragment.effects;
}

}  // namespace stagecraft::emulator::machine
