// How the lanes of a warp split into fragments, meet again and wait for each other.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/waiting.hpp"

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

/// Lanes that execute a .sync operation in one place of the program.
struct SyncPlace {
  Fragment* fragment;
  const Op* op;
  LaneMask lanes;
};
/// The lanes that execute a .sync operation together. PTX says of shfl.sync and its kind that a thread waits until all
/// members "have executed" the same operation "with the same qualifiers and same membermask value": they may be in
/// several places, such as on both sides of a branch, with other registers in each. So it is on an H200
/// (tests/silicon/meeting_places.cu), except for redux.sync, which hangs there. elect.sync elects one lane for all
/// places there; here it waits for the others in its own, so that an election in a branch of some lanes is reported.
using SyncPlaces = std::span<const SyncPlace>;
/// Returns all of them.
inline LaneMask lanes_of(SyncPlaces places) {
  LaneMask all = 0;
  for (const SyncPlace& place : places) all |= place.lanes;
  return all;
}
/// These bits of Op::immediate distinguish .sync operations that have the same handler.
inline constexpr uint64_t kSyncVariant = 0xff;
/// They have this value for an operation that lanes must execute in the same place.
inline constexpr uint64_t kMeetsInOnePlace = 0xff;

/// Waits until all lanes of `wanted` that have not exited execute this operation, and makes those that execute it here
/// one fragment. Returns their mask, to be used instead of the handler's; 0 when some are missing: the handler then
/// returns Outcome::blocked. Others are appended to `elsewhere`, to be resumed when the operation is done. For `.sync`
/// operations over a member mask; faults when a lane of `mask` is not in `wanted`, unless the chip is known to carry
/// on.
LaneMask converge(Fragment& fragment, LaneMask mask, LaneMask wanted, std::vector<SyncPlace>& elsewhere);
/// Does the same for `.aligned` instructions: the whole warp must execute them, here.
LaneMask converge_warp(Fragment& fragment, LaneMask mask);
/// Returns the lanes of `mask` whose member mask is that of the lowest lane.
LaneMask lanes_of_first_group(const Fragment& fragment, LaneMask mask, RegisterOffset members);

/// Executes a .sync operation of a warp, `body(places)`, for lanes whose member masks may differ: tiles of a warp that
/// each execute it among themselves. When members of some mask are missing here, the lanes of the first mask go on as
/// with `converge`, and the others become fragments that execute the instruction on their own.
template <typename Body>
Outcome among_members(Fragment& fragment, const Op& op, LaneMask mask, RegisterOffset members, Body body) {
  const auto wanted = [&](LaneMask group) {
    return lanes_at<LaneMask>(fragment.registers, members)[first_lane(group)];
  };
  const auto execute_here = [&](LaneMask group) {
    const SyncPlace here{&fragment, &op, group};
    body(SyncPlaces(&here, 1));
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
        execute_here(group);
      }
      return Outcome::next;
    }
    group = lanes_of_first_group(fragment, mask, members);
    split_off(fragment, mask & ~group, fragment.pc);
  }
  if ((wanted(group) & fragment.warp->live) == group) {  // nearly always
    execute_here(group);
    return Outcome::next;
  }
  std::vector<SyncPlace> places;
  group = converge(fragment, group, wanted(group), places);
  if (group == 0) return Outcome::blocked;
  if (places.empty()) {
    execute_here(group);
    return Outcome::next;
  }
  places.push_back({&fragment, &op, group});
  body(SyncPlaces(places));
  places.pop_back();
  for (const SyncPlace& place : places) resume_after(*place.fragment);
  ++fragment.pc;
  return Outcome::jump;  // others are ready now, and may have to go first
}

/// Must be called by every instruction whose effect others can see (stores, atomics, arrivals, asynchronous issues).
[[gnu::always_inline]] static inline void note_effect(Fragment& fragment) {
  fragment.idle_poll_pc = Fragment::kEffect;
  ++*fragment.effects;
}

}  // namespace stagecraft::emulator::machine
