// bar and barrier: the barriers of a block, of a cluster and of a warp.
#include "emulator/instructions/block_barriers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/instructions/families.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/waiting.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

namespace {

enum class Reduction : uint8_t { none, popc, conjunction, disjunction };

/// What a bar instruction keeps in addition to its operands: op.a is the number of the barrier, op.b the count of
/// threads (or kNoRegister), op.c the predicate of a reduction, op.destination its result.
struct BarrierDetail : OpDetail {
  bool aligned = false;
  bool arrives_only = false;
  Reduction reduction = Reduction::none;
  LaneMask predicate_flip = 0;
};

uint32_t live_threads(const Block& block) {
  uint32_t threads = 0;
  // A warp that is not full counts as a full one, because its missing threads count at every barrier.
  for (const Warp& warp : block.warps) threads += warp.live != 0 ? kWarpSize : 0;
  return threads;
}

/// Lanes of the warp that wait at the barrier.
LaneMask waiting_lanes(const NamedBarrier& barrier, const Warp& warp) {
  LaneMask lanes = 0;
  for (const Fragment* fragment : barrier.waiting) lanes |= fragment->warp == &warp ? fragment->mask : 0;
  return lanes;
}

/// How many threads arrive with `lanes` of a warp, when the lanes `before` have already arrived. With the last living
/// lane of a warp its missing and exited threads count as well.
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
    std::vector<std::string> details;
    if (!barrier.waiting.empty()) {
      const Fragment& other = *barrier.waiting.front();
      details.push_back(fmt::format("warp {} waits there at {}", other.warp->index,
                                    block.cluster->grid->kernel->describe_source(other.pc)));
    }
    details.push_back(
        "all that meet at one barrier must give the same count: has its number been given to two purposes?");
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("barrier {} is used with a count of {} threads while others wait on it with {}", number,
                            count == 0 ? "all" : std::to_string(count),
                            barrier.expected == 0 ? std::string("all") : std::to_string(barrier.expected)),
                std::move(details));
  }
  // An arrival cannot end a loop of another thread, which sooner or later does the same in any case. Only the result of
  // a reduction can.
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
  constexpr uint64_t barriers = std::tuple_size_v<decltype(Block::named_barriers)>;
  const auto is_number = [&](size_t operand) { return t.operand(operand).kind == ptx::OperandKind::integer; };
  if (is_number(next) && t.operand(next).bits >= barriers) {
    t.illegal(fmt::format("barrier number {} does not exist: a block has barriers 0 to {}", t.operand(next).bits,
                          barriers - 1));
  }
  const RegisterOffset number = t.source(next++, ptx::Type::u32);
  if (next < end && is_number(next) && t.operand(next).bits % kWarpSize != 0) {
    t.illegal(
        fmt::format("a count of {} threads: the count must be a multiple of {}", t.operand(next).bits, kWarpSize));
  }
  if (detail->arrives_only && next == end) {
    t.illegal("an arrival needs the number of threads that the barrier waits for: bar.arrive 1, 64");
  }
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

/// Arrives at barrier.cluster; op.immediate says whether .relaxed.
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
  LaneMask waiting = 0;  // lanes that went apart before may be here in different rounds
  for_each_lane(mask, [&](uint32_t lane) {
    const uint64_t round = fragment.block().cluster_rounds[thread_of(fragment, lane)];
    if (round == 0) {
      throw Fault(FaultKind::illegal_instruction, "barrier.cluster.wait by a thread that has not arrived",
                  {"each thread executes barrier.cluster.arrive first"}, 1u << lane);
    }
    waiting |= (round > cluster.barrier_generation ? 1u : 0u) << lane;
  });
  if (const LaneMask passing = mask & ~waiting; passing != 0) {
    announce_rendezvous({RendezvousKind::pass, &cluster, nullptr, 0, &fragment, passing});
  }
  if (waiting == 0) return Outcome::next;
  if (const LaneMask others = fragment.mask & ~waiting; others != 0) split_off(fragment, others, fragment.pc + 1);
  cluster.waiting_for_barrier.push_back(&fragment);
  sleep(fragment, {WaitKind::cluster_barrier, 0, cluster.barrier_generation});
  return Outcome::blocked;
}

void translate_bar_warp(Translation& t) {
  t.modifiers.take("warp");
  t.modifiers.require("sync");
  const RegisterOffset members = t.source(0, ptx::Type::b32);
  Op& op = t.emit([](Fragment& fragment, const Op& self, LaneMask mask) {
    return among_members(fragment, self, mask, self.a, [](SyncPlaces) {});
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
  // A thread that arrived and exited without waiting counts neither as arrived nor as one that is still to arrive.
  if (cluster.barrier_arrived != 0) {
    for_each_lane(lanes, [&](uint32_t lane) {
      const uint64_t round = block.cluster_rounds[warp.index * kWarpSize + lane];
      if (round == cluster.barrier_generation + 1) --cluster.barrier_arrived;
    });
  }
  if (!cluster.waiting_for_barrier.empty() && all_have_arrived(cluster)) complete_cluster_barrier(cluster);
}

void add_block_barriers(InstructionSet& set) {
  InstructionTraits meets = kOrdinary;
  meets.synchronises = meets.ends_polling = true;
  meets.reads_first = true;  // a number; of .red, too, whose result the model of time does not follow
  InstructionTraits meets_block = meets;
  meets_block.meets_block = true;
  InstructionTraits meets_warp = kOrdinary;
  meets_warp.orders_lanes = meets_warp.ends_polling = meets_warp.reads_first = true;
  set.add("bar", translate_bar, meets_block, InstructionClass::barrier);
  set.add("bar.warp", translate_bar_warp, meets_warp, InstructionClass::barrier);
  set.add("barrier", translate_barrier, meets_block, InstructionClass::barrier);
  set.add("barrier.cluster", translate_barrier, meets, InstructionClass::barrier);
}

}  // namespace stagecraft::emulator::machine
