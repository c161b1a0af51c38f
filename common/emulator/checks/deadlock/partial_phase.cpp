// Why a phase of an mbarrier has some of the arrivals that it waits for, and not all.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::Fragment;
using machine::Kernel;
using machine::LaneMask;
using machine::Mbarrier;
using machine::WaitKind;

namespace {

/// The lanes of a warp that the launch has.
LaneMask lanes_of(const machine::Grid& grid, uint32_t warp) {
  const machine::Extent3& block = grid.request->block;
  const size_t threads = size_t{block.x} * block.y * block.z, before = size_t{warp} * machine::kWarpSize;
  return threads - before >= machine::kWarpSize ? machine::kAllLanes : (LaneMask{1} << (threads - before)) - 1;
}

/// What the lanes of one warp have done at a barrier in one phase.
struct Arrivals {
  LaneMask lanes = 0;
  uint64_t amount = 0;  ///< a lane can arrive for several
  uint32_t pc = 0;
};

/// By block and warp; empty where an operation has arrived as well.
std::map<std::pair<const machine::Block*, uint32_t>, Arrivals> arrivals_of(const PhaseHistory& phases, uint64_t phase) {
  std::map<std::pair<const machine::Block*, uint32_t>, Arrivals> all;
  bool by_operation = false;
  phases.for_each(phase, [&](const PhaseNote& note) {
    by_operation = by_operation || note.kind == PhaseNote::Kind::commit;
    if (note.kind != PhaseNote::Kind::arrival || note.block == nullptr) return;
    Arrivals& arrivals = all[{note.block, note.warp}];
    arrivals.lanes |= note.lanes;
    arrivals.amount += note.amount;
    arrivals.pc = note.pc;
  });
  if (by_operation) all.clear();
  return all;
}

/// "warp 0 is ahead: phase 1 of permits[2], ended by ...": one that nobody has waited for; empty: there is none.
std::string phase_ahead_of_all(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const machine::Block* block = sleepers.block_of_barrier(first);
  for (const auto& [offset, live] : block->mbarriers.live) {
    const Mbarrier& barrier = live;
    const BarrierHistory* found = sleepers.history_at(block, offset);
    if (barrier.phase == 0 || found == nullptr) continue;
    const PhaseNote* by = found->phases.sole_arrival(barrier.phase - 1, first.block(), first.warp->index);
    const auto& waiters = found->waiters;
    const bool seen =
        std::any_of(waiters.begin(), waiters.end(), [&](const auto& waiter) { return waiter.phases >= barrier.phase; });
    if (by == nullptr || seen || (by->lanes & first.mask) == 0) continue;
    return fmt::format("warp {} is ahead: phase {} of {}, ended by {}, is one that nobody has waited for",
                       first.warp->index, barrier.phase - 1, name_of_barrier(kernel, offset),
                       describe_arrival(*by, kernel));
  }
  return {};
}

}  // namespace

std::string each_block_arrives_at_its_own(const Sleepers& sleepers, const Group& group) {
  const Fragment& waiter = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(waiter);
  const machine::Block* own = sleepers.block_of_barrier(waiter);
  const uint32_t offset = offset_of(waiter);
  // The instruction by which a block's threads, and nobody else, have arrived at its barrier in this phase.
  const auto own_arrival = [&](const machine::Block* block) {
    const PhaseNote* arrival = nullptr;
    bool alone = true;
    const BarrierHistory* found = sleepers.history_at(block, offset);
    if (found == nullptr) return arrival;
    found->phases.for_each(barrier.phase, [&](const PhaseNote& note) {
      if (note.kind != PhaseNote::Kind::arrival) return;
      arrival = &note;
      alone = alone && note.block == block;
    });
    return alone ? arrival : nullptr;
  };
  const PhaseNote* here = own_arrival(own);
  if (here == nullptr) return {};
  for (const auto& block : sleepers.cluster().blocks) {
    const PhaseNote* there = block.get() == own ? nullptr : own_arrival(block.get());
    if (there == nullptr || there->pc != here->pc) continue;
    return fmt::format(
        "{} was initialised{} for {} arrivals per phase, and {} came, all of its own block{}, while those of block "
        "rank {} arrived at that block's own: are the threads of each block to arrive at the barriers of all?",
        name_of_barrier(waiter), at_line(*waiter.grid().kernel, barrier.initialised.pc), barrier.expected,
        barrier.expected - barrier.pending, at_line(*waiter.grid().kernel, here->pc), block->rank);
  }
  return {};
}

std::string arrivals_at_another_block(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const machine::Block& own = *sleepers.block_of_barrier(first);
  const uint32_t offset = offset_of(first);
  for (const auto& block : sleepers.cluster().blocks) {
    const auto other = block->mbarriers.live.find(offset);
    if (block.get() == &own || other == block->mbarriers.live.end()) continue;
    const Mbarrier& barrier = other->second;
    const bool is_waited_for = std::any_of(sleepers.groups().begin(), sleepers.groups().end(), [&](const Group& each) {
      return each.first->wait.kind == WaitKind::mbarrier && offset_of(*each.first) == offset &&
             sleepers.block_of_barrier(*each.first) == block.get();
    });
    if (is_waited_for || barrier.pending == 0 || barrier.pending == barrier.expected) continue;
    const BarrierHistory* history = sleepers.history_at(block.get(), offset);
    const std::string by =
        history == nullptr ? std::string() : history->phases.describe_arrivals(barrier.phase, kernel);
    const Mbarrier& mine = own.mbarriers.live.at(offset);
    return fmt::format(
        "{} of the block of rank {} waits for {} arrivals per phase, and {} came; {} came to that of rank {}, for "
        "which "
        "nobody waits{}: are all to arrive at the barrier of rank {}?",
        name_of_barrier(first), own.rank, mine.expected, mine.expected - mine.pending,
        barrier.expected - barrier.pending, block->rank, by.empty() ? by : fmt::format(", by {}", by), own.rank);
  }
  return {};
}

std::string exited_while_counted(const Sleepers& sleepers, const Group& group) {
  const Fragment& waiter = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(waiter);
  if (barrier.phase == 0) return {};
  const PhaseHistory& phases = sleepers.history_of(waiter).phases;
  const auto lanes_in = [&](uint64_t phase, const PhaseNote& of) {
    machine::LaneMask lanes = 0;
    phases.for_each(phase, [&](const PhaseNote& note) {
      const bool same = note.kind == of.kind && note.block == of.block && note.warp == of.warp;
      lanes |= same ? note.lanes : 0;
    });
    return lanes;
  };
  std::string text;
  phases.for_each(barrier.phase - 1, [&](const PhaseNote& note) {
    if (!text.empty() || note.kind != PhaseNote::Kind::arrival || note.block == nullptr) return;
    const machine::LaneMask missing = lanes_in(barrier.phase - 1, note) & ~lanes_in(barrier.phase, note);
    const machine::LaneMask exited = missing & ~note.block->warps[note.warp].live;
    if (exited == 0 || note.block->exited) return;
    text = fmt::format(
        "{} of warp {} arrived at {} in the phase before, and {} since: each thread that the barrier counts must "
        "arrive in each phase, also after its own work is done",
        describe_lanes(exited), note.warp, name_of_barrier(waiter),
        std::has_single_bit(exited) ? "has exited" : "have exited");
  });
  return text;
}

std::string arrival_in_a_branch_of_lanes(const Sleepers& sleepers, const Group& group) {
  const Fragment& waiter = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(waiter);
  const Kernel& kernel = *waiter.grid().kernel;
  uint64_t missing = 0;
  size_t warps = 0;
  std::string text;
  for (const auto& [place, arrivals] : arrivals_of(sleepers.history_of(waiter).phases, barrier.phase)) {
    const auto lanes = static_cast<uint64_t>(std::popcount(arrivals.lanes));
    const LaneMask silent = lanes_of(waiter.grid(), place.second) & ~arrivals.lanes;
    // One lane that arrives for its warp says nothing about the others.
    if (arrivals.amount != lanes || lanes == 1) return {};
    if (silent == 0) continue;
    missing += static_cast<uint64_t>(std::popcount(silent));
    if (++warps > 1) continue;
    text = fmt::format("{} of warp {} arrived{}, and {} did not", describe_lanes(arrivals.lanes), place.second,
                       at_line(kernel, arrivals.pc), describe_lanes(silent));
  }
  if (text.empty() || missing != static_cast<uint64_t>(barrier.pending)) return {};
  return fmt::format(
      "{} was initialised{} for {} arrivals per phase, and {} came: {}{}. Is the arrival in a branch that not all "
      "lanes "
      "take?",
      name_of_barrier(waiter), at_line(kernel, barrier.initialised.pc), barrier.expected,
      barrier.expected - barrier.pending, text,
      warps > 1 ? fmt::format(" (nor did lanes of {} more warp{})", warps - 1, warps > 2 ? "s" : "") : "");
}

std::string arrives_twice_in_a_round(const Sleepers& sleepers, const Group& group) {
  const Mbarrier& barrier = *sleepers.barrier_of(*group.first);
  if (barrier.phase == 0) return {};
  // The count is right: it took one arrival of each to end the phase before.
  for (const auto& [place, arrivals] : arrivals_of(sleepers.history_of(*group.first).phases, barrier.phase - 1)) {
    if (arrivals.amount != static_cast<uint64_t>(std::popcount(arrivals.lanes))) return {};
  }
  const Kernel& kernel = *group.first->grid().kernel;
  const auto index_of_group = static_cast<size_t>(&group - sleepers.groups().data());
  for (const size_t index : group.needs) {
    const Group& other = sleepers.groups()[index];
    const bool is_mutual = std::find(other.needs.begin(), other.needs.end(), index_of_group) != other.needs.end();
    if (!is_mutual || other.first->wait.kind != WaitKind::mbarrier) continue;
    const std::string ahead = phase_ahead_of_all(sleepers, other);
    if (ahead.empty()) continue;
    return fmt::format(
        "{} misses the arrival of {}, which came in the phase before and now wait{} for {}{}, where {} arrived before: "
        "the two wait for each other, and {}. Does it arrive there more than once in a round?",
        name_of_barrier(*group.first), describe_warps(other), other.warps.size() == 1 ? "s" : "",
        name_of_barrier(*other.first), at_line(kernel, other.first->pc), describe_warps(group), ahead);
  }
  return {};
}

std::string companion_never_arrived(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const BarrierHistory& history = sleepers.history_of(first);
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
  for (const Group& one : sleepers.groups()) {
    if (&one == &group || one.first->wait.kind != WaitKind::mbarrier || !arrives(*one.first)) continue;
    for (const Group& other : sleepers.groups()) {
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
    where = name_of_barrier(*one.first);
    break;
  }
  if (silent.empty() || lanes != barrier.pending) return {};
  const machine::Kernel& kernel = *first.grid().kernel;
  const std::string by = history.phases.describe_arrivals(barrier.phase, kernel);
  return fmt::format(
      "{} was initialised{} for {} arrivals per phase, and {} came{}. Warp {}, which waits for {} as {} does, has "
      "never "
      "arrived there: is its arrival missing, or in a branch that it does not take?",
      name_of_barrier(first), at_line(kernel, barrier.initialised.pc), barrier.expected,
      barrier.expected - barrier.pending, by.empty() ? by : fmt::format(", by {}", by), silent, where, with);
}

std::string miscounted(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const BarrierHistory& history = sleepers.history_of(first);
  const Kernel& kernel = *first.grid().kernel;
  std::string places = at_line(kernel, barrier.initialised.pc);
  if (!places.empty()) {
    const std::string by = history.phases.describe_arrivals(barrier.phase, kernel);
    places = fmt::format(" It was initialised{}{}", places, by.empty() ? std::string() : ", and they came by " + by);
  }
  const bool waiters_arrived = std::any_of(history.arrivers.begin(), history.arrivers.end(),
                                           [&](const auto& each) { return is_one_of(each, group); });
  if (threads_of(group) == static_cast<size_t>(barrier.pending) && !waiters_arrived) {
    places += fmt::format("{} As many wait here as are missing, and have not arrived: do they count as well?",
                          places.empty() || places.ends_with('?') ? "" : ".");
  }
  return fmt::format(
      "{} was initialised for {} arrivals per phase, and {} came: does one thread arrive where all of them were "
      "counted, or all where one was?{}",
      name_of_barrier(first), barrier.expected, barrier.expected - barrier.pending, places);
}

}  // namespace stagecraft::emulator::checks
