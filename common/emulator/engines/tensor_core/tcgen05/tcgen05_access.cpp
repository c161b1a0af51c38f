// tcgen05.ld and tcgen05.st: a warp's registers from and to tensor memory.
//
// On the chip both are asynchronous until wait::ld and wait::st. Here they are done at once; a program that forgets the
// wait is right by luck.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/engines/tensor_core/tcgen05/tcgen05.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_fragment.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

namespace {

struct AccessDetail : OpDetail {
  explicit AccessDetail(FragmentAccess fragment_access) : access(std::move(fragment_access)) {}
  FragmentAccess access;
  MemoryOperand address;
  std::vector<uint32_t> registers;  ///< offsets
};

/// What both do: `move(detail, memory, address)`, once the address is known to be legal, is the rest.
template <typename Move>
Outcome access(Fragment& fragment, const Op& op, LaneMask mask, TensorEventKind kind, Move&& move) {
  mask = converge_warp(fragment, mask);
  if (mask == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const AccessDetail*>(op.detail);
  const char* what = kind == TensorEventKind::load ? "tcgen05.ld" : "tcgen05.st";
  const uint32_t given = uniform_tensor_address(fragment, detail.address, mask, what);
  TensorMemory& memory = tensor_memory_of(fragment);
  const uint32_t address = detail.access.approve(memory, fragment.block(), fragment.warp->index, given, what);
  move(detail, memory, address);
  if (observes_memory(fragment)) {
    announce_tensor({kind, &fragment, mask, detail.access.ranges(address), given});
  }
  return Outcome::next;
}

Outcome load(Fragment& fragment, const Op& op, LaneMask mask) {
  return access(fragment, op, mask, TensorEventKind::load,
                [&](const AccessDetail& detail, TensorMemory& memory, uint32_t address) {
                  detail.access.load(memory, address, fragment.registers, detail.registers.data());
                });
}

Outcome store(Fragment& fragment, const Op& op, LaneMask mask) {
  return access(fragment, op, mask, TensorEventKind::store,
                [&](const AccessDetail& detail, TensorMemory& memory, uint32_t address) {
                  detail.access.store(memory, address, fragment.registers, detail.registers.data());
                  note_effect(fragment);
                });
}

constexpr std::array<std::pair<std::string_view, FragmentShape>, 5> kShapes{{
    {"32x32b", FragmentShape::s32x32b},
    {"16x64b", FragmentShape::s16x64b},
    {"16x128b", FragmentShape::s16x128b},
    {"16x256b", FragmentShape::s16x256b},
    {"16x32bx2", FragmentShape::s16x32bx2},
}};

void translate_access(Translation& t, bool is_load) {
  take_aligned(t);
  t.modifiers.require("b32");
  if (t.modifiers.take("red")) t.unsupported("tcgen05.ld.red is of sm_103a and later");
  const std::string_view name = t.modifiers.require_one_of({"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"});
  FragmentShape shape = FragmentShape::s32x32b;
  for (const auto& [shape_name, value] : kShapes) {
    if (shape_name == name) shape = value;
  }
  const std::string_view times = t.modifiers.require_one_of({"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"});
  uint32_t repetitions = 0;
  for (const char digit : times.substr(1)) repetitions = repetitions * 10 + static_cast<uint32_t>(digit - '0');
  if (repetitions > repetitions_of(shape)) {
    t.illegal(fmt::format(".{} with shape .{}, whose largest is .x{}: a thread has at most 128 registers for it", times,
                          name, repetitions_of(shape)));
  }
  const bool packed = t.modifiers.take(is_load ? "pack::16b" : "unpack::16b");

  // ld: {registers}, [address] {, split}; st: [address] {, split}, {registers}
  const bool split_form = shape == FragmentShape::s16x32bx2;
  if (t.operand_count() != (split_form ? 3u : 2u)) {
    t.illegal(split_form
                  ? ".16x32bx2 needs an immediate after the address: the columns from its first half to its second"
                  : "it has two operands, an address and a vector of registers; only .16x32bx2 has an immediate");
  }
  const size_t address_index = is_load ? 1 : 0;
  const size_t vector_index = is_load ? 0 : t.operand_count() - 1;
  const int64_t split = split_form ? t.integer(t.operand(address_index + 1), "the columns between the halves") : 0;
  if (split < 0 || split >= static_cast<int64_t>(kTensorColumns)) {
    t.illegal(fmt::format("{} columns between the halves of .16x32bx2; legal: 0 to {}", split, kTensorColumns - 1));
  }

  auto detail =
      std::make_unique<AccessDetail>(FragmentAccess(shape, repetitions, packed, static_cast<uint32_t>(split)));
  const ptx::Operand& vector = t.operand(vector_index);
  const uint32_t wanted = detail->access.register_count();
  if (vector.kind != ptx::OperandKind::vector || vector.list.size() != wanted) {
    t.illegal(fmt::format(".{}.{} moves {} registers, in braces; here are {}", name, times, wanted,
                          vector.kind == ptx::OperandKind::vector ? vector.list.size() : 1));
  }
  for (const ptx::Operand& element : vector.list) {
    detail->registers.push_back(is_load ? t.destination(element, ptx::Type::b32) : t.source(element, ptx::Type::b32));
  }
  detail->address = t.address(address_index);
  t.emit(is_load ? load : store).detail = t.keep(std::move(detail));
}

}  // namespace

void translate_load(Translation& t) { translate_access(t, true); }
void translate_store(Translation& t) { translate_access(t, false); }

}  // namespace stagecraft::emulator::machine
