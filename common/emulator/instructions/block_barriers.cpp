// bar and barrier (block and cluster), fences, and the other instructions that order threads.
#include "emulator/instructions/block_barriers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/waiting.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

namespace {

enum class Reduction : uint8_t { none, popc, conjunction, disjunction };

/// What a bar instruction keeps beside its operands: op.a barrier number, op.b thread count (or kNoRegister),
/// op.c predicate of a reduction, op.destination its result.
struct BarrierDetail : OpDetail {
  bool aligned = false;
  bool arrives_only = false;
  Reduction reduction = Reduction::none;
  LaneMask predicate_flip = 0;
};

uint32_t live_threads(const Block& block) {
  uint32_t threads = 0;
  // A warp that is not full counts as one, as its missing threads count at every barrier.
  for (const Warp& warp : block.warps) threads += warp.live != 0 ? kWarpSize : 0;
  return threads;
}

/// Lanes of the warp that wait at the barrier.
LaneMask waiting_lanes(const NamedBarrier& barrier, const Warp& warp) {
  LaneMask lanes = 0;
  for (const Fragment* fragment : barrier.waiting) lanes |= fragment->warp == &warp ? fragment->mask : 0;
  return lanes;
}

/// Threads that `lanes` of a warp count for beside `before`, which have come: a warp counts as one, with those that are
/// missing or have exited, as soon as none of its living lanes is still to come.
uint32_t arrivals_of(const Warp& warp, LaneMask lanes, LaneMask before) {
  const bool all = (lanes | before | ~warp.live) == kAllLanes;
  return static_cast<uint32_t>(std::popcount(all ? ~before : lanes));
}

void write_result(Fragment& fragment, const Op& op, LaneMask mask, uint32_t threads_true, uint32_t threads) {
  const auto& detail = *static_cast<const BarrierDetail*>(op.detail);
  if (detail.reduction == Reduction::none) return;
  if (detail.reduction == Reduction::popc) {
    auto* to = lanes_at<uint32_t>(fragment.registers, op.destination);
    for_each_lane(mask, [&](uint32_t lane) { to[lane] = threads_true; });
    return;
  }
  const bool result = detail.reduction == Reduction::conjunction ? threads_true == threads : threads_true > 0;
  auto& to = *lanes_at<LaneMask>(fragment.registers, op.destination);
  to = (to & ~mask) | (result ? mask : 0);
}

void complete(Block& block, NamedBarrier& barrier) {
  const Kernel& kernel = *block.cluster->grid->kernel;
  std::vector<Fragment*> waiting = std::move(barrier.waiting);
  const uint32_t threads_true = barrier.reduction;
  const uint32_t threads = barrier.reduced;
  const uint64_t generation = barrier.generation + 1;
  const bool of_all = barrier.expected == 0;
  barrier = {};
  barrier.generation = generation;
  if (!block.cluster->grid->memory_observers.empty()) {
    const auto number = static_cast<uint32_t>(&barrier - block.named_barriers.data());
    announce_rendezvous({RendezvousKind::complete, block.cluster, &block, number, nullptr, 0, of_all});
    for (Fragment* fragment : waiting) {
      announce_rendezvous({RendezvousKind::pass, block.cluster, &block, number, fragment, fragment->mask});
    }
  }
  for (Fragment* fragment : waiting) {
    write_result(*fragment, kernel.code[fragment->pc], fragment->mask, threads_true, threads);
    resume_after(*fragment);
  }
}

Outcome named_barrier(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const BarrierDetail*>(op.detail);
  const uint32_t lane = first_lane(mask);
  const uint32_t number = lanes_at<uint32_t>(fragment.registers, op.a)[lane];
  const uint32_t count = op.b == kNoRegister ? 0 : lanes_at<uint32_t>(fragment.registers, op.b)[lane];
  Block& block = fragment.block();
  if (number >= block.named_barriers.size()) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("barrier number {} does not exist: a block has barriers 0 to 15", number));
  }
  if (op.b != kNoRegister && (count == 0 || count % kWarpSize != 0)) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("barrier {} with a count of {} threads: the count must be a multiple of {}", number, count,
                            kWarpSize));
  }
  if (count > kWarpSize * block.warps.size()) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("barrier {} waits for {} threads, but the block has {}", number, count,
                            kWarpSize * block.warps.size()),
                {"it could never complete"});
  }
  NamedBarrier& barrier = block.named_barriers[number];
  if (barrier.arrived > 0 && barrier.expected != count) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("barrier {} is used with a count of {} threads while others wait on it with {}", number,
                            count == 0 ? "all" : std::to_string(count),
                            barrier.expected == 0 ? std::string("all") : std::to_string(barrier.expected)),
                {"all that meet at one barrier must give the same count: has its number been given to two purposes?"});
  }
  // That a thread has come tells others nothing that could end a loop of theirs, but for a reduction: what they do next
  // is the same, sooner or later.
  fragment.idle_poll_pc = Fragment::kNoPoll;
  if (detail.reduction != Reduction::none) note_effect(fragment);
  barrier.expected = count;
  barrier.arrived += arrivals_of(*fragment.warp, mask, waiting_lanes(barrier, *fragment.warp));
  if (detail.reduction != Reduction::none) {
    const LaneMask votes = *lanes_at<LaneMask>(fragment.registers, op.c) ^ detail.predicate_flip;
    barrier.reduction += static_cast<uint32_t>(std::popcount(votes & mask));
    barrier.reduced += static_cast<uint32_t>(std::popcount(mask));
  }
  if (observes_memory(fragment)) {
    announce_rendezvous({RendezvousKind::arrive, block.cluster, &block, number, &fragment, mask});
  }
  const uint32_t needed = count != 0 ? count : live_threads(block);
  if (barrier.arrived > needed) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("{} threads arrived at barrier {}, which waits for {}", barrier.arrived, number, needed),
                {"do more threads use it than its count says?"});
  }
  if (barrier.arrived == needed) {
    write_result(fragment, op, mask, barrier.reduction, barrier.reduced);
    complete(block, barrier);
    if (observes_memory(fragment) && !detail.arrives_only) {
      announce_rendezvous({RendezvousKind::pass, block.cluster, &block, number, &fragment, mask});
    }
    return Outcome::next;
  }
  if (detail.arrives_only) return Outcome::next;
  // The rest of the fragment goes on at once; only the lanes that arrived are on the barrier's list.
  if (const LaneMask others = fragment.mask & ~mask; others != 0) split_off(fragment, others, fragment.pc + 1);
  barrier.waiting.push_back(&fragment);
  sleep(fragment, {WaitKind::named_barrier, number, barrier.generation});
  return Outcome::blocked;
}

/// bar{.cta} is barrier{.cta}.aligned; both spellings name the same sixteen barriers.
void translate_block_barrier(Translation& t, bool aligned) {
  t.modifiers.take("cta");
  auto detail = std::make_unique<BarrierDetail>();
  detail->aligned = t.modifiers.take("aligned") || aligned;
  const std::string_view kind = t.modifiers.require_one_of({"sync", "arrive", "red"});
  detail->arrives_only = kind == "arrive";
  size_t next = 0;
  RegisterOffset destination = kNoRegister, predicate = kNoRegister;
  if (kind == "red") {
    const std::string_view operation = t.modifiers.require_one_of({"popc", "and", "or"});
    if (operation == "popc") {
      detail->reduction = Reduction::popc;
      t.modifiers.require("u32");
      destination = t.destination(next++, ptx::Type::u32);
    } else {
      detail->reduction = operation == "and" ? Reduction::conjunction : Reduction::disjunction;
      t.modifiers.require("pred");
      destination = t.destination(next++, ptx::Type::pred);
    }
    const Translation::Predicate votes = t.predicate(t.operand(t.operand_count() - 1));
    predicate = votes.offset;
    detail->predicate_flip = votes.flip;
  }
  const size_t end = t.operand_count() - (kind == "red" ? 1 : 0);
  const RegisterOffset number = t.source(next++, ptx::Type::u32);
  const RegisterOffset count = next < end ? t.source(next, ptx::Type::u32) : kNoRegister;
  const auto* kept = t.keep(std::move(detail));
  Op& op = t.emit(named_barrier);
  op.a = number;
  op.b = count;
  op.c = predicate;
  op.destination = destination;
  op.detail = kept;
}

bool all_have_arrived(const Cluster& cluster) {
  uint32_t live = 0;
  for (const auto& block : cluster.blocks) {
    for (const Warp& warp : block->warps) live += static_cast<uint32_t>(std::popcount(warp.live));
  }
  return cluster.barrier_arrived >= live;
}

void complete_cluster_barrier(Cluster& cluster) {
  cluster.barrier_arrived = 0;
  ++cluster.barrier_generation;
  std::vector<Fragment*> waiting = std::move(cluster.waiting_for_barrier);
  cluster.waiting_for_barrier.clear();
  announce_rendezvous({RendezvousKind::complete, &cluster, nullptr, 0, nullptr, 0, true});
  for (Fragment* fragment : waiting) wake(*fragment);
}

/// immediate: whether the arrival is .relaxed.
Outcome cluster_arrive(Fragment& fragment, const Op& op, LaneMask mask) {
  Cluster& cluster = fragment.cluster();
  Block& block = fragment.block();
  note_effect(fragment);
  announce_rendezvous({op.immediate != 0 ? RendezvousKind::arrive_relaxed : RendezvousKind::arrive, &cluster, nullptr,
                       0, &fragment, mask});
  for_each_lane(mask, [&](uint32_t lane) {
    uint64_t& round = block.cluster_rounds[thread_of(fragment, lane)];
    if (round == cluster.barrier_generation + 1) {
      throw Fault(FaultKind::illegal_instruction, "a thread arrives twice at barrier.cluster without waiting between",
                  {"each barrier.cluster.arrive needs its barrier.cluster.wait"}, 1u << lane);
    }
    round = cluster.barrier_generation + 1;
    ++cluster.barrier_arrived;
  });
  if (all_have_arrived(cluster)) complete_cluster_barrier(cluster);
  return Outcome::next;
}

Outcome cluster_wait(Fragment& fragment, const Op&, LaneMask mask) {
  Cluster& cluster = fragment.cluster();
  bool done = true;
  for_each_lane(mask, [&](uint32_t lane) {
    const uint64_t round = fragment.block().cluster_rounds[thread_of(fragment, lane)];
    if (round == 0) {
      throw Fault(FaultKind::illegal_instruction, "barrier.cluster.wait by a thread that has not arrived",
                  {"each thread executes barrier.cluster.arrive first"}, 1u << lane);
    }
    done = done && round <= cluster.barrier_generation;
  });
  if (done) {
    announce_rendezvous({RendezvousKind::pass, &cluster, nullptr, 0, &fragment, mask});
    return Outcome::next;
  }
  if (const LaneMask others = fragment.mask & ~mask; others != 0) split_off(fragment, others, fragment.pc + 1);
  cluster.waiting_for_barrier.push_back(&fragment);
  sleep(fragment, {WaitKind::cluster_barrier, 0, cluster.barrier_generation});
  return Outcome::blocked;
}

Outcome do_nothing(Fragment&, const Op&, LaneMask) { return Outcome::next; }

void translate_bar_warp(Translation& t) {
  t.modifiers.take("warp");
  t.modifiers.require("sync");
  const RegisterOffset members = t.source(0, ptx::Type::b32);
  Op& op = t.emit([](Fragment& fragment, const Op& self, LaneMask mask) {
    return among_members(fragment, mask, self.a, [](LaneMask) {});
  });
  op.a = members;
}

void translate_bar(Translation& t) { translate_block_barrier(t, true); }

void translate_barrier(Translation& t) {
  if (!t.modifiers.take("cluster")) return translate_block_barrier(t, false);
  t.modifiers.take("aligned");
  const bool arrives = t.modifiers.require_one_of({"arrive", "wait"}) == "arrive";
  bool relaxed = false;
  if (arrives) {
    relaxed = t.modifiers.take_one_of({"release", "relaxed"}) == "relaxed";
  } else {
    t.modifiers.take("acquire");
  }
  t.emit(arrives ? cluster_arrive : cluster_wait).immediate = relaxed;
}

/// Memory is sequentially consistent here, so fences order nothing; they are read with care all the same, because a
/// fence that the chip does not have must not pass.
void translate_fence(Translation& t) {
  if (t.modifiers.take("mbarrier_init")) {
    t.modifiers.require("release");
    t.modifiers.require("cluster");
  } else if (t.modifiers.has("tensormap::generic")) {
    t.modifiers.require("proxy");
    t.modifiers.require("tensormap::generic");
    const bool acquires = t.modifiers.require_one_of({"acquire", "release"}) == "acquire";
    t.modifiers.require_one_of({"cta", "cluster", "gpu", "sys"});
    if (acquires && t.integer(t.operand(1), "the size of a tensor map") != 128) t.illegal("a tensor map has 128 bytes");
  } else if (t.modifiers.take("proxy")) {
    t.modifiers.require_one_of({"async", "alias", "async::generic", "async.global", "async.shared::cta"});
    t.modifiers.take_one_of({"global", "shared::cta", "shared::cluster", "shared"});
    t.modifiers.take_one_of({"acquire", "release"});
    t.modifiers.take_one_of({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    t.modifiers.take("cluster");
  } else {
    t.modifiers.take_one_of({"sc", "acq_rel", "acquire", "release"});
    t.modifiers.take_one_of({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    t.modifiers.require_one_of({"cta", "cluster", "gpu", "sys"});
  }
  t.emit(do_nothing);
}

Outcome sleep_nanoseconds(Fragment& fragment, const Op& op, LaneMask mask) {
  if (fragment.timed_out) {
    fragment.timed_out = false;
    return Outcome::next;
  }
  uint64_t longest = 0;
  const auto* nanoseconds = lanes_at<uint32_t>(fragment.registers, op.a);
  for_each_lane(mask, [&](uint32_t lane) { longest = std::max<uint64_t>(longest, nanoseconds[lane]); });
  if (const LaneMask others = fragment.mask & ~mask; others != 0) split_off(fragment, others, fragment.pc + 1);
  sleep_at_most(fragment, {WaitKind::sleep, 0, longest},
                1 + longest * fragment.grid().architecture->clock_khz / 1'000'000);
  return Outcome::blocked;
}

}  // namespace

void lanes_have_exited(Warp& warp, LaneMask lanes) {
  Block& block = *warp.block;
  for (NamedBarrier& barrier : block.named_barriers) {
    if (const LaneMask waiting = waiting_lanes(barrier, warp); waiting != 0) {
      barrier.arrived += arrivals_of(warp, 0, waiting);
    }
    if (barrier.arrived == 0) continue;
    const uint32_t needed = barrier.expected != 0 ? barrier.expected : live_threads(block);
    if (needed > 0 && barrier.arrived >= needed) complete(block, barrier);
  }
  Cluster& cluster = *block.cluster;
  // Who has arrived and does not wait is counted neither among those who have come nor among those who are to come.
  if (cluster.barrier_arrived != 0) {
    for_each_lane(lanes, [&](uint32_t lane) {
      const uint64_t round = block.cluster_rounds[warp.index * kWarpSize + lane];
      if (round == cluster.barrier_generation + 1) --cluster.barrier_arrived;
    });
  }
  if (!cluster.waiting_for_barrier.empty() && all_have_arrived(cluster)) complete_cluster_barrier(cluster);
}

void add_block_barriers(InstructionSet& set) {
  set.add("bar", translate_bar);
  set.add("bar", "warp", translate_bar_warp);
  set.add("barrier", translate_barrier);
  set.add("fence", translate_fence);
  set.add("membar", [](Translation& t) {
    if (t.modifiers.take("proxy")) {
      t.modifiers.require_one_of({"alias", "async"});
    } else {
      t.modifiers.require_one_of({"cta", "gl", "sys"});
    }
    t.emit(do_nothing);
  });
  set.add("nanosleep", [](Translation& t) {
    t.modifiers.require("u32");
    const RegisterOffset time = t.source(0, ptx::Type::u32);
    t.emit(sleep_nanoseconds).a = time;
  });
  // Programmatic dependent launch: grids here run one after the other, so what they wait for has happened.
  set.add("griddepcontrol", [](Translation& t) {
    t.modifiers.require_one_of({"wait", "launch_dependents"});
    t.emit(do_nothing);
  });
  // A no-op but for the register count, which the emulator does not limit while a block runs.
  set.add("setmaxnreg", [](Translation& t) {
    t.modifiers.require_one_of({"inc", "dec"});
    t.modifiers.require("sync");
    t.modifiers.require("aligned");
    t.modifiers.require("u32");
    const int64_t count = t.integer(t.operand(0), "the register count");
    if (count < 24 || count > 256 || count % 8 != 0) t.illegal("the register count must be 24 to 256, a multiple of 8");
    t.emit(do_nothing);
  });
}

}  // namespace stagecraft::emulator::machine
