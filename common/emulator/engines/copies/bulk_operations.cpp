// The opcodes `cp` and `tensormap`: which of their many forms an instruction is.
#include "emulator/engines/copies/bulk_operations.hpp"

#include "emulator/engines/copies/bulk_engine.hpp"
#include "emulator/engines/copies/tensor_map_access.hpp"
#include "emulator/engines/mbarrier/mbarrier_instructions.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

void translate_tensormap(Translation& t);
void translate_tensormap_fence(Translation& t);

namespace {

void translate_bulk(Translation& t, bool reduction) {
  if (t.modifiers.take("prefetch")) {
    return t.modifiers.take("tensor") ? translate_tensor_prefetch(t) : translate_bulk_prefetch(t);
  }
  if (t.modifiers.take("commit_group")) return translate_commit_group(t);
  if (t.modifiers.take("wait_group")) return translate_wait_group(t);
  if (t.modifiers.take("tensor")) return translate_tensor_copy(t, reduction);
  return reduction ? translate_bulk_reduction(t) : translate_bulk_copy(t);
}

void translate_cp(Translation& t) {
  const bool reduction = t.modifiers.take("reduce");
  t.modifiers.require("async");
  if (reduction) t.modifiers.require("bulk");
  if (reduction || t.modifiers.take("bulk")) return translate_bulk(t, reduction);
  if (t.modifiers.take("commit_group")) return translate_cp_async_commit_group(t);
  if (t.modifiers.take("wait_group")) return translate_cp_async_wait_group(t, false);
  if (t.modifiers.take("wait_all")) return translate_cp_async_wait_group(t, true);
  if (t.modifiers.take("mbarrier")) {
    t.modifiers.require("arrive");
    return translate_copy_arrival(t);
  }
  translate_cp_async(t);
}

InstructionTraits copy_traits(const ptx::Instruction& instruction) {
  InstructionTraits traits = kOrdinary;
  traits.ends_polling = true;
  traits.copies = Copies::of_threads;
  if (ptx::has_modifier(instruction, "bulk")) {
    traits.proxy = Proxy::async;
    traits.copies = ptx::has_modifier(instruction, "tensor") ? Copies::tiles : Copies::bulk;
  }
  const bool updates_global = ptx::has_modifier(instruction, "reduce") && ptx::has_modifier(instruction, "global");
  if (updates_global) traits.reach = Reach::other_clusters;
  return traits;
}

}  // namespace

void add_bulk_copies(InstructionSet& set) {
  set.add("cp", translate_cp, copy_traits, InstructionClass::barrier);
  set.add("tensormap", translate_tensormap, kOrdinary, InstructionClass::other);
  set.add("fence.proxy.tensormap::generic", translate_tensormap_fence, kOrdinary, InstructionClass::fence);
}

}  // namespace stagecraft::emulator::machine
