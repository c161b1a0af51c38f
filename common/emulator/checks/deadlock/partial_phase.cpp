// Why a phase of an mbarrier has some of the arrivals that it waits for, and not all.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <utility>
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

/// Those who have arrived in the phase that a fragment waits for.
std::vector<Came> came_now(const Sleepers& sleepers, const Fragment& waiter) {
  const Mbarrier& barrier = *sleepers.barrier_of(waiter);
  return who_came(sleepers.history_of(waiter), barrier.phase,
                  static_cast<uint64_t>(barrier.expected - barrier.pending));
}

/// The warps of the waiter's barrier's block that have exited, and have never arrived there.
std::vector<uint32_t> exited_and_never_arrived(const Sleepers& sleepers, const Fragment& waiter) {
  const machine::Block* own = sleepers.block_of_barrier(waiter);
  const auto& arrivers = sleepers.history_of(waiter).arrivers;
  std::vector<uint32_t> warps;
  for (const machine::Warp& warp : own->warps) {
    const bool arrived = std::any_of(arrivers.begin(), arrivers.end(),
                                     [&](const auto& each) { return each.block == own && each.warp == warp.index; });
    if (warp.live == 0 && !arrived) warps.push_back(warp.index);
  }
  return warps;
}

bool is_arrival_of(const PhaseNote& note, const Came& came) {
  const bool by_operation = note.kind == PhaseNote::Kind::commit;
  return (by_operation || note.kind == PhaseNote::Kind::arrival) && by_operation == came.by_operation &&
         note.block == came.block && note.warp == came.warp;
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
        "which nobody waits{}: are all to arrive at the barrier of rank {}?",
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
      "lanes take?",
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
    return std::any_of(history.arrivers.begin(), history.arrivers.end(),
                       [&](const BarrierHistory::Arriver& arriver) { return is_of_warp(arriver, fragment); });
  };
  uint64_t lanes = 0;
  std::string silent, with, where;
  for (const Group& one : sleepers.groups()) {
    if (&one == &group || one.first->wait.kind != WaitKind::mbarrier || !arrives(*one.first)) continue;
    if (one.first->wait.address == first.wait.address) continue;
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
  return fmt::format(
      "{}. Warp {}, which waits for {} as {} does, has never arrived there: is its arrival missing, or in a branch "
      "that it does not take?",
      describe_partial_phase(sleepers, first), silent, where, with);
}

std::string arrivals_leave_a_block_out(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const machine::Block* own = sleepers.block_of_barrier(first);
  const machine::Cluster& cluster = sleepers.cluster();
  const std::vector<Came> here = came_now(sleepers, first);
  struct LeftOut {
    Came came;
    std::vector<uint32_t> ranks;  // to which it came
  };
  std::vector<LeftOut> left_out;
  size_t most = 0;  // blocks at which one of those who came here arrives, too
  const auto ranks_of = [&](const Came& one) {
    std::vector<uint32_t> ranks;
    for (const auto& block : cluster.blocks) {
      const BarrierHistory* history = sleepers.history_at(block.get(), offset_of(first));
      bool comes = false;
      if (history != nullptr) {
        history->phases.for_each(barrier.phase,
                                 [&](const PhaseNote& note) { comes = comes || is_arrival_of(note, one); });
      }
      if (comes) ranks.push_back(block->rank);
    }
    return ranks;
  };
  for (const Came& one : here) most = std::max(most, ranks_of(one).size());
  for (const auto& block : cluster.blocks) {
    const BarrierHistory* history = sleepers.history_at(block.get(), offset_of(first));
    if (block.get() == own || history == nullptr) continue;
    history->phases.for_each(barrier.phase, [&](const PhaseNote& note) {
      const bool by_operation = note.kind == PhaseNote::Kind::commit;
      if ((note.kind != PhaseNote::Kind::arrival && !by_operation) || note.block == nullptr) return;
      const Came one{note.block, note.warp, note.lanes, note.pc, by_operation, note.amount, note.times};
      const auto is_same = [&](const Came& each) { return each.is_same_warp(one); };
      if (std::any_of(here.begin(), here.end(), is_same)) return;
      const auto known =
          std::find_if(left_out.begin(), left_out.end(), [&](const LeftOut& each) { return is_same(each.came); });
      if (known == left_out.end()) left_out.push_back({one, ranks_of(one)});
    });
  }
  const auto amount = [&] {
    uint64_t sum = 0;
    for (const LeftOut& each : left_out) sum += each.came.amount;
    return sum;
  };
  // Those that come to as many blocks as the others do leave this one out on purpose.
  if (amount() != static_cast<uint64_t>(barrier.pending)) {
    std::erase_if(left_out, [&](const LeftOut& each) { return each.ranks.size() >= most; });
  }
  if (left_out.empty() || amount() != static_cast<uint64_t>(barrier.pending)) return {};
  std::vector<Came> missing;
  for (const LeftOut& each : left_out) missing.push_back(each.came);
  const std::string who = describe_came(missing, cluster);
  if (who.empty()) return {};
  std::string ranks;
  for (const uint32_t rank : left_out.front().ranks) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  return fmt::format(
      "{}. What is missing came to the same barrier of block rank{} {}, and not to that of rank {}: {}. Does {} leave "
      "rank {} out?",
      describe_partial_phase(sleepers, first), left_out.front().ranks.size() == 1 ? "" : "s", ranks, own->rank, who,
      missing.front().by_operation ? "its mask" : "the arrival", own->rank);
}

std::string arrives_again_before_others(const Sleepers& sleepers, const Group& group) {
  const uint64_t phase = sleepers.barrier_of(*group.first)->phase;
  std::string text = describe_repeated_arrivals(sleepers, *group.first, phase);
  if (text.empty() && phase > 0) text = describe_repeated_arrivals(sleepers, *group.first, phase - 1);
  return text;
}

std::string blocks_that_arrive_nowhere(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const machine::Cluster& cluster = sleepers.cluster();
  const std::vector<Came> here = came_now(sleepers, first);
  if (cluster.blocks.size() < 2 || barrier.phase != 0 || here.empty()) return {};
  // With cta_group::2 the blocks of a pair commit together.
  const bool of_pairs = std::any_of(here.begin(), here.end(), [&](const Came& each) {
    return each.by_operation &&
           first.grid().kernel->describe_instruction(each.pc).find("cta_group::2") != std::string::npos;
  });
  const auto unit_of = [&](const machine::Block& block) { return of_pairs ? block.rank / 2 : block.rank; };
  std::set<uint32_t> units, all;
  for (const auto& block : cluster.blocks) {
    all.insert(unit_of(*block));
    const BarrierHistory* history = sleepers.history_at(block.get(), offset_of(first));
    if (history == nullptr) continue;
    for (const BarrierHistory::Arriver& arriver : history->arrivers) {
      if (arriver.block != nullptr) units.insert(unit_of(*arriver.block));
    }
  }
  std::set<uint32_t> here_units;
  for (const Came& each : here) here_units.insert(unit_of(*each.block));
  const auto came = static_cast<uint64_t>(barrier.expected - barrier.pending);
  const uint64_t each = came / here_units.size(), silent = all.size() - units.size();
  // In a cluster of rows and columns each block hears of some others only.
  if (silent == 0 || came % here_units.size() != 0) return {};
  if (static_cast<uint64_t>(barrier.pending) % each != 0 || static_cast<uint64_t>(barrier.pending) > each * silent)
    return {};
  std::string ranks;
  for (const auto& block : cluster.blocks) {
    if (!units.contains(unit_of(*block))) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", block->rank);
  }
  return fmt::format(
      "{}. Nobody of block rank{} {} has arrived at this barrier of any block: is it to do so, and does "
      "a branch keep it from that?",
      describe_partial_phase(sleepers, first), ranks.find(',') == std::string::npos ? "" : "s", ranks);
}

std::string reader_never_arrived(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const Kernel& kernel = *first.grid().kernel;
  const machine::Block* own = sleepers.block_of_barrier(first);
  const std::vector<Came> here = came_now(sleepers, first);
  if (barrier.phase != 0 || here.empty()) return {};
  const auto& arrivers = sleepers.history_of(first).arrivers;
  const auto is_of = [](const auto& one, const auto& other) {
    return one.block == other.block && one.warp == other.warp;
  };
  const auto is_waiting_here = [&](const BarrierHistory::Waiter& waiter) {
    return std::any_of(group.all.begin(), group.all.end(),
                       [&](const Fragment* each) { return is_of_warp(waiter, *each); });
  };
  const std::string array = array_of(*first.grid().kernel, offset_of(first));
  std::string found;
  for (const auto& of_barrier : sleepers.histories()) {
    const auto& place = of_barrier.first;
    const BarrierHistory& history = of_barrier.second;
    if (place.first != own || place.second == offset_of(first)) continue;
    const auto has_seen = [&](const Came& each) {
      return std::any_of(history.waiters.begin(), history.waiters.end(),
                         [&](const auto& waiter) { return waiter.phases > 0 && is_of(waiter, each); });
    };
    if (!std::all_of(here.begin(), here.end(), has_seen)) continue;
    std::vector<const BarrierHistory::Waiter*> silent;
    for (const BarrierHistory::Waiter& waiter : history.waiters) {
      const bool arrived =
          std::any_of(arrivers.begin(), arrivers.end(), [&](const auto& each) { return is_of(each, waiter); });
      if (waiter.phases > 0 && !arrived && !is_waiting_here(waiter)) silent.push_back(&waiter);
    }
    const auto missing = static_cast<uint64_t>(barrier.pending);
    const bool is_exact = silent.size() == missing || silent.size() * machine::kWarpSize == missing;
    const std::string name = name_of_barrier(kernel, place.second);
    const bool is_sibling = !array.empty() && array_of(kernel, place.second) == array;
    // One thread may arrive for several of them; of those that wait for something else, too, nothing follows.
    if (!is_exact && (!is_sibling || silent.size() < missing)) continue;
    std::vector<uint32_t> warps;
    for (const BarrierHistory::Waiter* each : silent) {
      if (each->block == own) warps.push_back(each->warp);
    }
    if (warps.empty() || warps.size() != silent.size()) continue;
    const bool one = warps.size() == 1;
    std::string text = fmt::format(
        "{}. All of these had waited for {}, and so had {}{}, which {} never arrived here, nor has an operation that "
        "{} issued: is an arrival of {}, or a commit, missing?",
        describe_partial_phase(sleepers, first), name, describe_numbers(warps), at_line(kernel, silent.front()->pc),
        one ? "has" : "have", one ? "it" : "they",
        one        ? "it"
        : is_exact ? "them"
                   : "some of them");
    // A barrier of the same array tells more than one by which all roles begin.
    if (found.empty() || is_sibling) found = std::move(text);
    if (is_sibling) break;
  }
  return found;
}

std::string one_lane_for_all_that_are_counted(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const std::vector<Came> here = came_now(sleepers, first);
  if (barrier.phase != 0 || here.empty()) return {};
  uint64_t alone = 0;
  std::vector<uint32_t> warps;
  for (const Came& each : here) {
    if (each.amount != 1) continue;
    ++alone;
    if (!each.by_operation) warps.push_back(each.warp);
  }
  const auto missing = static_cast<uint64_t>(barrier.pending), came = static_cast<uint64_t>(barrier.expected) - missing;
  constexpr uint64_t kOthers = machine::kWarpSize - 1;
  const std::string text = describe_partial_phase(sleepers, first);
  if (alone == came && static_cast<uint64_t>(barrier.expected) % (came * machine::kWarpSize) == 0) {
    return fmt::format("{}. {} for {} that are counted: initialise it for {}{}", text,
                       warps.empty() ? "One commit came, which is one arrival," : "One lane arrived",
                       barrier.expected / came, came, warps.empty() ? "" : ", or let all of these lanes arrive");
  }
  if (alone == 0 || warps.empty() || missing % kOthers != 0 || missing / kOthers > alone) return {};
  std::sort(warps.begin(), warps.end());
  return fmt::format(
      "{}. {} are missing, as many as the other lanes of {}, and of {} one lane arrived: {} counted with all of {} "
      "lanes?",
      text, missing, missing == kOthers ? "one warp" : fmt::format("{} warps", missing / kOthers),
      describe_numbers(warps),
      warps.size() == 1    ? "is it"
      : missing == kOthers ? "is one of them"
                           : "are some of them",
      warps.size() == 1 || missing == kOthers ? "its" : "their");
}

std::string too_few_warps_launched(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const std::vector<Came> here = came_now(sleepers, first);
  const machine::Block* own = sleepers.block_of_barrier(first);
  if (barrier.phase != 0 || here.empty() || barrier.pending % machine::kWarpSize != 0) return {};
  uint32_t last = 0;
  for (const Came& each : here) {
    if (each.block != own || each.by_operation || each.amount != machine::kWarpSize) return {};
    last = std::max(last, each.warp);
  }
  const auto launched = static_cast<uint32_t>(own->warps.size());
  if (last + 1 != launched || threads_of(group) == static_cast<size_t>(barrier.pending)) return {};
  return fmt::format(
      "{}. These are the last of the {} warps that the block was launched with, and {} more {} counted: is the count "
      "too high, or are too few threads launched?",
      describe_partial_phase(sleepers, first), launched, barrier.pending / machine::kWarpSize,
      barrier.pending == machine::kWarpSize ? "is" : "are");
}

std::string exited_without_arriving(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const std::vector<uint32_t> warps = exited_and_never_arrived(sleepers, first);
  const std::vector<Came> here = came_now(sleepers, first);
  const bool whole_warps = !here.empty() && std::all_of(here.begin(), here.end(), [](const Came& each) {
    return !each.by_operation && each.amount == machine::kWarpSize;
  });
  const size_t missing = static_cast<size_t>(barrier.pending) / machine::kWarpSize;
  if (!whole_warps || barrier.pending % machine::kWarpSize != 0 || warps.size() < missing) return {};
  return fmt::format(
      "{}. {} counted, and {} exited and never arrived there: is there a return, or a break, before the arrival{}, or "
      "is the count too high for the {} warps that were launched?",
      describe_partial_phase(sleepers, first),
      missing == 1 ? "One warp more is" : fmt::format("{} warps more are", missing),
      describe_numbers(warps) + (warps.size() == 1 ? " has" : " have"),
      warps.size() == missing ? ""
      : missing == 1          ? " of one of them"
                              : " of some of them",
      sleepers.block_of_barrier(first)->warps.size());
}

std::string missing_since_the_phase_before(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  if (barrier.phase == 0) return {};
  std::vector<Came> missing =
      who_came(sleepers.history_of(first), barrier.phase - 1, static_cast<uint64_t>(barrier.expected));
  uint64_t amount = 0;
  for (const Came& now : came_now(sleepers, first)) {
    std::erase_if(missing, [&](const Came& before) {
      return before.block == now.block && before.warp == now.warp && before.by_operation == now.by_operation &&
             (before.lanes & ~now.lanes) == 0;
    });
  }
  for (const Came& each : missing) amount += each.amount;
  const std::string who = describe_came(missing, sleepers.cluster());
  if (who.empty() || amount != static_cast<uint64_t>(barrier.pending)) return {};
  std::string now;
  for (const Group& other : sleepers.groups()) {
    const bool is_missing = std::any_of(other.all.begin(), other.all.end(), [&](const Fragment* each) {
      return std::any_of(missing.begin(), missing.end(),
                         [&](const Came& came) { return is_of_warp(came, *each) && (came.lanes & each->mask) != 0; });
    });
    if (!is_missing || &other == &group) continue;
    now = fmt::format(", which now {}{}", describe_wait(*other.first), at_line(*first.grid().kernel, other.first->pc));
    break;
  }
  return fmt::format(
      "{}. Missing is what came in phase {} by {}{}: does it take fewer rounds, or a branch around the "
      "arrival?",
      describe_partial_phase(sleepers, first), barrier.phase - 1, who, now);
}

std::string waiters_may_count(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const std::vector<Came> here = came_now(sleepers, first);
  if (here.empty() || threads_of(group) != static_cast<size_t>(barrier.pending)) return {};
  if (!exited_and_never_arrived(sleepers, first).empty()) return {};
  const auto has_arrived = [&](const Fragment& fragment) {
    return std::any_of(here.begin(), here.end(), [&](const Came& each) {
      return !each.by_operation && is_of_warp(each, fragment) && (each.lanes & fragment.mask) != 0;
    });
  };
  // All others have arrived: of those who sleep, only these can be meant.
  if (std::any_of(here.begin(), here.end(), [](const Came& each) { return each.by_operation; })) return {};
  for (const Group& other : sleepers.groups()) {
    const bool all =
        std::all_of(other.all.begin(), other.all.end(), [&](const Fragment* each) { return has_arrived(*each); });
    const bool none =
        std::none_of(other.all.begin(), other.all.end(), [&](const Fragment* each) { return has_arrived(*each); });
    if (&other == &group ? !none : !all) return {};
  }
  const std::string text = describe_partial_phase(sleepers, first);
  // Where all meet, those who arrive wait there as well.
  const std::vector<BarrierHistory::Waiter>& waiters = sleepers.history_of(first).waiters;
  const bool have_gone_on = std::none_of(here.begin(), here.end(), [&](const Came& came) {
    const auto waits = [&](const Group& other) {
      return waits_for_the_same(other, group) && is_of_warp(came, *other.first);
    };
    const auto has_waited = [&](const BarrierHistory::Waiter& each) {
      return each.block == came.block && each.warp == came.warp;
    };
    return std::any_of(sleepers.groups().begin(), sleepers.groups().end(), waits) ||
           std::any_of(waiters.begin(), waiters.end(), has_waited);
  });
  if (have_gone_on) {
    return fmt::format(
        "{}. Those who arrived have not waited for it, and all others do: initialise it for {}, unless those who wait "
        "are to arrive first",
        text, barrier.expected - barrier.pending);
  }
  return text +
         ". As many wait here as are missing, and they are all that have not arrived: do they count as well, and are "
         "they to arrive before they wait?";
}

std::string miscounted(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const BarrierHistory& history = sleepers.history_of(first);
  const bool is_all = std::all_of(history.arrivers.begin(), history.arrivers.end(),
                                  [&](const auto& each) { return each.phase == barrier.phase; });
  const std::string text = describe_partial_phase(sleepers, first);
  if (!is_all) return text + ". Is it initialised for too many, or is an arrival missing?";
  // Who announces bytes has them brought, and a commit comes when products are done: that is what readers wait for.
  const std::vector<Came> here = came_now(sleepers, first);
  const bool by_operations =
      !here.empty() && std::all_of(here.begin(), here.end(), [](const Came& each) { return each.by_operation; });
  const bool by_bytes = barrier.announced > 0 && barrier.transaction == 0;
  const std::optional<uint32_t> full = full_barrier_of(sleepers, group);
  if (const BarrierHistory* filled = full ? sleepers.history_at(sleepers.block_of_barrier(first), *full) : nullptr) {
    // Those who free a slot are those who have waited for what is in it.
    const bool is_each_here = !filled->waiters.empty() &&
                              std::all_of(filled->waiters.begin(), filled->waiters.end(), [&](const auto& waiter) {
                                return std::any_of(here.begin(), here.end(), [&](const Came& came) {
                                  return came.block == waiter.block && came.warp == waiter.warp;
                                });
                              });
    if (is_each_here) {
      return fmt::format(
          "{}. These are all who have ever waited for {}: initialise it for {}, unless one of them, or another role, "
          "is to arrive as well",
          text, name_of_barrier(*first.grid().kernel, *full), barrier.expected - barrier.pending);
    }
  }
  if (!by_operations && !by_bytes) {
    return text + ". Nobody else has ever arrived there. Is it initialised for too many, or is an arrival missing?";
  }
  return fmt::format(
      "{}. Nobody else has ever arrived there, and {}: initialise it for {}, unless another role is to arrive as well",
      text, by_bytes ? "all bytes that were announced have come" : "what was committed is over",
      barrier.expected - barrier.pending);
}

}  // namespace stagecraft::emulator::checks
