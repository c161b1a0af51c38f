// What the race check says of what it has found, and what it supposes to be the reason.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/checks/race/race.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncCompletion;
using machine::Diagnostic;
using machine::LaneMask;
using machine::Place;

namespace {

// Several flaws of a barrier's use by one instruction are told as one.
constexpr std::string_view kMisuse = "barrier misuse";

machine::Extent3 position_of(const machine::Cluster& cluster, uint32_t rank) {
  // The blocks of a cluster that has not quite started yet are not all there.
  return rank < cluster.blocks.size() ? cluster.blocks[rank]->index : cluster.first_block;
}

bool is_copy_into_shared(const Operation& operation) { return operation.completion == AsyncCompletion::mbarrier; }

std::string spell_thread(const machine::Cluster& cluster, uint32_t rank, uint32_t warp, LaneMask lanes) {
  const machine::Extent3 block = position_of(cluster, rank);
  return fmt::format("block ({},{},{}) warp {} [{}]", block.x, block.y, block.z, warp, describe_lanes(lanes));
}

}  // namespace

Place RaceCheck::place_of(const ClusterState& state, uint32_t warp, LaneMask lanes, uint32_t pc) const {
  const machine::Kernel& kernel = *grid_->kernel;
  const machine::Extent3 block = position_of(*state.cluster, warp / state.order.warps_per_block());
  Place place;
  place.kernel = kernel.display_name;
  place.source_file = kernel.source_file();
  place.has_block = place.has_warp = true;
  place.block_x = block.x;
  place.block_y = block.y;
  place.block_z = block.z;
  place.warp = warp % state.order.warps_per_block();
  place.lanes = lanes;
  place.source = kernel.describe_source(pc);
  place.instruction = kernel.describe_instruction(pc);
  return place;
}

std::string RaceCheck::name_of(const BarrierOrder& barrier) const {
  return grid_->kernel->name_of_shared(barrier.offset, machine::kMbarrierBytes);
}

/// "block (0,0,0) warp 1 [lane 3] reads it at ring.cu:41", "the cp.async.bulk issued by ... at ring.cu:20 writes it"
std::string RaceCheck::describe(const ClusterState& state, const PastAccess& access) const {
  const uint32_t warps = state.order.warps_per_block();
  const char* verb = access.writes() ? "writes" : "reads";
  const std::string source = grid_->kernel->describe_source(access.pc());
  const std::string where = source.empty() ? fmt::format(" ({})", grid_->kernel->describe_instruction(access.pc()))
                                           : fmt::format(" at {}", source);
  if (access.is_asynchronous()) {
    const Operation& operation = state.order.operation(access.operation());
    return fmt::format(
        "{} issued by {}{} {} it", operation.what,
        spell_thread(*state.cluster, operation.warp / warps, operation.warp % warps, 1u << operation.lane), where,
        verb);
  }
  return fmt::format("{} {} it{}",
                     spell_thread(*state.cluster, access.agent / warps, access.agent % warps, access.lanes), verb,
                     where);
}

void RaceCheck::report(ClusterState& state, const PastAccess& before, const Present& now, uint32_t address) {
  const bool same_value = before.writes() && !before.is_asynchronous() && now.changes_nothing;
  const auto identity =
      findings_.claim_pair(same_value ? "race of equal values" : "race", before.pc(), now.record.pc());
  if (!identity) return;
  const machine::Kernel& kernel = *grid_->kernel;
  Diagnostic finding;
  finding.kind = "race";
  // The thread's side first, where there is one: that is where the reader looks.
  finding.place = place_of(state, now.warp, now.lanes, now.record.pc());
  const uint32_t rank = address >> machine::kSharedRankShift;
  const std::string what = kernel.name_of_shared_byte(address & machine::kSharedOffsetMask);
  const bool own = rank == now.warp / state.order.warps_per_block();
  const std::string owner = own ? std::string() : fmt::format(" of the block of rank {}", rank);
  finding.message =
      now.record.is_asynchronous()
          ? fmt::format("race: the {} issued here {} {} in shared memory{}", now.what,
                        now.record.writes() ? "writes" : "reads", what, owner)
          : fmt::format("race: {} {} in shared memory{}", now.record.writes() ? "writes" : "reads", what, owner);
  finding.details.push_back(describe(state, before));
  finding.details.push_back("nothing orders the two");
  finding.likely_cause = cause_of(state, before, now);
  if (same_value) finding.tolerated = "both write the same value";
  if (now.together != nullptr && state.order.knows_of_all(before, *now.together)) {
    finding.tolerated =
        "it was over for another warp of the warpgroup when that issued its part, and on an H200 no warp's wgmma "
        "begins before all four have issued theirs";
  }
  findings_.add(*state.cluster, *identity, std::move(finding));
}

void RaceCheck::report_same_instruction(ClusterState& state, const PastAccess& now, LaneMask lanes, uint32_t address) {
  const auto identity = findings_.claim_pair("race", now.pc(), now.pc());
  if (!identity) return;
  Diagnostic finding;
  finding.kind = "race";
  finding.place = place_of(state, now.agent, lanes, now.pc());
  finding.message = fmt::format("race: these lanes write different values to {} in shared memory, in one instruction",
                                grid_->kernel->name_of_shared_byte(address & machine::kSharedOffsetMask));
  finding.details.push_back("which of them stays there is left to chance");
  finding.likely_cause = "the index does not depend on the lane as it should, or only one lane was meant to write";
  findings_.add(*state.cluster, *identity, std::move(finding));
}

/// For a copy out of shared memory that its block does not outlive.
void RaceCheck::report_outlived(const ClusterState& state, const Operation& copy) {
  const auto identity = findings_.claim("outlived", copy.pc, copy.pc);
  if (!identity) return;
  Diagnostic finding;
  finding.kind = "missing wait";
  finding.place = place_of(state, copy.warp, 1u << copy.lane, copy.pc);
  finding.message = fmt::format(
      "the block ends, and nobody has waited until the {} issued here has read its shared memory", copy.what);
  finding.details.emplace_back("the shared memory of a block that has ended may be another's before it is read");
  finding.likely_cause = fmt::format(
      "the thread that issues the {} must commit it and wait, cp.async.bulk.wait_group.read 0, before it exits",
      copy.what);
  finding.tolerated = "kernels of CUTLASS and DeepGEMM end so";
  findings_.add(*state.cluster, *identity, std::move(finding));
}

/// " at ring.cu:41", or nothing when the program has no lines.
std::string RaceCheck::line_of(uint32_t pc) const {
  const std::string source = grid_->kernel->describe_source(pc);
  return source.empty() ? std::string() : " at " + source;
}

std::string RaceCheck::cause_of(ClusterState& state, const PastAccess& before, const Present& now) {
  for (const uint32_t pc : {before.pc(), now.record.pc()}) {
    if (!grid_->kernel->describe_instruction(pc).starts_with("tcgen05.alloc")) continue;
    return "the address of tensor memory is there once tcgen05.alloc has stored it: a __syncthreads() must stand "
           "between that and the first read";
  }
  if (before.is_asynchronous()) {
    const Operation& first = state.order.operation(before.operation());
    switch (first.completion) {
      case AsyncCompletion::mbarrier: {
        if (!now.record.is_asynchronous()) return cause_with_copy(state, now.record, first, true, *now.known);
        const Operation& second = state.order.operation(now.record.operation());
        if (before.writes() && now.record.writes() && is_copy_into_shared(second)) {
          if (const std::string cause = cause_between_copies(state, first, second); !cause.empty()) return cause;
        }
        if (const std::string cause = cause_in_bytes(state, first, now.warp); !cause.empty()) return cause;
        const BarrierOrder& barrier = state.order.barrier(first.barrier);
        if (barrier.rank != now.warp / state.order.warps_per_block()) {
          return fmt::format(
              "a second operation is issued on the same bytes before its thread knows that the first has ended: only "
              "{} of the block of rank {} tells that, so a thread which has waited for it must arrive on a barrier "
              "that the issuing thread waits for",
              name_of(barrier), barrier.rank);
        }
        return fmt::format(
            "a second operation is issued on the same bytes before its thread knows that the first has ended: wait for "
            "{}, or for a barrier that is arrived on after it",
            name_of(barrier));
      }
      case AsyncCompletion::bulk_group:
        return first.warp == now.warp && (now.lanes >> first.lane & 1) != 0
                   ? fmt::format(
                         "the copy may not have read its source yet: the thread must commit it and wait with "
                         "cp.async.bulk.wait_group.read before the bytes are used again; a wait for N groups leaves "
                         "the youngest N pending")
                   : fmt::format(
                         "the copy may not have read its source yet: only the thread that issued it can wait for that, "
                         "with cp.async.bulk.wait_group.read, and then tell the others by a barrier");
      case AsyncCompletion::copy_group:
        return "cp.async has ended for its own thread after its cp.async.wait_group, and for others after a barrier "
               "behind that";
      case AsyncCompletion::warpgroup:
        return "the tensor core may still read its operands: a warp of the warpgroup must commit the wgmma.mma_async, "
               "wait with wgmma.wait_group until its group has ended, and then tell whoever uses the bytes again";
      default: {
        if (const std::string cause = cause_in_commits(state, first, now.warp); !cause.empty()) return cause;
        return fmt::format(
            "the tensor core may still read its operands: whoever uses the bytes again must wait for an mbarrier that "
            "a tcgen05.commit after the {} arrives on",
            first.what);
      }
    }
  }
  if (now.record.is_asynchronous()) {
    const Operation& second = state.order.operation(now.record.operation());
    if (now.record.writes() && is_copy_into_shared(second)) {
      return cause_with_copy(state, before, second, false, *now.known);
    }
    return fmt::format(
        "the {} is issued before its thread knows that the {} is over: hand the bytes over by a barrier, after the "
        "last {}",
        second.what, before.writes() ? "write" : "read", before.writes() ? "write" : "read");
  }
  return cause_between_threads(state, before, now);
}

std::string RaceCheck::cause_between_threads(ClusterState& state, const PastAccess& before, const Present& now) {
  if (before.agent == now.warp) {
    return "lanes of one warp need not run in step: put a __syncwarp() between the two";
  }
  for (const uint32_t warp : {now.warp, before.agent}) {
    const uint32_t other = warp == now.warp ? before.agent : now.warp;
    for (const auto& [index, note] : state.order.warp(warp).waits) {
      const std::vector<ArrivalNote>& arrivals = state.order.warp(other).arrivals;
      const bool from_other =
          std::any_of(arrivals.begin(), arrivals.end(),
                      [waited_for = index](const ArrivalNote& arrival) { return arrival.barrier == waited_for; });
      if (!note.repeated && !(note.repeated_after_meeting && from_other)) continue;
      const BarrierOrder& barrier = state.order.barrier(index);
      report_stale(state, warp, note, barrier);
      return fmt::format(
          "the wait{} for {} passed at once, for phase {}, which it had already seen: its parity was not flipped",
          line_of(note.pc), name_of(barrier), note.phases - 1);
    }
  }
  // Given away by an arrival of this round, that is, since the last wait?
  const auto arrivals_before_last_wait = [&](const PastAccess& access) {
    uint64_t arrivals = 0;
    for (const auto& [index, note] : state.order.warp(access.agent).waits) {
      if (note.time <= access.time) arrivals = std::max(arrivals, note.arrivals);
    }
    return arrivals;
  };
  for (const bool first : {true, false}) {
    const PastAccess& access = first ? before : now.record;
    const uint32_t other = first ? now.warp : before.agent;
    std::string cause = cause_in_arrivals(state, access, other, first ? now.known : nullptr, nullptr,
                                          arrivals_before_last_wait(access));
    if (!cause.empty()) return cause;
  }
  const uint32_t warps = state.order.warps_per_block();
  if (before.agent / warps != now.warp / warps) {
    return "the two blocks of the cluster are not synchronised: put a cluster barrier (cluster.sync()) between the two";
  }
  const Time last = now.known->of_warp(before.agent);
  return last == 0 && state.order.warp(now.warp).waits.empty()
             ? "no __syncthreads() or other barrier stands between the two"
             : fmt::format(
                   "the last barrier that the two threads shared stands before the {}, not between the two: a "
                   "__syncthreads() or an mbarrier is missing",
                   before.writes() ? "write" : "read");
}

std::string RaceCheck::cause_in_bytes(const ClusterState& state, const Operation& copy, uint32_t waiting_warp) const {
  const auto& waits = state.order.warp(waiting_warp).waits;
  const auto found = waits.find(copy.barrier);
  if (found == waits.end() || found->second.phases <= copy.phase) return {};
  return fmt::format(
      "the wait{} for {} passed before the bytes of this copy had come, although it was issued in the phase that ended "
      "then: are fewer bytes announced than the copies of a phase bring?",
      line_of(found->second.pc), name_of(state.order.barrier(copy.barrier)));
}

std::string RaceCheck::cause_between_copies(const ClusterState& state, const Operation& first,
                                            const Operation& second) const {
  const BarrierOrder &one = state.order.barrier(first.barrier), &other = state.order.barrier(second.barrier);
  if (one.rank != other.rank) return {};
  if (first.barrier != second.barrier) {
    return fmt::format(
        "the two copies bring the same bytes for different barriers, {} and {}: where each barrier stands for a slot "
        "of its own, two slots overlap, so look at how their addresses are computed; where the bytes are meant to be "
        "filled again, wait for {} before",
        name_of(one), name_of(other), name_of(one));
  }
  const bool same_phase = first.time == 0 || one.ends < first.time;
  if (!same_phase) return {};
  return fmt::format(
      "the two copies bring the same bytes for the same phase of {}: two tiles of one slot overlap, so look at how "
      "their addresses are computed; or the second comes a round too early, because its thread does not wait until "
      "the slot is free",
      name_of(one));
}

std::string RaceCheck::cause_in_commits(const ClusterState& state, const Operation& read, uint32_t waiting_warp) const {
  const auto& waits = state.order.warp(waiting_warp).waits;
  const auto last = std::max_element(waits.begin(), waits.end(),
                                     [](const auto& a, const auto& b) { return a.second.time < b.second.time; });
  if (last == waits.end() || last->second.phases == 0) return {};
  const Operation* commit = state.order.commit_of(last->first, last->second.phases - 1);
  if (commit == nullptr || commit->warp != read.warp || commit->lane != read.lane || commit->time >= read.time) {
    return {};
  }
  return fmt::format(
      "the wait{} for {} was let pass by the tcgen05.commit{}, which came before this {} and speaks only for what came "
      "before it: commit once, after the last {} that reads the slot; or is the wait for another slot?",
      line_of(last->second.pc), name_of(state.order.barrier(last->first)), line_of(commit->pc), read.what, read.what);
}

std::string RaceCheck::cause_with_copy(ClusterState& state, const PastAccess& thread, const Operation& copy,
                                       bool copy_first, const VectorClock& known) {
  const BarrierOrder& barrier = state.order.barrier(copy.barrier);
  const std::string name = name_of(barrier);
  if (thread.is_asynchronous()) {
    return fmt::format(
        "the copy is issued before its thread knows that the {} is over: wait for the barrier that "
        "frees the slot before the copy into it",
        state.order.operation(thread.operation()).what);
  }
  const WarpOrder& warp = state.order.warp(thread.agent);
  const char* access = thread.writes() ? "write" : "read";
  const auto found = warp.waits.find(copy.barrier);
  const WaitNote* wait =
      found != warp.waits.end() && (found->second.lanes & thread.lanes) != 0 ? &found->second : nullptr;
  if (wait != nullptr && wait->phases == 0) {
    return fmt::format(
        "the wait{} for {} passed at once, because it was for parity 1 and no phase had ended: a "
        "consumer begins with parity 0",
        line_of(wait->pc), name);
  }
  if (wait != nullptr && (wait->repeated || wait->repeated_after_meeting)) {
    report_stale(state, thread.agent, *wait, barrier);
    return fmt::format(
        "the wait{} for {} passed at once, for phase {}, which it had already seen: its parity was not flipped, so it "
        "does not wait for the copy",
        line_of(wait->pc), name, wait->phases - 1);
  }
  if (wait != nullptr && copy_first) {
    if (std::string cause = cause_in_bytes(state, copy, thread.agent); !cause.empty()) return cause;
  }
  const uint32_t lane = machine::first_lane(thread.lanes);
  const bool issue_known = copy_first && ClusterOrder::knows_issue(copy, thread, known);
  const bool knows_a_phase = warp.known(lane)->at(barrier.component) > 0;
  if (issue_known && wait != nullptr) {
    return fmt::format(
        "nothing makes the {} wait for the copy: the last wait{} for {} was for phase {}, and the copy comes after it",
        access, line_of(wait->pc), name, wait->phases - 1);
  }
  if (issue_known || (found == warp.waits.end() && !knows_a_phase && !thread.writes())) {
    const WaitNote* last = nullptr;
    uint32_t last_barrier = 0;
    for (const auto& [index, note] : warp.waits) {
      if (note.time > thread.time || (last != nullptr && note.time < last->time)) continue;
      last = &note;
      last_barrier = index;
    }
    return fmt::format(
        "nothing makes the {} wait for the copy: {} completes a phase when its bytes have come, and "
        "whoever uses {} must wait for it{}",
        access, name, thread.writes() ? "the memory again" : "them",
        last == nullptr ? std::string()
                        : fmt::format("; the last wait before,{}, was for {}", line_of(last->pc),
                                      name_of(state.order.barrier(last_barrier))));
  }
  // Was the slot given back by an arrival, after the wait, that the copy's thread has learnt of?
  std::string cause = cause_in_arrivals(state, thread, copy.warp, copy_first ? nullptr : &known, &copy,
                                        found != warp.waits.end() ? found->second.arrivals : 0);
  if (!cause.empty()) return cause;
  return fmt::format(
      "the thread that issues the copy does not wait until the {}s of the slot are over: it must wait "
      "for a barrier that they arrive on afterwards",
      access);
}

std::string RaceCheck::cause_in_arrivals(const ClusterState& state, const PastAccess& access, uint32_t other_warp,
                                         const VectorClock* known, const Operation* copy, uint64_t since) const {
  const char* verb = access.writes() ? "write" : "read";
  const std::map<uint32_t, WaitNote>& waits = state.order.warp(other_warp).waits;
  for (const ArrivalNote& note : state.order.warp(access.agent).arrivals) {
    if (note.number <= since) continue;
    if (copy != nullptr && note.barrier == copy->barrier) continue;  // that announces the copy, and gives nothing back
    const BarrierOrder& barrier = state.order.barrier(note.barrier);
    // Between threads: an arrival that the other side has listened to, and that did not announce a copy.
    if (copy == nullptr && (barrier.is_for_copies || waits.find(note.barrier) == waits.end())) continue;
    const uint32_t lane = machine::first_lane(note.lanes);
    if (known != nullptr && known->at(access.agent * machine::kWarpSize + lane) < note.time) continue;
    const std::string arrival = fmt::format("arrival on {}{}", name_of(barrier), line_of(note.pc));
    if (note.time < access.time) {
      const std::string sibling = unused_sibling(state, barrier, other_warp);
      return fmt::format("the slot is given back before this {}, by the {}: arrive after the last use{}", verb, arrival,
                         sibling.empty()
                             ? std::string()
                             : fmt::format(", or wait for {} as well before the slot is filled again", sibling));
    }
    if (const LaneMask silent = access.lanes & ~arrived_since(state, access, note.barrier); silent != 0) {
      return fmt::format(
          "the {} by {} speaks for its own accesses only, not for those of {}: put a __syncwarp() "
          "before it",
          arrival, describe_lanes(note.lanes), describe_lanes(silent));
    }
    break;
  }
  return {};
}

/// The lanes of the warp that made the access and have arrived at the barrier after it.
LaneMask RaceCheck::arrived_since(const ClusterState& state, const PastAccess& access, uint32_t barrier) const {
  LaneMask lanes = 0;
  for (const ArrivalNote& note : state.order.warp(access.agent).arrivals) {
    if (note.barrier == barrier && note.time >= access.time) lanes |= note.lanes;
  }
  return lanes;
}

/// A barrier of the same array that no copy completes on and that this warp has never waited for; empty: none.
std::string RaceCheck::unused_sibling(const ClusterState& state, const BarrierOrder& barrier,
                                      uint32_t waiting_warp) const {
  const auto array_of = [](const std::string& name) { return name.substr(0, name.find('[')); };
  const std::string array = array_of(name_of(barrier));
  const std::map<uint32_t, WaitNote>& waits = state.order.warp(waiting_warp).waits;
  for (uint32_t index = 0; index < state.order.barrier_count(); ++index) {
    const BarrierOrder& other = state.order.barrier(index);
    if (&other == &barrier || other.rank != barrier.rank || other.is_for_copies) continue;
    const std::string name = name_of(other);
    if (name.find('[') != std::string::npos && array_of(name) == array && waits.find(index) == waits.end()) return name;
  }
  return {};
}

void RaceCheck::report_stale(ClusterState& state, uint32_t warp, const WaitNote& note, const BarrierOrder& barrier) {
  const auto identity = findings_.claim(kMisuse, note.pc);
  if (!identity) return;
  Diagnostic finding;
  finding.kind = "barrier misuse";
  finding.place = place_of(state, warp, note.lanes, note.pc);
  finding.message =
      fmt::format("stale parity: waits for phase {} of {}, which it has already seen end in an earlier round",
                  note.phases - 1, name_of(barrier));
  finding.details.push_back(fmt::format("{} has ended {} phase{}; the wait is for parity {}, so it passes at once",
                                        name_of(barrier), note.phases, note.phases == 1 ? "" : "s",
                                        (note.phases - 1) & 1));
  finding.likely_cause =
      "the parity must flip once from each wait for this barrier to the next: is a flip (a step) forgotten, or is "
      "there "
      "one too many?";
  findings_.add(*state.cluster, *identity, std::move(finding));
}

void RaceCheck::report_overrun(ClusterState& state, const machine::BarrierEvent& event, const BarrierOrder& barrier) {
  const auto identity = findings_.claim(kMisuse, event.fragment->pc);
  if (!identity) return;
  const std::string source = grid_->kernel->describe_source(barrier.initialised.pc());
  Diagnostic finding;
  finding.kind = "barrier misuse";
  finding.place = place_of(state, state.order.warp_number(*event.fragment), event.fragment->mask, event.fragment->pc);
  finding.message =
      fmt::format("more lanes arrive at {} in one instruction than its phase waits for", name_of(barrier));
  const auto found = event.block->mbarriers.live.find(event.offset);
  if (found != event.block->mbarriers.live.end()) {
    finding.details.push_back(fmt::format("it was initialised{} for {} arrival{} per phase",
                                          source.empty() ? std::string() : " at " + source, found->second.expected,
                                          found->second.expected == 1 ? "" : "s"));
  }
  finding.details.push_back("the rest count for phases to come, before anyone can have waited for this one");
  finding.likely_cause = fmt::format(
      "every active lane arrives by itself: initialise {} for all that arrive in a phase, or let one elected lane "
      "arrive",
      name_of(barrier));
  findings_.add(*state.cluster, *identity, std::move(finding));
}

void RaceCheck::report_uninitialised(ClusterState& state, const machine::Fragment& fragment, LaneMask lanes,
                                     const BarrierOrder& barrier) {
  const auto identity = findings_.claim(kMisuse, fragment.pc);
  if (!identity) return;
  const std::string source = grid_->kernel->describe_source(barrier.initialised.pc());
  Diagnostic finding;
  finding.kind = "barrier misuse";
  const uint32_t warp = state.order.warp_number(fragment);
  finding.place = place_of(state, warp, lanes, fragment.pc);
  finding.message = fmt::format("uses {}, and nothing orders its initialisation before that", name_of(barrier));
  const uint32_t warps = state.order.warps_per_block();
  finding.details.push_back(fmt::format("{} initialises it{}",
                                        spell_thread(*state.cluster, barrier.initialised.agent / warps,
                                                     barrier.initialised.agent % warps, barrier.initialised.lanes),
                                        source.empty() ? std::string() : " at " + source));
  finding.likely_cause =
      barrier.initialised.agent / warps == warp / warps
          ? "a __syncthreads() is missing between mbarrier.init and the first use by other threads"
          : "fence.mbarrier_init and a cluster barrier are missing between mbarrier.init and the first use by other "
            "blocks";
  if (state.order.has_met_initialiser(warp, barrier)) {
    finding.likely_cause =
        "the cluster barrier between the two is arrived at with .relaxed, and no fence.mbarrier_init stands between "
        "the initialisation and the arrival";
    finding.tolerated = "kernels of CUTLASS for sm_100 initialise some barriers behind that fence";
  }
  findings_.add(*state.cluster, *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
