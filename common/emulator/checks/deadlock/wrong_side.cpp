// Who waits at the barrier of the other side, or has arrived at another than the one that is waited for.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/checks/deadlock/sleepers.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::Fragment;
using machine::Kernel;
using machine::Mbarrier;
using machine::WaitKind;

std::string Sleepers::wait_of_the_other_side(const Group& group) const {
  const Fragment& first = *group.first;
  const auto& waiters = history_of(first).waiters;
  const auto is_own = [&](const BarrierHistory::Waiter& waiter) {
    return waiter.block == &first.block() && waiter.warp == first.warp->index;
  };
  // A warp that was among those who passed has come round again.
  if (waiters.empty() || std::any_of(waiters.begin(), waiters.end(), is_own)) return {};
  for (const Unseen& unseen : never_waited_for(first)) {
    const auto waits_there = [&](const Group& each) { return barrier_of(*each.first) == unseen.barrier; };
    if (std::any_of(groups_.begin(), groups_.end(), waits_there)) continue;
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
        name_of(first), waiters.front().warp, first.warp->index, unseen.name, unseen.barrier->phase - 1);
  }
  return {};
}

std::string Sleepers::arrival_where_its_side_waits(const Group& group) const {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const auto is_of_group = [&](const PhaseNote& note) {
    return std::any_of(group.all.begin(), group.all.end(), [&](const Fragment* each) {
      return note.block == &each->block() && note.warp == each->warp->index && (note.lanes & each->mask) != 0;
    });
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
    const Mbarrier& barrier = *barrier_of(first);
    text = fmt::format(
        "nobody has {}arrived at {}{}, and {} arrives at {}, for which its own warp {} waits{}: is it meant for {}?",
        barrier.phase == 0 ? "ever " : "", name_of(first),
        barrier.phase == 0 ? std::string() : fmt::format(" since its phase {}", barrier.phase - 1),
        describe_arrival(note, kernel), other, note.warp, at_line(kernel, waiter->pc), name_of(first));
  };
  for (const auto& block : cluster_.blocks) {
    for (const auto& [offset, barrier] : block->mbarriers.live) {
      const auto found = histories_.find({block.get(), offset});
      if (found == histories_.end() || &barrier == barrier_of(first)) continue;
      const auto& waiters = found->second.waiters;
      const std::string other = name_of_barrier(kernel, offset);
      const BarrierHistory& history = found->second;
      for (uint64_t phase = barrier.phase == 0 ? 0 : barrier.phase - 1; phase <= barrier.phase; ++phase) {
        if (std::any_of(waiters.begin(), waiters.end(), [&](const auto& each) { return each.phases > phase; }))
          continue;
        history.phases.for_each(phase, [&](const PhaseNote& note) {
          const bool arrives = note.kind == PhaseNote::Kind::arrival || note.kind == PhaseNote::Kind::commit;
          if (text.empty() && arrives && note.block != nullptr && !is_of_group(note)) {
            judge(other, history, note);
          }
        });
      }
    }
  }
  return text;
}

std::string Sleepers::latest_phase_unseen(const Group& group) const {
  const Fragment& first = *group.first;
  const machine::Block* block = cluster_.block_of(first.wait.address);
  for (const auto& [offset, barrier] : block->mbarriers.live) {
    const auto found = histories_.find({block, offset});
    if (barrier.phase == 0 || found == histories_.end() || &barrier == barrier_of(first)) continue;
    uint64_t seen = 0;
    for (const BarrierHistory::Waiter& waiter : found->second.waiters) seen = std::max(seen, waiter.phases);
    if (seen >= barrier.phase) continue;
    const std::string by = found->second.phases.describe_arrivals(barrier.phase - 1, *first.grid().kernel);
    return fmt::format(" {} has completed phase {}{}, and nobody has waited for that",
                       name_of_barrier(*first.grid().kernel, offset), barrier.phase - 1,
                       by.empty() ? by : fmt::format(", by {}", by));
  }
  return {};
}

std::string Sleepers::companion_that_never_arrived(const Group& group, const Mbarrier& barrier) const {
  const Fragment& first = *group.first;
  const BarrierHistory& history = history_of(first);
  const auto arrives = [&](const Fragment& fragment) {
    return std::any_of(history.arrivers.begin(), history.arrivers.end(), [&](const BarrierHistory::Arriver& arriver) {
      return arriver.is_in(fragment) && arriver.phase == barrier.phase;
    });
  };
  const auto has_ever_arrived = [&](const Fragment& fragment) {
    return std::any_of(history.arrivers.begin(), history.arrivers.end(), [&](const BarrierHistory::Arriver& arriver) {
      return arriver.block == &fragment.block() && arriver.warp == fragment.warp->index;
    });
  };
  uint64_t lanes = 0;
  std::string silent, with, where;
  for (const Group& one : groups_) {
    if (&one == &group || one.first->wait.kind != WaitKind::mbarrier || !arrives(*one.first)) continue;
    for (const Group& other : groups_) {
      if (other.first->wait.kind != WaitKind::mbarrier || other.first->wait.address != one.first->wait.address ||
          other.first->wait.value != one.first->wait.value) {
        continue;
      }
      for (const Fragment* each : other.all) {
        if (has_ever_arrived(*each)) continue;
        lanes += static_cast<uint64_t>(std::popcount(each->mask));
        silent += fmt::format("{}{}", silent.empty() ? "" : ", ", each->warp->index);
      }
    }
    with = describe_warps(one);
    where = name_of(*one.first);
    break;
  }
  if (silent.empty() || lanes != barrier.pending) return {};
  const machine::Kernel& kernel = *first.grid().kernel;
  const std::string by = history.phases.describe_arrivals(barrier.phase, kernel);
  return fmt::format(
      "{} was initialised{} for {} arrivals per phase, and {} came{}. Warp {}, which waits for {} as {} does, has "
      "never "
      "arrived there: is its arrival missing, or in a branch that it does not take?",
      name_of(first), at_line(kernel, barrier.initialised.pc), barrier.expected, barrier.expected - barrier.pending,
      by.empty() ? by : fmt::format(", by {}", by), silent, where, with);
}

}  // namespace stagecraft::emulator::checks
