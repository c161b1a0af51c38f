// Between generic addresses and those of one space: cvta, isspacep, mapa, getctarank.
//
// The conversions are arithmetic (PTX ISA, "cvta"): an address outside of the space is no error here, but faults when
// it is used.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "emulator/instructions/families.hpp"
#include "emulator/instructions/memory_access.hpp"

namespace stagecraft::emulator::machine {
namespace {

using ptx::Type;

enum class Window : uint8_t { identity, shared, local, parameter };

enum class Direction : uint8_t { to_generic, from_generic };

template <Direction Way>
Outcome convert(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* const destination = lanes_at<uint64_t>(fragment.registers, op.destination);
  const auto* const source = lanes_at<uint64_t>(fragment.registers, op.a);
  const uint64_t base =
      op.c == static_cast<RegisterOffset>(Window::parameter) ? fragment.grid().parameters_address : op.immediate;
  const uint64_t distance = Way == Direction::to_generic ? base : 0 - base;
  // All lanes come first, because the compiler makes vector code of such a loop.
  std::array<uint64_t, kWarpSize> converted;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) converted[lane] = source[lane] + distance;
  if (mask == kAllLanes) {
    std::memcpy(destination, converted.data(), sizeof converted);
  } else {
    for_each_lane(mask, [&](uint32_t lane) { destination[lane] = converted[lane]; });
  }
  return Outcome::next;
}

void translate_cvta(Translation& t) {
  const bool to = t.modifiers.take("to");
  const std::string_view space = t.modifiers.require_one_of(
      {"global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"});
  const Type type = t.modifiers.require_type({Type::u64, Type::u32});
  if (type != Type::u64) t.unsupported("addresses have 64 bits");
  Window window = Window::identity;
  uint64_t base = 0;
  if (space.substr(0, 6) == "shared") {
    window = Window::shared;
    base = kSharedWindow;
  } else if (space == "local") {
    window = Window::local;
    base = kLocalWindow;
  } else if (space.substr(0, 5) == "param") {
    window = Window::parameter;
  }
  const ptx::Operand& operand = t.operand(1);
  if (operand.kind == ptx::OperandKind::reg && register_bytes_of(t, operand, type) != 8) {
    t.illegal("the source must have 64 bits");
  }
  const RegisterOffset source = t.source(operand, type);
  const RegisterOffset destination = t.destination(size_t{0}, type);
  Op& op = t.emit(to ? convert<Direction::from_generic> : convert<Direction::to_generic>);
  op.a = source;
  op.destination = destination;
  op.immediate = base;
  op.c = static_cast<RegisterOffset>(window);
}

enum class Question : uint8_t { global, constant, shared_cta, shared_cluster, local, parameter };

template <typename Address>
Outcome is_in_space(Fragment& fragment, const Op& op, LaneMask mask) {
  auto& destination = *lanes_at<LaneMask>(fragment.registers, op.destination);
  const auto* const source = lanes_at<Address>(fragment.registers, op.a);
  const Grid& grid = fragment.grid();
  const Block& block = fragment.block();
  const auto question = static_cast<Question>(op.immediate);
  LaneMask result = 0;
  for_each_lane(mask, [&](uint32_t lane) {
    const uint64_t address = source[lane];
    const Located located = locate(address);
    bool yes = false;
    switch (question) {
      case Question::shared_cta:
        yes = located.where == Located::Where::shared && located.address >> kSharedRankShift == block.rank;
        break;
      case Question::shared_cluster:
        yes = located.where == Located::Where::shared &&
              located.address >> kSharedRankShift < fragment.cluster().blocks.size();
        break;
      case Question::local: yes = located.where == Located::Where::local; break;
      case Question::parameter: yes = address - grid.parameters_address < grid.request->parameters.size(); break;
      case Question::constant: {
        const Allocation* allocation = grid.memory->find(address);
        yes = allocation != nullptr && allocation->kind == AllocationKind::module && !allocation->writable_by_kernels;
        break;
      }
      case Question::global: {  // constant memory is in the same window, but does not count (measured on an H200)
        const Allocation* allocation = located.where == Located::Where::global ? grid.memory->find(address) : nullptr;
        const bool constant =
            allocation != nullptr && allocation->kind == AllocationKind::module && !allocation->writable_by_kernels;
        yes = located.where == Located::Where::global && !constant;
        break;
      }
    }
    if (yes) result |= 1u << lane;
  });
  destination = (destination & ~mask) | result;
  return Outcome::next;
}

void translate_isspacep(Translation& t) {
  const std::string_view space = t.modifiers.require_one_of(
      {"global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"});
  Question question = Question::global;
  if (space == "const") question = Question::constant;
  if (space == "shared" || space == "shared::cta") question = Question::shared_cta;
  if (space == "shared::cluster") question = Question::shared_cluster;
  if (space == "local") question = Question::local;
  if (space.substr(0, 5) == "param") question = Question::parameter;
  const ptx::Operand& operand = t.operand(1);
  const bool narrow = operand.kind == ptx::OperandKind::reg && register_bytes_of(t, operand, Type::u64) == 4;
  const RegisterOffset source = t.source(operand, narrow ? Type::u32 : Type::u64);
  const RegisterOffset destination = t.destination(size_t{0}, Type::pred);
  Op& op = t.emit(narrow ? is_in_space<uint32_t> : is_in_space<uint64_t>);
  op.a = source;
  op.destination = destination;
  op.immediate = static_cast<uint64_t>(question);
}

/// mapa: the same offset in the block of another rank. A generic address keeps its window. A rank that the cluster does
/// not have is no mistake before the address is used: nvcc computes addresses ahead of a branch, also for lanes that do
/// not take it.
template <typename Address>
Outcome map_address(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* const destination = lanes_at<Address>(fragment.registers, op.destination);
  const auto* const source = lanes_at<Address>(fragment.registers, op.a);
  const auto* const rank = lanes_at<uint32_t>(fragment.registers, op.b);
  for_each_lane(mask, [&](uint32_t lane) {
    const uint64_t address = source[lane];
    const uint64_t cleared = address & ~(uint64_t{0xff} << kSharedRankShift);
    const uint32_t of_block = std::min(rank[lane], 0xffu);  // no cluster has a block of that rank
    destination[lane] = static_cast<Address>(cleared | uint64_t{of_block} << kSharedRankShift);
  });
  return Outcome::next;
}

template <typename Address>
Outcome rank_of_address(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* const destination = lanes_at<uint32_t>(fragment.registers, op.destination);
  const auto* const source = lanes_at<Address>(fragment.registers, op.a);
  for_each_lane(mask, [&](uint32_t lane) {
    destination[lane] = static_cast<uint32_t>(uint64_t{source[lane]} >> kSharedRankShift) & 0xff;
  });
  return Outcome::next;
}

/// `mapa` refuses a generic address that is not one of shared memory.
Outcome map_generic_address(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto* const source = lanes_at<uint64_t>(fragment.registers, op.a);
  for_each_lane(mask, [&](uint32_t lane) {
    if (source[lane] - kSharedWindow < kWindowBytes) return;
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("`mapa` is given {:#x}, which is not an address of shared memory", source[lane]),
                {fragment.grid().memory->describe(source[lane])}, 1u << lane);
  });
  return map_address<uint64_t>(fragment, op, mask);
}

RegisterOffset shared_source(Translation& t, const ptx::Operand& operand, Type type) {
  if (operand.kind == ptx::OperandKind::reg && register_bytes_of(t, operand, type) != size_of(type)) {
    t.illegal(fmt::format("the address must be in a register of {} bits", 8 * size_of(type)));
  }
  return t.source(operand, type);
}

void translate_mapa(Translation& t) {
  const bool space = t.modifiers.take("shared::cluster");
  const Type type = t.modifiers.require_type({Type::u32, Type::u64});
  // .u32 is for generic addresses of 32 bits. Here they have 64. ptxas 13.0 translates it as
  // .shared::cluster.u32: the address of the window has zeros in the lower half.
  static_assert((kSharedWindow & 0xffffffffu) == 0);
  const bool generic = !space && type == Type::u64;
  const RegisterOffset source = shared_source(t, t.operand(1), type);
  const RegisterOffset rank = t.source(2, Type::u32);
  const RegisterOffset destination = t.destination(size_t{0}, type);
  Op& op = t.emit(generic ? map_generic_address : type == Type::u64 ? map_address<uint64_t> : map_address<uint32_t>);
  op.a = source;
  op.b = rank;
  op.destination = destination;
}

void translate_getctarank(Translation& t) {
  t.modifiers.take("shared::cluster");
  const Type type = t.modifiers.require_type({Type::u32, Type::u64});
  const RegisterOffset source = shared_source(t, t.operand(1), type);
  const RegisterOffset destination = t.destination(size_t{0}, Type::u32);
  Op& op = t.emit(type == Type::u64 ? rank_of_address<uint64_t> : rank_of_address<uint32_t>);
  op.a = source;
  op.destination = destination;
}

}  // namespace

void add_address_conversions(InstructionSet& set) {
  set.add("cvta", translate_cvta, computing(Computation::address), InstructionClass::free);
  set.add("isspacep", translate_isspacep, kOrdinary, InstructionClass::free);
  set.add("mapa", translate_mapa, kOrdinary, InstructionClass::free);
  set.add("getctarank", translate_getctarank, kOrdinary, InstructionClass::logic);
}

}  // namespace stagecraft::emulator::machine
