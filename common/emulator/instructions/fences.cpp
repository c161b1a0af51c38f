// fence and membar.
#include <algorithm>
#include <string>

#include "emulator/instructions/families.hpp"
#include "emulator/instructions/memory_access.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Memory is sequentially consistent here, so fences do nothing. Their modifiers are checked all the same, because a
/// fence that the chip does not have must not pass.
void translate_fence(Translation& t) {
  if (t.modifiers.take("mbarrier_init")) {
    t.modifiers.require("release");
    t.modifiers.require("cluster");
  } else if (t.modifiers.take("proxy")) {
    t.modifiers.require_one_of({"async", "alias", "async::generic", "async.global", "async.shared::cta"});
    t.modifiers.take_one_of({"global", "shared::cta", "shared::cluster"});
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

void translate_membar(Translation& t) {
  if (t.modifiers.take("proxy")) {
    t.modifiers.require_one_of({"alias", "async"});
  } else {
    t.modifiers.require_one_of({"cta", "gl", "sys"});
  }
  t.emit(do_nothing);
}

FenceKind fence_kind_of(const ptx::Instruction& instruction) {
  if (ptx::has_modifier(instruction, "mbarrier_init")) return FenceKind::mbarrier_init;
  if (!ptx::has_modifier(instruction, "proxy")) return FenceKind::memory;
  if (ptx::has_modifier(instruction, "alias")) return FenceKind::other;
  if (ptx::has_modifier(instruction, "global") || ptx::has_modifier(instruction, "async.global")) {
    return FenceKind::proxy_async_global;
  }
  const bool is_of_shared =
      std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(),
                  [](const std::string& modifier) { return modifier.find("shared::") != std::string::npos; });
  return is_of_shared ? FenceKind::proxy_async_shared : FenceKind::proxy_async;
}

InstructionTraits fence_traits(const ptx::Instruction& instruction) {
  return {.reach = Reach::own_cluster,
          .proxy = Proxy::generic,
          .scope = scope_of(instruction, MemoryScope::system),
          .fence = fence_kind_of(instruction)};
}

}  // namespace

void add_fences(InstructionSet& set) {
  set.add("fence", translate_fence, fence_traits, InstructionClass::fence);
  set.add("membar", translate_membar, fence_traits, InstructionClass::fence);
}

}  // namespace stagecraft::emulator::machine
