// mbarrier.test_wait and mbarrier.try_wait.
//
// No warp spins here. A poll that finds its phase still open puts its fragment to sleep until the phase ends.
// Fragment::idle_poll_pc explains when the sleep has a limit.
#include <memory>

#include "emulator/engines/lane_operand.hpp"
#include "emulator/engines/mbarrier/mbarrier.hpp"
#include "emulator/engines/mbarrier/mbarrier_instructions.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/barrier_misuse.hpp"
#include "emulator/state/choices.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/waiting.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

using ptx::Type;

namespace {

struct WaitDetail : OpDetail {
  const char* what = "";
  SharedOperand address;
  LaneOperand phase;  ///< the parity, or the state that an arrival returned
  bool by_parity = false;
  bool sleeps = false;  ///< try_wait
  BarrierSemantics semantics{};
  LaneOperand hint;  ///< nanoseconds; absent: the chip's own limit
  RegisterOffset result = kNoRegister;

  /// Returns the parity that the program gave; `poll` accepts only 0 and 1.
  uint32_t parity_of(const Fragment& fragment, uint32_t lane) const {
    const uint64_t value = phase.at(fragment, lane);
    return by_parity ? static_cast<uint32_t>(value) : parity_of_word(value);
  }
};

void write_result(Fragment& fragment, const WaitDetail& detail, LaneMask mask, LaneMask passed) {
  uint32_t& result = *lanes_at<uint32_t>(fragment.registers, detail.result);
  result = (result & ~mask) | passed;
}

void announce_waits(Fragment& fragment, const BarrierReference& reference, LaneMask lanes, BarrierSemantics semantics) {
  const BarrierEvent event{BarrierEventKind::wait,
                           reference.block,
                           reference.offset,
                           reference.barrier->phase,
                           0,
                           &fragment,
                           lanes,
                           semantics};
  for (Observer* observer : fragment.grid().observers) observer->barrier_changed(event);
}

/// A barrier whose phase has not ended, and the first lane that waits for it.
struct OpenBarrier {
  BarrierReference reference;
  uint32_t address, lane;
};
/// Returns the lanes whose phase has ended; the barriers of the others go to `open`.
LaneMask poll(Fragment& fragment, const WaitDetail& detail, LaneMask mask, std::vector<OpenBarrier>& open) {
  LaneMask passed = 0;
  while (mask != 0) {
    // Lanes with the same barrier and parity, nearly always all of them, get one answer.
    const uint32_t leader = first_lane(mask);
    const uint64_t raw = detail.address.value.at(fragment, leader);
    const uint32_t parity = detail.parity_of(fragment, leader);
    LaneMask alike = 0;
    for_each_lane(mask, [&](uint32_t lane) {
      if (detail.address.value.at(fragment, lane) == raw && detail.parity_of(fragment, lane) == parity) {
        alike |= 1u << lane;
      }
    });
    mask &= ~alike;
    try {
      const uint32_t address = detail.address.at(fragment, leader, detail.what);
      block_in_scope(fragment.block(), address, kMbarrierBytes, kMbarrierBytes, detail.address.scope, detail.what);
      const BarrierReference reference = find_barrier(fragment.block(), address & kSharedOffsetMask, detail.what);
      check_parity(reference, parity, {detail.what, &fragment, alike});
      if (reference.barrier->passes(parity)) {
        passed |= alike;
        if (!fragment.grid().observers.empty()) announce_waits(fragment, reference, alike, detail.semantics);
      } else {
        open.push_back({reference, address, leader});
      }
    } catch (Fault& fault) {
      fault.lanes = alike;
      if (fault.kind == FaultKind::misaligned_address) fault.name = kBarrierMisuse;
      throw;
    }
  }
  return passed;
}

/// Adds the fragment to the waiters of the barriers that it is going to sleep on.
Wait list_with(Fragment& fragment, const WaitDetail& detail, const std::vector<OpenBarrier>& open) {
  for (const OpenBarrier& each : open) {
    auto& waiting = each.reference.barrier->waiting;
    // No barrier is here twice: of lanes that wait for both parities of a barrier, some pass, and then none sleeps.
    waiting.push_back(&fragment);
  }
  if (open.size() > 1) fragment.block().mbarriers.waiting_on_several.push_back(&fragment);
  return {WaitKind::mbarrier, open.front().address, detail.parity_of(fragment, open.front().lane)};
}

Outcome wait(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const WaitDetail*>(op.detail);
  const bool timed_out = fragment.timed_out;
  fragment.timed_out = false;

  std::vector<OpenBarrier> open;
  const LaneMask passed = poll(fragment, detail, mask, open);
  if (passed != 0 || timed_out) {
    write_result(fragment, detail, mask, passed);
    return passed != 0 ? Outcome::next : Outcome::yield;
  }
  if (fragment.idle_poll_pc == fragment.pc) {
    // This is the second poll in a row, without an effect in between: only the barrier can change its result.
    sleep(fragment, list_with(fragment, detail, open));
    return Outcome::blocked;
  }
  if (fragment.idle_poll_pc == Fragment::kEffect) ++*fragment.effects;  // the next line loses this effect
  fragment.idle_poll_pc = fragment.pc;
  const bool gives_up =
      detail.sleeps && fragment.cluster().choices != nullptr && fragment.cluster().choices->gives_up(fragment);
  if (!detail.sleeps || gives_up) {
    write_result(fragment, detail, mask, 0);
    return Outcome::yield;
  }
  const Cycle limit = detail.hint.present() ? cycles_of(detail.hint.at(fragment, open.front().lane), fragment.grid())
                                            : Cycle{fragment.grid().latencies->try_wait_limit};
  sleep_at_most(fragment, list_with(fragment, detail, open), limit);
  return Outcome::blocked;
}

}  // namespace

void translate_wait(Translation& t, bool sleeps) {
  auto detail = std::make_unique<WaitDetail>();
  detail->sleeps = sleeps;
  detail->what = sleeps ? "mbarrier.try_wait" : "mbarrier.test_wait";
  detail->by_parity = t.modifiers.take("parity");
  detail->semantics = take_semantics(t, {"acquire", "relaxed"});
  const SharedScope scope =
      t.modifiers.take_one_of({"shared::cta", "shared"}) ? SharedScope::block : SharedScope::generic;
  t.modifiers.require("b64");
  const size_t operands = t.operand_count();
  if (operands < 3 || operands > (sleeps ? 4u : 3u)) {
    t.illegal(sleeps ? "mbarrier.try_wait takes a predicate, an address, a state or parity, and perhaps a time"
                     : "mbarrier.test_wait takes a predicate, an address, and a state or parity");
  }
  detail->address = barrier_operand(t, 1, scope);
  detail->phase = lane_operand(t, t.operand(2), detail->by_parity ? Type::u32 : Type::b64);
  if (operands == 4) detail->hint = lane_operand(t, t.operand(3), Type::u32);
  detail->result = t.destination(0, Type::pred);
  t.emit(wait).detail = t.keep(std::move(detail));
}

}  // namespace stagecraft::emulator::machine
