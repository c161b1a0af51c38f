// Who let the last wait of a thread pass, where that was too early: others who did not know themselves what they were
// to tell it, or its own warp.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "emulator/checks/causes/wait_cause.hpp"
#include "emulator/checks/ordering/wording.hpp"

namespace stagecraft::emulator::checks {

using machine::LaneMask;

/// The signal that is meant for threads which let the wait pass: they have waited for another barrier of its array. If
/// there is none, one for whose array nobody has waited yet.
const WaitCause::Signal& WaitCause::signal_for(const std::vector<Signal>& signals,
                                               const std::vector<uint32_t>& warps) const {
  const auto waited_for_array_of = [&](const Signal& signal, uint32_t warp) {
    const auto variable = [&](uint32_t barrier) { return variable_of(cluster_, order_.barrier(barrier)); };
    const std::string array = variable(signal.barrier);
    const auto& waits = order_.warp(warp).waits;
    return std::any_of(waits.begin(), waits.end(),
                       [&](const auto& each) { return each.second.phases > 0 && variable(each.first) == array; });
  };
  for (const Signal& signal : signals) {
    if (std::any_of(warps.begin(), warps.end(), [&](uint32_t warp) { return waited_for_array_of(signal, warp); })) {
      return signal;
    }
  }
  const auto all = static_cast<uint32_t>(cluster_.memory.size()) * order_.warps_per_block();
  for (const Signal& signal : signals) {
    bool waited = false;
    for (uint32_t warp = 0; warp < all; ++warp) waited = waited || waited_for_array_of(signal, warp);
    if (!waited) return signal;
  }
  return signals.front();
}

std::string WaitCause::let_pass_by_unaware(const ConflictSide& first, const ConflictSide& second) const {
  const std::vector<Signal> signals = signals_of(first);
  const auto [index, last] = last_wait_of(second);
  if (signals.empty() || last == nullptr || last->phases == 0) return {};
  std::vector<uint32_t> warps;
  uint32_t arrival = 0;
  bool someone_knows = false;
  order_.barrier(index).phases.for_each(last->phases - 1, [&](const PhaseNote& note) {
    if (note.kind == PhaseNote::Kind::wait) return;
    if (note.kind != PhaseNote::Kind::arrival || note.block == nullptr) {
      someone_knows = true;  // as far as anybody can say
      return;
    }
    arrival = note.pc;
    warps.push_back(note.block->rank * order_.warps_per_block() + note.warp);
    for (const auto& [waited, wait] : order_.warp(warps.back()).waits) {
      for (const Signal& signal : signals) {
        someone_knows = someone_knows || (signal.barrier == waited && wait.phases > signal.phase);
      }
    }
  });
  if (warps.empty() || someone_knows) return {};
  if (std::string cause = not_counted(first, signals, index, *last, warps); !cause.empty()) return cause;
  const Signal& signal = signal_for(signals, warps);
  const std::string signalled = name(signal.barrier);
  const auto variable = [&](uint32_t barrier) { return variable_of(cluster_, order_.barrier(barrier)); };
  std::string elsewhere;
  for (const uint32_t warp : warps) {
    for (const auto& [waited, wait] : order_.warp(warp).waits) {
      if (!elsewhere.empty() || wait.phases == 0 || variable(waited) != variable(signal.barrier)) continue;
      elsewhere = fmt::format("; {} waited{} for {} last", spell_thread(cluster_, warp, wait.lanes), line(wait.pc),
                              name(waited));
    }
  }
  return fmt::format(
      "the wait{} for {} was ended by the arrival{}, before which nobody who arrives there had waited for {}, by "
      "which the {} tells that this {} is over{}: does that side take fewer rounds, or arrive too early?",
      line(last->pc), name(index), line(arrival), signalled, spell_signal(signal), first.what, elsewhere);
}

std::string WaitCause::not_counted(const ConflictSide& first, const std::vector<Signal>& signals, uint32_t index,
                                   const WaitNote& last, const std::vector<uint32_t>& warps) const {
  const BarrierOrder& barrier = order_.barrier(index);
  uint64_t arrivals = 0;
  std::set<LaneMask> lanes;
  barrier.phases.for_each(last.phases - 1, [&](const PhaseNote& note) {
    if (note.kind != PhaseNote::Kind::arrival) return;
    arrivals += note.amount;
    lanes.insert(note.lanes);
  });
  const auto variable = [&](uint32_t each) { return variable_of(cluster_, order_.barrier(each)); };
  const auto last_for = [&](uint32_t warp, const Signal& signal) {
    const WaitNote* found = nullptr;
    for (const auto& [waited, wait] : order_.warp(warp).waits) {
      if (waited != index && wait.phases > 0 && variable(waited) == variable(signal.barrier)) found = &wait;
    }
    return found;
  };
  const auto all = static_cast<uint32_t>(cluster_.memory.size()) * order_.warps_per_block();
  for (const Signal& signal : signals) {
    if (std::any_of(warps.begin(), warps.end(), [&](uint32_t warp) { return last_for(warp, signal) != nullptr; })) {
      return {};  // they are of the side that is to hear of it
    }
  }
  for (const Signal& signal : signals) {
    for (uint32_t warp = 0; warp < all; ++warp) {
      const WaitNote* wait = last_for(warp, signal);
      if (wait == nullptr || !lanes.contains(wait->lanes) || has_arrived(warp, index)) continue;
      return fmt::format(
          "the wait{0} for {1} was ended by {2} arrivals, by {3}, of threads that do not wait for {4}, by which the "
          "{5} tells that this {6} is over; {7}, which waits for that{8}, had not arrived yet: is {1} initialised{9} "
          "for fewer threads than arrive there?",
          line(last.pc), name(index), arrivals, barrier.phases.describe_arrivals(last.phases - 1, cluster_.kernel()),
          name(signal.barrier), spell_signal(signal), first.what, spell_thread(cluster_, warp, wait->lanes),
          line(wait->pc), line(barrier.initialised.pc()));
    }
  }
  return {};
}

std::string WaitCause::let_pass_by_others(const ConflictSide& first, const ConflictSide& second) const {
  const auto [index, last] = last_wait_of(second);
  if (last == nullptr || last->phases == 0) return {};
  const BarrierOrder& barrier = order_.barrier(index);
  if (barrier.is_for_copies) return {};
  std::set<uint32_t> ranks;
  uint64_t arrivals = 0;
  const PhaseNote* relaxed = nullptr;
  barrier.phases.for_each(last->phases - 1, [&](const PhaseNote& note) {
    const bool arrives = note.kind == PhaseNote::Kind::arrival || note.kind == PhaseNote::Kind::commit;
    if (!arrives || note.block == nullptr) return;
    if (note.relaxed) relaxed = &note;
    ranks.insert(note.block->rank);
    arrivals += note.amount;
  });
  const std::string by = barrier.phases.describe_arrivals(last->phases - 1, cluster_.kernel());
  if (by.empty() || arrivals == 0) return {};
  if (relaxed != nullptr || last->relaxed) return spell_relaxed(index, relaxed == nullptr ? 0 : relaxed->pc, *last);
  std::string of;
  if (cluster_.memory.size() > 1) {
    for (const uint32_t rank : ranks) of += fmt::format("{} {}", of.empty() ? " of block rank" : " and", rank);
  }
  return fmt::format(
      "the wait{} for {} was ended by {}{}, {} in all, none of which comes after the end of the first {}: do "
      "others, which know of it, arrive at another block's barrier, or is {} initialised{} for fewer arrivals than one "
      "round brings?",
      line(last->pc), name(index), by, of, arrivals, first.what, name(index), line(barrier.initialised.pc()));
}

std::string WaitCause::let_pass_without(const ConflictSide& first, const ConflictSide& second,
                                        const std::function<bool(uint32_t)>& does_alike) const {
  const auto [index, last] = last_wait_of(second);
  if (last == nullptr || last->phases == 0 || last->relaxed || first.warp == second.warp) return {};
  const BarrierOrder& barrier = order_.barrier(index);
  const uint32_t warps = order_.warps_per_block();
  const PhaseNote* arrival = nullptr;
  bool one_warp = !barrier.is_for_copies;
  barrier.phases.for_each(last->phases - 1, [&](const PhaseNote& note) {
    if (note.kind == PhaseNote::Kind::wait) return;
    const bool same = arrival == nullptr || (note.block == arrival->block && note.warp == arrival->warp);
    one_warp = one_warp && same && note.kind == PhaseNote::Kind::arrival && note.block != nullptr && !note.relaxed;
    arrival = &note;
  });
  if (arrival == nullptr || !one_warp) return {};
  const uint32_t speaker = arrival->block->rank * warps + arrival->warp;
  if (speaker == first.warp || speaker == second.warp || speaker / warps != first.warp / warps) return {};
  if (!does_alike(speaker)) return {};
  return fmt::format(
      "the wait{} for {} was ended by the arrival{} of {} alone, which speaks for that warp and for those that it "
      "has waited for, and {} is not one of them: a barrier of all warps that {} there must come before the arrival, "
      "or each of them must arrive and be counted",
      line(last->pc), name(index), line(arrival->pc), spell_thread(cluster_, speaker, arrival->lanes),
      spell_thread(cluster_, first.warp, first.lanes), first.what);
}

std::string WaitCause::last_wait_let_pass(const ConflictSide& side) const {
  const auto [index, last] = last_wait_of(side);
  if (last == nullptr || last->phases == 0) return {};
  const BarrierOrder& barrier = order_.barrier(index);
  const std::string by = barrier.phases.describe_arrivals(last->phases - 1, cluster_.kernel());
  if (barrier.is_for_copies || by.empty()) return {};
  return fmt::format("the wait{} for {} was ended by {}", line(last->pc), name(index), by);
}

std::string WaitCause::passed_between(const ConflictSide& first, const ConflictSide& second) const {
  const auto [barrier, last] = last_wait_of(second);
  if (last == nullptr || first.warp != second.warp || last->time <= first.time) return {};
  if ((second.lanes & ~last->lanes) != 0) return {};
  // A producer that drains a ring waits there for each slot, and at once for those that it has never filled.
  for (const auto& [index, note] : order_.warp(second.warp).waits) {
    if (index != barrier && note.pc == last->pc) return {};
  }
  return passed_before_first(second);
}

std::string WaitCause::let_pass_by_own_warp(const ConflictSide& side) const {
  const auto [index, last] = last_wait_of(side);
  if (last == nullptr || last->phases == 0) return {};
  const BarrierOrder& barrier = order_.barrier(index);
  if (barrier.is_for_copies) return {};
  const uint32_t warps = order_.warps_per_block();
  const machine::Block& block = *cluster_.cluster().blocks[side.warp / warps];
  if (barrier.phases.sole_arrival(last->phases - 1, block, side.warp % warps) == nullptr) return {};
  return fmt::format(
      "the wait{} for {} was ended by {}, which is of the same warp: those who wait there must not be among those "
      "who arrive, or the barrier must count both",
      line(last->pc), name(index), barrier.phases.describe_arrivals(last->phases - 1, cluster_.kernel()));
}

std::pair<uint32_t, const WaitNote*> WaitCause::wait_passed_before(const ConflictSide& side,
                                                                   const WaitNote& wait) const {
  for (const auto& [index, note] : order_.warp(side.warp).waits) {
    const bool at_once = note.phases == 0 && note.time <= wait.time && &note != &wait;
    if (at_once && !order_.barrier(index).is_for_copies && (note.lanes & side.lanes) != 0) return {index, &note};
  }
  return {0, nullptr};
}

std::string WaitCause::passed_before(const ConflictSide& side, const WaitNote& wait) const {
  const auto [index, note] = wait_passed_before(side, wait);
  return note == nullptr
             ? std::string()
             : fmt::format("; or is it a round ahead, because its wait{} for {} before passed at once as well?",
                           line(note->pc), name(index));
}

std::string WaitCause::ahead_by_arrival_of(const std::vector<std::pair<const machine::Block*, uint32_t>>& others,
                                           const ConflictSide& side, const WaitNote& wait,
                                           const std::string& barrier) const {
  uint32_t index = 0;
  const WaitNote* last = nullptr;
  for (const auto& [each, note] : order_.warp(side.warp).waits) {
    const bool is_before = note.time <= wait.time && &note != &wait && (note.lanes & side.lanes) != 0;
    if (!is_before || order_.barrier(each).is_for_copies || (last != nullptr && note.time < last->time)) continue;
    index = each;
    last = &note;
  }
  if (last == nullptr || last->phases == 0) return {};
  bool by_others = false;
  order_.barrier(index).phases.for_each(last->phases - 1, [&](const PhaseNote& note) {
    const bool is_other = std::find(others.begin(), others.end(), std::pair{note.block, note.warp}) != others.end();
    by_others = by_others || (note.kind == PhaseNote::Kind::arrival && is_other);
  });
  if (!by_others) return {};
  return fmt::format(
      "the wait{0} for {1} passed at once: it is for phase 1, and phase 0, for which others wait there, is still under "
      "way. A parity cannot ask for the phase after the one under way. What held this warp back before, the wait{2} "
      "for {3}, was ended by {4}: does that come too early in the round?",
      line(wait.pc), barrier, line(last->pc), name(index),
      order_.barrier(index).phases.describe_arrivals(last->phases - 1, cluster_.kernel()));
}

std::string WaitCause::ahead_of_others(const ConflictSide& side, const WaitNote& wait,
                                       const std::string& barrier) const {
  const auto [index, before] = wait_passed_before(side, wait);
  std::vector<std::pair<const machine::Block*, uint32_t>> others;  // block and warp
  const uint32_t warps = order_.warps_per_block();
  for (const auto& block : cluster_.cluster().blocks) {
    for (const machine::Warp& warp : block->warps) {
      const uint32_t number = block->rank * warps + warp.index;
      if (number == side.warp) continue;
      bool others_wait = false;
      for (const auto& [waited, note] : order_.warp(number).waits) {
        others_wait = others_wait || (note.pc == wait.pc && note.phases == 1);
      }
      for (const auto& fragment : warp.fragments) {
        others_wait =
            others_wait || (fragment->state == machine::FragmentState::blocked && fragment->pc == wait.pc &&
                            fragment->wait.kind == machine::WaitKind::mbarrier && fragment->wait.value % 2 == 0);
      }
      if (others_wait) others.emplace_back(block.get(), warp.index);
    }
  }
  if (others.empty()) return {};
  if (before == nullptr) return ahead_by_arrival_of(others, side, wait, barrier);
  return fmt::format(
      "the wait{} for {} passed at once, because it was for parity 1 and no phase had ended, and then, a round ahead "
      "of others, who wait there for the first phase, so did that{} for {}: is the first of these two to wait for "
      "others, and so to begin with parity 0?",
      line(before->pc), name(index), line(wait.pc), barrier);
}

}  // namespace stagecraft::emulator::checks
