// Why nobody has ever arrived at an mbarrier for which threads wait.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "emulator/checks/causes/control_flow.hpp"
#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/deadlock/other_barriers.hpp"
#include "emulator/checks/deadlock/who_arrived.hpp"
#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/checks/reporting/place.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Fragment;
using machine::WaitKind;

namespace {

/// " full[0] has completed phase 1, by ..., and nobody has waited for that": empty: there is none.
std::string latest_phase_unseen(const Sleepers& sleepers, const Fragment& waiter) {
  const Block* block = sleepers.block_of_barrier(waiter);
  for (const auto& [offset, barrier] : block->mbarriers.live) {
    const BarrierHistory* history = sleepers.history_at(block, offset);
    if (barrier.phase == 0 || history == nullptr || &barrier == sleepers.barrier_of(waiter)) continue;
    uint64_t seen = 0;
    for (const BarrierHistory::Waiter& each : history->waiters) seen = std::max(seen, each.phases);
    if (seen >= barrier.phase) continue;
    const std::string by = history->phases.describe_arrivals(barrier.phase - 1, *waiter.grid().kernel);
    return fmt::format(" {} has completed phase {}{}, and nobody has waited for that",
                       name_of_barrier(*waiter.grid().kernel, offset), barrier.phase - 1,
                       by.empty() ? by : fmt::format(", by {}", by));
  }
  return {};
}

/// Where a barrier of the same array has completed a phase that nobody has waited for.
/// @param by_copies  whether only a phase in which copies brought bytes counts
std::string cause_in_another_slot(const Sleepers& sleepers, const Group& group, bool by_copies) {
  const Fragment& first = *group.first;
  const std::string array = array_of(*first.grid().kernel, offset_of(first));
  if (array.empty()) return {};
  for (const OtherBarrier& other : never_waited_for(sleepers, first)) {
    if (other.barrier->expected != sleepers.barrier_of(first)->expected) continue;  // it stands for something else
    if (by_copies && !other.history->phases.has(other.barrier->phase - 1, PhaseNote::Kind::bytes)) continue;
    if (array_of(*first.grid().kernel, other.offset) != array) continue;
    return fmt::format(
        "nobody has ever arrived at {}, while {} has completed a phase that nobody has waited for: does the wait ask "
        "for another slot than the one that was filled?",
        name_of_barrier(first), other.name);
  }
  return {};
}

/// The other one of two sides that each wait for a barrier at which nobody has ever arrived; null: there is none.
const Group* opposite_side(const Sleepers& sleepers, const Group& group) {
  const std::vector<Group>& groups = sleepers.groups();
  // Where a third side waits for a slot that was never freed, the two may wait for that one.
  const bool has_third = std::any_of(groups.begin(), groups.end(), [&](const Group& each) {
    return each.is_root && sleepers.never_arrived(each) && sleepers.history_of(*each.first).passed_before_first;
  });
  if (has_third) return nullptr;
  const auto other = std::find_if(groups.begin(), groups.end(), [&](const Group& each) {
    return !waits_for_the_same(each, group) && each.is_root && sleepers.never_arrived(each) &&
           !sleepers.history_of(*each.first).passed_before_first;
  });
  return other == groups.end() ? nullptr : &*other;
}

/// A side that has arrived somewhere is not at its first wait: it has gone past the arrival that the other waits for.
struct Sides {
  const Group* early = nullptr;  ///< null: not one of the two has gone on, but none or both
  const Group* late = nullptr;
};
Sides sides_of(const Sleepers& sleepers, const Group& group, const Group& other) {
  const bool gone_on = sleepers.has_arrived(group);
  if (gone_on == sleepers.has_arrived(other)) return {};
  return gone_on ? Sides{&other, &group} : Sides{&group, &other};
}

/// What else may be wrong where all others have ended.
std::string other_ideas(const Sleepers& sleepers, const Group& group) {
  const std::vector<Group>& groups = sleepers.groups();
  const Fragment& first = *group.first;
  const auto sides = std::count_if(groups.begin(), groups.end(), [&](const Group& other) {
    return other.first->wait.kind == WaitKind::mbarrier && other.first->wait.address == first.wait.address;
  });
  if (sides > 2) return " Or is one of those who wait to arrive first, or to ask for what arrives?";
  if (sides == 2 && groups[1].first->warp != groups[0].first->warp) {
    return " Or does one side wait here for the barrier of the other?";
  }
  if (sleepers.has_arrived(group) && !array_of(*first.grid().kernel, offset_of(first)).empty()) {
    return " Or does the wait ask for a slot that was never filled, as where the last slots are waited for from a "
           "fresh state?";
  }
  return {};
}

}  // namespace

bool waits_for_the_same(const Group& one, const Group& other) {
  return one.first->wait.kind == WaitKind::mbarrier && offset_of(*one.first) == offset_of(*other.first);
}

std::string only_another_block_is_signalled(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Block& own = *sleepers.block_of_barrier(first);
  const uint32_t offset = offset_of(first);
  std::string text;
  for (const auto& block : sleepers.cluster().blocks) {
    if (block.get() == &own) continue;
    const BarrierHistory* history = sleepers.history_at(block.get(), offset);
    const auto barrier = block->mbarriers.live.find(offset);
    if (history == nullptr || barrier == block->mbarriers.live.end()) continue;
    if (history->arrivers.empty() || barrier->second.phase == 0) continue;
    const std::string beginning =
        fmt::format("nobody has ever arrived at {} of the block of rank {}", name_of_barrier(first), own.rank);
    const auto expected = static_cast<uint64_t>(barrier->second.expected);
    for (uint64_t phase = 0; phase < barrier->second.phase; ++phase) {
      std::vector<Came> came = who_came(*history, phase, expected);
      const std::string by = describe_came(came, sleepers.cluster());
      if (text.empty()) {
        text = fmt::format(
            "{0}, while that of rank {2} has completed a phase{3}: is only that block to wait for it, or must the "
            "arrivals and copies signal the barrier of rank {1} as well?",
            beginning, own.rank, block->rank, by.empty() ? by : fmt::format(", by {}", by));
      }
      std::erase_if(came, [&](const Came& each) { return each.block != &own; });
      const std::string by_own = describe_came(came, sleepers.cluster());
      if (by_own.empty()) continue;
      return fmt::format("{}, and what its own threads signal came to that of rank {}: {}. Does {} leave rank {} out?",
                         beginning, block->rank, by_own, came.front().by_operation ? "its mask" : "the arrival",
                         own.rank);
    }
  }
  return text;
}

std::string takes_the_next_slot_and_frees_none(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const auto is_of_group = [&](const auto& each) { return is_of_warp(each, first); };
  const BarrierHistory::Waiter* last = nullptr;
  std::string slot;
  for (const OtherBarrier& sibling : siblings_of(sleepers, group, offset_of(first))) {
    for (const BarrierHistory::Waiter& each : sibling.history->waiters) {
      if (!is_of_group(each) || each.phases == 0 || (last != nullptr && each.clock < last->clock)) continue;
      last = &each;
      slot = sibling.name;
    }
  }
  if (last == nullptr) return {};
  std::string unfreed;
  for (const auto& [place, history] : sleepers.histories()) {
    const auto arrives_later = [&](const auto& each) { return is_of_group(each) && each.clock > last->clock; };
    if (std::any_of(history.arrivers.begin(), history.arrivers.end(), arrives_later)) return {};
    const auto live = place.first->mbarriers.live.find(place.second);
    if (place.first != &first.block() || live == place.first->mbarriers.live.end()) continue;
    const bool is_free = history.passed_before_first && history.arrivers.empty();
    if (unfreed.empty() && is_free && static_cast<size_t>(live->second.expected) == threads_of(group)) {
      unfreed = name_of_barrier(*first.grid().kernel, place.second);
    }
  }
  if (unfreed.empty()) return {};
  const bool one = group.warps.size() == 1;
  return fmt::format(
      "nobody has ever arrived at {}. {}, which now wait{} for it, {} waited for {}{} and arrived nowhere since; {}, "
      "which counts as many arrivals, has got none. Is the release of what {} missing, or is it taken twice in one "
      "round?",
      name_of_barrier(first), describe_warps(group), one ? "s" : "", one ? "has" : "have", slot,
      at_line(*first.grid().kernel, last->pc), unfreed, one ? "it took" : "they took");
}

std::string filled_for_nobody(const Sleepers& sleepers, const Group& group) {
  const std::string left = phase_left_behind(sleepers, group);
  if (left.empty()) return {};
  const std::string name = name_of_barrier(*group.first);
  return fmt::format(
      "nobody has ever arrived at {}, and {}: does the side that waits for it and then arrives at {} take fewer "
      "rounds, or end before?",
      name, left, name);
}

std::string release_behind_a_meeting(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  for (const Group& other : sleepers.groups()) {
    const WaitKind kind = other.first->wait.kind;
    const bool meets = kind == WaitKind::named_barrier || kind == WaitKind::cluster_barrier;
    if (!meets || other.is_root || &other.first->block() != &first.block() || !sleepers.has_arrived(other)) continue;
    if (other.first->warp == first.warp) continue;
    return fmt::format(
        "nobody has ever arrived at {0}: {1}, which arrived at other barriers before, wait{2} at {3}{4} for the "
        "threads that wait for {0}. Is that in a branch that not all warps take, or is an arrival (a release) "
        "missing on the way there?",
        name_of_barrier(first), describe_warps(other), other.warps.size() == 1 ? "s" : "", name_of_meeting(other),
        at_line(*first.grid().kernel, other.first->pc));
  }
  return {};
}

std::string slot_never_released(const Sleepers& sleepers, const Group& group) {
  const std::string name = name_of_barrier(*group.first);
  const std::vector<OtherBarrier> unseen = unclaimed(sleepers, *group.first);
  // Where those who were to free it have ended, that is not for others to do.
  Keeper keeper = keeper_of_slot(sleepers, group);
  if (!unseen.empty() && !keeper.has_ended) keeper = {};
  std::string reader = keeper.text;
  if (!reader.empty()) reader[0] = 'W';  // warp 1, or warps 1-2
  std::string text = fmt::format(
      "nobody has ever arrived at {}: the first wait for it passed at once, as a producer's first wait for an empty "
      "slot does, but the slot has never been released since. {}",
      name, reader);
  if (!keeper.instead.empty()) {
    return fmt::format("{}, but at {}: is that arrival meant for {}?", text, keeper.instead, name);
  }
  text +=
      fmt::format("{}Is an arrival (a release) missing, or does it go to another barrier?", reader.empty() ? "" : ". ");
  if (unseen.empty() || !reader.empty()) return text;
  text += fmt::format(" {}, and nobody has ever waited for that", describe_completed(unseen.front()));
  const std::string by_whom = user_of_array(sleepers, group, unseen.front().offset);
  if (by_whom.empty()) return text;
  return text +
         fmt::format(": is it for {}, and does that side take fewer rounds, or not step to the next slot?", by_whom);
}

std::string another_slot_was_filled(const Sleepers& sleepers, const Group& group) {
  return cause_in_another_slot(sleepers, group, /*by_copies=*/false);
}

std::string copies_filled_another_slot(const Sleepers& sleepers, const Group& group) {
  return cause_in_another_slot(sleepers, group, /*by_copies=*/true);
}

std::string all_wait_and_nobody_arrives(const Sleepers& sleepers, const Group& group) {
  if (threads_of(group) != group.first->grid().request->block.count()) return {};
  return fmt::format(
      "nobody has ever arrived at {}, and all threads of the block wait for it: is an arrival missing, does it go to "
      "another barrier or come after the wait, or does no warp take the role that arrives there, as where too few "
      "threads are launched?{}",
      name_of_barrier(*group.first), latest_phase_unseen(sleepers, *group.first));
}

std::string one_wait_more_than_arrivals(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const auto is_waiter = [&](const auto& each) { return is_of_warp(each, first); };
  uint64_t ended = 0;
  const BarrierHistory::Arriver* by = nullptr;
  bool is_producer = false;
  for (const OtherBarrier& sibling : siblings_of(sleepers, group, offset_of(first))) {
    const auto& arrivers = sibling.history->arrivers;
    const auto& waiters = sibling.history->waiters;
    const auto waiter = std::find_if(waiters.begin(), waiters.end(), is_waiter);
    if (arrivers.size() != 1 || arrivers.front().block == nullptr || is_waiter(arrivers.front())) continue;
    if (waiter == waiters.end()) continue;
    if (by != nullptr && (by->block != arrivers.front().block || by->warp != arrivers.front().warp)) return {};
    by = &arrivers.front();
    is_producer = is_producer || sibling.history->passed_before_first;
    if (waiter->phases != sibling.barrier->phase) return {};
    ended += waiter->phases;
  }
  if (by == nullptr || ended == 0) return {};
  if (const std::optional<uint32_t> full = full_barrier_of(sleepers, group); is_producer && full) {
    const BarrierHistory* filled = sleepers.history_at(sleepers.block_of_barrier(first), *full);
    if (filled == nullptr || filled->arrivers.empty()) {
      return fmt::format(
          "nobody has ever arrived at {}, and all other threads have ended: nobody has filled that slot either, since "
          "{} has got no arrival, so that nobody has anything to free. Does warp {} step past a slot that it has not "
          "filled, or wait for one at the end?",
          name_of_barrier(first), name_of_barrier(*first.grid().kernel, *full), first.warp->index);
    }
  }
  const std::string who = describe_warp(*by->block, by->warp);
  return fmt::format(
      "nobody has ever arrived at {0}, and all other threads have ended. Warp {1} waits here for what {2} signals, as "
      "it did at other barriers of that array: it has waited for {3} that {2} ended there, and this is one wait more. "
      "Does it take a round more, or is the last arrival missing?",
      name_of_barrier(first), first.warp->index, who,
      ended == 1 ? "the one phase" : fmt::format("each of the {} phases", ended));
}

std::string filler_has_ended(const Sleepers& sleepers, const Group& group) {
  const std::string filler = filler_that_has_ended(sleepers, group);
  if (filler.empty()) return {};
  return fmt::format(
             "nobody has ever arrived at {}: {}, and so have all other threads. Is its arrival missing on one of its "
             "ways, or does it go to another barrier?",
             name_of_barrier(*group.first), filler) +
         other_ideas(sleepers, group);
}

std::string all_others_have_ended(const Sleepers& sleepers, const Group& group) {
  return fmt::format(
             "nobody has ever arrived at {}, and all other threads have ended: is an arrival missing, or does it go to "
             "another barrier?",
             name_of_barrier(*group.first)) +
         other_ideas(sleepers, group);
}

std::string filler_of_one_side_has_ended(const Sleepers& sleepers, const Group& group) {
  const Group* other = opposite_side(sleepers, group);
  if (other == nullptr) return {};
  for (const Group* late : {&group, other}) {
    const std::string filler = filler_that_has_ended(sleepers, *late);
    if (filler.empty()) continue;
    return fmt::format("nobody has ever arrived at {}, for which {} wait{}: {}. Does it take fewer rounds?",
                       name_of_barrier(*late->first), describe_warps(*late), late->warps.size() == 1 ? "s" : "",
                       filler);
  }
  return {};
}

std::string filler_waits_for_a_slot_first(const Sleepers& sleepers, const Group& group) {
  const Group* other = opposite_side(sleepers, group);
  if (other == nullptr) return {};
  const auto waiting_for = [&](const Group& side) {
    size_t threads = 0;
    for (const Group& each : sleepers.groups()) {
      if (each.first->wait.kind == WaitKind::mbarrier && each.first->wait.address == side.first->wait.address) {
        threads += threads_of(each);
      }
    }
    return threads;
  };
  for (const auto& [filler, reader] : {std::pair{&group, other}, std::pair{other, &group}}) {
    const size_t frees = waiting_for(*reader), fills = waiting_for(*filler);
    const auto count = static_cast<size_t>(sleepers.barrier_of(*filler->first)->expected);
    const auto filled_by = static_cast<size_t>(sleepers.barrier_of(*reader->first)->expected);
    // The filler itself may read what it has filled.
    if (fills != filled_by || frees <= fills || (count != frees && count != frees + fills)) continue;
    return fmt::format(
        "nobody has ever arrived at {0} or {1}, and each side waits for the other. {0} counts {2} arrivals, and {3} "
        "threads wait for {1}, as those who read a slot and then free it. So the first wait of {4} for {0} is one for "
        "an empty slot, which is meant to pass at once: it must ask for parity 1, that of the phase before the first",
        name_of_barrier(*filler->first), name_of_barrier(*reader->first), count, frees, describe_warps(*filler));
  }
  return {};
}

std::string early_side_waits_at_another_slot(const Sleepers& sleepers, const Group& group) {
  const Group* other = opposite_side(sleepers, group);
  const auto [early, late] = other == nullptr ? Sides{} : sides_of(sleepers, group, *other);
  if (early == nullptr) return {};
  // Where one array holds what both sides wait for, its barriers are no slots of one ring.
  const std::string missing = name_of_barrier(*early->first), awaited = name_of_barrier(*late->first);
  if (missing.substr(0, missing.find('[')) == awaited.substr(0, awaited.find('['))) return {};
  return cause_in_another_slot(sleepers, *early, /*by_copies=*/false);
}

std::string role_ends_before_it_begins(const Sleepers& sleepers, const Group& group) {
  const Group* other = opposite_side(sleepers, group);
  if (other == nullptr || sides_of(sleepers, group, *other).late != &group) return {};
  // Where another slot was filled, that role is there.
  for (const OtherBarrier& sibling : siblings_of(sleepers, group, offset_of(*group.first))) {
    if (!sibling.history->arrivers.empty()) return {};
  }
  const Block& block = *sleepers.block_of_barrier(*group.first);
  const auto used_any = [&](uint32_t warp, bool of_this_block) {
    const auto is_it = [&](const auto& each) { return (each.block == &block) == of_this_block && each.warp == warp; };
    return std::any_of(sleepers.histories().begin(), sleepers.histories().end(), [&](const auto& each) {
      const BarrierHistory& history = each.second;
      return std::any_of(history.arrivers.begin(), history.arrivers.end(), is_it) ||
             std::any_of(history.waiters.begin(), history.waiters.end(), is_it);
    });
  };
  const bool has_others = std::any_of(sleepers.histories().begin(), sleepers.histories().end(),
                                      [&](const auto& each) { return each.first.first != &block; });
  std::vector<uint32_t> idle;
  for (uint32_t warp = 0; warp < block.warps.size(); ++warp) {
    if (block.warps[warp].live != 0 || used_any(warp, true)) continue;
    // A warp that does nothing in other blocks either is meant to be idle.
    if (!has_others || used_any(warp, false)) idle.push_back(warp);
  }
  if (idle.empty()) return {};
  const bool one = idle.size() == 1;
  return fmt::format(
      "nobody has ever arrived at {0}, and {1} {2} ended, and {2} never arrived at a barrier or waited for one: is {3} "
      "to arrive at {0}, and leaves before its role begins?",
      name_of_barrier(*group.first), describe_numbers(idle), one ? "has" : "have", one ? "it" : "one of them");
}

std::string late_side_went_past_its_arrival(const Sleepers& sleepers, const Group& group) {
  const Group* other = opposite_side(sleepers, group);
  const auto [early, late] = other == nullptr ? Sides{} : sides_of(sleepers, group, *other);
  if (early == nullptr) return {};
  const std::string missing = name_of_barrier(*early->first);
  return fmt::format(
      "nobody has ever arrived at {}, and {}, which arrived at other barriers before, now wait{} for {}: is an arrival "
      "at {} missing on the way there?",
      missing, describe_warps(*late), late->warps.size() == 1 ? "s" : "", name_of_barrier(*late->first), missing);
}

std::string both_sides_went_past_an_arrival(const Sleepers& sleepers, const Group& group) {
  const Group* other = opposite_side(sleepers, group);
  if (other == nullptr || !sleepers.has_arrived(group)) return {};
  return fmt::format(
      "nobody has ever arrived at {} or {}, and each side waits for the other: is an arrival at one of them missing on "
      "the way there?",
      name_of_barrier(*group.first), name_of_barrier(*other->first));
}

std::string both_sides_wait_first(const Sleepers& sleepers, const Group& group) {
  const Group* other = opposite_side(sleepers, group);
  if (other == nullptr) return {};
  return fmt::format(
      "nobody has ever arrived at {} or {}, and each side waits for the other. A producer's first wait for an empty "
      "slot is meant to pass at once: it must ask for parity 1, that of the phase before the first",
      name_of_barrier(*group.first), name_of_barrier(*other->first));
}

std::string arrival_behind_a_meeting(const Sleepers& sleepers, const Group& group) {
  const std::string name = name_of_barrier(*group.first);
  for (const Group& other : sleepers.groups()) {
    const WaitKind kind = other.first->wait.kind;
    if (other.first->warp == group.first->warp || other.is_root) continue;
    if (kind != WaitKind::named_barrier && kind != WaitKind::cluster_barrier) continue;
    return fmt::format(
        "nobody has ever arrived at {}. {} wait{} at {} for the threads that wait for {}: those of them that are to "
        "arrive there must do so before; or does one side take more rounds than the other?",
        name, describe_warps(other), other.warps.size() == 1 ? "s" : "", name_of_meeting(other), name);
  }
  return {};
}

std::string slot_beside_was_filled(const Sleepers& sleepers, const Group& group) {
  for (const OtherBarrier& sibling : siblings_of(sleepers, group, offset_of(*group.first))) {
    const auto& waiters = sibling.history->waiters;
    const bool seen = std::any_of(waiters.begin(), waiters.end(), [](const auto& each) { return each.phases > 0; });
    // Somebody has waited for the phase before the first, so that the array has two sides which take turns.
    if (sibling.barrier->phase == 0 || seen || waiters.empty()) continue;
    return fmt::format(
        "nobody has ever arrived at {}, while {}, which nobody has waited for: is this wait meant for {}?",
        name_of_barrier(*group.first), describe_completed(sibling), sibling.name);
  }
  return {};
}

std::string no_slot_was_ever_filled(const Sleepers& sleepers, const Group& group) {
  const machine::Kernel& kernel = *group.first->grid().kernel;
  std::string waiter;
  for (const OtherBarrier& sibling : siblings_of(sleepers, group, offset_of(*group.first))) {
    if (!sibling.history->arrivers.empty() || sibling.barrier->phase > 0) return {};
    for (const BarrierHistory::Waiter& each : sibling.history->waiters) {
      if (!waiter.empty() || each.phases != 0 || each.block->warps[each.warp].live != 0) continue;
      waiter = fmt::format("{}, whose wait for {}{} passed at once, has ended", describe_warp(*each.block, each.warp),
                           sibling.name, at_line(kernel, each.pc));
    }
  }
  if (waiter.empty()) return {};
  return fmt::format(
      "nobody has ever arrived at {}, nor at any other barrier of that array: {}. Is its arrival missing?",
      name_of_barrier(*group.first), waiter);
}

std::string first_wait_may_have_to_pass(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const std::vector<OtherBarrier> unseen = unclaimed(sleepers, first);
  // They may yet come to the wait for that phase.
  if (unseen.empty() || !sleepers.has_not_begun(group) || !has_later_wait(*first.grid().kernel, first.pc)) return {};
  return fmt::format(
      "nobody has ever arrived at {}, for which {} wait{} first of all, with parity {}. Is this wait to pass at once, "
      "as the first for an empty slot, or for one's own turn, is? Then it must ask for parity 1, that of the phase "
      "before the first. Otherwise, is the role that arrives there taken by no warp? Meanwhile {}, and nobody has "
      "waited for that yet",
      name_of_barrier(first), describe_warps(group), group.warps.size() == 1 ? "s" : "", first.wait.value & 1,
      describe_completed(unseen.front()));
}

std::string no_warp_takes_the_role(const Sleepers& sleepers, const Group& group) {
  const std::vector<OtherBarrier> unseen = unclaimed(sleepers, *group.first);
  if (unseen.empty()) return {};
  return fmt::format(
      "nobody has ever arrived at {}, while {}, and nobody has ever waited for that: is the role that waits there "
      "taken by no warp, as where too few threads are launched, or is it yet to come?",
      name_of_barrier(*group.first), describe_completed(unseen.front()));
}

std::string producer_went_past_its_arrival(const Sleepers& sleepers, const Group& group) {
  const std::string name = name_of_barrier(*group.first);
  for (const Group& other : sleepers.groups()) {
    const bool needs_this = std::any_of(other.needs.begin(), other.needs.end(),
                                        [&](size_t index) { return &sleepers.groups()[index] == &group; });
    if (!needs_this || !sleepers.never_arrived(other)) continue;
    if (!sleepers.history_of(*other.first).passed_before_first) continue;
    return fmt::format(
        "nobody has ever arrived at {}, and {}, whose first wait passed at once, now wait{} for {}: is an arrival at "
        "{} missing on the way there?",
        name, describe_warps(other), other.warps.size() == 1 ? "s" : "", name_of_barrier(*other.first), name);
  }
  return {};
}

std::string arrival_that_is_skipped(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const machine::Kernel& kernel = *first.grid().kernel;
  std::set<std::string> executed, skipped;
  for (const auto& [place, history] : sleepers.histories()) {
    for (const uint32_t pc : history.arrival_pcs) executed.insert(kernel.describe_source(pc));
  }
  // A group comes to the arrivals that are ahead of it. Before a barrier of the block at which it waits, it has passed
  // those to which there is a way around no such barrier from the start.
  const auto is_ahead = [&](const Group& each, uint32_t pc) {
    const uint32_t at = each.first->pc;
    if (each.first->wait.kind == WaitKind::named_barrier) {
      return !may_come_before(kernel, {}, pc, at, /*meeting_stops=*/false);
    }
    return may_come_before(kernel, at, pc, at, /*meeting_stops=*/true);
  };
  for (uint32_t pc = 0; pc < kernel.places.size(); ++pc) {
    if (kernel.places[pc].function != kernel.entry) continue;
    if (kernel.places[pc].instruction >= kernel.entry->body.size()) continue;  // the end
    const machine::InstructionTraits& traits = kernel.traits_at(pc);
    const bool arrives = traits.announces_and_arrives || traits.commits;
    const std::string line = arrives ? kernel.describe_source(pc) : std::string();
    if (line.empty() || executed.contains(line)) continue;
    const std::vector<Group>& groups = sleepers.groups();
    if (std::any_of(groups.begin(), groups.end(), [&](const Group& each) { return is_ahead(each, pc); })) continue;
    skipped.insert(line);
  }
  if (skipped.size() != 1) return {};
  return fmt::format(" Nobody has come to the arrival at {}: is it in a branch that is not taken?", *skipped.begin());
}

std::string all_arrivals_go_elsewhere(const Sleepers& sleepers, const Group& group) {
  const machine::Kernel& kernel = *group.first->grid().kernel;
  const std::string name = name_of_barrier(*group.first);
  // A loop may come to the next slot of an array, with an instruction that has arrived at others.
  if (name.find('[') != std::string::npos) return {};
  std::set<uint32_t> executed, initialises;
  for (const auto& [place, history] : sleepers.histories()) {
    executed.insert(history.arrival_pcs.begin(), history.arrival_pcs.end());
    for (const BarrierHistory::Initialisation& each : history.initialisations) initialises.insert(each.pc);
  }
  std::set<std::string> lines;
  for (uint32_t pc = 0; pc < kernel.places.size(); ++pc) {
    if (kernel.places[pc].function == nullptr) continue;
    if (kernel.places[pc].instruction >= kernel.places[pc].function->body.size()) continue;  // the end
    const machine::InstructionTraits& traits = kernel.traits_at(pc);
    // What changes an mbarrier and does not initialise it may be an arrival. Barriers of a block read their number
    // first.
    const bool changes = traits.synchronises && traits.ends_polling && !traits.reads_first;
    const bool arrives = traits.commits || (changes && !initialises.contains(pc));
    if (traits.copies == machine::Copies::of_threads) return {};  // or an arrival of such copies
    if (!arrives) continue;
    if (!executed.contains(pc)) return {};
    const std::string what = kernel.describe_instruction(pc);
    lines.insert(fmt::format("{}{}", what.substr(0, what.find('.', what.find('.') + 1)), at_line(kernel, pc)));
  }
  if (lines.empty() || lines.size() > 4) return {};
  const std::string unseen = latest_phase_unseen(sleepers, *group.first);
  return fmt::format(
      "nobody has ever arrived at {0}, and each arrival of the kernel has gone to another barrier: {1}.{2} Is one for "
      "{0} missing, or does one of these go to the wrong barrier?",
      name, fmt::join(lines, ", "), unseen.empty() ? unseen : unseen + ".");
}

std::string nobody_arrives(const Sleepers&, const Group& group) {
  return fmt::format(
      "nobody has ever arrived at {}. If this wait is meant to pass at once, as a producer's first wait for an empty "
      "slot is, it must ask for parity 1, that of the phase before the first; it asks for parity {}",
      name_of_barrier(*group.first), group.first->wait.value & 1);
}

}  // namespace stagecraft::emulator::checks
