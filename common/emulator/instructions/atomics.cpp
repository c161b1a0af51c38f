// atom and red. The lanes of a warp take effect one after the other, the lowest first.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "emulator/instructions/families.hpp"
#include "emulator/instructions/memory_access.hpp"
#include "emulator/numerics/atomic_arithmetic.hpp"
#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {
namespace {

using ptx::Space;
using ptx::Type;

struct AtomicDetail : AccessDetail {
  // `registers` are the destinations, if there are any.
  bool returns = false;
  bool compares = false;  // cas: `comparands` is operand b, `operands` is operand c
  std::array<RegisterOffset, 8> operands{};
  RegisterOffset comparand = kNoRegister;
  std::array<uint8_t, 8> operand_bytes{}, register_bytes{};  // per lane
  uint8_t comparand_bytes = 0;
  AtomicFunction function = nullptr;
  AtomicFunction in_shared = nullptr;  ///< where a generic address is one of shared memory
};

template <uint32_t Size>
AtomicValue read(const std::byte* from) {
  AtomicValue value;
  std::memcpy(static_cast<void*>(&value), from, Size);
  return value;
}

/// @tparam Size  bytes of an element: a constant, so that the copies are moves.
template <uint32_t Size>
Outcome update(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& atomic = *static_cast<const AtomicDetail*>(op.detail);
  // A poll that adds 0, or tries to take a lock that is taken, has no effect that others could see.
  bool changed = false;
  uint64_t pointers[kWarpSize];
  atomic.locate(fragment, atomic, mask, pointers);
  for_each_lane(mask, [&](uint32_t lane) {
    for (uint32_t i = 0; i < atomic.count; ++i) {
      auto* const memory = reinterpret_cast<std::byte*>(pointers[lane]) + i * Size;
      const AtomicValue old = read<Size>(memory);
      const AtomicValue operand = read<Size>(fragment.registers + atomic.operands[i] + lane * atomic.operand_bytes[i]);
      if (atomic.compares) {
        if (old == read<Size>(fragment.registers + atomic.comparand + lane * atomic.comparand_bytes)) {
          changed = changed || !(old == operand);
          std::memcpy(memory, &operand, Size);
        }
      } else {
        const bool shared = atomic.space == AccessSpace::generic &&
                            address_of_lane(fragment, atomic, lane) - kSharedWindow < kWindowBytes;
        const AtomicValue result = (shared ? atomic.in_shared : atomic.function)(old, operand);
        changed = changed || std::memcmp(&old, &result, Size) != 0;
        std::memcpy(memory, &result, Size);
      }
      if (!atomic.returns) continue;
      std::byte* const to = fragment.registers + atomic.registers[i] + lane * atomic.register_bytes[i];
      if (atomic.register_bytes[i] == Size) {
        std::memcpy(to, &old, Size);
      } else {  // a register wider than the type gets zeros, which `old` holds above its size
        std::memcpy(to, &old, atomic.register_bytes[i]);
      }
    }
  });
  if (changed) note_effect(fragment);
  return atomic.outcome;
}

Handler update_of(uint32_t size) {
  switch (size) {
    case 2: return update<2>;
    case 4: return update<4>;
    case 8: return update<8>;
    default: return update<16>;
  }
}

std::vector<const ptx::Operand*> list_of(const ptx::Operand& operand) {
  std::vector<const ptx::Operand*> result;
  if (operand.kind == ptx::OperandKind::vector) {
    for (const ptx::Operand& element : operand.list) result.push_back(&element);
  } else {
    result.push_back(&operand);
  }
  return result;
}

void translate_update(Translation& t, bool returns) {
  auto atomic = std::make_unique<AtomicDetail>();
  atomic->name = ptx::spelling(t.instruction);
  atomic->verb = AccessVerb::updates;
  atomic->returns = returns;
  bool cluster_wide = false;
  const Space space = take_space(t.modifiers, cluster_wide);
  if (space != Space::none && space != Space::global && space != Space::shared) {
    t.illegal(fmt::format("atomic operations work on .global and .shared memory, not on .{}", ptx::name_of(space)));
  }
  for (const char* order : {"weak", "volatile", "mmio", "sc", returns ? "" : "acquire", returns ? "" : "acq_rel"}) {
    if (t.modifiers.has(order)) {
      t.illegal(fmt::format("{} cannot be .{}; legal are {}", returns ? "an atom" : "a red", order,
                            returns ? ".relaxed, .acquire, .release and .acq_rel" : ".relaxed and .release"));
    }
  }
  take_memory_order(t.modifiers);
  const bool policy = t.modifiers.take("L2::cache_hint");
  const std::string_view operation =
      returns ? t.modifiers.require_one_of({"add", "inc", "dec", "min", "max", "and", "or", "xor", "exch", "cas"})
              : t.modifiers.require_one_of({"add", "inc", "dec", "min", "max", "and", "or", "xor"});
  const bool keeps_subnormals = t.modifiers.take("noftz");
  uint32_t count = 1;
  if (const auto vector = t.modifiers.take_one_of({"v2", "v4", "v8"})) count = uint32_t((*vector)[1] - '0');
  const Type type = t.modifiers.require_type();

  const bool half = type == Type::f16 || type == Type::f16x2 || type == Type::bf16 || type == Type::bf16x2;
  if (half && !keeps_subnormals) t.illegal("additions of 16-bit floats need .noftz");
  if (keeps_subnormals && !half) t.illegal(".noftz is for 16-bit floats");
  // The chip flushes subnormals of .f32 in global memory and keeps them in shared memory (PTX ISA, "atom"), also
  // where the address is a generic one (measured on an H200).
  const bool flush = type == Type::f32 && space != Space::shared;
  atomic->compares = operation == "cas";
  if (!atomic->compares) {
    atomic->function = atomic_function(atomic_operation(operation), type, flush);
    atomic->in_shared = atomic_function(atomic_operation(operation), type, false);
  }
  const bool exists = atomic->compares
                          ? type == Type::b16 || type == Type::b32 || type == Type::b64 || type == Type::b128
                          : atomic->function != nullptr;
  if (!exists) t.unsupported(fmt::format("there is no atomic `{}` for .{}", operation, ptx::name_of(type)));
  if (count > 1) {
    const uint32_t bytes = count * size_of(type);
    const bool floats = half || type == Type::f32;
    // The chip's own tools assume that a generic address is one of global memory.
    if (space == Space::shared || !floats || bytes > 16 || (type == Type::f32 && operation != "add")) {
      t.illegal(
          "vectors exist for additions of .f32 and for add, min and max of 16-bit floats, in global memory, of at "
          "most 16 bytes");
    }
  } else if (half && operation != "add") {
    t.illegal("min and max of 16-bit floats exist for vectors only");
  }
  atomic->element_bytes = size_of(type);
  atomic->count = count;
  atomic->bytes = atomic->alignment = count * size_of(type);

  size_t next = 0;
  if (returns) {
    const auto destinations = list_of(t.operand(next++));
    if (destinations.size() != count) t.illegal(fmt::format("the destination must have {} elements", count));
    for (uint32_t i = 0; i < count; ++i) {
      atomic->registers[i] = t.destination(*destinations[i], type);
      atomic->register_bytes[i] = static_cast<uint8_t>(register_bytes_of(t, *destinations[i], type));
    }
  }
  set_address(t, *atomic, t.operand(next++), space, cluster_wide);
  if (atomic->compares) {
    atomic->comparand = t.source(next, type);
    atomic->comparand_bytes = static_cast<uint8_t>(register_bytes_of(t, t.operand(next), type));
    ++next;
  }
  const auto operands = list_of(t.operand(next++));
  if (operands.size() != count) t.illegal(fmt::format("the operand must have {} elements", count));
  for (uint32_t i = 0; i < count; ++i) {
    atomic->operands[i] = t.source(*operands[i], type);
    atomic->operand_bytes[i] = static_cast<uint8_t>(register_bytes_of(t, *operands[i], type));
  }
  if (policy) (void)t.source(next, Type::b64);
  choose_locate(*atomic);
  // Programs repeat these to take a lock, so other warps must have their turn in between.
  if (operation == "cas" || operation == "exch") atomic->outcome = Outcome::yield;
  const Handler handler = update_of(atomic->element_bytes);
  t.emit(handler).detail = t.keep(std::move(atomic));
}

void translate_atom(Translation& t) { translate_update(t, true); }

void translate_red(Translation& t) { translate_update(t, false); }

void translate_asynchronous_release(Translation& t) {
  take_asynchronous_release(t);
  translate_update(t, false);
}

InstructionTraits atomic_traits(const ptx::Instruction& instruction) {
  return access_traits(instruction, AccessOrder::relaxed, MemoryUse::updates);
}

}  // namespace

void add_atomics(InstructionSet& set) {
  set.add("atom", translate_atom, atomic_traits, InstructionClass::memory);
  set.add("red", translate_red, atomic_traits, InstructionClass::memory);
  set.add("red.async.release", translate_asynchronous_release, atomic_traits, InstructionClass::memory);
}

}  // namespace stagecraft::emulator::machine
