#include "emulator/checks/synchronisation/remote_start_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/checks/ordering/wording.hpp"

namespace stagecraft::emulator::checks {

using machine::for_each_lane;
using machine::kSharedRankShift;
using machine::LaneMask;

namespace {

/// Whether a lane knows that a thread of `warp` has come to `time`.
bool knows_of(const ClusterOrder& order, uint32_t warp, Time time, const VectorClock& known) {
  bool knows = false;
  for_each_lane(order.warp(warp).existing,
                [&](uint32_t lane) { knows = knows || known.at(ThreadKnowledge::component_of(warp, lane)) >= time; });
  return knows;
}

/// Whether some arrival that let the waits of `waiter` pass was relaxed, and `arrived` made it. It has handed on no
/// knowledge of memory, but happened.
bool has_waited_for(const ClusterOrder& order, uint32_t waiter, uint32_t arrived) {
  const auto& waits = order.warp(waiter).waits;
  const auto& arrivals = order.warp(arrived).arrivals;
  return std::any_of(arrivals.begin(), arrivals.end(), [&](const ArrivalNote& arrival) {
    const auto wait = arrival.relaxed ? waits.find(arrival.barrier) : waits.end();
    return wait != waits.end() && wait->second.phases > arrival.phase;
  });
}

bool knows_start(const ClusterOrder& order, uint32_t rank, uint32_t warp, uint32_t lane) {
  const uint32_t warps = order.warps_per_block();
  const VectorClock& known = *order.known(warp, lane);
  const VectorClock& executed = *order.known_executed(warp, lane);
  const auto is_known = [&](uint32_t other, Time time) {
    return knows_of(order, other, time, known) || knows_of(order, other, time, executed) ||
           has_waited_for(order, warp, other);
  };
  for (uint32_t other = 0; other < order.warp_count(); ++other) {
    const WarpOrder& of_other = order.warp(other);
    if (other / warps == rank && is_known(other, 1)) return true;
    if (of_other.cluster_passed != 0 && is_known(other, of_other.cluster_passed_at)) return true;
  }
  return order.knows_an_operation_of(rank, known);
}

uint64_t number_of(const ClusterRecord& cluster) {
  const machine::Extent3& first = cluster.cluster().first_block;
  return first.x ^ uint64_t { first.y } << 32 ^ uint64_t { first.z } << 48;
}

}  // namespace

void RemoteStartCheck::check_access(ClusterRecord& cluster, const RecordedAccess& recorded) {
  const machine::MemoryAccess& event = recorded.event;
  const uint32_t own = recorded.warp_number / cluster.order().warps_per_block();
  for (LaneMask rest = event.lanes; rest != 0;) {
    const uint32_t address = event.shared[machine::first_lane(rest)], rank = address >> kSharedRankShift;
    LaneMask lanes = 0;
    for_each_lane(rest,
                  [&](uint32_t lane) { lanes |= (event.shared[lane] >> kSharedRankShift == rank ? 1u : 0u) << lane; });
    rest &= ~lanes;
    const char* const verb = event.kind == machine::AccessKind::read ? "reads" : "writes";
    if (rank != own) check(cluster, {recorded.warp_number, lanes, event.pc, address, verb});
  }
}

/// Flags are written and read by one lane. Other accesses are too many to be remembered.
void RemoteStartCheck::note_global(ClusterRecord& cluster, const RecordedAccess& recorded) {
  const machine::MemoryAccess& event = recorded.event;
  if (event.order == machine::AccessOrder::weak || !std::has_single_bit(event.lanes)) return;
  const uint64_t address = event.global[machine::first_lane(event.lanes)];
  const Writer own{number_of(cluster), recorded.warp_number / cluster.order().warps_per_block()};
  const auto found = writers_.find(address);
  if (found != writers_.end() && event.kind != machine::AccessKind::write) {
    const bool is_of_cluster = found->second.cluster == own.cluster;
    if (!is_of_cluster) states_[cluster].has_heard = ~0u;
    if (is_of_cluster && found->second.rank != own.rank) states_[cluster].has_heard |= 1u << own.rank;
  }
  if (event.kind != machine::AccessKind::read) writers_[address] = own;
}

void RemoteStartCheck::barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (cluster.has_one_block() || event.kind != machine::BarrierEventKind::arrive) return;
  const uint32_t address = event.block->rank << kSharedRankShift | event.offset;
  if (event.fragment != nullptr) {
    const uint32_t warp = cluster.order().warp_number(*event.fragment);
    return check(cluster, {warp, event.lanes, event.fragment->pc, address, "arrives at an mbarrier in"});
  }
  const Operation* const commit = cluster.order().pending_operation(event.operation);
  if (commit == nullptr || commit->completion != machine::AsyncCompletion::tensor_arrive) return;
  check(cluster, {commit->warp, 1u << commit->lane, commit->pc, address,
                  "arrives, when the tensor core is done, at an mbarrier in"});
}

void RemoteStartCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) {
  const machine::AsyncOperation& event = issued.event;
  // Two blocks that work as a pair meet before: both allocate tensor memory.
  if (cluster.has_one_block() || event.of_pair) return;
  const uint32_t warp = cluster.order().warp_number(*event.fragment);
  for (const machine::SharedRange& range : event.writes) {
    check(cluster, {warp, 1u << event.lane, event.fragment->pc, range.address, "copies to",
                    event.has_barrier ? event.barrier : 0});
  }
  if (!event.has_barrier || event.completion != machine::AsyncCompletion::mbarrier) return;
  check(cluster, {warp, 1u << event.lane, event.fragment->pc, event.barrier, "counts its bytes at an mbarrier in"});
}

void RemoteStartCheck::check(ClusterRecord& cluster, const Remote& remote) {
  const ClusterOrder& order = cluster.order();
  const uint32_t rank = remote.address >> kSharedRankShift;
  State& state = states_[cluster];
  const uint32_t own = remote.warp / order.warps_per_block();
  if (rank == own || order.warp(remote.warp).cluster_passed != 0 || (state.has_heard >> own & 1) != 0) return;
  const size_t blocks = cluster.memory.size();
  if (state.knowing.empty()) state.knowing.resize(order.warp_count() * blocks);
  LaneMask& knowing = state.knowing[remote.warp * blocks + rank];
  for_each_lane(remote.lanes & ~knowing,
                [&](uint32_t lane) { knowing |= (knows_start(order, rank, remote.warp, lane) ? 1u : 0u) << lane; });
  if ((remote.lanes & ~knowing) == 0) return;
  report(cluster, remote);
  knowing |= remote.lanes;
}

void RemoteStartCheck::report(ClusterRecord& cluster, const Remote& remote) {
  const auto identity = findings_.claim("access of a block that may not have started", remote.pc, remote.pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = "missing wait";
  finding.place = place_of(cluster, remote.warp, remote.lanes, remote.pc);
  finding.message = fmt::format("{} shared memory of {}, which may not have started", remote.verb,
                                spell_block(cluster, remote.address >> kSharedRankShift));
  const uint32_t subject = remote.barrier != 0 ? remote.barrier : remote.address;
  finding.subject = variable_of(cluster.kernel().name_of_shared_byte(subject & machine::kSharedOffsetMask));
  finding.details.emplace_back("in this run the block had started, but nothing has told this warp so");
  if (cluster.order().warp(remote.warp).cluster_arrived != 0) {
    finding.likely_cause =
        "the warp has arrived at the barrier of the cluster, but not waited for it: barrier.cluster.wait must come "
        "before this access, in this warp, or in another one that this warp then meets at a __syncthreads()";
  } else {
    finding.likely_cause =
        "no barrier of the cluster comes before this access: let all blocks meet first (barrier.cluster.arrive and "
        ".wait, cluster.sync())";
  }
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
