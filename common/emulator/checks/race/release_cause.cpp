// Whether bytes were given to another side too early, or taken without waiting for that: what arrivals say about a
// race.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/race/race_cause.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncCompletion;
using machine::LaneMask;

namespace {

/// Where more warps arrive at a line, each once in a round, than the barrier counts, so that its phases end before all
/// of a round have arrived; empty: it is not so.
std::string counts_too_few(const ClusterRecord& cluster, const BarrierOrder& barrier, uint32_t pc) {
  const auto& live = cluster.cluster().blocks[barrier.rank]->mbarriers.live;
  const auto found = live.find(barrier.offset);
  if (found == live.end()) return {};
  std::set<std::pair<const machine::Block*, uint32_t>> arrivers;
  bool is_one_lane_each = true;
  constexpr uint64_t kRemembered = 4;
  for (uint64_t phase = barrier.ends - std::min<uint64_t>(barrier.ends, kRemembered); phase <= barrier.ends; ++phase) {
    barrier.phases.for_each(phase, [&](const PhaseNote& note) {
      if (note.kind == PhaseNote::Kind::wait || note.kind == PhaseNote::Kind::bytes) return;
      is_one_lane_each = is_one_lane_each && note.pc == pc && note.amount == note.times;
      arrivers.insert({note.block, note.warp});
    });
  }
  // Where a multiple of the count arrives, sides may take turns.
  const auto expected = static_cast<size_t>(found->second.expected);
  if (!is_one_lane_each || arrivers.size() <= expected || arrivers.size() % expected == 0) return {};
  return fmt::format(
      "{} is initialised{} for {} arrivals per phase, and one lane of each of {} warps arrives there{}: its phases end "
      "before all of a round have arrived, and what they wait for is used again while others still need it. Initialise "
      "it for {}",
      name_of(cluster, barrier), line_of(cluster, barrier.initialised.pc()), expected, arrivers.size(),
      line_of(cluster, pc), arrivers.size());
}

/// "[2]" of "empty[2]"; empty where the barrier is not one of an array.
std::string slot_of(const std::string& barrier) { return barrier.substr(std::min(barrier.rfind('['), barrier.size())); }

}  // namespace

std::string RaceCause::in_arrivals(const PastAccess& access, uint32_t other_warp, const VectorClock* known,
                                   const Operation* copy, uint64_t since) const {
  const char* verb = access.writes() ? "write" : "read";
  const SmallMap<WaitNote>& waits = order_.warp(other_warp).waits;
  for (const ArrivalNote& note : order_.warp(access.agent).arrivals) {
    if (note.number <= since) continue;
    if (copy != nullptr && note.barrier == copy->barrier) continue;  // that announces the copy, and releases nothing
    const BarrierOrder& barrier = order_.barrier(note.barrier);
    // Between threads, only an arrival counts that the other side has waited for, and that did not announce a copy.
    if (copy == nullptr && (barrier.is_for_copies || waits.find(note.barrier) == waits.end())) continue;
    const uint32_t lane = machine::first_lane(note.lanes);
    if (known != nullptr && known->at(access.agent * machine::kWarpSize + lane) < note.time) continue;
    const std::string arrival = fmt::format("arrival on {}{}", name(barrier), line(note.pc));
    if (note.time < access.time) {
      if (std::string other = copy == nullptr ? std::string() : in_waits_for_another(access, *copy, note);
          !other.empty()) {
        return other;
      }
      if (copy != nullptr && !access.is_asynchronous() && access.pc() < note.pc) {
        return fmt::format(
            "the slot is released before this {}, by the {}, in an earlier turn of a loop: arrive after the last use; "
            "or, where each turn is a round of its own, wait for {} in each",
            verb, arrival, name(order_.barrier(copy->barrier)));
      }
      if (copy == nullptr && access.writes()) {
        if (had_written(access, note.time)) continue;  // it signals the bytes of the write before
        return fmt::format(
            "the {} comes before this write, and so signals bytes that are not written yet: arrive after the last "
            "write",
            arrival);
      }
      const std::string sibling = unused_sibling(barrier, other_warp);
      return fmt::format("the slot is released before this {}, by the {}: arrive after the last use{}", verb, arrival,
                         sibling.empty()
                             ? std::string()
                             : fmt::format(", or wait for {} as well before the slot is filled again", sibling));
    }
    if (const LaneMask silent = access.lanes & ~arrived_since(access, note.barrier); silent != 0) {
      return fmt::format(
          "the {} by {} speaks for its own accesses only, not for those of {}: put a __syncwarp() "
          "before it",
          arrival, describe_lanes(note.lanes), describe_lanes(silent));
    }
    break;
  }
  return {};
}

bool RaceCause::releases_to(const PastAccess& thread, const Operation& copy) const {
  const SmallMap<WaitNote>& waits = order_.warp(copy.warp).waits;
  const auto& arrivals = order_.warp(thread.agent).arrivals;
  return std::any_of(arrivals.begin(), arrivals.end(),
                     [&](const ArrivalNote& note) { return waits.find(note.barrier) != waits.end(); });
}

bool RaceCause::had_written(const PastAccess& access, Time until) const {
  bool found = false;
  cluster_.memory[address_ >> machine::kSharedRankShift].for_each_write(
      address_ & machine::kSharedOffsetMask, 1, [&](const PastAccess& write, uint32_t) {
        found = found || (!write.is_asynchronous() && write.agent == access.agent && write.time <= until &&
                          line(write.pc()) == line(access.pc()));
      });
  return found;
}

std::string RaceCause::in_waits_for_another(const PastAccess& access, const Operation& copy,
                                            const ArrivalNote& arrival) const {
  const auto [barrier, last] = waits_.last_wait_of(side_of(access));
  const bool is_other = last != nullptr && barrier != copy.barrier && order_.barrier(barrier).is_for_copies;
  if (!is_other || last->arrivals < arrival.number) return {};
  return fmt::format(
      "the last wait before this {0}{1}, was for {2}, and the copy brings bytes for {3}, whose slot was released "
      "before that wait, by the arrival on {4}{5}: does this {0} name another slot than the one that was waited for?",
      access.writes() ? "write" : "read", line(last->pc).empty() ? std::string() : "," + line(last->pc),
      name(order_.barrier(barrier)), name(order_.barrier(copy.barrier)), name(order_.barrier(arrival.barrier)),
      line(arrival.pc));
}

std::string RaceCause::in_arrival_not_waited_for(const PastAccess& before, const PresentAccess& now) const {
  const SmallMap<WaitNote>& waits = order_.warp(now.warp).waits;
  for (const ArrivalNote& note : order_.warp(before.agent).arrivals) {
    if (note.time < before.time || (note.lanes & before.lanes) == 0 || waits.find(note.barrier) != waits.end())
      continue;
    if (std::string few = counts_too_few(cluster_, order_.barrier(note.barrier), note.pc); !few.empty()) return few;
    const BarrierOrder& released = order_.barrier(note.barrier);
    const auto [waited, last] = waits_.last_wait_of(side_of(now.record));
    const std::string slot = slot_of(name(released));
    const std::string other_slot = last == nullptr ? std::string() : slot_of(name(order_.barrier(waited)));
    const bool of_one_array =
        last != nullptr && variable_of(cluster_, order_.barrier(waited)) == variable_of(cluster_, released);
    // Those of one array that are for copies and for threads may be the two sides of one slot.
    const bool are_two_sides = of_one_array && order_.barrier(waited).is_for_copies != released.is_for_copies;
    const bool is_elsewhere = !slot.empty() && !other_slot.empty() && slot != other_slot && !are_two_sides;
    if (!is_elsewhere || !of_one_array) {
      if (std::string cause = through_another(before, note); !cause.empty()) return cause;
    }
    return fmt::format(
        "the {} is followed by the arrival on {}{}, and the thread that {} has never waited there: it must, before "
        "the {}{}",
        before.writes() ? "write" : "read", name(released), line(note.pc), now.record.writes() ? "writes" : "reads",
        now.record.writes() ? "write" : "read",
        is_elsewhere ? fmt::format("; or, since its last wait{} was for {}, does one of the two access another slot "
                                   "than that of its own wait?",
                                   line(last->pc), name(order_.barrier(waited)))
                     : std::string());
  }
  return {};
}

std::string RaceCause::through_another(const PastAccess& before, const ArrivalNote& after) const {
  const BarrierOrder& barrier = order_.barrier(after.barrier);
  const char* const verb = before.writes() ? "write" : "read";
  // The slot of the copy that brought the bytes, and the thread's last arrival at this array before the access: where
  // that is the slot's own, and not that of the round before, it came too early.
  const uint32_t rank = address_ >> machine::kSharedRankShift, offset = address_ & machine::kSharedOffsetMask;
  std::string slot;
  if (rank < cluster_.memory.size()) {
    cluster_.memory[rank].for_each_write(offset, 1, [&](const PastAccess& write, uint32_t) {
      if (!write.is_asynchronous()) return;
      const Operation& copy = order_.operation(write.operation());
      if (copy.completion == AsyncCompletion::mbarrier) slot = slot_of(name(order_.barrier(copy.barrier)));
    });
  }
  const ArrivalNote* early = nullptr;
  for (const ArrivalNote& note : order_.warp(before.agent).arrivals) {
    const bool is_before = note.time < before.time && (early == nullptr || early->time <= note.time);
    const std::string array = variable_of(cluster_, order_.barrier(note.barrier));
    if (is_before && array == variable_of(cluster_, barrier)) early = &note;
  }
  if (early != nullptr && !slot.empty() && slot_of(name(order_.barrier(early->barrier))) == slot) {
    return fmt::format("the slot is released before this {}, by the arrival on {}{}: arrive after the last use", verb,
                       name(order_.barrier(early->barrier)), line(early->pc));
  }
  const auto warps = static_cast<uint32_t>(cluster_.memory.size()) * order_.warps_per_block();
  for (uint32_t warp = 0; warp < warps; ++warp) {
    const auto& waits = order_.warp(warp).waits;
    const auto wait = waits.find(after.barrier);
    if (wait == waits.end() || wait->second.phases > after.phase) continue;
    const Time phases = wait->second.phases;
    const std::string ended =
        phases == 0 ? std::string() : barrier.phases.describe_arrivals(phases - 1, cluster_.kernel());
    return fmt::format(
        "the {} is followed by the arrival on {}{}, and {} did not wait{} for that{}: is the barrier initialised for "
        "all that arrive in a round?",
        verb, name(barrier), line(after.pc), spell_thread(cluster_, warp, wait->second.lanes), line(wait->second.pc),
        ended.empty() ? std::string()
                      : fmt::format(", and went on at the end of phase {}, ended by {}", phases - 1, ended));
  }
  return {};
}

LaneMask RaceCause::arrived_since(const PastAccess& access, uint32_t barrier) const {
  LaneMask lanes = 0;
  for (const ArrivalNote& note : order_.warp(access.agent).arrivals) {
    if (note.barrier == barrier && note.time >= access.time) lanes |= note.lanes;
  }
  return lanes;
}

std::string RaceCause::unused_sibling(const BarrierOrder& barrier, uint32_t waiting_warp) const {
  const std::string array = variable_of(cluster_, barrier);
  const SmallMap<WaitNote>& waits = order_.warp(waiting_warp).waits;
  for (uint32_t index = 0; index < order_.barrier_count(); ++index) {
    const BarrierOrder& other = order_.barrier(index);
    if (&other == &barrier || other.rank != barrier.rank || other.is_for_copies) continue;
    if (variable_of(cluster_, other) == array && waits.find(index) == waits.end()) return name(other);
  }
  return {};
}

}  // namespace stagecraft::emulator::checks
