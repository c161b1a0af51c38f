#include "emulator/checks/race/race_cause.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "emulator/checks/causes/stale_wait.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncCompletion;
using machine::LaneMask;

namespace {

bool is_copy_into_shared(const Operation& operation) { return operation.completion == AsyncCompletion::mbarrier; }

}  // namespace

std::string RaceCause::line(uint32_t pc) const { return line_of(cluster_, pc); }

std::string RaceCause::name(const BarrierOrder& barrier) const { return name_of(cluster_, barrier); }

std::string RaceCause::of(const PastAccess& before, const PresentAccess& now) {
  for (const uint32_t pc : {before.pc(), now.record.pc()}) {
    if (!cluster_.kernel().traits_at(pc).allocates_tensor_memory) continue;
    const PastAccess& read = pc == before.pc() ? now.record : before;
    if (std::string cause = waits_.passed_before_first(side_of(read)); !cause.empty()) return cause;
    return "the address of tensor memory is there once tcgen05.alloc has stored it: a __syncthreads() must come "
           "between that and the first read";
  }
  if (before.is_asynchronous()) return after_operation(before, order_.operation(before.operation()), now);
  if (now.record.is_asynchronous()) return before_operation(before, now);
  return between_threads(before, now);
}

/// For a product that is followed by what now writes there.
std::string RaceCause::operand_before_write(const Operation& product, const PresentAccess& now) const {
  if (!now.record.writes()) return {};
  if (!now.record.is_asynchronous()) return operand_elsewhere(product, nullptr);
  const Operation& copy = order_.operation(now.record.operation());
  return is_copy_into_shared(copy) ? operand_elsewhere(product, &copy) : std::string();
}

std::string RaceCause::after_operation(const PastAccess& before, const Operation& first, const PresentAccess& now) {
  switch (first.completion) {
    case AsyncCompletion::mbarrier:
      return now.record.is_asynchronous() ? after_copy(before, first, now)
                                          : with_copy(now.record, first, true, *now.known);
    case AsyncCompletion::bulk_group:
      if (std::string cause = in_groups(first); !cause.empty()) return cause;
      return first.warp == now.warp && (now.lanes >> first.lane & 1) != 0
                 ? fmt::format(
                       "the copy may not have read its source yet: the thread must commit it and wait with "
                       "cp.async.bulk.wait_group.read before the bytes are used again; a wait for N groups leaves "
                       "the youngest N pending")
                 : told_by_issuer(first, now);
    case AsyncCompletion::copy_group:
      return "cp.async has ended for its own thread after its cp.async.wait_group, and for others after a barrier "
             "that follows it";
    case AsyncCompletion::warpgroup: {
      if (std::string cause = operand_before_write(first, now); !cause.empty()) return cause;
      const std::string passed = waits_.last_wait_let_pass(side_of(now.record));
      if (!passed.empty() && first.warp != now.warp) {
        return fmt::format(
            "{}, which does not come after the end of this wgmma.mma_async: a warp of the same warpgroup must commit "
            "it, wait with wgmma.wait_group until its group has ended, and then arrive; or does an arrival for other "
            "bytes come here?",
            passed);
      }
      return "the tensor core may still read its operands: a warp of the warpgroup must commit the wgmma.mma_async, "
             "wait with wgmma.wait_group until its group has ended, and then tell the threads that use the bytes again";
    }
    default: {
      if (std::string cause = waits_.issued_too_early(side_of(before)); !cause.empty()) return cause;
      if (std::string cause = in_commits(first, now.warp); !cause.empty()) return cause;
      if (std::string cause = waits_.before_end_of(side_of(before), side_of(now.record)); !cause.empty()) return cause;
      if (std::string cause = operand_before_write(first, now); !cause.empty()) return cause;
      if (std::string cause = waits_.in_phases(side_of(before), side_of(now.record)); !cause.empty()) return cause;
      if (std::string cause = read_before_copy(first, now); !cause.empty()) return cause;
      return fmt::format(
          "the tensor core may still read its operands: a thread that uses the bytes again must wait for an mbarrier "
          "that a tcgen05.commit after the {} arrives on{}{}",
          first.what, waits_.barrier_not_waited_for(side_of(before), side_of(now.record)),
          freed_by_threads(first, now));
    }
  }
}

/// For a second operation after a copy that completes on an mbarrier.
std::string RaceCause::after_copy(const PastAccess& before, const Operation& first, const PresentAccess& now) {
  const Operation& second = order_.operation(now.record.operation());
  if (before.writes() && now.record.writes() && is_copy_into_shared(second)) {
    if (const std::string cause = between_copies(first, second); !cause.empty()) return cause;
  }
  if (std::string cause = in_bytes(first, now.warp); !cause.empty()) return cause;
  if (std::string cause = waits_.before_end_of(side_of(before), side_of(now.record)); !cause.empty()) return cause;
  if (std::string cause = issued_by_stale_wait(now); !cause.empty()) return cause;
  if (std::string cause = operand_elsewhere(second, &first); !cause.empty()) return cause;
  if (std::string cause = in_rounds(first, now); !cause.empty()) return cause;
  if (std::string cause = read_without_wait(first, now); !cause.empty()) return cause;
  if (std::string cause = waits_.let_pass_by_others(side_of(before), side_of(now.record)); !cause.empty()) return cause;
  const BarrierOrder& barrier = order_.barrier(first.barrier);
  if (barrier.rank != now.warp / order_.warps_per_block()) {
    return fmt::format(
        "a second operation is issued on the same bytes before its thread knows that the first has ended: only "
        "{} of the block of rank {} tells that, so a thread which has waited for it must arrive on a barrier "
        "that the issuing thread waits for",
        name(barrier), barrier.rank);
  }
  return fmt::format(
      "a second operation is issued on the same bytes before its thread knows that the first has ended: wait for "
      "{}, or for a barrier that is arrived on after it",
      name(barrier));
}

std::string RaceCause::before_operation(const PastAccess& before, const PresentAccess& now) {
  const Operation& second = order_.operation(now.record.operation());
  if (now.record.writes() && is_copy_into_shared(second)) {
    return with_copy(before, second, false, *now.known);
  }
  if (std::string cause = waits_.before_end_of_threads(side_of(before), side_of(now.record)); !cause.empty()) {
    return cause;
  }
  if (std::string cause = waits_.by_relaxed(side_of(before), side_of(now.record)); !cause.empty()) return cause;
  if (std::string cause = one_speaks_for_several(before, now); !cause.empty()) return cause;
  return fmt::format(
      "the {} is issued before its thread knows that the {} is over: hand the bytes over by a barrier, after the "
      "last {}",
      second.what, before.writes() ? "write" : "read", before.writes() ? "write" : "read");
}

std::string RaceCause::between_threads(const PastAccess& before, const PresentAccess& now) {
  if (before.agent == now.warp) {
    return "lanes of one warp need not run in step: put a __syncwarp() between the two";
  }
  for (const uint32_t warp : {now.warp, before.agent}) {
    const uint32_t other = warp == now.warp ? before.agent : now.warp;
    if (std::string cause = waits_.stale(warp, other); !cause.empty()) return cause;
  }
  for (const bool first : {true, false}) {
    const PastAccess& access = first ? before : now.record;
    const uint32_t other = first ? now.warp : before.agent;
    if (std::string cause = waits_.in_waits_without_lane(side_of(access), other); !cause.empty()) return cause;
    if (std::string cause = waits_.let_pass_by_own_warp(side_of(access)); !cause.empty()) return cause;
    if (std::string cause = waits_.passed_before_first(side_of(access)); !access.writes() && !cause.empty()) {
      return cause;
    }
  }
  if (std::string cause = in_meetings_without_lane(before, now); !cause.empty()) return cause;
  if (std::string cause = waits_.by_relaxed(side_of(before), side_of(now.record)); !cause.empty()) return cause;
  // Was it released by an arrival of this round, that is, since the last wait?
  const auto arrivals_before_last_wait = [&](const PastAccess& access) {
    uint64_t arrivals = 0;
    for (const auto& [index, note] : order_.warp(access.agent).waits) {
      if (note.time <= access.time) arrivals = std::max(arrivals, note.arrivals);
    }
    return arrivals;
  };
  for (const bool first : {true, false}) {
    const PastAccess& access = first ? before : now.record;
    const uint32_t other = first ? now.warp : before.agent;
    std::string cause =
        in_arrivals(access, other, first ? now.known : nullptr, nullptr, arrivals_before_last_wait(access));
    if (!cause.empty()) return cause;
  }
  const uint32_t warps = order_.warps_per_block();
  if (before.agent / warps != now.warp / warps) {
    return "the two blocks of the cluster are not synchronised: put a cluster barrier (cluster.sync()) between the two";
  }
  if (before.writes() && now.record.writes() && before.pc() == now.record.pc()) {
    return "two warps write the same bytes by one instruction: is each to have a part of its own, which their "
           "addresses do not show; or is a barrier missing between the two?";
  }
  const Time last = now.known->of_warp(before.agent);
  if (const std::string later = waits_.wait_after(side_of(before)); before.writes() && !later.empty()) {
    return fmt::format(
        "the write comes before the wait{}: does that wait for the reads to be over, and belong before the "
        "write?",
        later);
  }
  if (std::string cause = met_before_read_only(before, now); !cause.empty()) return cause;
  if (std::string cause = in_arrival_not_waited_for(before, now); !cause.empty()) return cause;
  if (std::string cause = one_speaks_for_several(before, now); !cause.empty()) return cause;
  const std::string text =
      last == 0 && order_.warp(now.warp).waits.empty()
          ? "there is no __syncthreads() or other barrier between the two"
          : fmt::format(
                "the last barrier that the two threads shared comes before the {}, not between the two: a "
                "__syncthreads() or an mbarrier is missing",
                before.writes() ? "write" : "read");
  if (const std::string left_out = barrier_left_out(before, now); !left_out.empty()) return text + left_out;
  return text + met_at_two_lines(side_of(before), side_of(now.record));
}

ConflictSide RaceCause::side_of(const PastAccess& access) const {
  if (!access.is_asynchronous())
    return {access.agent, access.lanes, access.time, nullptr, access.writes() ? "write" : "read"};
  const Operation& operation = order_.operation(access.operation());
  return {operation.warp, 1u << operation.lane, operation.issued, &operation, operation.what};
}

std::string RaceCause::in_bytes(const Operation& copy, uint32_t waiting_warp) const {
  const auto& waits = order_.warp(waiting_warp).waits;
  const auto found = waits.find(copy.barrier);
  if (found == waits.end() || found->second.phases <= copy.phase) return {};
  return fmt::format(
      "the wait{} for {} passed before the bytes of this copy had come, although it was issued in the phase that ended "
      "then: are fewer bytes announced than the copies of a phase bring?",
      line(found->second.pc), name(order_.barrier(copy.barrier)));
}

std::string RaceCause::in_rounds(const Operation& copy, const PresentAccess& now) const {
  const auto& waits = order_.warp(now.warp).waits;
  const auto wait = waits.find(copy.barrier);
  if (wait == waits.end() || wait->second.phases == 0 || wait->second.phases > copy.phase) return {};
  std::string freed;
  const auto& before = order_.warp(copy.warp).waits;
  const WaitNote* last = nullptr;
  uint32_t index = 0;
  for (const auto& [barrier, note] : before) {
    if (note.time > copy.issued || note.phases == 0 || order_.barrier(barrier).is_for_copies) continue;
    if (last == nullptr || note.time >= last->time) last = &note, index = barrier;
  }
  if (last != nullptr) {
    const std::string by = order_.barrier(index).phases.describe_arrivals(last->phases - 1, cluster_.kernel());
    if (!by.empty()) freed = fmt::format(", by {}", by);
  }
  return fmt::format(
      "the wait{} for {} was for phase {}, and this copy brings the bytes of phase {}: the slot has been released{} "
      "and filled again before this {} came. Is it another's turn to use it, or is the thread behind?",
      line(wait->second.pc), name(order_.barrier(copy.barrier)), wait->second.phases - 1, copy.phase, freed, now.what);
}

std::string RaceCause::between_copies(const Operation& first, const Operation& second) const {
  const BarrierOrder &one = order_.barrier(first.barrier), &other = order_.barrier(second.barrier);
  if (one.rank != other.rank) return {};
  const uint32_t warps = order_.warps_per_block();
  if (first.warp / warps != second.warp / warps && first.barrier == second.barrier &&
      (first.time == 0 || one.ends < first.time)) {
    if (std::string cause = in_sizes(first, second); !cause.empty()) return cause;
    return fmt::format(
        "the blocks of rank {} and {} bring the same bytes for the same phase of {} of rank {}: does a multicast mask "
        "send a part to a block that is not to have it, or do two blocks bring one part?",
        first.warp / warps, second.warp / warps, name(one), one.rank);
  }
  if (first.warp == second.warp && first.pc == second.pc && first.lane != second.lane) {
    return fmt::format(
        "lanes {} and {} both issue this copy: let one elected lane do so, or give each lane a part of its own",
        first.lane, second.lane);
  }
  if (first.barrier != second.barrier) {
    return fmt::format(
        "the two copies bring the same bytes for different barriers, {} and {}: if each barrier is for a slot of its "
        "own, two slots overlap, so look at how their addresses are computed; where the bytes are meant to be filled "
        "again, wait for {} before",
        name(one), name(other), name(one));
  }
  const bool same_phase = first.time == 0 || one.ends < first.time;
  if (!same_phase) return {};
  if (first.warp == second.warp && line(first.pc) == line(second.pc)) {
    return fmt::format(
        "one line brings the same bytes twice for the same phase of {}: the second copy comes a round too "
        "early, because its thread does not wait until the slot is free; or, where it is in a loop over parts of a "
        "slot, its address does not move on",
        name(one));
  }
  return fmt::format(
      "the two copies bring the same bytes for the same phase of {}: two tiles of one slot overlap, so look at how "
      "their addresses are computed; or the second comes a round too early, because its thread does not wait until "
      "the slot is free",
      name(one));
}

std::string RaceCause::in_commits(const Operation& read, uint32_t waiting_warp) const {
  const auto& waits = order_.warp(waiting_warp).waits;
  const auto last = std::max_element(waits.begin(), waits.end(),
                                     [](const auto& a, const auto& b) { return a.second.time < b.second.time; });
  if (last == waits.end() || last->second.phases == 0) return {};
  const Operation* commit = order_.commit_of(last->first, last->second.phases - 1);
  if (commit == nullptr || commit->warp != read.warp || commit->lane != read.lane || commit->time >= read.time) {
    return {};
  }
  return fmt::format(
      "the wait{} for {} was ended by the tcgen05.commit{}, which came before this {} and speaks only for what came "
      "before it: commit once, after the last {} that reads the slot; or is the wait for another slot?",
      line(last->second.pc), name(order_.barrier(last->first)), line(commit->pc), read.what, read.what);
}

std::string RaceCause::with_copy(const PastAccess& thread, const Operation& copy, bool copy_first,
                                 const VectorClock& known) {
  const BarrierOrder& barrier = order_.barrier(copy.barrier);
  const std::string barrier_name = name(barrier);
  if (thread.is_asynchronous()) {
    return fmt::format(
        "the copy is issued before its thread knows that the {} is over: wait for the barrier that "
        "frees the slot before the copy into it",
        order_.operation(thread.operation()).what);
  }
  const WarpOrder& warp = order_.warp(thread.agent);
  const char* access = thread.writes() ? "write" : "read";
  const auto found = warp.waits.find(copy.barrier);
  const WaitNote* wait =
      found != warp.waits.end() && (found->second.lanes & thread.lanes) != 0 ? &found->second : nullptr;
  if (wait != nullptr && wait->phases == 0) {
    return fmt::format(
        "the wait{} for {} passed at once, because it was for parity 1 and no phase had ended: a "
        "consumer begins with parity 0",
        line(wait->pc), barrier_name);
  }
  if (wait != nullptr && (wait->repeated || wait->repeated_after_meeting)) {
    report_stale_wait(findings_, cluster_, thread.agent, *wait, barrier);
    return fmt::format(
        "the wait{} for {} passed at once, for phase {}, which it had already seen: its parity was not flipped, so it "
        "does not wait for the copy",
        line(wait->pc), barrier_name, wait->phases - 1);
  }
  if (wait != nullptr && wait->phases <= copy.phase && !barrier.phases.has(wait->phases - 1, PhaseNote::Kind::bytes)) {
    const std::string ended = barrier.phases.describe_arrivals(wait->phases - 1, cluster_.kernel());
    if (!ended.empty()) {
      return fmt::format(
          "the wait{} for {} was ended by {}, in a phase to which no bytes came, and this copy's count for a later "
          "one: is that arrival one too many, or does it come before the bytes are announced?",
          line(wait->pc), barrier_name, ended);
    }
  }
  if (wait != nullptr && copy_first) {
    if (std::string cause = in_bytes(copy, thread.agent); !cause.empty()) return cause;
  }
  if (wait == nullptr) {
    if (std::string cause = waits_.without_own_wait(side_of(thread), copy.barrier); !cause.empty()) return cause;
    if (std::string cause = in_other_block(thread, copy); !cause.empty()) return cause;
  }
  const uint32_t lane = machine::first_lane(thread.lanes);
  const bool issue_known = copy_first && ClusterOrder::knows_issue(copy, thread, known);
  const bool knows_a_phase = warp.known(lane)->at(barrier.component) > 0;
  if (issue_known && wait != nullptr) {
    return fmt::format(
        "nothing makes the {} wait for the copy: the last wait{} for {} was for phase {}, and the copy comes after it",
        access, line(wait->pc), barrier_name, wait->phases - 1);
  }
  const bool waits_for_nothing = found == warp.waits.end() && !knows_a_phase;
  if (copy_first && !issue_known && waits_for_nothing && thread.writes() && !releases_to(thread, copy)) {
    return fmt::format(
        "nothing makes the write wait for the copy: {} completes a phase when its bytes have come, and a thread that "
        "changes them must wait for it before; or, where only copies are to write there, do two buffers overlap?",
        barrier_name);
  }
  if (issue_known || (waits_for_nothing && !thread.writes())) {
    const auto [last_barrier, last] = waits_.last_wait_of(side_of(thread));
    const auto [last_copy_barrier, last_copy] = waits_.last_wait_for_copies(side_of(thread));
    std::string before;
    if (last_copy != nullptr && last_copy != last) {
      before = fmt::format(
          "; the last wait for copied bytes before,{}, was for {}: does this {} name another slot, or an index run "
          "past the end of the one that was waited for?",
          line(last_copy->pc), name(order_.barrier(last_copy_barrier)), access);
    } else if (last != nullptr) {
      before = fmt::format("; the last wait before,{}, was for {}", line(last->pc), name(order_.barrier(last_barrier)));
      if (last == last_copy && thread.writes()) before += ": does this write name another slot than that one's?";
    }
    return fmt::format(
        "nothing makes the {} wait for the copy: {} completes a phase when its bytes have come, and "
        "a thread that uses {} must wait for it{}",
        access, barrier_name, thread.writes() ? "the memory again" : "them", before);
  }
  // Was the slot released by an arrival, after the wait, that the copy's thread has learnt of?
  std::string cause = in_arrivals(thread, copy.warp, copy_first ? nullptr : &known, &copy,
                                  found != warp.waits.end() ? found->second.arrivals : 0);
  if (!cause.empty()) return cause;
  if (!copy_first) {
    const ConflictSide second{copy.warp, 1u << copy.lane, copy.issued, &copy, copy.what};
    if (cause = waits_.by_relaxed(side_of(thread), second); !cause.empty()) return cause;
    if (cause = in_arrival_not_heard(thread, copy); !cause.empty()) return cause;
    if (cause = waits_.let_pass_by_others(side_of(thread), second); !cause.empty()) return cause;
  }
  return fmt::format(
      "the thread that issues the copy does not wait until the {}s of the slot are over: it must wait "
      "for a barrier that they arrive on afterwards{}{}",
      access, thread.writes() ? "; or, where only copies are to write there, do two buffers overlap?" : "",
      met_at_two_lines({copy.warp, 1u << copy.lane, copy.issued, &copy, copy.what}, side_of(thread)));
}

}  // namespace stagecraft::emulator::checks
