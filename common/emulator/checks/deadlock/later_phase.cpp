// Why the phase of an mbarrier does not end at which nothing has happened since the phase before.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/deadlock/other_barriers.hpp"
#include "emulator/checks/deadlock/who_arrived.hpp"
#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::Fragment;
using machine::Kernel;
using machine::Mbarrier;
using machine::WaitKind;

namespace {

/// Where one that has released a slot had waited for it to be filled before it ever was: it is a round ahead. Empty: it
/// is not so.
std::string reader_ahead(const Sleepers& sleepers, const Group& group, const PhaseNote& release) {
  const std::optional<uint32_t> full = full_barrier_of(sleepers, group);
  if (!full) return {};
  const BarrierHistory* history = sleepers.history_at(sleepers.block_of_barrier(*group.first), *full);
  if (history == nullptr) return {};
  const Kernel& kernel = *group.first->grid().kernel;
  for (const BarrierHistory::Waiter& each : history->waiters) {
    if (each.block != release.block || each.warp != release.warp || each.phases != 0) continue;
    return fmt::format(
        "{}, by warp {}, released the slot before its turn: its wait for {}{} asked for parity 1 when no phase had "
        "ended, and passed at once. A parity cannot ask for a phase after the one under way: what is to hold this warp "
        "back until the round before is over?",
        describe_arrival(release, kernel), each.warp, name_of_barrier(kernel, *full), at_line(kernel, each.pc));
  }
  return {};
}

/// Where the threads that ended a phase are others than those that ended the next: the barrier counts too few.
std::string phase_of_half_the_arrivals(const Sleepers& sleepers, const Group& group, uint64_t phase) {
  const Fragment& waiter = *group.first;
  const PhaseHistory& phases = sleepers.history_of(waiter).phases;
  const auto arrivals = [&](uint64_t of) {
    std::vector<PhaseNote> notes;
    phases.for_each(of, [&](const PhaseNote& note) {
      if (note.kind == PhaseNote::Kind::arrival) notes.push_back(note);
    });
    return notes;
  };
  const Kernel& kernel = *waiter.grid().kernel;
  const std::vector<PhaseNote> some = arrivals(phase), others = arrivals(phase + 1);
  if (some.empty() || others.empty()) return {};
  for (const PhaseNote& one : some) {
    for (const PhaseNote& other : others) {
      // A function that is inlined twice arrives at two instructions of one line.
      const std::string line = at_line(kernel, one.pc);
      if (one.pc != other.pc && (line.empty() || line != at_line(kernel, other.pc))) return {};
      if (one.block == other.block && one.warp == other.warp && (one.lanes & other.lanes) != 0) return {};
    }
  }
  for (const std::vector<PhaseNote>* releases : {&some, &others}) {
    const std::string ahead = reader_ahead(sleepers, group, releases->front());
    if (!ahead.empty()) return ahead;
  }
  const auto who = [](const std::vector<PhaseNote>& notes) {
    const PhaseNote& note = notes.front();
    const uint32_t rank = note.block == nullptr ? 0 : note.block->rank;
    std::vector<uint32_t> warps;
    for (const PhaseNote& each : notes) {
      if (each.block == note.block && each.lanes == note.lanes) warps.push_back(each.warp);
    }
    std::sort(warps.begin(), warps.end());
    warps.erase(std::unique(warps.begin(), warps.end()), warps.end());
    return fmt::format("block rank {} {} [{}]", rank, describe_numbers(warps), describe_lanes(note.lanes));
  };
  const Mbarrier& barrier = *sleepers.barrier_of(waiter);
  return fmt::format(
      "{} is initialised{} for {} arrival{} per phase, and more come in one round{}: {} ended phase {}, and {}, which "
      "had not arrived in it, the next. Initialise it for all of them",
      name_of_barrier(waiter), at_line(kernel, barrier.initialised.pc), barrier.expected,
      barrier.expected == 1 ? "" : "s", at_line(kernel, some.front().pc), who(some), phase, who(others));
}

}  // namespace

std::string waiter_was_lapped(const Sleepers& sleepers, const Group& group) {
  const Fragment& waiter = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(waiter);
  const BarrierHistory& history = sleepers.history_of(waiter);
  const auto own = std::find_if(history.waiters.begin(), history.waiters.end(),
                                [&](const auto& each) { return is_of_warp(each, waiter); });
  const uint64_t seen = own == history.waiters.end() ? 0 : own->phases;
  const Kernel& kernel = *waiter.grid().kernel;
  const std::string name = name_of_barrier(waiter);
  if (own != history.waiters.end() && own->skipped_to != 0) {
    return fmt::format(
        "when a wait of warp {} for {} passed, {} of its phases had ended, {} more than at the wait before: nothing "
        "makes the side that arrives there wait until each phase has been seen, so it runs ahead, or a wait is missing",
        waiter.warp->index, name, own->skipped_to, own->skipped_to - own->skipped_from);
  }
  if (seen > 0 && barrier.phase == seen + 1) {
    const std::string by = history.phases.describe_arrivals(seen, kernel);
    return fmt::format(
        "warp {0} has waited for phase {1} of {2} last{3}, and phase {4} has ended since{5}: the wait is to pass at "
        "once for that one, and asks for the parity of phase {6}. The parity must flip once from each wait to the "
        "next: is a flip (a step) forgotten, or is there one too many?",
        waiter.warp->index, seen - 1, name, at_line(kernel, own->pc), seen,
        by.empty() ? by : fmt::format(", by {}", by), barrier.phase);
  }
  if (barrier.phase < seen + 2) return {};
  const std::string one = history.phases.describe_arrivals(seen, kernel);
  const std::string other = history.phases.describe_arrivals(seen + 1, kernel);
  if (one.empty() || other.empty()) return {};
  if (const std::string often = describe_repeated_arrivals(sleepers, waiter, seen); !often.empty()) return often;
  if (const std::string few = phase_of_half_the_arrivals(sleepers, group, seen); !few.empty()) return few;
  if (one == other) {
    return fmt::format(
        "phases {} and {} of {} ended with no wait of warp {} in between, both by {}: nothing makes the side that "
        "arrives there wait until the phase before has been seen, so it runs ahead",
        seen, seen + 1, name, waiter.warp->index, one);
  }
  return fmt::format(
      "phases {} and {} of {} ended with no wait of warp {} in between, the one by {}, the other by {}: are these two "
      "arrivals for one round, or is a wait between them missing?",
      seen, seen + 1, name, waiter.warp->index, one, other);
}

std::string steps_over_a_slot(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const std::vector<Group>& groups = sleepers.groups();
  // Others may be on their way to that slot.
  if (!std::all_of(groups.begin(), groups.end(), [&](const Group& other) {
        return waits_for_the_same(other, group) || other.first->wait.kind == WaitKind::warp_sync;
      })) {
    return {};
  }
  const std::string array = array_of(*first.grid().kernel, offset_of(first));
  if (array.empty() || !sleepers.history_of(first).was_waited_for) return {};
  for (const OtherBarrier& other : never_waited_for(sleepers, first)) {
    if (other.offset == offset_of(first) || array_of(*first.grid().kernel, other.offset) != array) continue;
    if (other.barrier->expected != sleepers.barrier_of(first)->expected) continue;  // it stands for something else
    return fmt::format(
        "{}, and nobody has ever waited for that, while all who still run have come back to {}: do they step over that "
        "slot?",
        describe_completed(other), name_of_barrier(first));
  }
  return {};
}

std::string slot_freed_too_often(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const std::optional<uint32_t> full = full_barrier_of(sleepers, group);
  if (!full || !sleepers.history_of(first).passed_before_first) return {};
  const machine::Block* block = sleepers.block_of_barrier(first);
  for (const OtherBarrier& empty : siblings_of(sleepers, group, offset_of(first))) {
    const auto filled = block->mbarriers.live.find(empty.offset + (*full - offset_of(first)));
    if (filled == block->mbarriers.live.end() || filled->second.phase >= empty.barrier->phase) continue;
    const uint64_t fillings = filled->second.phase;
    const auto count = static_cast<uint64_t>(empty.barrier->expected);
    const std::string last = describe_came(who_came(*empty.history, fillings, count), sleepers.cluster());
    const std::string before =
        fillings == 0 ? "" : describe_came(who_came(*empty.history, fillings - 1, count), sleepers.cluster());
    if (last.empty()) continue;
    return fmt::format(
        "{} has completed {} phase{}, and {} {}: that slot was freed more often than it was filled, the last times by "
        "{}{}. Do two readers take one slot, as where one steps over too few or too many, or is it freed twice?",
        empty.name, empty.barrier->phase, empty.barrier->phase == 1 ? "" : "s",
        name_of_barrier(*first.grid().kernel, filled->first), fillings == 0 ? "none" : std::to_string(fillings),
        before.empty() || before == last ? "" : before + " and then by ", last);
  }
  return {};
}

std::string first_wait_skips_a_phase(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const BarrierHistory& history = sleepers.history_of(first);
  if (sleepers.barrier_of(first)->phase != 1 || history.was_waited_for) return {};
  const std::string by = history.phases.describe_arrivals(0, *first.grid().kernel);
  return fmt::format(
      "{} completed phase 0{} before anybody waited for it, and the first wait is for phase 1. A consumer begins with "
      "parity 0, that of the first phase; one that begins with parity 1, or does not wait at all, releases its slot "
      "before it is filled",
      name_of_barrier(first), by.empty() ? by : fmt::format(", by {},", by));
}

std::string other_side_takes_fewer_rounds(const Sleepers& sleepers, const Group& group) {
  const std::string left = phase_left_behind(sleepers, group);
  if (left.empty()) return {};
  const std::string name = name_of_barrier(*group.first);
  return fmt::format(
      "nobody has arrived at {} since its phase {}, and {}: does the side that waits for it and then arrives at {} "
      "take fewer rounds, or step past fewer slots than were filled?",
      name, sleepers.barrier_of(*group.first)->phase - 1, left, name);
}

std::string waits_for_itself(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const BarrierHistory& history = sleepers.history_of(first);
  const std::vector<BarrierHistory::Arriver>& arrivers = history.arrivers;
  const bool own = arrivers.size() == 1 && arrivers.front().block == &first.block() &&
                   arrivers.front().warp == first.warp->index && (arrivers.front().lanes & ~first.mask) == 0;
  const auto waits_elsewhere = [&](const BarrierHistory::Waiter& waiter) {
    return waiter.block != &first.block() || waiter.warp != first.warp->index;
  };
  // The others that wait there are those for whom it arrives.
  if (!own || history.arrived_by_operation ||
      std::none_of(history.waiters.begin(), history.waiters.end(), waits_elsewhere)) {
    return {};
  }
  return fmt::format(
      "warp {} waits for {}, at which only itself has ever arrived, for others that wait there: is it to wait for "
      "another barrier?",
      first.warp->index, name_of_barrier(first));
}

std::string one_wait_too_many(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const auto is_own = [&](const auto& each) { return is_of_warp(each, first); };
  // Others have ended, or are done and wait for all at the end, or are the same role of another block.
  bool at_end = false;
  for (const Group& other : sleepers.groups()) {
    const machine::Wait &there = other.first->wait, &here = first.wait;
    if (other.first->warp == first.warp || there.kind == WaitKind::warp_sync) continue;
    const bool meets = there.kind == WaitKind::cluster_barrier;
    const bool is_same_role = there.kind == here.kind && other.first->pc == first.pc &&
                              ((there.address ^ here.address) & machine::kSharedOffsetMask) == 0;
    if (!meets && !is_same_role) return {};
    at_end = at_end || meets;
  }
  if (sleepers.groups().size() > 1 && !sleepers.has_arrived(group)) return {};
  // One that begins with parity 1 waits for an answer. Others may wait for news, and answer nothing.
  if (!sleepers.history_of(first).passed_before_first) return {};
  const std::vector<BarrierHistory::Waiter>& waiters = sleepers.history_of(first).waiters;
  const auto last = std::find_if(waiters.begin(), waiters.end(), is_own);
  if (last == waiters.end()) return {};
  for (const auto& [place, history] : sleepers.histories()) {
    const auto later = [&](const BarrierHistory::Arriver& each) { return is_own(each) && each.clock > last->clock; };
    if (std::any_of(history.arrivers.begin(), history.arrivers.end(), later)) return {};
  }
  return fmt::format(
      "all other {2}, and warp {0} has arrived at no barrier since its last wait for {1}, so that nobody has anything "
      "to answer there: is this wait one too many, as where a drain waits for a slot twice, or for one that was not "
      "filled again?",
      first.warp->index, name_of_barrier(first),
      at_end ? "roles have come to the barrier of the cluster" : "threads have ended");
}

std::string reader_keeps_the_slot(const Sleepers& sleepers, const Group& group) {
  if (!sleepers.history_of(*group.first).passed_before_first) return {};
  const Keeper keeper = keeper_of_slot(sleepers, group);
  if (keeper.text.empty()) return {};
  const std::string name = name_of_barrier(*group.first);
  const std::string text = fmt::format("nobody has arrived at {} since its phase {}: {}", name,
                                       sleepers.barrier_of(*group.first)->phase - 1, keeper.text);
  if (!keeper.instead.empty())
    return fmt::format("{}, but at {}: is that arrival meant for {}?", text, keeper.instead, name);
  return fmt::format("{}. Is its arrival (a release) missing in some rounds, or does it go to another barrier?", text);
}

std::string one_round_too_few(const Sleepers& sleepers, const Group& group) {
  std::string text = fmt::format("{} completed phase {} and nobody has arrived since", name_of_barrier(*group.first),
                                 sleepers.barrier_of(*group.first)->phase - 1);
  const auto at_rendezvous = std::find_if(group.needs.begin(), group.needs.end(), [&](size_t index) {
    const WaitKind kind = sleepers.groups()[index].first->wait.kind;
    return kind == WaitKind::named_barrier || kind == WaitKind::cluster_barrier;
  });
  if (at_rendezvous != group.needs.end()) {
    const Group& other = sleepers.groups()[*at_rendezvous];
    text += fmt::format(": {}, which did before, {} by now. Did it end one round early, or", describe_warps(other),
                        describe_wait(*other.first));
  } else {
    text += group.needs.empty() ? ", and those who did before have ended: did they end one round early, or"
                                : ": did the other side end one round early, or";
  }
  return text + " does the waiter ask for the parity of a phase that is still to come?";
}

}  // namespace stagecraft::emulator::checks
