#include "emulator/engines/copies/store_async.hpp"

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "emulator/engines/copies/bulk_engine.hpp"
#include "emulator/instructions/memory_access.hpp"
#include "emulator/numerics/atomic_arithmetic.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {
namespace {

using ptx::Type;

struct AsyncStoreDetail : OpDetail {
  const char* what = nullptr;
  TargetOperands operands;
  std::vector<LaneOperand> values;
  uint32_t element_bytes = 0;
  AtomicFunction function = nullptr;  // null: a store
};

/// Reads the values at issue. They arrive, and the barrier counts their bytes, when the transfer ends.
Outcome send(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const AsyncStoreDetail*>(op.detail);
  note_effect(fragment);
  Cluster* const cluster = &fragment.cluster();
  const uint32_t size = detail.element_bytes;
  const uint32_t bytes = size * static_cast<uint32_t>(detail.values.size());
  issue_lanes(mask, [&](uint32_t lane) {
    auto targets = targets_of(fragment, lane, detail.operands, bytes, bytes, detail.what);
    std::vector<uint64_t> values;
    for (const LaneOperand& value : detail.values) values.push_back(value.at(fragment, lane));
    const DeliveryNotes notes{.lane = lane,
                              .footprint = SharedFootprint::whole(bytes),
                              .source = {},
                              .updates = detail.function != nullptr,
                              .generic_proxy = true};
    schedule_delivery(fragment, std::move(targets), bytes, detail.what, notes,
                      [cluster, bytes, size, values = std::move(values), what = detail.what,
                       function = detail.function](const BulkTarget& target) {
                        Block& block = block_with(*cluster, target.data, bytes, bytes, what);
                        std::byte* memory = bytes_of(block, target.data);
                        for (const uint64_t value : values) {
                          AtomicValue result{value, 0};
                          if (function != nullptr) {
                            AtomicValue old;
                            std::memcpy(&old, memory, size);
                            result = function(old, result);
                          }
                          std::memcpy(memory, &result, size);
                          memory += size;
                        }
                      });
  });
  return Outcome::next;
}

void translate_transfer(Translation& t, bool reduction) {
  auto detail = std::make_unique<AsyncStoreDetail>();
  detail->what = reduction ? "red.async" : "st.async";
  t.modifiers.require("async");
  t.modifiers.take_one_of({"weak", "relaxed"});
  t.modifiers.take("cluster");
  t.modifiers.take("shared::cluster");
  t.modifiers.require("mbarrier::complete_tx::bytes");
  uint32_t count = 1;
  if (reduction) {
    const std::string_view operation =
        t.modifiers.require_one_of({"inc", "dec", "min", "max", "add", "and", "or", "xor"});
    const Type type = t.modifiers.require_type({Type::u32, Type::s32, Type::u64, Type::b32});
    detail->element_bytes = size_of(type);
    const bool bits = operation == "and" || operation == "or" || operation == "xor";
    const bool exists = type != Type::u64 || operation == "add";
    if (exists && bits == (type == Type::b32))
      detail->function = atomic_function(atomic_operation(operation), type, false);
    if (detail->function == nullptr) {
      t.unsupported(fmt::format("there is no asynchronous `{}` for .{}", operation, ptx::name_of(type)));
    }
    detail->values.push_back(lane_operand(t, t.operand(1), type));
  } else {
    if (const auto vector = t.modifiers.take_one_of({"v2", "v4"})) count = static_cast<uint32_t>((*vector)[1] - '0');
    const Type type = t.modifiers.require_type(
        {Type::b32, Type::b64, Type::u32, Type::u64, Type::s32, Type::s64, Type::f32, Type::f64});
    detail->element_bytes = size_of(type);
    const ptx::Operand& value = t.operand(1);
    const bool is_vector = value.kind == ptx::OperandKind::vector;
    if ((is_vector ? value.list.size() : 1) != count) t.illegal(fmt::format("the value must have {} elements", count));
    for (uint32_t i = 0; i < count; ++i) {
      detail->values.push_back(lane_operand(t, is_vector ? value.list[i] : value, type));
    }
  }
  detail->operands.destination = shared_operand(t, t.operand(0), SharedScope::cluster);
  detail->operands.barrier = shared_operand(t, t.operand(2), SharedScope::cluster);
  t.emit(send).detail = t.keep(std::move(detail));
}

struct BulkStoreDetail : AccessDetail {
  LaneOperand size;
};

Outcome clear(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const BulkStoreDetail*>(op.detail);
  note_effect(fragment);
  for_each_lane(mask, [&](uint32_t lane) {
    const uint64_t bytes = detail.size.at(fragment, lane);
    if (bytes == 0) return;
    if (bytes % 8 != 0 || bytes > kSharedOffsetMask) {
      throw Fault(FaultKind::illegal_instruction,
                  fmt::format("`{}` with a size of {} bytes; it must be a multiple of 8, within shared memory",
                              detail.name, bytes),
                  {}, 1u << lane);
    }
    if (detail.space == AccessSpace::generic &&
        locate(address_of_lane(fragment, detail, lane)).where != Located::Where::shared) {
      throw Fault(FaultKind::invalid_address_space,
                  fmt::format("`{}` is given an address that is not in shared memory", detail.name),
                  {fragment.grid().memory->describe(address_of_lane(fragment, detail, lane))}, 1u << lane);
    }
    AccessDetail first = detail;
    first.bytes = static_cast<uint32_t>(bytes);
    uint64_t pointers[kWarpSize];
    locate_carefully(fragment, first, 1u << lane, pointers);
    std::memset(reinterpret_cast<void*>(pointers[lane]), 0, bytes);
    if (observes_memory(fragment)) {
      announce_access(fragment, lane, AccessKind::write, static_cast<uint32_t>(address_of_lane(fragment, first, lane)),
                      first.bytes);
    }
  });
  return Outcome::next;
}

void translate_store_async(Translation& t) { translate_transfer(t, false); }
void translate_reduction_async(Translation& t) { translate_transfer(t, true); }

void translate_store_bulk(Translation& t) {
  if (t.architecture().major < 10) t.unsupported("needs sm_100");
  auto detail = std::make_unique<BulkStoreDetail>();
  detail->name = ptx::spelling(t.instruction);
  detail->verb = AccessVerb::writes;
  t.modifiers.require("bulk");
  t.modifiers.take("weak");
  const bool shared = t.modifiers.take("shared::cta") || t.modifiers.take("shared");
  detail->alignment = 8;
  detail->bytes = 8;
  detail->count = 1;
  // ptxas takes a register of 32 bits for an address of shared memory, also where no state space is named (read from
  // the machine code for sm_100a).
  const ptx::Operand& memory = t.operand(0);
  const bool narrow = !memory.list.empty() && size_of(t.register_type(memory.list[0])) == 4;
  set_address(t, *detail, memory, shared || narrow ? ptx::Space::shared : ptx::Space::none);
  detail->size = lane_operand(t, t.operand(1), Type::u64);
  if (t.operand_count() > 2 && t.integer(t.operand(2), "the initial value") != 0) t.illegal("the value must be 0");
  t.emit(clear).detail = t.keep(std::move(detail));
}

}  // namespace

void add_asynchronous_stores(InstructionSet& set) {
  InstructionTraits stores{.reach = Reach::own_cluster, .proxy = Proxy::async};
  stores.memory = MemoryUse::stores;
  stores.ends_polling = true;
  InstructionTraits updates = stores;
  updates.memory = MemoryUse::updates;
  InstructionTraits fills = stores;
  fills.announced = false;
  set.add("st.async", translate_store_async, stores, InstructionClass::memory);
  set.add("red.async", translate_reduction_async, updates, InstructionClass::memory);
  set.add("st.bulk", translate_store_bulk, fills, InstructionClass::memory);
}

}  // namespace stagecraft::emulator::machine
