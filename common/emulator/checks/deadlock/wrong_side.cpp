// Who waits at the barrier of the other side, or has arrived at another than the one that is waited for.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/deadlock/other_barriers.hpp"
#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/checks/reporting/place.hpp"

namespace stagecraft::emulator::checks {

using machine::Fragment;
using machine::Kernel;
using machine::Mbarrier;
using machine::WaitKind;

std::string arrival_where_its_side_waits(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const auto is_of_group = [&](const PhaseNote& note) {
    return std::any_of(group.all.begin(), group.all.end(),
                       [&](const Fragment* each) { return is_of_warp(note, *each) && (note.lanes & each->mask) != 0; });
  };
  std::string text;
  const auto judge = [&](const std::string& other, const BarrierHistory& history, const PhaseNote& note) {
    const auto is_own = [&](const auto& each) { return each.block == note.block && each.warp == note.warp; };
    const auto waiter = std::find_if(history.waiters.begin(), history.waiters.end(), is_own);
    if (waiter == history.waiters.end() || waiter->phases == 0 || waiter->phases > note.phase) return;
    bool own_before = false, group_before = false, group_now = false;
    history.phases.for_each(waiter->phases - 1, [&](const PhaseNote& before) {
      if (before.kind == PhaseNote::Kind::wait) return;
      own_before = own_before || is_own(before);
      group_before = group_before || is_of_group(before);
    });
    history.phases.for_each(note.phase, [&](const PhaseNote& now) {
      group_now = group_now || (now.kind != PhaseNote::Kind::wait && is_of_group(now));
    });
    if (own_before || !group_before || group_now) return;
    const Mbarrier& barrier = *sleepers.barrier_of(first);
    text = fmt::format(
        "nobody has {}arrived at {}{}, and {} arrives at {}, for which its own warp {} waits{}: is it meant for {}?",
        barrier.phase == 0 ? "ever " : "", name_of_barrier(first),
        barrier.phase == 0 ? std::string() : fmt::format(" since its phase {}", barrier.phase - 1),
        describe_arrival(note, kernel), other, note.warp, at_line(kernel, waiter->pc), name_of_barrier(first));
  };
  for (const auto& block : sleepers.cluster().blocks) {
    for (const auto& [offset, barrier] : block->mbarriers.live) {
      const BarrierHistory* history = sleepers.history_at(block.get(), offset);
      if (history == nullptr || &barrier == sleepers.barrier_of(first)) continue;
      const auto& waiters = history->waiters;
      const std::string other = name_of_barrier(kernel, offset);
      for (uint64_t phase = barrier.phase == 0 ? 0 : barrier.phase - 1; phase <= barrier.phase; ++phase) {
        if (std::any_of(waiters.begin(), waiters.end(), [&](const auto& each) { return each.phases > phase; }))
          continue;
        history->phases.for_each(phase, [&](const PhaseNote& note) {
          const bool arrives = note.kind == PhaseNote::Kind::arrival || note.kind == PhaseNote::Kind::commit;
          if (text.empty() && arrives && note.block != nullptr && !is_of_group(note)) {
            judge(other, *history, note);
          }
        });
      }
    }
  }
  return text;
}

std::string passes_a_slot_without_filling_it(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const BarrierHistory& history = sleepers.history_of(first);
  const auto is_of_group = [&](const auto& each) { return is_of_warp(each, first); };
  const auto last = std::find_if(history.waiters.begin(), history.waiters.end(), is_of_group);
  if (last == history.waiters.end() || !history.passed_before_first) return {};
  const std::optional<uint32_t> full = full_barrier_of(sleepers, group);
  if (!full) return {};
  const BarrierHistory* filled = sleepers.history_at(sleepers.block_of_barrier(first), *full);
  const auto fills = [&](const BarrierHistory::Arriver& each) { return is_of_group(each) && each.clock > last->clock; };
  if (filled != nullptr && std::any_of(filled->arrivers.begin(), filled->arrivers.end(), fills)) return {};
  const auto reader = std::find_if(sleepers.groups().begin(), sleepers.groups().end(), [&](const Group& each) {
    return each.first->wait.kind == machine::WaitKind::mbarrier && offset_of(*each.first) == *full &&
           sleepers.block_of_barrier(*each.first) == sleepers.block_of_barrier(first);
  });
  const std::string name = name_of_barrier(kernel, *full);
  return fmt::format(
      "warp {} has waited for {} before{}, and has put nothing into the slot since: in between it neither arrived at "
      "{} nor announced bytes there, so that nobody has anything to release. Is a slot waited for and stepped over "
      "more than once, as by a drain in a loop?{}",
      first.warp->index, name_of_barrier(first), at_line(kernel, last->pc), name,
      reader == sleepers.groups().end()
          ? std::string()
          : fmt::format(" Or is an arrival at {} missing, for which {} {}?", name, describe_numbers(reader->warps),
                        reader->warps.size() == 1 ? "waits" : "wait"));
}

std::string two_sides_at_one_barrier(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const std::vector<Group>& groups = sleepers.groups();
  const auto waits_here = [&](const Group& each) {
    return each.first->wait.kind == WaitKind::mbarrier && each.first->wait.address == first.wait.address;
  };
  const auto other = std::find_if(groups.begin(), groups.end(), [&](const Group& each) {
    return waits_here(each) && each.first->warp != first.warp && each.first->pc != first.pc;
  });
  if (other == groups.end() || std::count_if(groups.begin(), groups.end(), waits_here) > 2) return {};
  const std::vector<OtherBarrier> unseen = never_waited_for(sleepers, first);
  if (unseen.empty()) return {};
  return fmt::format(
      "nobody has ever arrived at {0}, and two sides wait for it, {1} and {2}; {3} has completed phase {4} meanwhile, "
      "and nobody has waited for that: is one of the two waits meant for {3}?",
      name_of_barrier(first), describe_warps(group), describe_warps(*other), unseen.front().name,
      unseen.front().barrier->phase - 1);
}

std::string waits_where_the_other_side_does(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const auto& waiters = sleepers.history_of(first).waiters;
  const auto is_own = [&](const BarrierHistory::Waiter& waiter) { return is_of_warp(waiter, first); };
  // A warp that was among those who passed has come round again.
  if (waiters.empty() || std::any_of(waiters.begin(), waiters.end(), is_own)) return {};
  for (const OtherBarrier& unseen : unclaimed(sleepers, first)) {
    const auto& arrivers = unseen.history->arrivers;
    const bool by_the_others = std::any_of(arrivers.begin(), arrivers.end(), [&](const auto& arriver) {
      return std::any_of(waiters.begin(), waiters.end(), [&](const BarrierHistory::Waiter& waiter) {
        return waiter.block == arriver.block && waiter.warp == arriver.warp;
      });
    });
    if (!by_the_others) continue;
    return fmt::format(
        "two sides wait for {0}: for warp {1} the wait passed at once, as a producer's first wait for an empty slot "
        "does, and warp {2} waits there for its first phase, which nobody ends. Meanwhile {3} has completed phase {4}, "
        "and nobody has ever waited for that: is this wait meant for {3}?",
        name_of_barrier(first), waiters.front().warp, first.warp->index, unseen.name, unseen.barrier->phase - 1);
  }
  return {};
}

}  // namespace stagecraft::emulator::checks
