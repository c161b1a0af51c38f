// The opcode tcgen05, which has all instructions of tensor memory and of sm_100's tensor core.
#include "emulator/engines/tensor_core/tcgen05/tcgen05.hpp"

#include <fmt/format.h>

#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/translation/function_translator.hpp"

namespace stagecraft::emulator::machine {

namespace {

void announce(Fragment& fragment, const Op& op, LaneMask mask) {
  if (!observes_memory(fragment)) return;
  announce_tensor({static_cast<TensorEventKind>(op.immediate), &fragment, mask});
}

// Executes tcgen05.fence::*. The emulator executes a thread's tcgen05 operations in program order, so there is nothing
// to wait for. The Op exists so that checks see the fence.
Outcome fence(Fragment& fragment, const Op& op, LaneMask mask) {
  announce(fragment, op, mask);
  return Outcome::next;
}

// Executes tcgen05.wait::ld and wait::st. Loads and stores are done when they are issued; the Op exists for checks too.
Outcome wait(Fragment& fragment, const Op& op, LaneMask mask) {
  mask = converge_warp(fragment, mask);
  if (mask == 0) return Outcome::blocked;
  announce(fragment, op, mask);
  return Outcome::next;
}

void translate(Translation& t) {
  if (!t.architecture().has_tensor_memory()) {
    t.not_on_this_chip(
        "tensor memory and tcgen05 need an sm_100a",
        "multiply with mma.sync, whose sums stay in registers (chapter 19), or run the program on the B200");
  }
  t.function().kernel().uses_tensor_memory = true;
  if (t.modifiers.take("alloc")) return translate_allocation(t);
  if (t.modifiers.take("dealloc")) return translate_deallocation(t);
  if (t.modifiers.take("relinquish_alloc_permit")) return translate_relinquish(t);
  if (t.modifiers.take("ld")) return translate_load(t);
  if (t.modifiers.take("st")) return translate_store(t);
  if (t.modifiers.take("mma")) return translate_mma(t);
  if (t.modifiers.take("cp")) return translate_copy(t);
  if (t.modifiers.take("commit")) return translate_commit(t);
  if (const auto kind = t.modifiers.take_one_of({"fence::before_thread_sync", "fence::after_thread_sync"})) {
    t.emit(fence).immediate = static_cast<uint64_t>(
        *kind == "fence::before_thread_sync" ? TensorEventKind::fence_before : TensorEventKind::fence_after);
    return;
  }
  if (const auto kind = t.modifiers.take_one_of({"wait::ld", "wait::st"})) {
    take_aligned(t);
    t.emit(wait).immediate =
        static_cast<uint64_t>(*kind == "wait::ld" ? TensorEventKind::wait_load : TensorEventKind::wait_store);
    return;
  }
  if (t.modifiers.take("shift")) {
    t.unsupported("tcgen05.shift is not implemented: which rows it moves where is not documented well enough");
  }
  t.unsupported(
      "no such tcgen05 instruction; there are alloc, dealloc, relinquish_alloc_permit, ld, st, wait::ld, "
      "wait::st, mma, cp, commit, fence::before_thread_sync and fence::after_thread_sync");
}

}  // namespace

bool take_pair(Translation& t) {
  const uint32_t group = t.modifiers.require_one_of({"cta_group::1", "cta_group::2"}) == "cta_group::2" ? 2 : 1;
  uint32_t& of_kernel = t.function().kernel().cta_group;
  if (of_kernel != 0 && of_kernel != group) {
    t.illegal(
        fmt::format("cta_group::{} in a kernel that has cta_group::{} before; all tcgen05 instructions of a kernel "
                    "must name the same one",
                    group, of_kernel));
  }
  of_kernel = group;
  return group == 2;
}

void take_aligned(Translation& t) {
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
}

uint32_t uniform_tensor_address(const Fragment& fragment, const MemoryOperand& operand, LaneMask mask,
                                const char* what) {
  const uint32_t first = first_lane(mask);
  const uint32_t address = tensor_address(fragment, operand, first);
  if (operand.base == kNoRegister) return address;
  LaneMask others = 0;
  for_each_lane(mask, [&](uint32_t lane) {
    others |= static_cast<LaneMask>(tensor_address(fragment, operand, lane) != address) << lane;
  });
  if (others == 0) return address;
  const uint32_t other = first_lane(others);
  throw Fault(FaultKind::illegal_instruction,
              fmt::format("{}: the lanes of the warp give different addresses: lane {} 0x{:x}, lane {} 0x{:x}", what,
                          first, address, other, tensor_address(fragment, operand, other)),
              {"legal: the same address in all lanes; each lane's own place follows from its number"}, others);
}

void add_tcgen05_operations(InstructionSet& set) {
  InstructionTraits traits{.reach = Reach::own_cluster, .proxy = Proxy::async};
  traits.ends_polling = true;
  InstructionTraits allocates = traits, deallocates = traits, scales = traits, commits = traits, loads = traits,
                    stores = traits;
  allocates.allocates_tensor_memory = true;
  deallocates.reads_first = true;
  scales.scales_blocks = true;
  commits.commits = true;
  loads.tensor_memory = MemoryUse::loads;
  stores.tensor_memory = MemoryUse::stores;
  set.add("tcgen05", translate, traits, InstructionClass::barrier);
  set.add("tcgen05.ld", translate, loads, InstructionClass::barrier);
  set.add("tcgen05.st", translate, stores, InstructionClass::barrier);
  set.add("tcgen05.alloc", translate, allocates, InstructionClass::barrier);
  set.add("tcgen05.dealloc", translate, deallocates, InstructionClass::barrier);
  set.add("tcgen05.mma.block_scale", translate, scales, InstructionClass::barrier);
  set.add("tcgen05.commit", translate, commits, InstructionClass::barrier);
}

}  // namespace stagecraft::emulator::machine
