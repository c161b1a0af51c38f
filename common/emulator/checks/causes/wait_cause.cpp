#include "emulator/checks/causes/wait_cause.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/checks/causes/stale_wait.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncCompletion;
using machine::LaneMask;

std::string WaitCause::line(uint32_t pc) const { return line_of(cluster_, pc); }

std::string WaitCause::name(uint32_t barrier) const { return name_of(cluster_, order_.barrier(barrier)); }

/// The last wait of the side's warp for a barrier before its access; null: there is none.
const WaitNote* WaitCause::wait_of(const ConflictSide& side, uint32_t barrier) const {
  const SmallMap<WaitNote>& waits = order_.warp(side.warp).waits;
  const auto found = waits.find(barrier);
  return found != waits.end() && found->second.time <= side.time ? &found->second : nullptr;
}

std::string WaitCause::spell_signal(const Signal& signal) const {
  const machine::Kernel& kernel = cluster_.kernel();
  const machine::InstructionTraits& traits = kernel.traits_at(signal.pc);
  return fmt::format("{}{}",
                     signal.of_copy        ? "copy"
                     : traits.commits      ? "tcgen05.commit"
                     : traits.synchronises ? "arrival"
                                           : kernel.describe_instruction(signal.pc),
                     line(signal.pc));
}

std::vector<WaitCause::Signal> WaitCause::signals_of(const ConflictSide& side) const {
  std::vector<Signal> signals;
  if (side.operation == nullptr) {
    for (const ArrivalNote& note : order_.warp(side.warp).arrivals) {
      if (note.time < side.time || (note.lanes & side.lanes) == 0) continue;
      signals.push_back({note.barrier, note.phase, note.pc, false, note.relaxed, note.lanes});
    }
    return signals;
  }
  const Operation& operation = *side.operation;
  if (operation.completion == AsyncCompletion::mbarrier) {
    signals.push_back({operation.barrier, operation.phase, operation.pc, true});
    return signals;
  }
  if (operation.completion != AsyncCompletion::tensor_pipe) return signals;
  const auto covers = [&](const Operation& commit) {
    return commit.completion == AsyncCompletion::tensor_arrive && commit.warp == operation.warp &&
           commit.lane == operation.lane && commit.time >= operation.time;
  };
  for (uint32_t index = 0; index < order_.barrier_count(); ++index) {
    const BarrierOrder& barrier = order_.barrier(index);
    for (const CommitNote& note : barrier.commits) {
      const Operation& commit = order_.operation(note.operation);
      if (covers(commit)) signals.push_back({index, note.phase, commit.pc});
    }
    for (const uint32_t number : barrier.under_way) {
      const Operation& commit = order_.operation(number);
      if (covers(commit)) signals.push_back({index, barrier.ends, commit.pc});
    }
  }
  return signals;
}

bool WaitCause::has_arrived(uint32_t warp, uint32_t barrier) const {
  const auto& arrivals = order_.warp(warp).arrivals;
  return std::any_of(arrivals.begin(), arrivals.end(),
                     [&](const ArrivalNote& arrival) { return arrival.barrier == barrier; });
}

bool WaitCause::has_signalled(uint32_t warp, uint32_t barrier) const {
  const auto& commits = order_.barrier(barrier).commits;
  return has_arrived(warp, barrier) || std::any_of(commits.begin(), commits.end(), [&](const CommitNote& note) {
           return order_.operation(note.operation).warp == warp;
         });
}

std::string WaitCause::stale(uint32_t warp, uint32_t other) {
  for (const auto& [index, note] : order_.warp(warp).waits) {
    if (!note.repeated && !(note.repeated_after_meeting && has_signalled(other, index))) continue;
    report_stale_wait(findings_, cluster_, warp, note, order_.barrier(index));
    return fmt::format(
        "the wait{} for {} passed at once, for {}, which it had already seen: its parity was not flipped",
        line(note.pc), name(index), spell_phase_seen(note));
  }
  return {};
}

std::string WaitCause::in_waits_of_other_lanes(const ConflictSide& side, uint32_t barrier) const {
  uint32_t pc = 0;
  LaneMask waiting = 0;
  if (const WaitNote* wait = wait_of(side, barrier); wait != nullptr && wait->phases > 0) {
    waiting = wait->lanes;
    pc = wait->pc;
  }
  const BarrierOrder& place = order_.barrier(barrier);
  const uint32_t warps = order_.warps_per_block(), rank = side.warp / warps;
  const auto& blocks = cluster_.cluster().blocks;
  if (waiting == 0 && rank < blocks.size() && rank == place.rank) {
    for (const auto& fragment : blocks[rank]->warps[side.warp % warps].fragments) {
      if (fragment->wait.kind != machine::WaitKind::mbarrier || fragment->state != machine::FragmentState::blocked ||
          (fragment->wait.address & machine::kSharedOffsetMask) != place.offset) {
        continue;
      }
      waiting = fragment->mask;
      pc = fragment->pc;
    }
  }
  if (waiting == 0 || (side.lanes & waiting) != 0) return {};
  return fmt::format(
      "the wait{} for {} is one of {} only, and {} did not wait: put a __syncwarp() after it, or let every lane wait",
      line(pc), name(barrier), describe_lanes(waiting), describe_lanes(side.lanes));
}

/// Judges the wait for a barrier that shows the end of the first access.
std::string WaitCause::in_wait(const ConflictSide& first, const ConflictSide& second, const Signal& signal,
                               const WaitNote& wait) {
  const std::string barrier = name(signal.barrier);
  if (wait.phases > signal.phase) {
    if (const LaneMask others = second.lanes & ~wait.lanes; others != 0) {
      return fmt::format(
          "the wait{} for {} is one of {} only, and {} did not wait: put a __syncwarp() after it, or let every lane "
          "wait",
          line(wait.pc), barrier, describe_lanes(wait.lanes), describe_lanes(others));
    }
    return wait.relaxed || signal.relaxed ? spell_relaxed(signal.barrier, signal.pc, wait) : std::string();
  }
  if ((wait.lanes & second.lanes) == 0) return {};
  if (wait.repeated || wait.repeated_after_meeting) {
    report_stale_wait(findings_, cluster_, second.warp, wait, order_.barrier(signal.barrier));
    return fmt::format(
        "the wait{} for {} passed at once, for {}, which it had already seen: its parity was not flipped",
        line(wait.pc), barrier, spell_phase_seen(wait));
  }
  // A copy may be one of the first round, which waits for nothing.
  const bool fills = second.operation != nullptr && second.operation->completion == AsyncCompletion::mbarrier;
  if (wait.phases == 0 && !fills) {
    // A first wait is not to blame where others for the same array have followed.
    const auto [waited, last] = last_wait_for_array_of(second, signal.barrier);
    if (last != nullptr && last->time > wait.time && !order_.barrier(waited).is_for_copies) {
      const bool is_last = last == last_wait_of(second).second;
      return fmt::format(
          "the last wait {0}before the {1}{2} was for {3}, and the {4} has ended when phase {5} of {6} has: does the "
          "{1} name another slot than the one that was waited for?",
          is_last ? std::string() : fmt::format("for {} ", variable_of(cluster_, order_.barrier(waited))), second.what,
          line(last->pc).empty() ? std::string() : "," + line(last->pc) + ",", name(waited), first.what, signal.phase,
          barrier);
    }
    if (std::string ahead = ahead_of_others(second, wait, barrier); !ahead.empty()) return ahead;
    return fmt::format(
        "the wait{} for {} passed at once, because it was for parity 1 and no phase had ended: what waits for the {} "
        "begins with parity 0{}",
        line(wait.pc), barrier, first.what, passed_before(second, wait));
  }
  return {};
}

std::string WaitCause::spell_relaxed(uint32_t barrier, uint32_t arrival_pc, const WaitNote& wait) const {
  return fmt::format("the {} at {}{} is .relaxed and orders no memory: write {} instead",
                     wait.relaxed ? "wait" : "arrival", name(barrier), line(wait.relaxed ? wait.pc : arrival_pc),
                     wait.relaxed ? ".acquire" : ".release");
}

std::string WaitCause::by_relaxed(const ConflictSide& first, const ConflictSide& second) const {
  // One lane may have arrived for the others of its warp.
  for (const ArrivalNote& note : order_.warp(first.warp).arrivals) {
    const WaitNote* wait = wait_of(second, note.barrier);
    if (note.time < first.time || wait == nullptr || wait->phases <= note.phase) continue;
    if (note.relaxed || wait->relaxed) return spell_relaxed(note.barrier, note.pc, *wait);
  }
  return first.operation == nullptr ? relaxed_of_cluster(first.warp, first.time, second.warp, first.what)
                                    : std::string();
}

std::string WaitCause::relaxed_of_cluster(uint32_t first, Time time, uint32_t second, const char* what) const {
  const MeetingNote& arrival = order_.warp(first).relaxed_arrival;
  if (arrival.time <= time || order_.warp(second).cluster_passed <= arrival.phase) return {};
  return fmt::format(
      "the barrier of the cluster between the two is relaxed: the barrier.cluster.arrive{} after the {} orders no "
      "memory. Use barrier.cluster.arrive without .relaxed (cluster.sync()), or a fence.acq_rel.cluster before it",
      line(arrival.pc), what);
}

std::string WaitCause::passed_before_first(const ConflictSide& side) const {
  const auto [barrier, last] = last_wait_of(side);
  if (last == nullptr || last->phases != 0) return {};
  return fmt::format(
      "the wait{} for {}, before the {}, passed at once: it was for parity 1, and the phase before the first counts as "
      "complete with parity 1. What waits for the first phase begins with parity 0",
      line(last->pc), name(barrier), side.what);
}

std::pair<uint32_t, const WaitNote*> WaitCause::last_wait_of(const ConflictSide& side) const {
  return last_wait(side, [](uint32_t) { return true; });
}

std::pair<uint32_t, const WaitNote*> WaitCause::last_wait_for_copies(const ConflictSide& side) const {
  return last_wait(side, [&](uint32_t index) { return order_.barrier(index).is_for_copies; });
}

std::pair<uint32_t, const WaitNote*> WaitCause::last_wait_for_array_of(const ConflictSide& side,
                                                                       uint32_t barrier) const {
  const auto array = [&](uint32_t index) { return variable_of(cluster_, order_.barrier(index)); };
  return last_wait(side, [&](uint32_t index) { return array(index) == array(barrier); });
}

std::pair<uint32_t, const WaitNote*> WaitCause::last_wait(const ConflictSide& side,
                                                          const std::function<bool(uint32_t)>& counts) const {
  std::pair<uint32_t, const WaitNote*> last{0, nullptr};
  for (const auto& [index, note] : order_.warp(side.warp).waits) {
    if (note.time > side.time || (note.lanes & side.lanes) == 0 || !counts(index)) continue;
    if (last.second == nullptr || note.time >= last.second->time) last = {index, &note};
  }
  return last;
}

std::string WaitCause::in_phases(const ConflictSide& first, const ConflictSide& second) const {
  const std::vector<Signal> signals = signals_of(first);
  for (const Signal& signal : signals) {
    const WaitNote* wait = wait_of(second, signal.barrier);
    if (wait == nullptr || wait->phases == 0 || wait->phases > signal.phase || (wait->lanes & second.lanes) == 0) {
      continue;
    }
    const Operation* commit = order_.commit_of(signal.barrier, wait->phases - 1);
    if (commit != nullptr && commit->warp == first.warp && (1u << commit->lane & first.lanes) != 0) {
      return fmt::format(
          "the wait{} for {} was ended by the tcgen05.commit{}, which came before this {} and speaks only for what "
          "came before it: commit once, after the last {}; or is the wait for a phase that has ended before?",
          line(wait->pc), name(signal.barrier), line(commit->pc), first.what, first.what);
    }
    const std::string ended =
        order_.barrier(signal.barrier).phases.describe_arrivals(wait->phases - 1, cluster_.kernel());
    if (ended.empty()) continue;
    return fmt::format(
        "the wait{} for {} saw its phase {} ended, by {}; this {} is over when phase {} has ended, by the {}: does the "
        "one phase end too early, or does the wait ask for the wrong one?",
        line(wait->pc), name(signal.barrier), wait->phases - 1, ended, first.what, signal.phase, spell_signal(signal));
  }
  if (!signals.empty() || first.operation == nullptr) return {};
  return first.operation->completion == AsyncCompletion::tensor_pipe ? in_commits_of_others(first) : std::string();
}

std::string WaitCause::wait_after(const ConflictSide& side) const {
  const uint32_t warps = order_.warps_per_block(), rank = side.warp / warps;
  const auto& blocks = cluster_.cluster().blocks;
  if (rank >= blocks.size()) return {};
  for (const auto& fragment : blocks[rank]->warps[side.warp % warps].fragments) {
    if (fragment->wait.kind != machine::WaitKind::mbarrier || (fragment->mask & side.lanes) != side.lanes) continue;
    if (fragment->state != machine::FragmentState::blocked) continue;
    const uint32_t index = order_.find_barrier(rank, fragment->wait.address & machine::kSharedOffsetMask);
    if (index == ClusterOrder::kNoBarrier || order_.barrier(index).is_for_copies) continue;
    return fmt::format("{} for {}", line(fragment->pc), name(index));
  }
  return {};
}

std::string WaitCause::in_waits_without_lane(const ConflictSide& side, uint32_t other) const {
  const uint32_t warps = order_.warps_per_block(), rank = side.warp / warps;
  const auto& blocks = cluster_.cluster().blocks;
  if (rank < blocks.size()) {
    for (const auto& fragment : blocks[rank]->warps[side.warp % warps].fragments) {
      const bool waits = fragment->wait.kind == machine::WaitKind::mbarrier &&
                         fragment->state == machine::FragmentState::blocked && (fragment->mask & side.lanes) == 0;
      if (!waits) continue;
      const uint32_t index = order_.find_barrier(rank, fragment->wait.address & machine::kSharedOffsetMask);
      if (index == ClusterOrder::kNoBarrier) continue;
      if (std::string cause = in_waits_of_other_lanes(side, index); !cause.empty()) return cause;
    }
  }
  for (const auto& [index, note] : order_.warp(side.warp).waits) {
    const bool from_other = has_arrived(other, index);
    const Time known = order_.known(side.warp, machine::first_lane(side.lanes))->at(order_.barrier(index).component);
    if (!from_other || note.time > side.time || (note.lanes & side.lanes) != 0 || known >= note.phases) continue;
    if (std::string cause = in_waits_of_other_lanes(side, index); !cause.empty()) return cause;
  }
  return {};
}

std::string WaitCause::barrier_not_waited_for(const ConflictSide& first, const ConflictSide& second) const {
  const std::vector<Signal> signals = signals_of(first);
  if (signals.empty()) return {};
  for (const Signal& signal : signals) {
    if (wait_of(second, signal.barrier) != nullptr) return {};
  }
  const auto [barrier, last] = last_wait_of(second);
  // Where several commits follow, that of the array at which the thread waits: it may have taken another element of it.
  const std::string array = last == nullptr ? std::string() : variable_of(cluster_, order_.barrier(barrier));
  const auto sibling = std::find_if(signals.begin(), signals.end(), [&](const Signal& signal) {
    return variable_of(cluster_, order_.barrier(signal.barrier)) == array;
  });
  const Signal& signal = sibling == signals.end() ? signals.front() : *sibling;
  return fmt::format("; that is {}, through the {}{}", name(signal.barrier), spell_signal(signal),
                     last == nullptr
                         ? std::string()
                         : fmt::format(", while the last wait{} was for {}", line(last->pc), name(barrier)));
}

std::string WaitCause::phase_that_nobody_saw(const ConflictSide& first) const {
  const std::vector<Signal> signals = signals_of(first);
  // What is still under way, nobody can have seen yet.
  if (signals.empty() || order_.barrier(signals.back().barrier).ends <= signals.back().phase) return {};
  const auto warps = static_cast<uint32_t>(cluster_.memory.size()) * order_.warps_per_block();
  const std::string barrier = name(signals.back().barrier);
  const auto variable = [&](uint32_t index) { return variable_of(cluster_, order_.barrier(index)); };
  const std::string array = variable(signals.back().barrier);
  std::string elsewhere;
  for (uint32_t warp = 0; warp < warps; ++warp) {
    for (const auto& [index, note] : order_.warp(warp).waits) {
      for (const Signal& signal : signals) {
        if (signal.barrier == index && note.phases > signal.phase) return {};
      }
      // Those that a commit lets pass are the readers of what the tensor core writes.
      if (!elsewhere.empty() || note.phases == 0 || variable(index) != array) continue;
      if (index == signals.back().barrier || order_.commit_of(index, note.phases - 1) == nullptr) continue;
      elsewhere = fmt::format("; {} waited{} for {} last", spell_thread(cluster_, warp, note.lanes), line(note.pc),
                              name(index));
    }
  }
  return fmt::format(
      "nothing has waited for phase {} of {}, by which the {} tells that this {} is over{}: does the side that waits "
      "take fewer rounds, or another stage?",
      signals.back().phase, barrier, spell_signal(signals.back()), first.what, elsewhere);
}

/// Where no commit of its own thread follows a tensor operation, but one of another thread does.
std::string WaitCause::in_commits_of_others(const ConflictSide& first) const {
  const Operation& operation = *first.operation;
  const auto is_of_other = [&](const Operation& commit) {
    return commit.completion == AsyncCompletion::tensor_arrive &&
           (commit.warp != operation.warp || commit.lane != operation.lane) && commit.known != nullptr &&
           ClusterOrder::knows_issue(operation, {commit.warp, 1u << commit.lane, 0, 0}, *commit.known);
  };
  const auto say = [&](uint32_t barrier, const Operation& commit) {
    return fmt::format(
        "the tcgen05.commit{} at {} is one of {}, and speaks for what that thread has issued, not for this {}: the "
        "thread that issues the {} must commit it",
        line(commit.pc), name(barrier), spell_thread(cluster_, commit.warp, 1u << commit.lane), first.what, first.what);
  };
  for (uint32_t index = 0; index < order_.barrier_count(); ++index) {
    const BarrierOrder& barrier = order_.barrier(index);
    for (const uint32_t number : barrier.under_way) {
      if (is_of_other(order_.operation(number))) return say(index, order_.operation(number));
    }
    for (const CommitNote& note : barrier.commits) {
      if (is_of_other(order_.operation(note.operation))) return say(index, order_.operation(note.operation));
    }
  }
  return {};
}

std::string WaitCause::issued_too_early(const ConflictSide& operation) {
  // The first one of several has put the others out of step.
  const WaitNote* stale = nullptr;
  uint32_t barrier = 0;
  for (const auto& [index, note] : order_.warp(operation.warp).waits) {
    if (!note.repeated || note.time > operation.time || (note.lanes & operation.lanes) == 0) continue;
    if (stale == nullptr || note.time < stale->time) stale = &note, barrier = index;
  }
  if (stale == nullptr) return {};
  report_stale_wait(findings_, cluster_, operation.warp, *stale, order_.barrier(barrier));
  return fmt::format(
      "the wait{} for {}, before the {}, passed at once, for {}, which it had already seen: its parity was not flipped",
      line(stale->pc), name(barrier), operation.what, spell_phase_seen(*stale));
}

std::string WaitCause::before_end_of(const ConflictSide& first, const ConflictSide& second) {
  const std::vector<Signal> signals = signals_of(first);
  for (const Signal& signal : signals) {
    const WaitNote* wait = wait_of(second, signal.barrier);
    if (wait == nullptr) continue;
    if (std::string cause = in_wait(first, second, signal, *wait); !cause.empty()) return cause;
  }
  if (std::string cause = issued_too_early(first); !cause.empty()) return cause;
  // Where it is known who shows the end, a wait for something else says nothing.
  return signals.empty() ? stale(second.warp, first.warp) : std::string();
}

std::string WaitCause::before_end_of_threads(const ConflictSide& first, const ConflictSide& second) {
  // Were the threads too early themselves, because what they waited for passed at once?
  const auto [barrier, last] = last_wait_of(first);
  if (last != nullptr && last->phases == 0 && !order_.barrier(barrier).is_for_copies) {
    return fmt::format(
        "the wait{} for {}, before the {}, passed at once, because it was for parity 1 and no phase had ended: what "
        "waits for the {} begins with parity 0",
        line(last->pc), name(barrier), first.what, second.what);
  }
  if (last != nullptr && last->phases > 0 && second.operation != nullptr &&
      second.operation->completion == AsyncCompletion::tensor_pipe) {
    const Operation* commit = order_.commit_of(barrier, last->phases - 1);
    if (commit != nullptr && (commit->warp != second.warp || (1u << commit->lane & second.lanes) == 0)) {
      return fmt::format(
          "the wait{} for {}, before the {}, was ended by the tcgen05.commit{} of {}: a commit speaks for what its "
          "own thread has issued, and this {} is of another",
          line(last->pc), name(barrier), first.what, line(commit->pc),
          spell_thread(cluster_, commit->warp, 1u << commit->lane), second.what);
    }
  }
  for (const uint32_t warp : {first.warp, second.warp}) {
    const uint32_t other = warp == first.warp ? second.warp : first.warp;
    if (std::string cause = stale(warp, other); !cause.empty()) return cause;
  }
  for (const Signal& signal : signals_of(first)) {
    const WaitNote* wait = wait_of(second, signal.barrier);
    if (wait == nullptr || wait->phases <= signal.phase) continue;
    if (std::string cause = in_wait(first, second, signal, *wait); !cause.empty()) return cause;
  }
  return {};
}

}  // namespace stagecraft::emulator::checks
