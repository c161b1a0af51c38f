// What the other barriers of a block, such as the slots of a ring, say about one at which nobody arrives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emulator/checks/deadlock/sleepers.hpp"

namespace stagecraft::emulator::checks {

/// A barrier of the block whose barrier a group waits for.
struct OtherBarrier {
  uint32_t offset = 0;
  std::string name;
  const machine::Mbarrier* barrier = nullptr;
  const BarrierHistory* history = nullptr;
};

/// Those that have completed a phase, and for which no wait has ever passed.
std::vector<OtherBarrier> never_waited_for(const Sleepers& sleepers, const machine::Fragment& waiter);
/// Those of them for which nobody waits now either.
std::vector<OtherBarrier> unclaimed(const Sleepers& sleepers, const machine::Fragment& waiter);

/// Barriers of the same array and count as the one at an offset, the nearest first.
std::vector<OtherBarrier> siblings_of(const Sleepers& sleepers, const Group& group, uint32_t offset);
/// Who else waits, or has waited, for such a sibling: the side that the barrier is for; empty: nobody.
std::string user_of_array(const Sleepers& sleepers, const Group& group, uint32_t offset);
/// A warp that has ended and was to arrive at the group's barrier, as siblings show; empty: none.
std::string filler_that_has_ended(const Sleepers& sleepers, const Group& group);

/// Where a group waits for an empty slot: the barrier that says the slot is full, as the other slots of the ring show.
/// Nothing where they do not.
std::optional<uint32_t> full_barrier_of(const Sleepers& sleepers, const Group& group);

/// Who keeps a slot for which a group waits, and which it has filled since it waited for it before.
struct Keeper {
  std::string text;        ///< "warp 1, which waited for full[0] at ring.cu:77, has not arrived there since"; or empty
  std::string instead;     ///< the slot that was released in the place of this one; empty: none was
  bool has_ended = false;  ///< nobody who keeps it still runs
};
/// Nobody where it is not so, or where nobody has waited for what is in the slot.
Keeper keeper_of_slot(const Sleepers& sleepers, const Group& group);

/// Where all others have ended: a barrier that the group arrives at, and whose last phase nobody has waited for.
std::string phase_left_behind(const Sleepers& sleepers, const Group& group);

/// "full[0] has completed phase 0"
std::string describe_completed(const OtherBarrier& other);

}  // namespace stagecraft::emulator::checks
