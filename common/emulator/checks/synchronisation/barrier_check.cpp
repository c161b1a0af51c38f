#include "emulator/checks/synchronisation/barrier_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/synchronisation/overrun_cause.hpp"
#include "emulator/checks/synchronisation/unused_answer.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

using machine::BarrierEventKind;
using machine::LaneMask;

namespace {

/// Where the barrier was initialised: " at ring.cu:41", or nothing.
std::string line_of_initialisation(const ClusterRecord& cluster, const BarrierOrder& barrier) {
  return line_of(cluster, barrier.initialised.pc());
}

/// A finding about a barrier, still without its message.
machine::Diagnostic begin_finding(const ClusterRecord& cluster, const BarrierOrder& barrier, uint32_t warp,
                                  LaneMask lanes, uint32_t pc) {
  machine::Diagnostic finding;
  finding.kind = kBarrierMisuse;
  finding.subject = variable_of(cluster, barrier);
  finding.place = place_of(cluster, warp, lanes, pc);
  return finding;
}

/// A finding about a barrier that is initialised once more, still without its message.
machine::Diagnostic begin_second_initialisation(const ClusterRecord& cluster, const machine::BarrierEvent& event,
                                                const BarrierOrder& barrier) {
  machine::Diagnostic finding =
      begin_finding(cluster, barrier, cluster.order().warp_number(*event.fragment), event.lanes, event.fragment->pc);
  finding.details.push_back(fmt::format("{} initialised it before{}",
                                        spell_thread(cluster, barrier.initialised.agent, barrier.initialised.lanes),
                                        line_of_initialisation(cluster, barrier)));
  return finding;
}

/// Describes a use of a barrier that a thread does not know to be over; empty if there is none.
std::string find_unordered_use(const ClusterRecord& cluster, uint32_t index, uint32_t warp, uint32_t lane) {
  const ClusterOrder& order = cluster.order();
  const BarrierOrder& barrier = order.barrier(index);
  const SharedClock known = order.knowledge_of(warp, lane);
  if (!barrier.under_way.empty()) {
    const Operation& operation = order.operation(barrier.under_way.front());
    return fmt::format("the {} issued by {}{} is still to arrive there", operation.what,
                       spell_thread(cluster, operation.warp, 1u << operation.lane), line_of(cluster, operation.pc));
  }
  if (barrier.initialised.agent != PastAccess::kNobody && !order.knows(barrier.initialised, warp, 1u << lane, *known)) {
    return fmt::format("{} initialises it{}",
                       spell_thread(cluster, barrier.initialised.agent, barrier.initialised.lanes),
                       line_of_initialisation(cluster, barrier));
  }
  // Those who know that the last phase has ended know all arrivals.
  const bool knows_arrivals = known->at(barrier.component) >= barrier.ends;
  const auto warps = static_cast<uint32_t>(cluster.memory.size()) * order.warps_per_block();
  for (uint32_t other = 0; other < warps; ++other) {
    const auto is_unknown = [&](LaneMask lanes, Time time) {
      const PastAccess use{other, lanes, time, 0};
      return !order.knows(use, warp, 1u << lane, *known);
    };
    const WarpOrder& uses = order.warp(other);
    const auto wait = uses.waits.find(index);
    if (wait != uses.waits.end() && is_unknown(wait->second.lanes, wait->second.time)) {
      return fmt::format("{} waits for it{}", spell_thread(cluster, other, wait->second.lanes),
                         line_of(cluster, wait->second.pc));
    }
    for (const ArrivalNote& arrival : uses.arrivals) {
      if (knows_arrivals || arrival.barrier != index || !is_unknown(arrival.lanes, arrival.time)) continue;
      return fmt::format("{} arrives there{}", spell_thread(cluster, other, arrival.lanes),
                         line_of(cluster, arrival.pc));
    }
  }
  return {};
}

/// Whether the last writes of a range are over for those who know of a barrier's phases, and not for a lane that knows
/// `known`.
bool relies_on(uint32_t warp, uint32_t lane, const VectorClock& known, uint32_t barrier, const ClusterRecord& cluster,
               const machine::SharedRange& range) {
  const ClusterOrder& order = cluster.order();
  const SharedClock& completed = order.barrier(barrier).completed;
  const uint32_t rank = range.address >> machine::kSharedRankShift;
  if (completed == nullptr || rank >= cluster.memory.size()) return false;
  bool relies = false;
  cluster.memory[rank].for_each_write(
      range.address & machine::kSharedOffsetMask, range.bytes, [&](const PastAccess& write, uint32_t) {
        relies = relies ||
                 (!order.knows(write, warp, 1u << lane, known) && order.knows(write, warp, 1u << lane, *completed));
      });
  return relies;
}

}  // namespace

void BarrierCheck::barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (event.fragment == nullptr) return;
  if (event.kind == BarrierEventKind::reinitialise) {
    return event.amount == 0 ? check_reinitialised(cluster, event) : check_reused(cluster, event);
  }
  if (event.kind != BarrierEventKind::init) check_initialised(cluster, event);
  if (event.kind == BarrierEventKind::wait) check_answer(cluster, event);
  if (event.kind == BarrierEventKind::wait && !cluster.has_one_block()) check_scope_of_wait(cluster, event);
  if (event.kind != BarrierEventKind::arrive) return;
  check_overrun(cluster, event);
  check_scope(cluster, event);
}

/// The operation accesses the barrier in the generic proxy (PTX ISA, "cp.async.bulk": "This instruction accesses its
/// mbarrier operand using generic-proxy"; the same holds for tcgen05.commit and the others), so that order is enough.
void BarrierCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) {
  const machine::AsyncOperation& event = operation.event;
  if (!asked_.empty()) went_on(cluster, event);
  if (event.generic_proxy || !event.has_barrier) return;
  const ClusterOrder& order = cluster.order();
  const uint32_t index =
      order.find_barrier(event.barrier >> machine::kSharedRankShift, event.barrier & machine::kSharedOffsetMask);
  if (index == ClusterOrder::kNoBarrier) return;
  const BarrierOrder& barrier = order.barrier(index);
  const uint32_t warp = order.warp_number(*event.fragment);
  const LaneMask lane = 1u << event.lane;
  if (barrier.initialised.agent == PastAccess::kNobody ||
      order.knows(barrier.initialised, warp, lane, *order.known(warp, event.lane))) {
    return;
  }
  report_uninitialised(cluster, *event.fragment, lane, barrier);
}

void BarrierCheck::check_initialised(const ClusterRecord& cluster, const machine::BarrierEvent& event) {
  const ClusterOrder& order = cluster.order();
  const uint32_t index = order.find_barrier(event.block->rank, event.offset);
  if (index == ClusterOrder::kNoBarrier) return;
  const BarrierOrder& barrier = order.barrier(index);
  if (barrier.initialised.agent == PastAccess::kNobody || event.lanes == 0) return;
  const uint32_t warp = order.warp_number(*event.fragment);
  const bool alike = order.warp(warp).know_alike(event.lanes);
  if (alike && order.knows_of_all(barrier.initialised, *order.known(warp, machine::first_lane(event.lanes)))) return;
  bool known = true;
  machine::for_each_lane(event.lanes, [&](uint32_t lane) {
    known = known && order.knows(barrier.initialised, warp, 1u << lane, *order.known(warp, lane));
  });
  if (!known) report_uninitialised(cluster, *event.fragment, event.lanes, barrier);
}

/// PTX leaves undefined what mbarrier.init does to a live barrier. Measured on an H200: one at rest is as new.
void BarrierCheck::check_reinitialised(const ClusterRecord& cluster, const machine::BarrierEvent& event) {
  const ClusterOrder& order = cluster.order();
  const uint32_t index = order.find_barrier(event.block->rank, event.offset);
  if (index == ClusterOrder::kNoBarrier) return;
  const uint32_t warp = order.warp_number(*event.fragment);
  const std::string use = find_unordered_use(cluster, index, warp, machine::first_lane(event.lanes));
  const auto identity = findings_.claim(use.empty() ? "initialised again" : kBarrierMisuse, event.fragment->pc);
  if (!identity) return;
  const std::string name = name_of(cluster, order.barrier(index));
  machine::Diagnostic finding = begin_second_initialisation(cluster, event, order.barrier(index));
  finding.message = fmt::format("initialises {} again, which is still live after {} phase{}", name, event.phase,
                                event.phase == 1 ? "" : "s");
  finding.likely_cause = fmt::format(
      "end {} with mbarrier.inval when nobody uses it any more, or initialise it once, where the code does not run "
      "again",
      name);
  if (use.empty()) {
    finding.tolerated = "nothing is under way at it, and on an H200 such a barrier is as new afterwards";
  } else {
    finding.details.push_back(use + ", and nothing orders that before this initialisation");
    finding.likely_cause =
        "threads that still wait see another phase, or the arrival is lost: put a __syncthreads() between the last use "
        "and the initialisation; if several threads initialise the barrier, one must, before the others use it";
  }
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

/// Source: PTX ISA, "mbarrier.inval": it is needed before the memory is used for anything else.
void BarrierCheck::check_reused(const ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (!judges_reuse_) return;
  const ClusterOrder& order = cluster.order();
  const uint32_t index = order.find_barrier(event.block->rank, event.offset);
  if (index == ClusterOrder::kNoBarrier) return;
  const auto identity = findings_.claim("reused barrier", event.fragment->pc, event.fragment->pc);
  if (!identity) return;
  const std::string name = name_of(cluster, order.barrier(index));
  machine::Diagnostic finding = begin_second_initialisation(cluster, event, order.barrier(index));
  finding.message =
      fmt::format("initialises {}, where a live barrier was, whose memory has been used for other data since", name);
  finding.likely_cause = fmt::format("end {} with mbarrier.inval before its memory is used for something else", name);
  finding.tolerated = "mbarrier.init writes the whole word, and nothing has used the barrier meanwhile";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

void BarrierCheck::check_overrun(const ClusterRecord& cluster, const machine::BarrierEvent& event) {
  // Lanes that arrive in one instruction do so at once: when some of them end the phase, nobody can have waited for it
  // before the others arrive.
  const ClusterOrder& order = cluster.order();
  const uint32_t index = order.find_barrier(event.block->rank, event.offset);
  if (index == ClusterOrder::kNoBarrier) return;
  const BarrierOrder& barrier = order.barrier(index);
  const bool same_instruction = barrier.arrival_clock == event.fragment->warp->clock &&
                                barrier.arrival_pc == event.fragment->pc &&
                                barrier.arrival_warp == order.warp_number(*event.fragment);
  if (!same_instruction || barrier.ends == barrier.arrival_ends || barrier.arrival_clock == 0) return;
  report_overrun(cluster, event, barrier);
}

/// Only threads of the barrier's block can wait there, and "the optional .scope qualifier indicates the set of threads
/// that directly observe the memory synchronizing effect of this operation" (PTX ISA, "mbarrier.arrive").
void BarrierCheck::check_scope(const ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (event.semantics.relaxed || event.semantics.of_cluster) return;
  if (event.fragment->block().rank == event.block->rank) return;
  const ClusterOrder& order = cluster.order();
  const uint32_t index = order.find_barrier(event.block->rank, event.offset);
  if (index == ClusterOrder::kNoBarrier) return;
  const auto identity = findings_.claim(kBarrierMisuse, event.fragment->pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = kBarrierMisuse;
  finding.place = place_of(cluster, order.warp_number(*event.fragment), event.lanes, event.fragment->pc);
  finding.message = fmt::format("arrives at {} of the block of rank {} with the scope of its own block",
                                name_of(cluster, order.barrier(index)), event.block->rank);
  finding.details.push_back("only threads of that block can wait there, and to them this arrival releases nothing");
  finding.likely_cause =
      "write .release.cluster: an arrival without a scope has that of the block, .cta, and no fence comes before it";
  finding.tolerated =
      "CUTLASS arrives so where a buffer was only read; after writes its issue 3643 shows wrong results on a chip";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

/// A try_wait that fails goes on after a while, as a test_wait does at once. Where the thread knows already that the
/// phase has ended, the answer is no news.
void BarrierCheck::check_answer(const ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (event.phase == 0) return;
  const machine::Kernel& kernel = cluster.kernel();
  if (kernel_ != &kernel) ignored_.clear();
  kernel_ = &kernel;
  const auto [known, fresh] = ignored_.try_emplace(event.fragment->pc, false);
  if (fresh) known->second = ignores_answer(kernel, event.fragment->pc);
  if (!known->second && asked_.empty()) return;
  const ClusterOrder& order = cluster.order();
  const uint32_t index = order.find_barrier(event.block->rank, event.offset);
  const uint32_t warp = order.warp_number(*event.fragment);
  if (index == ClusterOrder::kNoBarrier) return;
  if (!known->second) {
    for (Asked& asked : asked_) {
      const bool again = asked.cluster == &cluster && asked.barrier == index && asked.warp == warp;
      if (again && event.phase >= asked.phase) asked.lanes &= ~event.lanes;
    }
    std::erase_if(asked_, [](const Asked& asked) { return asked.lanes == 0; });
    learnt(cluster, *event.fragment, event.lanes, order.barrier(index).completed);
    return;
  }
  const BarrierOrder& barrier = order.barrier(index);
  if (order.known(warp, machine::first_lane(event.lanes))->at(barrier.component) >= event.phase) return;
  // A loop that never looks at the answer asks for one phase after the other.
  for (Asked& asked : asked_) {
    const bool same = asked.cluster == &cluster && asked.barrier == index && asked.warp == warp &&
                      asked.lanes == event.lanes && asked.pc == event.fragment->pc;
    if (!same) continue;
    asked.phase = event.phase;
    return;
  }
  const uint32_t first = machine::first_lane(event.lanes);
  asked_.push_back({&cluster, index, warp, event.lanes, event.fragment->pc, event.phase, order.known(warp, first)});
}

/// Lanes learn something at a barrier, from other lanes, or (null) from what is not followed here.
void BarrierCheck::learnt(const ClusterRecord& cluster, const machine::Fragment& fragment, LaneMask lanes,
                          const SharedClock& what) {
  const uint32_t warp = cluster.order().warp_number(fragment);
  for (Asked& asked : asked_) {
    if (asked.cluster != &cluster || asked.warp != warp || (asked.lanes & lanes) == 0 || asked.known == nullptr)
      continue;
    // Lanes that have asked alike teach each other nothing.
    if (what == nullptr && (lanes & ~asked.lanes) == 0) continue;
    asked.known = what == nullptr ? nullptr : joined_clocks(asked.known, what);
  }
}

void BarrierCheck::met(const ClusterRecord& cluster, const machine::Rendezvous& event) {
  const bool of_block = event.block != nullptr;
  learnt(cluster, *event.fragment, event.lanes,
         of_block ? cluster.order().learnt_at_barrier(event.block->rank, event.number) : nullptr);
}

/// Reports where these lanes do something that relies on a phase that they have asked for.
/// @param relies  whether it does, of the lanes of an `Asked`
template <typename Relies>
void BarrierCheck::report_reliance(const ClusterRecord& cluster, const machine::Fragment& fragment, LaneMask lanes,
                                   Relies relies) {
  const uint32_t warp = cluster.order().warp_number(fragment);
  std::erase_if(asked_, [&](const Asked& asked) {
    const bool concerned =
        asked.cluster == &cluster && asked.warp == warp && (asked.lanes & lanes) != 0 && asked.known != nullptr;
    if (!concerned || !relies(asked)) return false;
    report_unused_answer(asked);
    return true;
  });
}

void BarrierCheck::went_on(const ClusterRecord& cluster, const RecordedAccess& recorded) {
  const machine::MemoryAccess& event = recorded.event;
  if (event.fragment == nullptr) return;
  if (event.order != machine::AccessOrder::weak) return learnt(cluster, *event.fragment, event.lanes, nullptr);
  if (event.shared == nullptr) return;
  report_reliance(cluster, *event.fragment, event.lanes, [&](const Asked& asked) {
    bool relies = false;
    machine::for_each_lane(asked.lanes & event.lanes, [&](uint32_t lane) {
      relies = relies ||
               relies_on(asked.warp, lane, *asked.known, asked.barrier, cluster, {event.shared[lane], event.bytes});
    });
    return relies;
  });
}

void BarrierCheck::went_on(const ClusterRecord& cluster, const machine::AsyncOperation& operation) {
  report_reliance(cluster, *operation.fragment, 1u << operation.lane, [&](const Asked& asked) {
    const auto is_relied_on = [&](const machine::SharedRange& range) {
      return relies_on(asked.warp, operation.lane, *asked.known, asked.barrier, cluster, range);
    };
    return std::any_of(operation.reads.begin(), operation.reads.end(), is_relied_on) ||
           std::any_of(operation.writes.begin(), operation.writes.end(), is_relied_on);
  });
}

void BarrierCheck::block_finished(ClusterRecord& cluster, const machine::Block& block) {
  std::erase_if(asked_, [&](const Asked& asked) {
    const bool ends = asked.cluster == &cluster && asked.warp / cluster.order().warps_per_block() == block.rank;
    if (ends) report_unused_answer(asked);
    return ends;
  });
}

void BarrierCheck::cluster_stuck(ClusterRecord& cluster) {
  std::erase_if(asked_, [&](const Asked& asked) {
    if (asked.cluster == &cluster) report_unused_answer(asked);
    return asked.cluster == &cluster;
  });
}

void BarrierCheck::report_unused_answer(const Asked& asked) {
  const ClusterRecord& cluster = *asked.cluster;
  const auto identity = findings_.claim("unused answer", asked.pc, asked.pc);
  if (!identity) return;
  const BarrierOrder& barrier = cluster.order().barrier(asked.barrier);
  machine::Diagnostic finding = begin_finding(cluster, barrier, asked.warp, asked.lanes, asked.pc);
  finding.message =
      fmt::format("asks whether a phase of {} has ended, and nothing looks at the answer", name_of(cluster, barrier));
  finding.details.push_back("this time it had ended; try_wait may answer no at any time, and the thread would go on");
  finding.likely_cause = "ask again until the answer is yes: `while (!try_wait(...)) {}`";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

/// A wait acquires what the threads of its scope have released.
void BarrierCheck::check_scope_of_wait(const ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (event.semantics.relaxed || event.semantics.of_cluster || event.phase == 0) return;
  const ClusterOrder& order = cluster.order();
  const uint32_t index = order.find_barrier(event.block->rank, event.offset);
  if (index == ClusterOrder::kNoBarrier) return;
  const BarrierOrder& barrier = order.barrier(index);
  if (!barrier.has_remote_arrivals) return;
  const PhaseNote* remote = nullptr;
  barrier.phases.for_each(event.phase - 1, [&](const PhaseNote& note) {
    if (note.kind == PhaseNote::Kind::arrival && note.block != event.block) remote = &note;
  });
  if (remote == nullptr) return;
  const auto identity = findings_.claim("scope of a wait", event.fragment->pc, event.fragment->pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = kBarrierMisuse;
  finding.place = place_of(cluster, order.warp_number(*event.fragment), event.lanes, event.fragment->pc);
  finding.message = fmt::format(
      "waits for {} with the scope of its own block, and a thread of another block has "
      "arrived there",
      name_of(cluster, barrier));
  finding.details.push_back(
      fmt::format("{} arrives there{}",
                  spell_thread(cluster, remote->block->rank * order.warps_per_block() + remote->warp, remote->lanes),
                  line_of(cluster, remote->pc)));
  finding.likely_cause = "write .acquire.cluster: a wait without a scope has that of the block, .cta";
  finding.tolerated = "the pipelines of CUTLASS wait so";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

void BarrierCheck::report_overrun(const ClusterRecord& cluster, const machine::BarrierEvent& event,
                                  const BarrierOrder& barrier) {
  const auto identity = findings_.claim(kBarrierMisuse, event.fragment->pc);
  if (!identity) return;
  machine::Diagnostic finding = begin_finding(cluster, barrier, cluster.order().warp_number(*event.fragment),
                                              event.fragment->mask, event.fragment->pc);
  finding.message =
      fmt::format("more lanes arrive at {} in one instruction than its phase waits for", name_of(cluster, barrier));
  const auto found = event.block->mbarriers.live.find(event.offset);
  if (found != event.block->mbarriers.live.end()) {
    finding.details.push_back(fmt::format("it was initialised{} for {} arrival{} per phase",
                                          line_of_initialisation(cluster, barrier), found->second.expected,
                                          found->second.expected == 1 ? "" : "s"));
  }
  finding.details.push_back("the rest count for phases to come, before anyone can have waited for this one");
  finding.likely_cause = cause_of_overrun(cluster, event, barrier);
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

void BarrierCheck::report_uninitialised(const ClusterRecord& cluster, const machine::Fragment& fragment, LaneMask lanes,
                                        const BarrierOrder& barrier) {
  const auto identity = findings_.claim(kBarrierMisuse, fragment.pc);
  if (!identity) return;
  const uint32_t warp = cluster.order().warp_number(fragment);
  machine::Diagnostic finding = begin_finding(cluster, barrier, warp, lanes, fragment.pc);
  finding.message =
      fmt::format("uses {}, and nothing orders its initialisation before that", name_of(cluster, barrier));
  const uint32_t warps = cluster.order().warps_per_block();
  finding.details.push_back(fmt::format("{} initialises it{}",
                                        spell_thread(cluster, barrier.initialised.agent, barrier.initialised.lanes),
                                        line_of_initialisation(cluster, barrier)));
  finding.likely_cause =
      barrier.initialised.agent / warps == warp / warps
          ? fmt::format("a {} is missing between mbarrier.init and the first use by other threads",
                        warps == 1 ? "__syncwarp()" : "__syncthreads()")
          : "fence.mbarrier_init and a cluster barrier are missing between mbarrier.init and the first use by other "
            "blocks";
  const machine::Block& block = fragment.block();
  const uint32_t thread = machine::thread_of(fragment, machine::first_lane(lanes));
  if (block.cluster_rounds[thread] > cluster.cluster().barrier_generation) {
    finding.likely_cause =
        "the thread has arrived at barrier.cluster and gone on without barrier.cluster.wait: an arrival alone orders "
        "nothing before what the thread does next";
  }
  if (cluster.order().has_met_initialiser(warp, barrier)) {
    finding.likely_cause =
        "the cluster barrier between the two is arrived at with .relaxed, and there is no fence.mbarrier_init "
        "between the initialisation and the arrival";
    finding.tolerated = "kernels of CUTLASS for sm_100 initialise some barriers after that fence";
  }
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
