// Why nobody has ever arrived at an mbarrier for which threads wait.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/checks/causes/control_flow.hpp"
#include "emulator/checks/deadlock/sleepers.hpp"
#include "emulator/checks/reporting/place.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Fragment;
using machine::WaitKind;

namespace {

/// "barrier 0", "barrier.cluster": where a group waits for others to come.
std::string name_of_meeting(const Group& group) {
  const machine::Wait& wait = group.first->wait;
  return wait.kind == WaitKind::cluster_barrier ? std::string("barrier.cluster")
                                                : fmt::format("barrier {}", wait.address);
}

bool is_one_of(const BarrierHistory::Arriver& arriver, const Group& group) {
  return std::any_of(group.all.begin(), group.all.end(), [&](const Fragment* each) { return arriver.is_in(*each); });
}

}  // namespace

bool Sleepers::never_arrived(const Group& group) const {
  const machine::Mbarrier* barrier = barrier_of(*group.first);
  return barrier != nullptr && barrier->phase == 0 && barrier->pending == barrier->expected &&
         barrier->transaction == 0 && history_of(*group.first).arrivers.empty();
}

bool Sleepers::has_arrived(const Group& group) const {
  return std::any_of(histories_.begin(), histories_.end(), [&](const auto& known) {
    return std::any_of(known.second.arrivers.begin(), known.second.arrivers.end(),
                       [&](const BarrierHistory::Arriver& arriver) { return is_one_of(arriver, group); });
  });
}

bool Sleepers::has_not_begun(const Group& group) const {
  return group.first->wait.kind == WaitKind::mbarrier && never_arrived(group) && !has_arrived(group) &&
         !history_of(*group.first).passed_before_first;
}

bool Sleepers::is_waited_for(const Group& group) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& other) {
    const Fragment& first = *other.first;
    if (&other == &group || first.wait.kind != WaitKind::mbarrier) return false;
    const BarrierHistory& history = history_of(first);
    return !history.passed_before_first &&
           std::any_of(history.arrivers.begin(), history.arrivers.end(),
                       [&](const BarrierHistory::Arriver& arriver) { return is_one_of(arriver, group); });
  });
}

const Block* Sleepers::block_with_arrivals(const Group& group) const {
  const Fragment& first = *group.first;
  const uint32_t offset = first.wait.address & machine::kSharedOffsetMask;
  for (const auto& block : cluster_.blocks) {
    if (block.get() == cluster_.block_of(first.wait.address)) continue;
    const auto history = histories_.find({block.get(), offset});
    const auto barrier = block->mbarriers.live.find(offset);
    if (history == histories_.end() || barrier == block->mbarriers.live.end()) continue;
    if (!history->second.arrivers.empty() && barrier->second.phase > 0) return block.get();
  }
  return nullptr;
}

std::string Sleepers::phase_that_nobody_saw(const Group& group) const {
  const Fragment& first = *group.first;
  const auto is_alone = [&](const Group& other) { return other.first->warp == first.warp; };
  if (!std::all_of(groups_.begin(), groups_.end(), is_alone)) return {};
  const Block* block = cluster_.block_of(first.wait.address);
  for (const auto& [offset, barrier] : block->mbarriers.live) {
    const auto history = histories_.find({block, offset});
    if (barrier.phase == 0 || history == histories_.end()) continue;
    uint64_t seen = 0;
    for (const BarrierHistory::Waiter& waiter : history->second.waiters) seen = std::max(seen, waiter.phases);
    const auto arrives = [&](const BarrierHistory::Arriver& arriver) {
      return arriver.block == &first.block() && arriver.warp == first.warp->index;
    };
    const auto& arrivers = history->second.arrivers;
    if (seen >= barrier.phase || std::none_of(arrivers.begin(), arrivers.end(), arrives)) continue;
    const std::string user = user_of_siblings(group, offset);
    return fmt::format("{} has completed phase {}, which nobody has waited for{}",
                       name_of_barrier(*first.grid().kernel, offset), barrier.phase - 1,
                       user.empty() ? user : fmt::format(" (is it for {}?)", user));
  }
  return {};
}

std::string Sleepers::nothing_given_since(const Group& group) const {
  const Fragment& first = *group.first;
  const auto is_of_warp = [&](const auto& each) {
    return each.block == &first.block() && each.warp == first.warp->index;
  };
  // Others have ended, or are done and wait for all at the end, or are the same role of another block.
  bool at_end = false;
  for (const Group& other : groups_) {
    const machine::Wait &there = other.first->wait, &here = first.wait;
    if (other.first->warp == first.warp || there.kind == WaitKind::warp_sync) continue;
    const bool meets = there.kind == WaitKind::cluster_barrier;
    const bool is_same_role = there.kind == here.kind && other.first->pc == first.pc &&
                              ((there.address ^ here.address) & machine::kSharedOffsetMask) == 0;
    if (!meets && !is_same_role) return {};
    at_end = at_end || meets;
  }
  if (groups_.size() > 1 && !has_arrived(group)) return {};
  // One that begins with parity 1 waits for an answer. Others may wait for news, and answer nothing.
  if (!history_of(first).passed_before_first) return {};
  const std::vector<BarrierHistory::Waiter>& waiters = history_of(first).waiters;
  const auto last = std::find_if(waiters.begin(), waiters.end(), is_of_warp);
  if (last == waiters.end()) return {};
  for (const auto& [place, history] : histories_) {
    const auto later = [&](const BarrierHistory::Arriver& each) {
      return is_of_warp(each) && each.clock > last->clock;
    };
    if (std::any_of(history.arrivers.begin(), history.arrivers.end(), later)) return {};
  }
  return fmt::format(
      "all other {2}, and warp {0} has arrived at no barrier since its last wait for {1}, so that nobody has anything "
      "to answer there: is this wait one too many, as where a drain waits for a slot twice, or for one that was not "
      "filled again?",
      first.warp->index, name_of(first),
      at_end ? "roles have come to the barrier of the cluster" : "threads have ended");
}

std::vector<Sleepers::Unseen> Sleepers::never_waited_for(const Fragment& waiter) const {
  const Block* block = cluster_.block_of(waiter.wait.address);
  std::vector<Unseen> found;
  for (const auto& [offset, barrier] : block->mbarriers.live) {
    const auto history = histories_.find({block, offset});
    if (barrier.phase == 0 || history == histories_.end() || history->second.was_waited_for) continue;
    found.push_back({name_of_barrier(*waiter.grid().kernel, offset), &barrier, &history->second, offset});
  }
  return found;
}

std::string Sleepers::sibling_that_nobody_saw(const Group& group, bool by_copies) const {
  const Fragment& first = *group.first;
  const std::string name = name_of(first);
  const size_t bracket = name.find('[');
  if (bracket == std::string::npos) return {};
  for (const Unseen& each : never_waited_for(first)) {
    if (each.barrier->expected != barrier_of(first)->expected) continue;  // it stands for something else
    if (by_copies && !each.history->phases.has(each.barrier->phase - 1, PhaseNote::Kind::bytes)) continue;
    if (each.name.starts_with(name.substr(0, bracket + 1))) return each.name;
  }
  return {};
}

Cause Sleepers::cause_in_another_slot(const Group& group, bool by_copies) const {
  const std::string filled = sibling_that_nobody_saw(group, by_copies);
  if (filled.empty()) return {};
  return {5,
          fmt::format("nobody has ever arrived at {}, while {} has completed a phase that nobody has waited for: does "
                      "the wait ask for another slot than the one that was filled?",
                      name_of(*group.first), filled)};
}

std::string Sleepers::phase_that_nobody_waits_for(const Group& group) const {
  for (const Unseen& unseen : never_waited_for(*group.first)) {
    const auto waits_there = [&](const Group& each) { return barrier_of(*each.first) == unseen.barrier; };
    if (std::any_of(groups_.begin(), groups_.end(), waits_there)) continue;
    return fmt::format("{} has completed phase {}", unseen.name, unseen.barrier->phase - 1);
  }
  return {};
}

std::string Sleepers::barrier_that_nobody_waits_for(const Group& group) const {
  const Fragment& first = *group.first;
  const auto waits_here = [&](const Group& each) {
    return each.first->wait.kind == WaitKind::mbarrier && each.first->wait.address == first.wait.address;
  };
  const auto other = std::find_if(groups_.begin(), groups_.end(), [&](const Group& each) {
    return waits_here(each) && each.first->warp != first.warp && each.first->pc != first.pc;
  });
  if (other == groups_.end() || std::count_if(groups_.begin(), groups_.end(), waits_here) > 2) return {};
  const std::vector<Unseen> unseen = never_waited_for(first);
  if (unseen.empty()) return {};
  return fmt::format(
      "nobody has ever arrived at {0}, and two sides wait for it, {1} and {2}; {3} has completed phase {4} meanwhile, "
      "and "
      "nobody has waited for that: is one of the two waits meant for {3}?",
      name_of(first), describe_warps(group), describe_warps(*other), unseen.front().name,
      unseen.front().barrier->phase - 1);
}

Cause Sleepers::cause_without_arrival(const Group& group, const std::string& name) const {
  const Fragment& first = *group.first;
  if (std::string own_side = arrival_where_its_side_waits(group); !own_side.empty()) return {9, std::move(own_side)};
  if (const Block* other = block_with_arrivals(group)) {
    const Block& own = *cluster_.block_of(first.wait.address);
    const uint32_t offset = first.wait.address & machine::kSharedOffsetMask;
    const std::string by =
        histories_.at({other, offset})
            .phases.describe_arrivals(other->mbarriers.live.at(offset).phase - 1, *first.grid().kernel);
    return {9,
            fmt::format("nobody has ever arrived at {0} of the block of rank {1}, while that of rank {2} has completed "
                        "a phase{3}: is only that block to wait for it, or must the arrivals and copies signal the "
                        "barrier of rank {1} as well?",
                        name, own.rank, other->rank, by.empty() ? by : fmt::format(", by {}", by))};
  }
  if (const std::string crossed = barrier_that_nobody_waits_for(group); !crossed.empty()) return {7, crossed};
  if (history_of(first).passed_before_first) {
    if (std::string other_side = wait_of_the_other_side(group); !other_side.empty()) return {7, std::move(other_side)};
    if (const std::string unseen = phase_that_nobody_saw(group); !unseen.empty()) {
      return {6,
              fmt::format("nobody has ever arrived at {}, and {}: does the side that waits for it and then arrives at "
                          "{} take fewer rounds, or end before?",
                          name, unseen, name)};
    }
    if (std::string needless = nothing_given_since(group); !needless.empty()) return {6, std::move(needless)};
    for (const Group& other : groups_) {
      const WaitKind kind = other.first->wait.kind;
      const bool meets = kind == WaitKind::named_barrier || kind == WaitKind::cluster_barrier;
      if (!meets || other.is_root || &other.first->block() != &first.block() || !has_arrived(other)) continue;
      if (other.first->warp == first.warp) continue;
      return {6, fmt::format(
                     "nobody has ever arrived at {0}: {1}, which arrived at other barriers before, wait{2} at {3}{4} "
                     "for the threads that wait for {0}. Is that in a branch that not all warps take, or "
                     "is an arrival (a release) missing on the way there?",
                     name, describe_warps(other), other.warps.size() == 1 ? "s" : "", name_of_meeting(other),
                     at_line(*first.grid().kernel, other.first->pc))};
    }
    const std::string unseen = unseen_and_by_whom(group);
    return {6, fmt::format("nobody has ever arrived at {}: the first wait for it passed at once, as a producer's first "
                           "wait for an empty slot does, but the slot has never been released since. Is an arrival (a "
                           "release) missing, or does it go to another barrier?{}",
                           name, unseen)};
  }
  const auto same_barrier = [&](const Group& other) {
    return other.first->wait.kind == WaitKind::mbarrier &&
           ((other.first->wait.address ^ first.wait.address) & machine::kSharedOffsetMask) == 0;
  };
  const bool alone = std::all_of(groups_.begin(), groups_.end(), [&](const Group& other) {
    return same_barrier(other) || other.first->wait.kind == WaitKind::warp_sync;
  });
  if (Cause other_slot = cause_in_another_slot(group, !alone); !other_slot.text.empty()) return other_slot;
  if (alone) {
    size_t waiting = 0;
    for (const Fragment* each : group.all) waiting += static_cast<size_t>(std::popcount(each->mask));
    const machine::Extent3& threads = first.grid().request->block;
    if (waiting == size_t{threads.x} * threads.y * threads.z) {
      return {
          3, fmt::format(
                 "nobody has ever arrived at {}, and all threads of the block wait for it: is an arrival missing, does "
                 "it go to another barrier or come after the wait, or does no warp take the role that arrives "
                 "there, as where too few threads are launched?{}",
                 name, latest_phase_unseen(group))};
    }
    const std::string filler = filler_that_has_ended(group);
    std::string text = filler.empty()
                           ? fmt::format(
                                 "nobody has ever arrived at {}, and all other threads have ended: is an arrival "
                                 "missing, or does it go to another barrier?",
                                 name)
                           : fmt::format(
                                 "nobody has ever arrived at {}: {}, and so have all other threads. Is its arrival "
                                 "missing on one of its ways, or does it go to another barrier?",
                                 name, filler);
    const auto sides = std::count_if(groups_.begin(), groups_.end(), [&](const Group& other) {
      return other.first->wait.kind == WaitKind::mbarrier && other.first->wait.address == first.wait.address;
    });
    if (sides > 2) {
      text += " Or is one of those who wait to arrive first, or to ask for what arrives?";
    } else if (sides == 2 && groups_[1].first->warp != groups_[0].first->warp) {
      text += " Or does one side wait here for the barrier of the other?";
    } else if (has_arrived(group) && name.find('[') != std::string::npos) {
      text +=
          " Or does the wait ask for a slot that was never filled, as where the last slots are waited for from a "
          "fresh state?";
    }
    return {3, std::move(text)};
  }
  for (const Group& other : groups_) {
    if (same_barrier(other) || !other.is_root || !never_arrived(other)) continue;
    if (history_of(*other.first).passed_before_first) continue;
    for (const Group* late : {&group, &other}) {
      const std::string filler = filler_that_has_ended(*late);
      if (filler.empty()) continue;
      return {6, fmt::format("nobody has ever arrived at {}, for which {} wait{}: {}. Does it take fewer rounds?",
                             name_of(*late->first), describe_warps(*late), late->warps.size() == 1 ? "s" : "", filler)};
    }
    // A side that has arrived somewhere is not at its first wait: it has gone past the arrival that the other waits
    // for.
    const bool gone_on = has_arrived(group), other_gone_on = has_arrived(other);
    if (gone_on != other_gone_on) {
      const Group &late = gone_on ? group : other, &early = gone_on ? other : group;
      const std::string missing = name_of(*early.first), awaited = name_of(*late.first);
      // Where one array holds what both sides wait for, its barriers are no slots of one ring.
      const bool are_slots = missing.substr(0, missing.find('[')) != awaited.substr(0, awaited.find('['));
      Cause other_slot = are_slots ? cause_in_another_slot(early, /*by_copies=*/false) : Cause{};
      if (!other_slot.text.empty()) return other_slot;
      return {4, fmt::format(
                     "nobody has ever arrived at {}, and {}, which arrived at other barriers before, now wait{} for "
                     "{}: is an arrival at {} missing on the way there?",
                     missing, describe_warps(late), late.warps.size() == 1 ? "s" : "", awaited, missing)};
    }
    if (gone_on) {
      return {4, fmt::format("nobody has ever arrived at {} or {}, and each side waits for the other: is an arrival at "
                             "one of them missing on the way there?",
                             name, name_of(*other.first))};
    }
    return {4,
            fmt::format("nobody has ever arrived at {} or {}, and each side waits for the other. A producer's first "
                        "wait for an empty slot is meant to pass at once: it must ask for parity 1, that of the phase "
                        "before the first",
                        name, name_of(*other.first))};
  }
  for (const Group& other : groups_) {
    const WaitKind kind = other.first->wait.kind;
    if (other.first->warp == first.warp || other.is_root) continue;
    if (kind != WaitKind::named_barrier && kind != WaitKind::cluster_barrier) continue;
    return {4,
            fmt::format("nobody has ever arrived at {}. {} wait{} at {} for the threads that wait for {}: those of "
                        "them that are to arrive there must do so before; or does one side take more rounds than "
                        "the other?",
                        name, describe_warps(other), other.warps.size() == 1 ? "s" : "", name_of_meeting(other), name)};
  }
  if (std::string filled = sibling_seen_by_nobody(group); !filled.empty()) return {5, std::move(filled)};
  if (std::string array = array_without_arrivals(group); !array.empty()) return {5, std::move(array)};
  if (const std::string unseen = phase_that_nobody_waits_for(group); !unseen.empty()) {
    // They may yet come to the wait for that phase.
    if (has_not_begun(group) && has_later_wait(*first.grid().kernel, first.pc)) {
      return {5, fmt::format(
                     "nobody has ever arrived at {}, for which {} wait{} first of all, with parity {}. Is this wait to "
                     "pass at once, as the first for an empty slot, or for one's own turn, is? Then it must ask for "
                     "parity 1, that of the phase before the first. Otherwise, is the role that arrives there taken by "
                     "no warp? Meanwhile {}, and nobody has waited for that yet",
                     name, describe_warps(group), group.warps.size() == 1 ? "s" : "", first.wait.value & 1, unseen)};
    }
    return {5, fmt::format(
                   "nobody has ever arrived at {}, while {}, and nobody has ever waited for that: is the role "
                   "that waits there taken by no warp, as where too few threads are launched, or is it yet to come?",
                   name, unseen)};
  }
  for (const Group& other : groups_) {
    const bool needs_this =
        std::any_of(other.needs.begin(), other.needs.end(), [&](size_t index) { return &groups_[index] == &group; });
    if (!needs_this || !never_arrived(other) || !history_of(*other.first).passed_before_first) continue;
    return {4, fmt::format(
                   "nobody has ever arrived at {}, and {}, whose first wait passed at once, now wait{} for {}: is an "
                   "arrival at {} missing on the way there?",
                   name, describe_warps(other), other.warps.size() == 1 ? "s" : "", name_of(*other.first), name)};
  }
  return {
      4, fmt::format("nobody has ever arrived at {}. If this wait is meant to pass at once, as a producer's first wait "
                     "for an empty slot is, it must ask for parity 1, that of the phase before the first; it asks "
                     "for parity {}",
                     name, first.wait.value & 1)};
}

}  // namespace stagecraft::emulator::checks
