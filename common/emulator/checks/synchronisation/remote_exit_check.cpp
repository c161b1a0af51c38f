#include "emulator/checks/synchronisation/remote_exit_check.hpp"

#include <fmt/format.h>

#include "emulator/checks/ordering/wording.hpp"

namespace stagecraft::emulator::checks {

using machine::for_each_lane;
using machine::LaneMask;

RemoteExitCheck::Remote& RemoteExitCheck::latest(std::vector<Remote>& all, const ClusterRecord& cluster, uint32_t rank,
                                                 uint32_t warp) {
  const size_t blocks = cluster.memory.size(), warps = blocks * cluster.order().warps_per_block();
  if (all.empty()) all.resize(blocks * warps);
  return all[rank * warps + warp];
}

void RemoteExitCheck::note_access(const ClusterRecord& cluster, const RecordedAccess& recorded) {
  const machine::MemoryAccess& event = recorded.event;
  const uint32_t own = recorded.warp_number / cluster.order().warps_per_block();
  LaneMask away = 0;
  for_each_lane(event.lanes, [&](uint32_t lane) {
    away |= (event.shared[lane] >> machine::kSharedRankShift != own ? 1u : 0u) << lane;
  });
  while (away != 0) {
    const uint32_t rank = event.shared[machine::first_lane(away)] >> machine::kSharedRankShift;
    LaneMask lanes = 0;
    for_each_lane(away, [&](uint32_t lane) {
      lanes |= (event.shared[lane] >> machine::kSharedRankShift == rank ? 1u : 0u) << lane;
    });
    away &= ~lanes;
    Remote remote;
    remote.warp = recorded.warp_number;
    remote.lanes = lanes;
    remote.time = recorded.warp->time;
    remote.pc = event.pc;
    remote.verb = event.kind == machine::AccessKind::read ? "reads" : "writes";
    remote.cluster_arrived = recorded.warp->cluster_arrived;
    latest(states_[cluster].latest, cluster, rank, remote.warp) = remote;
  }
}

void RemoteExitCheck::barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (event.kind != machine::BarrierEventKind::arrive || cluster.has_one_block()) return;
  if (event.fragment == nullptr) return commit_arrived(cluster, event);
  if (&event.fragment->block() == event.block) return;
  const ClusterOrder& order = cluster.order();
  Remote remote;
  remote.warp = order.warp_number(*event.fragment);
  remote.lanes = event.lanes;
  remote.time = order.warp(remote.warp).time;
  remote.pc = event.fragment->pc;
  remote.verb = "arrives at an mbarrier in";
  remote.cluster_arrived = order.warp(remote.warp).cluster_arrived;
  remote.arrives = true;
  remote.offset = event.offset;
  remote.phase = event.phase;
  latest(states_[cluster].latest, cluster, event.block->rank, remote.warp) = remote;
}

void RemoteExitCheck::commit_arrived(const ClusterRecord& cluster, const machine::BarrierEvent& event) {
  const ClusterOrder& order = cluster.order();
  const uint32_t barrier = order.find_barrier(event.block->rank, event.offset);
  if (barrier == ClusterOrder::kNoBarrier || order.barrier(barrier).commits.empty()) return;
  const CommitNote& note = order.barrier(barrier).commits.back();
  const Operation& commit = order.operation(note.operation);
  if (note.phase != event.phase || commit.warp / order.warps_per_block() == event.block->rank) return;
  Remote remote;
  remote.warp = commit.warp;
  remote.lanes = 1u << commit.lane;
  remote.pc = commit.pc;
  remote.verb = "arrives, when the tensor core is done, at an mbarrier in";
  remote.cluster_arrived = order.warp(commit.warp).cluster_arrived;
  remote.is_commit = true;
  remote.offset = event.offset;
  remote.component = commit.component;
  remote.end = commit.time;
  latest(states_[cluster].commits, cluster, event.block->rank, remote.warp) = remote;
}

bool RemoteExitCheck::is_known(const ClusterOrder& order, uint32_t rank, const Remote& remote) {
  const uint32_t warps = order.warps_per_block();
  const uint32_t barrier = remote.arrives ? order.find_barrier(rank, remote.offset) : ClusterOrder::kNoBarrier;
  for (uint32_t warp = rank * warps; warp < (rank + 1) * warps; ++warp) {
    const WarpOrder& of_target = order.warp(warp);
    if (of_target.cluster_passed > remote.cluster_arrived) return true;
    if (barrier != ClusterOrder::kNoBarrier) {
      const auto wait = of_target.waits.find(barrier);
      if (wait != of_target.waits.end() && wait->second.phases > remote.phase) return true;
    }
    for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) {
      if ((of_target.existing >> lane & 1) == 0) continue;
      const VectorClock& known = *order.known_executed(warp, lane);
      if (remote.is_commit) {
        if (known.at(remote.component) >= remote.end) return true;
        continue;
      }
      bool all = true;
      for_each_lane(remote.lanes, [&](uint32_t of_remote) {
        all = all && known.at(ThreadKnowledge::component_of(remote.warp, of_remote)) >= remote.time;
      });
      if (all) return true;
    }
  }
  return false;
}

void RemoteExitCheck::block_finished(ClusterRecord& cluster, const machine::Block& block) {
  if (cluster.has_one_block()) return;
  State& state = states_[cluster];
  const ClusterOrder& order = cluster.order();
  for (std::vector<Remote>* all : {&state.latest, &state.commits}) {
    if (all->empty()) continue;
    for (uint32_t warp = 0; warp < cluster.memory.size() * order.warps_per_block(); ++warp) {
      const Remote& remote = latest(*all, cluster, block.rank, warp);
      if (remote.lanes != 0 && !is_known(order, block.rank, remote)) state.unordered.emplace_back(block.rank, remote);
    }
  }
}

std::string RemoteExitCheck::arrival_in_own_block(const ClusterRecord& cluster, uint32_t rank, const Remote& remote) {
  const ClusterOrder& order = cluster.order();
  const uint32_t warps = order.warps_per_block(), home = remote.warp / warps;
  const auto& arrivals = order.warp(remote.warp).arrivals;
  for (const ArrivalNote& one : arrivals) {
    const BarrierOrder& barrier = order.barrier(one.barrier);
    const uint32_t counterpart = order.find_barrier(rank, barrier.offset);
    if (barrier.rank != home || counterpart == ClusterOrder::kNoBarrier) continue;
    bool arrives_there = false, is_waited_for = false;
    const ArrivalNote* again = nullptr;
    for (const ArrivalNote& other : arrivals) {
      arrives_there = arrives_there || other.barrier == counterpart;
      const bool same = other.barrier == one.barrier && other.phase == one.phase && (other.lanes & one.lanes) != 0;
      if (same && other.number > one.number && other.pc != one.pc) again = &other;
    }
    for (uint32_t warp = rank * warps; warp < (rank + 1) * warps; ++warp) {
      const auto& waits = order.warp(warp).waits;
      is_waited_for = is_waited_for || waits.find(counterpart) != waits.end();
    }
    if (again == nullptr || arrives_there || !is_waited_for) continue;
    const std::string first = line_of(cluster, one.pc), second = line_of(cluster, again->pc);
    return fmt::format(
        "the block waits for its {}, at which warp {} of block rank {} never arrives; but that warp arrives twice in "
        "one phase at {} of its own block,{}{}: is one of the two meant for block rank {}?",
        name_of(cluster, order.barrier(counterpart)), remote.warp % warps, home, name_of(cluster, barrier), first,
        first == second ? std::string() : " and" + second, rank);
  }
  return {};
}

/// Only now, because an access after the exit would have stopped the kernel, and been reported.
void RemoteExitCheck::cluster_finished(ClusterRecord& cluster) {
  for (const auto& [rank, remote] : states_[cluster].unordered) {
    const auto identity = findings_.claim("access of a block that may have ended", remote.pc, remote.pc);
    if (!identity) continue;
    machine::Diagnostic finding;
    finding.kind = "missing wait";
    finding.place = place_of(cluster, remote.warp, remote.lanes, remote.pc);
    finding.message =
        fmt::format("{} shared memory of {}, which may have ended by then", remote.verb, spell_block(cluster, rank));
    finding.details.emplace_back("in this run the block ended later, but nothing has made it wait for this access");
    finding.likely_cause =
        "the block must not end before: let all blocks of the cluster meet at its end (barrier.cluster.arrive and "
        ".wait, cluster.sync()), or let it wait for an mbarrier on which the other block arrives last";
    if (std::string meant = arrival_in_own_block(cluster, rank, remote); !meant.empty()) {
      finding.likely_cause = std::move(meant);
    }
    const uint32_t barrier =
        remote.is_commit ? cluster.order().find_barrier(rank, remote.offset) : ClusterOrder::kNoBarrier;
    if (barrier != ClusterOrder::kNoBarrier) {
      finding.likely_cause = fmt::format(
          "the block must not end before: let a thread of it wait for {}, at which the commit arrives, as a drain "
          "does; or let all blocks of the cluster meet at its end, after the last commit has been waited for",
          name_of(cluster, cluster.order().barrier(barrier)));
    }
    findings_.add(cluster.cluster(), *identity, std::move(finding));
  }
}

}  // namespace stagecraft::emulator::checks
