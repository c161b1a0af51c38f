// What the race check says of accesses to tensor memory, and what it supposes to be the reason.
#include <fmt/format.h>

#include <bit>

#include "emulator/checks/race/race.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

using machine::Diagnostic;
using machine::kWarpSize;
using machine::TensorRange;

namespace {

std::string spell(const TensorRange& range) {
  constexpr uint32_t kGroup = 16;  // lanes of a bit
  const auto first = static_cast<uint32_t>(std::countr_zero(range.lanes));
  const uint32_t last = 31 - static_cast<uint32_t>(std::countl_zero(range.lanes));
  const std::string columns = range.columns == 1
                                  ? fmt::format("column {}", range.column)
                                  : fmt::format("columns {} to {}", range.column, range.column + range.columns - 1);
  return fmt::format("{} (lanes {} to {}) of tensor memory", columns, first * kGroup, last * kGroup + kGroup - 1);
}

const char* verb_of(const TensorAccess& access) {
  if (access.kind == TensorAccessKind::release) return "frees";
  return access.writes ? "writes" : "reads";
}

}  // namespace

std::string RaceCheck::describe(const ClusterState& state, const TensorAccess& access) const {
  const machine::Place place = place_of(state, access.warp, access.lanes, access.pc);
  const bool asynchronous = access.kind != TensorAccessKind::release;
  return fmt::format("the {} {} block ({},{},{}) warp {} [{}]{} {} them", place.instruction,
                     asynchronous ? "issued by" : "of", place.block_x, place.block_y, place.block_z, place.warp,
                     describe_lanes(access.lanes), line_of(access.pc), verb_of(access));
}

/// The chip takes a warp to its own quarter of the lanes, PTX does not say so.
void RaceCheck::check_quarter(const ClusterState& state, const machine::TensorEvent& event) {
  using machine::TensorEventKind;
  if (event.kind != TensorEventKind::load && event.kind != TensorEventKind::store) return;
  const uint32_t lane = event.address >> 16, warp = event.fragment->warp->index, first = warp % 4 * kWarpSize;
  if (lane / kWarpSize * kWarpSize == first) return;
  const uint32_t pc = event.fragment->pc;
  const auto identity = findings_.claim("quarter", pc, pc);
  if (!identity) return;
  const char* what = event.kind == TensorEventKind::load ? "tcgen05.ld" : "tcgen05.st";
  Diagnostic finding;
  finding.kind = "illegal address";
  finding.place = place_of(state, state.order.warp_number(*event.fragment), event.lanes, pc);
  finding.message =
      fmt::format("{}: address 0x{:x} is in lane {}, which warp {} may not access", what, event.address, lane, warp);
  finding.details.push_back(fmt::format("warp {} may access lanes {} to {} (its number modulo 4 gives the quarter)",
                                        warp, first, first + kWarpSize - 1));
  finding.likely_cause = "add (warp % 4) * 32 << 16 to the allocation's address";
  finding.tolerated = "the epilogues of DeepGEMM give all warps the first quarter's address";
  findings_.add(*state.cluster, *identity, std::move(finding));
}

void RaceCheck::report_tensor(ClusterState& state, const std::vector<TensorConflict>& conflicts) {
  for (const TensorConflict& conflict : conflicts) {
    const TensorAccess &before = conflict.before, &now = conflict.now;
    const bool nobody = conflict.flaw == TensorFlaw::unwritten;
    const bool race = conflict.flaw == TensorFlaw::not_waited || conflict.flaw == TensorFlaw::not_ended ||
                      conflict.flaw == TensorFlaw::unordered;
    // What races with another access races with the release as well.
    if (now.kind == TensorAccessKind::release && state.racing.contains(before.pc)) continue;
    if (race) state.racing.insert({before.pc, now.pc});
    // A fence that is missing before an instruction is missing once, however many others it would follow.
    const uint32_t first = nobody || conflict.flaw == TensorFlaw::fence_after ? now.pc : before.pc;
    const std::string kind = race ? "tensor race" : fmt::format("tensor {}", static_cast<int>(conflict.flaw));
    const auto identity = race ? findings_.claim_pair(kind, first, now.pc) : findings_.claim(kind, first, now.pc);
    if (!identity) continue;
    Diagnostic finding;
    finding.place = place_of(state, now.warp, now.lanes, now.pc);
    std::string range = spell(conflict.range);
    if (conflict.rank != now.warp / state.order.warps_per_block()) range += " of the peer block";
    switch (conflict.flaw) {
      case TensorFlaw::unwritten:
        finding.kind = "uninitialised accumulator";
        finding.message = fmt::format("adds to {}, which nothing has written since they were allocated", range);
        finding.details.emplace_back("what tensor memory holds after tcgen05.alloc is not defined, and not zero");
        break;
      case TensorFlaw::fence_after:
        finding.kind = "missing tcgen05 fence";
        finding.message = fmt::format("{} {} without a tcgen05.fence::after_thread_sync", verb_of(now), range);
        finding.details.push_back(describe(state, before));
        finding.details.emplace_back(
            "a barrier has told this thread that this is over; for its tcgen05 instructions that counts only after "
            "the fence");
        finding.tolerated = "CUTLASS's kernels for sm_100 leave this fence out";
        break;
      case TensorFlaw::fence_before:
        finding.kind = "missing tcgen05 fence";
        finding.message = fmt::format(
            "{} {}, and no tcgen05.fence::before_thread_sync stands behind what was issued "
            "for them before",
            verb_of(now), range);
        finding.details.push_back(describe(state, before));
        finding.details.emplace_back(
            "it has only been issued: a barrier hands its place in the order on to another thread only when the fence "
            "stands between the two");
        break;
      default:
        finding.kind = "race";
        finding.message = fmt::format("race: {} {}", verb_of(now), range);
        finding.details.push_back(describe(state, before));
        finding.details.emplace_back(conflict.flaw == TensorFlaw::not_ended
                                         ? "nothing tells this thread that it has ended"
                                     : conflict.flaw == TensorFlaw::not_waited ? "nobody has waited for its end"
                                                                               : "nothing orders the two");
    }
    finding.likely_cause = cause_of(state, conflict);
    findings_.add(*state.cluster, *identity, std::move(finding));
  }
}

void RaceCheck::note_commits(ClusterState& state, const machine::AsyncOperation& operation) {
  const std::pair thread(state.order.warp_number(*operation.fragment), operation.lane);
  if (operation.completion == machine::AsyncCompletion::tensor_arrive) {
    state.uncommitted.erase(thread);
  } else if (operation.completion == machine::AsyncCompletion::tensor_pipe) {
    auto& uncommitted = state.uncommitted[thread];
    ++uncommitted.operations;
    uncommitted.pc = operation.fragment->pc;
  }
}

/// For a cluster that hangs: operations whose end nobody will ever learn of.
void RaceCheck::report_uncommitted(const ClusterState& state) {
  for (const auto& [thread, uncommitted] : state.uncommitted) {
    const auto identity = findings_.claim("uncommitted", uncommitted.pc, uncommitted.pc);
    if (!identity) continue;
    Diagnostic finding;
    finding.kind = "missing commit";
    finding.place = place_of(state, thread.first, 1u << thread.second, uncommitted.pc);
    finding.message = fmt::format("no tcgen05.commit follows the last {} operation{} of this thread",
                                  uncommitted.operations, uncommitted.operations == 1 ? "" : "s");
    finding.details.emplace_back("without it no mbarrier learns that the tensor core has done with them");
    finding.likely_cause =
        "tcgen05.commit is missing after the last tcgen05.mma, or another thread executes it: a commit covers what its "
        "own thread has issued";
    findings_.add(*state.cluster, *identity, std::move(finding));
  }
}

std::string RaceCheck::cause_of(ClusterState& state, const TensorConflict& conflict) const {
  const TensorAccess &before = conflict.before, &now = conflict.now;
  // The arrival by which `user` gave tensor memory back before using it, as the thread with `known` has learnt.
  const auto early_arrival = [&](const TensorAccess& user, const VectorClock& known) -> std::string {
    const WarpOrder& warp = state.order.warp(user.warp);
    uint64_t waited = 0;
    for (const auto& [index, note] : warp.waits) waited = std::max(waited, note.arrivals);
    for (auto note = warp.arrivals.rbegin(); note != warp.arrivals.rend(); ++note) {
      if (known.at(user.warp * kWarpSize + machine::first_lane(note->lanes)) < note->time) continue;
      if (note->time >= user.time || note->number <= waited) return {};
      return fmt::format("arrival on {}{}", name_of(state.order.barrier(note->barrier)), line_of(note->pc));
    }
    return {};
  };
  switch (conflict.flaw) {
    case TensorFlaw::unwritten:
      return "the first tcgen05.mma of a tile must overwrite its accumulator: enable-input-d (the last operand) is 0 "
             "for it, and 1 for those that follow";
    case TensorFlaw::fence_after:
      return "put tcgen05.fence::after_thread_sync between the wait and the first tcgen05 instruction that relies on "
             "it";
    case TensorFlaw::fence_before:
      return "put tcgen05.fence::before_thread_sync between the last tcgen05 instruction and the arrival at the "
             "barrier";
    default: break;
  }
  if (now.kind == TensorAccessKind::release) {
    return "tensor memory is freed before its last use is over: wait for the last commit and for the last loads, and "
           "let all warps meet at a barrier before tcgen05.dealloc";
  }
  if (before.kind == TensorAccessKind::operation && now.kind != TensorAccessKind::operation) {
    if (before.known != nullptr) {
      if (const std::string arrival = early_arrival(now, *before.known); !arrival.empty()) {
        return fmt::format("the accumulator is given back before this {}, by the {}: arrive after tcgen05.wait::ld",
                           now.writes ? "store" : "load", arrival);
      }
    }
    return "the tensor core works on after the instruction is issued: wait for an mbarrier that a tcgen05.commit after "
           "the last tcgen05.mma arrives on";
  }
  if (before.kind == TensorAccessKind::operation) {
    return "two threads issue operations on the same tensor memory: one must hand over to the other by a barrier, with "
           "tcgen05.fence::before_thread_sync before and after_thread_sync behind it";
  }
  const bool load = before.kind == TensorAccessKind::load;
  if (before.of_nothing && now.kind == TensorAccessKind::operation) {
    return "the load does not wait for the tensor core: it must wait for an mbarrier that a tcgen05.commit after the "
           "last tcgen05.mma arrives on";
  }
  if (before.warp != now.warp && now.known != nullptr) {
    if (const std::string arrival = early_arrival(before, *now.known); !arrival.empty()) {
      return fmt::format("the accumulator is given back before the {}, by the {}: arrive after tcgen05.wait::{}",
                         load ? "load" : "store", arrival, load ? "ld" : "st");
    }
  }
  if (conflict.flaw == TensorFlaw::not_waited) {
    return load
               ? "tcgen05.wait::ld is missing: the load may still be reading when its instruction has passed; the wait "
                 "must stand before the arrival that gives the accumulator back"
               : "tcgen05.wait::st is missing: the store may still be writing when its instruction has passed; the "
                 "wait must stand before the barrier that tells others of it";
  }
  return load ? "who overwrites the accumulator must wait for a barrier that the loading warps arrive on after "
                "tcgen05.wait::ld"
              : "a barrier must stand between the store, with its tcgen05.wait::st, and this";
}

}  // namespace stagecraft::emulator::checks
