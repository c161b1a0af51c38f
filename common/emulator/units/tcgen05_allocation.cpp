// tcgen05.alloc, dealloc and relinquish_alloc_permit: who may use which columns of tensor memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "emulator/machine/grid.hpp"
#include "emulator/machine/observation.hpp"
#include "emulator/units/lane_operand.hpp"
#include "emulator/units/tcgen05.hpp"

namespace stagecraft::emulator::units {

using machine::Block;
using machine::Fault;
using machine::FaultKind;
using machine::Fragment;
using machine::LaneMask;
using machine::Op;
using machine::Outcome;
using machine::Translation;

namespace {

struct AllocationDetail : machine::OpDetail {
  SharedOperand result;            ///< alloc: where the address goes
  machine::MemoryOperand address;  ///< dealloc
  LaneOperand columns;
};

uint32_t uniform_columns(const Fragment& fragment, const LaneOperand& operand, LaneMask mask, const char* what) {
  const uint64_t columns = operand.at(fragment, machine::first_lane(mask));
  machine::for_each_lane(mask, [&](uint32_t lane) {
    const uint64_t other = operand.at(fragment, lane);
    if (other == columns) return;
    throw Fault(
        FaultKind::illegal_instruction,
        fmt::format("{}: the lanes of the warp ask for different numbers of columns: {} and {}", what, columns, other),
        {"legal: the same number in all lanes"}, 1u << lane);
  });
  return static_cast<uint32_t>(columns);
}

void announce(Fragment& fragment, machine::TensorEventKind kind, LaneMask mask, uint32_t column, uint32_t columns) {
  constexpr uint32_t kAllLanes = 0xff;  // of groups of 16 lanes
  machine::announce_tensor({kind, &fragment, mask, {{column, columns, kAllLanes}}});
}

Outcome allocate(Fragment& fragment, const Op& op, LaneMask mask) {
  mask = machine::converge_warp(fragment, mask);
  if (mask == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const AllocationDetail*>(op.detail);
  Block& block = fragment.block();
  const uint32_t columns = uniform_columns(fragment, detail.columns, mask, "tcgen05.alloc");
  const uint32_t result = detail.result.at(fragment, machine::first_lane(mask), "tcgen05.alloc");
  block_in_scope(block, result, sizeof(uint32_t), alignof(uint32_t), detail.result.scope, "tcgen05.alloc");

  std::vector<Fragment*>& waiting = block.sm->waiting_for_tensor_memory;
  const auto allocation = tensor_memory_of(fragment).allocate(block, columns);
  if (!allocation) {
    if (std::find(waiting.begin(), waiting.end(), &fragment) == waiting.end()) waiting.push_back(&fragment);
    machine::sleep(fragment, {machine::WaitKind::tensor_memory, result, columns});
    return Outcome::blocked;
  }
  std::erase(waiting, &fragment);
  const uint32_t address = address_of({0, allocation->column});
  std::memcpy(bytes_of(block, result), &address, sizeof address);
  if (machine::observes_memory(fragment)) {
    machine::announce_access(fragment, machine::first_lane(mask), machine::AccessKind::write, result, sizeof address);
    announce(fragment, machine::TensorEventKind::allocate, mask, allocation->column, columns);
  }
  machine::note_effect(fragment);
  return Outcome::next;
}

Outcome deallocate(Fragment& fragment, const Op& op, LaneMask mask) {
  mask = machine::converge_warp(fragment, mask);
  if (mask == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const AllocationDetail*>(op.detail);
  const uint32_t columns = uniform_columns(fragment, detail.columns, mask, "tcgen05.dealloc");
  const uint32_t address = uniform_tensor_address(fragment, detail.address, mask, "tcgen05.dealloc");
  tensor_memory_of(fragment).release(fragment.block(), address, columns, fragment.pc);
  if (machine::observes_memory(fragment)) {
    announce(fragment, machine::TensorEventKind::deallocate, mask, cell_at(address).column, columns);
  }
  machine::note_effect(fragment);
  // All who wait ask again, in the order of their coming; they may be of other clusters.
  for (Fragment* waiting : std::exchange(fragment.block().sm->waiting_for_tensor_memory, {})) {
    waiting->cluster().stuck = false;
    machine::wake(*waiting);
  }
  return Outcome::next;
}

Outcome relinquish(Fragment& fragment, const Op&, LaneMask mask) {
  if (machine::converge_warp(fragment, mask) == 0) return Outcome::blocked;
  tensor_memory_of(fragment).relinquish(fragment.block());
  machine::note_effect(fragment);
  return Outcome::next;
}

}  // namespace

void translate_allocation(Translation& t) {
  take_group(t);
  take_aligned(t);
  t.modifiers.require("b32");
  const bool block_scope = t.modifiers.take("shared::cta") || t.modifiers.take("shared");
  auto detail = std::make_unique<AllocationDetail>();
  detail->result = shared_operand(t, t.operand(0), block_scope ? SharedScope::block : SharedScope::generic);
  detail->columns = lane_operand(t, t.operand(1), ptx::Type::b32);
  t.emit(allocate).detail = t.keep(std::move(detail));
}

void translate_deallocation(Translation& t) {
  take_group(t);
  take_aligned(t);
  t.modifiers.require("b32");
  auto detail = std::make_unique<AllocationDetail>();
  // The operand is the address itself, in a register without brackets.
  const ptx::Operand& address = t.operand(0);
  detail->address = address.kind == ptx::OperandKind::address
                        ? t.address(address)
                        : machine::MemoryOperand{.base = t.source(address, ptx::Type::b32)};
  detail->columns = lane_operand(t, t.operand(1), ptx::Type::b32);
  t.emit(deallocate).detail = t.keep(std::move(detail));
}

void translate_relinquish(Translation& t) {
  take_group(t);
  take_aligned(t);
  t.emit(relinquish);
}

}  // namespace stagecraft::emulator::units
