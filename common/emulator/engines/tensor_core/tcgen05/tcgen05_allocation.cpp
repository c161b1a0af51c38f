// tcgen05.alloc, dealloc and relinquish_alloc_permit: they decide which block may use which columns of tensor memory.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/engines/lane_operand.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/waiting.hpp"

namespace stagecraft::emulator::machine {

namespace {

struct AllocationDetail : OpDetail {
  bool pair = false;
  SharedOperand result;   ///< alloc: where the address goes
  MemoryOperand address;  ///< dealloc
  LaneOperand columns;
};

uint32_t uniform_columns(const Fragment& fragment, const LaneOperand& operand, LaneMask mask, const char* what) {
  const uint64_t columns = operand.at(fragment, first_lane(mask));
  for_each_lane(mask, [&](uint32_t lane) {
    const uint64_t other = operand.at(fragment, lane);
    if (other == columns) return;
    throw Fault(
        FaultKind::illegal_instruction,
        fmt::format("{}: the lanes of the warp ask for different numbers of columns: {} and {}", what, columns, other),
        {"legal: the same number in all lanes"}, 1u << lane);
  });
  return static_cast<uint32_t>(columns);
}

void announce(Fragment& fragment, TensorEventKind kind, LaneMask mask, uint32_t column, uint32_t columns) {
  constexpr uint32_t kAllLanes = 0xff;  // of groups of 16 lanes
  announce_tensor({kind, &fragment, mask, {{column, columns, kAllLanes}}});
}

// Puts the fragment to sleep until `columns` columns may be free in the memories of these blocks.
void wait_for_memory(Fragment& fragment, std::initializer_list<const Block*> blocks, uint32_t result,
                     uint32_t columns) {
  for (const Block* block : blocks) {
    std::vector<Fragment*>& waiting = block->sm->waiting_for_tensor_memory;
    if (std::find(waiting.begin(), waiting.end(), &fragment) == waiting.end()) waiting.push_back(&fragment);
  }
  sleep(fragment, {WaitKind::tensor_memory, result, columns});
}

// Throws Fault unless the two warps of a pair have the same operands.
void require_agreement(const Tcgen05PairCall& mine, const Tcgen05PairCall& theirs) {
  const auto require = [&](uint32_t my_value, uint32_t their_value, const char* what, const char* format) {
    if (my_value == their_value) return;
    const Block& peer = theirs.fragment->block();
    throw Fault(FaultKind::illegal_instruction,
                fmt::format(fmt::runtime(format), name_of(mine.instruction), my_value, peer.index.x, peer.index.y,
                            peer.index.z, their_value),
                {fmt::format("the two blocks of a pair execute it together, and must give the same {}", what)});
  };
  require(mine.columns, theirs.columns, "number of columns",
          "{} with cta_group::2 of {} columns, while the peer, block ({},{},{}), gives {}");
  require(mine.address, theirs.address, "address",
          "{} with cta_group::2 at address 0x{:x}, while the peer, block ({},{},{}), gives 0x{:x}");
}

// Executes an instruction that one warp of each block of a pair executes together. When a warp of the peer has come
// too, `do_together(mine, theirs)` does the work for both; it returns false when the work cannot be done yet and it has
// put the fragment to sleep. Returns the fragment's call after the work is done, or nullopt when the fragment sleeps.
template <typename DoTogether>
std::optional<Tcgen05PairCall> meet_peer(const Tcgen05PairCall& call, DoTogether do_together) {
  Fragment& fragment = *call.fragment;
  Block& peer = require_peer(fragment.block(), name_of(call.instruction));
  Tcgen05PairCalls& calls = fragment.block().pair_calls;
  const auto by_fragment = [&](const Tcgen05PairCall& each) { return each.fragment == &fragment; };
  auto mine = std::find_if(calls.begin(), calls.end(), by_fragment);
  if (mine == calls.end()) mine = calls.insert(mine, call);
  if (!mine->met) {
    const auto theirs = std::find_if(peer.pair_calls.begin(), peer.pair_calls.end(), [&](const Tcgen05PairCall& each) {
      return each.instruction == call.instruction && !each.met;
    });
    if (theirs == peer.pair_calls.end()) {
      sleep(fragment, {WaitKind::block_pair, 0, static_cast<uint64_t>(call.instruction)});
      return std::nullopt;
    }
    require_agreement(*mine, *theirs);
    if (!do_together(*mine, *theirs)) return std::nullopt;
    mine->met = theirs->met = true;
    wake(*theirs->fragment);  // it executes the instruction again, and finds that it is met
  }
  const Tcgen05PairCall result = *mine;
  calls.erase(mine);
  return result;
}

// Returns the column of an allocation; nullopt when the fragment sleeps until there is room.
std::optional<uint32_t> allocate_alone(Fragment& fragment, uint32_t columns, uint32_t result) {
  const Block& block = fragment.block();
  const auto allocation = tensor_memory_of(fragment).allocate(block, columns);
  if (!allocation) {
    wait_for_memory(fragment, {&block}, result, columns);
    return std::nullopt;
  }
  std::erase(block.sm->waiting_for_tensor_memory, &fragment);
  return allocation->column;
}
std::optional<uint32_t> allocate_with_peer(Fragment& fragment, uint32_t columns, uint32_t result) {
  const Tcgen05PairCall call{Tcgen05PairInstruction::allocate, &fragment, columns};
  const auto over = meet_peer(call, [&](Tcgen05PairCall& mine, Tcgen05PairCall& theirs) {
    const Block &block = fragment.block(), &peer = *peer_of(block);
    const auto allocation = tensor_units_of(fragment, true, "tcgen05.alloc").allocate(columns);
    if (!allocation) {
      wait_for_memory(fragment, {&block, &peer}, result, columns);
      return false;
    }
    for (const Block* each : {&block, &peer}) {
      for (Fragment* waiting : {mine.fragment, theirs.fragment}) {
        std::erase(each->sm->waiting_for_tensor_memory, waiting);
      }
    }
    mine.result = theirs.result = allocation->column;
    return true;
  });
  return over ? std::optional(over->result) : std::nullopt;
}

Outcome allocate(Fragment& fragment, const Op& op, LaneMask mask) {
  mask = converge_warp(fragment, mask);
  if (mask == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const AllocationDetail*>(op.detail);
  Block& block = fragment.block();
  const uint32_t columns = uniform_columns(fragment, detail.columns, mask, "tcgen05.alloc");
  const uint32_t result = detail.result.at(fragment, first_lane(mask), "tcgen05.alloc");
  block_in_scope(block, result, sizeof(uint32_t), alignof(uint32_t), detail.result.scope, "tcgen05.alloc");

  const std::optional<uint32_t> column =
      detail.pair ? allocate_with_peer(fragment, columns, result) : allocate_alone(fragment, columns, result);
  if (!column) return Outcome::blocked;
  const uint32_t address = address_of({0, *column});
  std::memcpy(bytes_of(block, result), &address, sizeof address);
  if (observes_memory(fragment)) {
    announce_access(fragment, first_lane(mask), AccessKind::write, result, sizeof address);
    announce(fragment, TensorEventKind::allocate, mask, *column, columns);
  }
  note_effect(fragment);
  return Outcome::next;
}

constexpr auto kNothingMore = [](const Tcgen05PairCall&, const Tcgen05PairCall&) { return true; };

Outcome deallocate(Fragment& fragment, const Op& op, LaneMask mask) {
  mask = converge_warp(fragment, mask);
  if (mask == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const AllocationDetail*>(op.detail);
  const uint32_t columns = uniform_columns(fragment, detail.columns, mask, "tcgen05.dealloc");
  const uint32_t address = uniform_tensor_address(fragment, detail.address, mask, "tcgen05.dealloc");
  if (detail.pair && !meet_peer({Tcgen05PairInstruction::deallocate, &fragment, columns, address}, kNothingMore)) {
    return Outcome::blocked;
  }
  tensor_memory_of(fragment).release(fragment.block(), address, columns, fragment.pc);
  if (observes_memory(fragment)) {
    announce(fragment, TensorEventKind::deallocate, mask, cell_at(address).column, columns);
  }
  note_effect(fragment);
  wake_for_tensor_memory(*fragment.block().sm, time_of(fragment.cluster()));
  return Outcome::next;
}

Outcome relinquish(Fragment& fragment, const Op& op, LaneMask mask) {
  if (converge_warp(fragment, mask) == 0) return Outcome::blocked;
  const bool pair = op.immediate != 0;
  if (pair && !meet_peer({Tcgen05PairInstruction::relinquish, &fragment}, kNothingMore)) return Outcome::blocked;
  tensor_memory_of(fragment).relinquish(fragment.block());
  note_effect(fragment);
  return Outcome::next;
}

/// The number of columns. One that is a constant is checked here, as ptxas does, others when it is executed.
LaneOperand take_columns(Translation& t) {
  const ptx::Operand& columns = t.operand(1);
  if (columns.kind == ptx::OperandKind::integer &&
      (columns.bits < 32 || columns.bits > 512 || !std::has_single_bit(columns.bits))) {
    t.illegal(fmt::format("{} columns: legal are 32, 64, 128, 256 and 512", static_cast<int64_t>(columns.bits)));
  }
  return lane_operand(t, columns, ptx::Type::b32);
}

}  // namespace

void translate_allocation(Translation& t) {
  const bool pair = take_pair(t);
  take_aligned(t);
  t.modifiers.require("b32");
  const bool block_scope = t.modifiers.take("shared::cta") || t.modifiers.take("shared");
  auto detail = std::make_unique<AllocationDetail>();
  detail->pair = pair;
  detail->result = shared_operand(t, t.operand(0), block_scope ? SharedScope::block : SharedScope::generic);
  detail->columns = take_columns(t);
  t.emit(allocate).detail = t.keep(std::move(detail));
}

void translate_deallocation(Translation& t) {
  const bool pair = take_pair(t);
  take_aligned(t);
  t.modifiers.require("b32");
  auto detail = std::make_unique<AllocationDetail>();
  detail->pair = pair;
  if (t.operand(0).kind == ptx::OperandKind::address) {
    t.illegal("the operand is the address in tensor memory itself: a register without brackets");
  }
  detail->address = MemoryOperand{.base = t.source(0, ptx::Type::b32)};
  detail->columns = take_columns(t);
  t.emit(deallocate).detail = t.keep(std::move(detail));
}

void translate_relinquish(Translation& t) {
  const bool pair = take_pair(t);
  take_aligned(t);
  t.emit(relinquish).immediate = pair;
}

}  // namespace stagecraft::emulator::machine
