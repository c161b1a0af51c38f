// Instructions about caches. The emulated chip has none, so the hints check their operands and do nothing.
#include <fmt/format.h>

#include "emulator/instructions/families.hpp"
#include "emulator/instructions/memory_access.hpp"
#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {
namespace {

using ptx::Space;
using ptx::Type;

/// Checks the address as an operand. To a hint it does not matter where it points.
void check_address(Translation& t, size_t index) { (void)t.address(index); }

void translate_prefetch(Translation& t) {
  bool cluster_wide = false;
  const ptx::Space space = take_space(t.modifiers, cluster_wide);
  if (!t.modifiers.take("tensormap")) {
    if (space != ptx::Space::none && space != ptx::Space::global && space != ptx::Space::local) {
      t.illegal("a prefetch is for .global and .local memory, or names no state space");
    }
    t.modifiers.require_one_of({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  }
  check_address(t, 0);
  t.emit(do_nothing);
}

void translate_prefetchu(Translation& t) {
  t.modifiers.require("L1");
  check_address(t, 0);
  t.emit(do_nothing);
}

void translate_applypriority(Translation& t) {
  t.modifiers.take("global");
  t.modifiers.require("L2::evict_normal");
  check_address(t, 0);
  (void)t.integer(t.operand(1), "the size");
  t.emit(do_nothing);
}

/// discard leaves the bytes undefined. Here they become poison, so that a program that still reads them shows it.
Outcome discard(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& access = *static_cast<const AccessDetail*>(op.detail);
  note_effect(fragment);
  uint64_t pointers[kWarpSize];
  access.locate(fragment, access, mask, pointers);
  for_each_lane(mask, [&](uint32_t lane) {
    auto* const words = reinterpret_cast<uint32_t*>(pointers[lane]);
    for (uint32_t i = 0; i < access.bytes / 4; ++i) words[i] = kPoisonPattern;
  });
  return Outcome::next;
}

void translate_discard(Translation& t) {
  auto access = std::make_unique<AccessDetail>();
  access->name = ptx::spelling(t.instruction);
  access->verb = AccessVerb::writes;
  const Space space = t.modifiers.take("global") ? Space::global : Space::none;
  t.modifiers.require("L2");
  const int64_t size = t.integer(t.operand(1), "the size");
  if (size != 128) t.illegal(fmt::format("size {}; it must be 128", size));
  access->bytes = access->alignment = 128;
  access->count = 1;
  set_address(t, *access, t.operand(0), space);
  choose_locate(*access);
  t.emit(discard).detail = t.keep(std::move(access));
}

Outcome make_policy(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* const destination = lanes_at<uint64_t>(fragment.registers, op.destination);
  for_each_lane(mask, [&](uint32_t lane) { destination[lane] = op.immediate; });
  return Outcome::next;
}

/// A policy is an opaque number. This one looks like the chip's, for a program that prints it.
constexpr uint64_t kEvictNormalPolicy = 0x1000'0000'0000'0000;

void translate_createpolicy(Translation& t) {
  const std::string_view kind = t.modifiers.require_one_of({"fractional", "range", "cvt"});
  const auto take_priority = [&](std::initializer_list<std::string_view> names) { t.modifiers.take_one_of(names); };
  if (kind == "cvt") {
    t.modifiers.require("L2");
    t.modifiers.require("b64");
    (void)t.source(1, Type::b64);
  } else {
    if (kind == "range") t.modifiers.take("global");
    take_priority({"L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"});
    take_priority({"L2::evict_first", "L2::evict_unchanged"});
    t.modifiers.require("b64");
    if (kind == "range") {
      check_address(t, 1);
      (void)t.source(2, Type::u32);
      (void)t.source(3, Type::u32);
    } else {
      (void)t.optional_source(1, Type::f32);
    }
  }
  const RegisterOffset destination = t.destination(size_t{0}, Type::b64);
  Op& op = t.emit(make_policy);
  op.destination = destination;
  op.immediate = kEvictNormalPolicy;
}

/// multimem addresses memory that several GPUs map as one, and only one GPU is emulated.
void translate_multimem(Translation& t) { t.unsupported("multimem addresses need several GPUs; one is emulated"); }

}  // namespace

void add_cache_operations(InstructionSet& set) {
  set.add("prefetch", translate_prefetch, kOrdinary, InstructionClass::memory);
  set.add("prefetch.tensormap", translate_prefetch, kOrdinary, InstructionClass::other);
  set.add("prefetchu", translate_prefetchu, kOrdinary, InstructionClass::memory);
  set.add("applypriority", translate_applypriority, kOrdinary, InstructionClass::memory);
  set.add("discard", translate_discard, {.reach = Reach::own_cluster, .proxy = Proxy::generic, .announced = false},
          InstructionClass::memory);
  set.add("createpolicy", translate_createpolicy, kOrdinary, InstructionClass::other);
  set.add("multimem", translate_multimem, {.reach = Reach::other_clusters, .proxy = Proxy::generic},
          InstructionClass::memory);
}

}  // namespace stagecraft::emulator::machine
