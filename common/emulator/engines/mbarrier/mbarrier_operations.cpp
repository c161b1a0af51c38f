// The mbarrier.* instructions, except the waits (mbarrier_waits.cpp).
#include <fmt/format.h>

#include <memory>
#include <string>

#include "emulator/engines/lane_operand.hpp"
#include "emulator/engines/mbarrier/mbarrier.hpp"
#include "emulator/engines/mbarrier/mbarrier_instructions.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/barrier_misuse.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

using ptx::Type;

namespace {

/// The operands of one instruction on a barrier.
struct BarrierDetail : OpDetail {
  std::string what;  ///< for messages: "mbarrier.arrive.expect_tx"
  SharedOperand address;
  LaneOperand amount;                  ///< count or bytes; absent: 1
  RegisterOffset state = kNoRegister;  ///< 64-bit destination; kNoRegister for `_`
  bool expects = false;                ///< arrive.expect_tx: `amount` is bytes
  bool drop = false;
  bool no_complete = false;
  BarrierSemantics semantics{};

  uint64_t amount_of(const Fragment& fragment, uint32_t lane) const {
    return amount.present() ? amount.at(fragment, lane) : 1;
  }
};

const BarrierDetail& detail_of(const Op& op) { return *static_cast<const BarrierDetail*>(op.detail); }

/// Calls `act(lane)` for the lanes in order. A Fault that names no lanes gets that lane.
template <typename Act>
void lane_by_lane(LaneMask mask, Act&& act) {
  for_each_lane(mask, [&](uint32_t lane) {
    try {
      act(lane);
    } catch (Fault& fault) {
      if (fault.lanes == 0) fault.lanes = 1u << lane;
      if (fault.kind == FaultKind::misaligned_address) fault.name = kBarrierMisuse;
      throw;
    }
  });
}

BarrierReference barrier_of_lane(Fragment& fragment, const BarrierDetail& detail, uint32_t lane) {
  const char* what = detail.what.c_str();
  const uint32_t address = detail.address.at(fragment, lane, what);
  Block& block = block_in_scope(fragment.block(), address, kMbarrierBytes, kMbarrierBytes, detail.address.scope, what);
  return find_barrier(block, address & kSharedOffsetMask, what);
}

void write_state(Fragment& fragment, const BarrierDetail& detail, uint32_t lane, uint64_t state) {
  if (detail.state != kNoRegister) {
    lanes_at<uint64_t>(fragment.registers, detail.state)[lane] = state;
  }
}

Outcome initialise(Fragment& fragment, const Op& op, LaneMask mask) {
  const BarrierDetail& detail = detail_of(op);
  note_effect(fragment);
  LaneMask done = 0;
  lane_by_lane(mask, [&](uint32_t lane) {
    if ((done >> lane & 1) != 0) return;
    const uint32_t address = detail.address.at(fragment, lane, detail.what.c_str());
    const uint64_t count = detail.amount_of(fragment, lane);
    // Lanes with the same barrier and count initialise it once: in ThunderKittens, whole warps initialise a barrier.
    LaneMask same = 0;
    for_each_lane(mask & ~done, [&](uint32_t other) {
      const bool agrees = detail.address.at(fragment, other, detail.what.c_str()) == address &&
                          detail.amount_of(fragment, other) == count;
      same |= (agrees ? 1u : 0u) << other;
    });
    init_barrier(fragment.block(), address, count, {detail.what.c_str(), &fragment, same});
    done |= same;
  });
  return Outcome::next;
}

Outcome invalidate(Fragment& fragment, const Op& op, LaneMask mask) {
  const BarrierDetail& detail = detail_of(op);
  note_effect(fragment);
  lane_by_lane(mask, [&](uint32_t lane) {
    invalidate_barrier(fragment.block(), detail.address.at(fragment, lane, detail.what.c_str()),
                       {detail.what.c_str(), &fragment, 1u << lane});
  });
  return Outcome::next;
}

uint64_t arrive_once(const BarrierReference& reference, const BarrierDetail& detail, uint64_t amount, uint64_t lanes,
                     const BarrierActor& actor) {
  Arrival arrival{detail.expects ? lanes : amount * lanes, detail.drop, detail.no_complete,
                  detail.expects && !detail.drop};
  return detail.expects ? arrive_and_expect(reference, amount * lanes, arrival, actor)
                        : arrive(reference, arrival, actor);
}

/// Lets all lanes arrive in one step, if they arrive on one barrier with one amount and the phase has room for them.
/// Returns false otherwise.
bool arrive_together(Fragment& fragment, const BarrierDetail& detail, LaneMask mask) {
  const uint32_t leader = first_lane(mask);
  const uint64_t address = detail.address.value.at(fragment, leader), amount = detail.amount_of(fragment, leader);
  const auto lanes = static_cast<uint32_t>(std::popcount(mask));
  bool same = lanes > 1;
  for_each_lane(mask, [&](uint32_t lane) {
    same = same && detail.address.value.at(fragment, lane) == address && detail.amount_of(fragment, lane) == amount;
  });
  if (!same || amount > kMbarrierLimit) return false;
  const BarrierReference reference = barrier_of_lane(fragment, detail, leader);
  const uint64_t count = detail.expects ? 1 : amount;
  if (count * lanes > reference.barrier->pending || count * lanes > kMbarrierLimit) return false;
  Mbarrier before = *reference.barrier;
  before.waiting.clear();
  arrive_once(reference, detail, amount, lanes, {detail.what.c_str(), &fragment, mask, detail.semantics});
  for_each_lane(mask, [&](uint32_t lane) {
    write_state(fragment, detail, lane, word_of(before));
    before.pending -= static_cast<uint32_t>(count);
    if (detail.drop) before.expected -= std::min(before.expected, static_cast<uint32_t>(count));
    if (detail.expects) before.transaction += static_cast<int64_t>(amount);
  });
  return true;
}

Outcome arrive_lanes(Fragment& fragment, const Op& op, LaneMask mask) {
  const BarrierDetail& detail = detail_of(op);
  note_effect(fragment);
  if (arrive_together(fragment, detail, mask)) return Outcome::next;
  lane_by_lane(mask, [&](uint32_t lane) {
    const BarrierReference reference = barrier_of_lane(fragment, detail, lane);
    write_state(fragment, detail, lane,
                arrive_once(reference, detail, detail.amount_of(fragment, lane), 1,
                            {detail.what.c_str(), &fragment, 1u << lane, detail.semantics}));
  });
  return Outcome::next;
}

template <void (*change)(const BarrierReference&, uint64_t, const BarrierActor&)>
Outcome change_transaction_count(Fragment& fragment, const Op& op, LaneMask mask) {
  const BarrierDetail& detail = detail_of(op);
  note_effect(fragment);
  lane_by_lane(mask, [&](uint32_t lane) {
    change(barrier_of_lane(fragment, detail, lane), detail.amount_of(fragment, lane),
           {detail.what.c_str(), &fragment, 1u << lane});
  });
  return Outcome::next;
}

Outcome pending_count(Fragment& fragment, const Op& op, LaneMask mask) {
  const uint64_t* state = lanes_at<uint64_t>(fragment.registers, op.a);
  uint32_t* count = lanes_at<uint32_t>(fragment.registers, op.destination);
  for_each_lane(mask, [&](uint32_t lane) { count[lane] = pending_of_word(state[lane]); });
  return Outcome::next;
}

/// The operands of cp.async.mbarrier.arrive, which arrives when the thread's earlier cp.async are done.
struct CopyArrivalDetail : OpDetail {
  SharedOperand address;
  bool no_increment = false;
};

Outcome arrive_after_copies(Fragment& fragment, const Op& op, LaneMask mask) {
  static constexpr const char* kWhat = "cp.async.mbarrier.arrive";
  const auto& detail = *static_cast<const CopyArrivalDetail*>(op.detail);
  note_effect(fragment);
  Block& block = fragment.block();
  Cluster& cluster = fragment.cluster();
  lane_by_lane(mask, [&](uint32_t lane) {
    const uint32_t address = detail.address.at(fragment, lane, kWhat);
    block_in_scope(block, address, kMbarrierBytes, kMbarrierBytes, detail.address.scope, kWhat);
    const BarrierReference reference = find_barrier(block, address & kSharedOffsetMask, kWhat);
    if (!detail.no_increment) add_pending(reference, {kWhat, &fragment, 1u << lane});
    const Cycle end = block.copies.empty() ? 0 : block.copies[fragment.warp->index].end_of(lane);
    const Cycle now = std::max(cluster.now, fragment.warp->clock);
    const Cycle delay = end > now ? end - now : 0;
    // This is an event even with nothing to wait for: the arrival is asynchronous, and copies that end in the same
    // cycle come first because they were scheduled first.
    uint64_t number = 0;
    if (observes_memory(fragment)) {
      number = announce_operation({.fragment = &fragment,
                                   .lane = lane,
                                   .what = kWhat,
                                   .completion = AsyncCompletion::copies_arrive,
                                   .has_barrier = true,
                                   .barrier = address});
    }
    const void* const after_copies = block.copies.empty() ? nullptr : &block.copies[fragment.warp->index];
    cluster.schedule(
        delay, [&cluster, address, number] { arrive_asynchronously(cluster, address, 1, kWhat, number); },
        after_copies);
  });
  return Outcome::next;
}

SharedScope take_scope(Translation& t, bool cluster_allowed) {
  if (cluster_allowed && t.modifiers.take("shared::cluster")) return SharedScope::cluster;
  return t.modifiers.take_one_of({"shared::cta", "shared"}) ? SharedScope::block : SharedScope::generic;
}

void translate_init(Translation& t) {
  auto detail = std::make_unique<BarrierDetail>();
  detail->what = "mbarrier.init";
  detail->address.scope = take_scope(t, false);
  t.modifiers.require("b64");
  detail->address = barrier_operand(t, 0, detail->address.scope);
  detail->amount = lane_operand(t, t.operand(1), Type::u32);
  t.emit(initialise).detail = t.keep(std::move(detail));
}

void translate_inval(Translation& t) {
  auto detail = std::make_unique<BarrierDetail>();
  detail->what = "mbarrier.inval";
  const SharedScope scope = take_scope(t, false);
  t.modifiers.require("b64");
  detail->address = barrier_operand(t, 0, scope);
  t.emit(invalidate).detail = t.keep(std::move(detail));
}

void translate_arrive(Translation& t, bool drop) {
  auto detail = std::make_unique<BarrierDetail>();
  detail->drop = drop;
  detail->expects = t.modifiers.take("expect_tx");
  detail->no_complete = !detail->expects && t.modifiers.take("noComplete");
  detail->what = fmt::format("mbarrier.{}{}", drop ? "arrive_drop" : "arrive",
                             detail->expects       ? ".expect_tx"
                             : detail->no_complete ? ".noComplete"
                                                   : "");
  detail->semantics = take_semantics(t, {"release", "relaxed"});
  const SharedScope scope = take_scope(t, !detail->no_complete);
  t.modifiers.require("b64");
  const bool sink = t.operand(0).kind == ptx::OperandKind::sink;
  if (scope == SharedScope::cluster && !sink) {
    t.illegal(fmt::format("{}.shared::cluster gives no state: its destination must be `_`", detail->what));
  }
  const size_t operands = t.operand_count();
  if ((detail->expects || detail->no_complete) && operands != 3) {
    t.illegal(fmt::format("{} takes a state, an address and a {}", detail->what,
                          detail->expects ? "number of bytes" : "count"));
  }
  if (operands > 3) t.illegal(fmt::format("{} takes at most a state, an address and a count", detail->what));
  detail->address = barrier_operand(t, 1, scope);
  const bool counts = operands == 3 && !detail->expects && t.operand(2).kind == ptx::OperandKind::integer;
  if (counts && t.operand(2).bits == 0) t.illegal("a count of 0 arrivals; at least one is legal");
  if (operands == 3) detail->amount = lane_operand(t, t.operand(2), Type::u32);
  if (!sink) detail->state = t.destination(0, Type::b64);
  t.emit(arrive_lanes).detail = t.keep(std::move(detail));
}

void translate_transaction(Translation& t, bool expects) {
  auto detail = std::make_unique<BarrierDetail>();
  detail->what = expects ? "mbarrier.expect_tx" : "mbarrier.complete_tx";
  take_semantics(t, {"relaxed"});
  const SharedScope scope = take_scope(t, true);
  t.modifiers.require("b64");
  detail->address = barrier_operand(t, 0, scope);
  detail->amount = lane_operand(t, t.operand(1), Type::u32);
  t.emit(expects ? change_transaction_count<expect_transaction> : change_transaction_count<complete_transaction>)
      .detail = t.keep(std::move(detail));
}

void translate_pending_count(Translation& t) {
  t.modifiers.require("b64");
  const RegisterOffset state = t.source(1, Type::b64), count = t.destination(0, Type::u32);
  Op& op = t.emit(pending_count);
  op.a = state;
  op.destination = count;
}

void translate_mbarrier(Translation& t) {
  const std::string_view operation = t.modifiers.require_one_of(
      {"init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "pending_count"});
  if (operation == "init") return translate_init(t);
  if (operation == "inval") return translate_inval(t);
  if (operation == "arrive" || operation == "arrive_drop") return translate_arrive(t, operation == "arrive_drop");
  if (operation == "expect_tx" || operation == "complete_tx") return translate_transaction(t, operation == "expect_tx");
  if (operation == "pending_count") return translate_pending_count(t);
  translate_wait(t, operation == "try_wait");
}

}  // namespace

BarrierSemantics take_semantics(Translation& t, std::initializer_list<std::string_view> legal) {
  const auto order = t.modifiers.take_one_of(legal);
  const auto scope = t.modifiers.take_one_of({"cta", "cluster"});
  if (order.has_value() == scope.has_value()) return {.relaxed = order == "relaxed", .of_cluster = scope == "cluster"};
  t.illegal(order.has_value() ? "an ordering needs its scope, .cta or .cluster, beside it"
                              : "a scope needs its ordering, such as .relaxed, beside it");
}

SharedOperand barrier_operand(Translation& t, size_t index, SharedScope scope) {
  const ptx::Operand& operand = t.operand(index);
  SharedOperand result = shared_operand(t, operand, scope);
  if (scope == SharedScope::generic && operand.list[0].kind == ptx::OperandKind::reg && result.value.bytes == 4) {
    t.illegal(
        fmt::format("register {} has 32 bits; without a state space the address is generic and has 64. Write "
                    ".shared::cta for an address in shared memory",
                    operand.list[0].name));
  }
  return result;
}

void translate_copy_arrival(Translation& t) {
  auto detail = std::make_unique<CopyArrivalDetail>();
  detail->no_increment = t.modifiers.take("noinc");
  const SharedScope scope = take_scope(t, false);
  t.modifiers.require("b64");
  detail->address = shared_operand(t, t.operand(0), scope);
  t.emit(arrive_after_copies).detail = t.keep(std::move(detail));
}

void add_mbarrier_operations(InstructionSet& set) {
  InstructionTraits poll = kOrdinary;
  poll.polls = poll.ends_polling = true;
  InstructionTraits suspends = poll;
  suspends.suspends = true;
  InstructionTraits changes = kOrdinary;
  changes.synchronises = changes.ends_polling = true;
  InstructionTraits announces = changes;
  announces.announces_and_arrives = true;
  set.add("mbarrier", translate_mbarrier, changes, InstructionClass::barrier);
  set.add("mbarrier.test_wait", translate_mbarrier, poll, InstructionClass::barrier);
  set.add("mbarrier.try_wait", translate_mbarrier, suspends, InstructionClass::barrier);
  set.add("mbarrier.arrive.expect_tx", translate_mbarrier, announces, InstructionClass::barrier);
}

}  // namespace stagecraft::emulator::machine
