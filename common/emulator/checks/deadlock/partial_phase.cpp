// Why a phase of an mbarrier has some of the arrivals that it waits for, and not all.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "emulator/checks/deadlock/sleepers.hpp"
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

}  // namespace

std::string Sleepers::arrivals_in_own_block(const Fragment& waiter, const Mbarrier& barrier) const {
  const machine::Block* own = cluster_.block_of(waiter.wait.address);
  const uint32_t offset = waiter.wait.address & machine::kSharedOffsetMask;
  // The instruction by which a block's threads, and nobody else, have arrived at its barrier in this phase.
  const auto own_arrival = [&](const machine::Block* block) {
    const PhaseNote* arrival = nullptr;
    bool alone = true;
    const auto found = histories_.find({block, offset});
    if (found == histories_.end()) return arrival;
    found->second.phases.for_each(barrier.phase, [&](const PhaseNote& note) {
      if (note.kind != PhaseNote::Kind::arrival) return;
      arrival = &note;
      alone = alone && note.block == block;
    });
    return alone ? arrival : nullptr;
  };
  const PhaseNote* here = own_arrival(own);
  if (here == nullptr) return {};
  for (const auto& block : cluster_.blocks) {
    const PhaseNote* there = block.get() == own ? nullptr : own_arrival(block.get());
    if (there == nullptr || there->pc != here->pc) continue;
    return fmt::format(
        "{} was initialised{} for {} arrivals per phase, and {} came, all of its own block{}, while those of block "
        "rank {} arrived at that block's own: are the threads of each block to arrive at the barriers of all?",
        name_of(waiter), at_line(*waiter.grid().kernel, barrier.initialised.pc), barrier.expected,
        barrier.expected - barrier.pending, at_line(*waiter.grid().kernel, here->pc), block->rank);
  }
  return {};
}

std::string Sleepers::arrivals_at_another_block(const Group& group) const {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const machine::Block& own = *cluster_.block_of(first.wait.address);
  const uint32_t offset = first.wait.address & machine::kSharedOffsetMask;
  for (const auto& block : cluster_.blocks) {
    const auto other = block->mbarriers.live.find(offset);
    if (block.get() == &own || other == block->mbarriers.live.end()) continue;
    const Mbarrier& barrier = other->second;
    const bool is_waited_for = std::any_of(groups_.begin(), groups_.end(), [&](const Group& each) {
      return each.first->wait.kind == WaitKind::mbarrier &&
             (each.first->wait.address & machine::kSharedOffsetMask) == offset &&
             cluster_.block_of(each.first->wait.address) == block.get();
    });
    if (is_waited_for || barrier.pending == 0 || barrier.pending == barrier.expected) continue;
    const auto history = histories_.find({block.get(), offset});
    const std::string by =
        history == histories_.end() ? std::string() : history->second.phases.describe_arrivals(barrier.phase, kernel);
    const Mbarrier& mine = own.mbarriers.live.at(offset);
    return fmt::format(
        "{} of the block of rank {} waits for {} arrivals per phase, and {} came; {} came to that of rank {}, for "
        "which "
        "nobody waits{}: are all to arrive at the barrier of rank {}?",
        name_of(first), own.rank, mine.expected, mine.expected - mine.pending, barrier.expected - barrier.pending,
        block->rank, by.empty() ? by : fmt::format(", by {}", by), own.rank);
  }
  return {};
}

std::string Sleepers::lanes_missing(const Fragment& waiter, const Mbarrier& barrier) const {
  if (barrier.phase == 0) return {};
  const PhaseHistory& phases = history_of(waiter).phases;
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
        describe_lanes(exited), note.warp, name_of(waiter), std::has_single_bit(exited) ? "has exited" : "have exited");
  });
  return text;
}

std::string Sleepers::lanes_left_out(const Fragment& waiter, const Mbarrier& barrier) const {
  const Kernel& kernel = *waiter.grid().kernel;
  uint64_t missing = 0;
  size_t warps = 0;
  std::string text;
  for (const auto& [place, arrivals] : arrivals_of(history_of(waiter).phases, barrier.phase)) {
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
      name_of(waiter), at_line(kernel, barrier.initialised.pc), barrier.expected, barrier.expected - barrier.pending,
      text, warps > 1 ? fmt::format(" (nor did lanes of {} more warp{})", warps - 1, warps > 2 ? "s" : "") : "");
}

std::string Sleepers::sides_that_wait_for_each_other(const Group& group, const Mbarrier& barrier) const {
  if (barrier.phase == 0) return {};
  // The count is right: it took one arrival of each to end the phase before.
  for (const auto& [place, arrivals] : arrivals_of(history_of(*group.first).phases, barrier.phase - 1)) {
    if (arrivals.amount != static_cast<uint64_t>(std::popcount(arrivals.lanes))) return {};
  }
  const Kernel& kernel = *group.first->grid().kernel;
  const auto index_of_group = static_cast<size_t>(&group - groups_.data());
  for (const size_t index : group.needs) {
    const Group& other = groups_[index];
    const bool is_mutual = std::find(other.needs.begin(), other.needs.end(), index_of_group) != other.needs.end();
    if (!is_mutual || other.first->wait.kind != WaitKind::mbarrier) continue;
    const std::string ahead = phase_ahead_of_all(other);
    if (ahead.empty()) continue;
    return fmt::format(
        "{} misses the arrival of {}, which came in the phase before and now wait{} for {}{}, where {} arrived before: "
        "the two wait for each other, and {}. Does it arrive there more than once in a round?",
        name_of(*group.first), describe_warps(other), other.warps.size() == 1 ? "s" : "", name_of(*other.first),
        at_line(kernel, other.first->pc), describe_warps(group), ahead);
  }
  return {};
}

std::string Sleepers::phase_ahead_of_all(const Group& group) const {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const machine::Block* block = cluster_.block_of(first.wait.address);
  for (const auto& [offset, live] : block->mbarriers.live) {
    const Mbarrier& barrier = live;
    const auto found = histories_.find({block, offset});
    if (barrier.phase == 0 || found == histories_.end()) continue;
    const PhaseNote* by = found->second.phases.sole_arrival(barrier.phase - 1, first.block(), first.warp->index);
    const auto& waiters = found->second.waiters;
    const bool seen =
        std::any_of(waiters.begin(), waiters.end(), [&](const auto& waiter) { return waiter.phases >= barrier.phase; });
    if (by == nullptr || seen || (by->lanes & first.mask) == 0) continue;
    return fmt::format("warp {} is ahead: phase {} of {}, ended by {}, is one that nobody has waited for",
                       first.warp->index, barrier.phase - 1, name_of_barrier(kernel, offset),
                       describe_arrival(*by, kernel));
  }
  return {};
}

Cause Sleepers::cause_of_missing_arrivals(const Group& group, const Mbarrier& barrier) const {
  const Fragment& first = *group.first;
  const std::string name = name_of(first);
  const BarrierHistory& history = history_of(first);
  const Kernel& kernel = *first.grid().kernel;
  if (const std::string missing = lanes_missing(first, barrier); !missing.empty()) return {9, missing};
  if (const std::string elsewhere = arrivals_at_another_block(group); !elsewhere.empty()) return {9, elsewhere};
  if (const std::string home = arrivals_in_own_block(first, barrier); !home.empty()) return {8, home};
  if (const std::string silent = companion_that_never_arrived(group, barrier); !silent.empty()) return {9, silent};
  if (const std::string lanes = lanes_left_out(first, barrier); !lanes.empty()) return {9, lanes};
  if (const std::string sides = sides_that_wait_for_each_other(group, barrier); !sides.empty()) return {8, sides};
  std::string places = at_line(kernel, barrier.initialised.pc);
  if (!places.empty()) {
    const std::string by = history.phases.describe_arrivals(barrier.phase, kernel);
    places = fmt::format(" It was initialised{}{}", places, by.empty() ? std::string() : ", and they came by " + by);
  }
  size_t waiting = 0;
  for (const Fragment* each : group.all) waiting += static_cast<size_t>(std::popcount(each->mask));
  const bool waiters_arrived = std::any_of(history.arrivers.begin(), history.arrivers.end(), [&](const auto& each) {
    return std::any_of(group.all.begin(), group.all.end(), [&](const Fragment* other) { return each.is_in(*other); });
  });
  if (waiting == static_cast<size_t>(barrier.pending) && !waiters_arrived) {
    places += fmt::format("{} As many wait here as are missing, and have not arrived: do they count as well?",
                          places.empty() || places.ends_with('?') ? "" : ".");
  }
  return {8,
          fmt::format("{} was initialised for {} arrivals per phase, and {} came: does one thread arrive where all of "
                      "them were counted, or all where one was?{}",
                      name, barrier.expected, barrier.expected - barrier.pending, places)};
}

}  // namespace stagecraft::emulator::checks
