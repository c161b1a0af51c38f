// Bulk copies and reductions of one dimension: cp.async.bulk, cp.reduce.async.bulk, cp.async.bulk.prefetch.
#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "emulator/engines/copies/bulk_engine.hpp"
#include "emulator/engines/copies/bulk_reduction.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

using ptx::Type;

namespace {

constexpr uint32_t kBulkAlignment = 16;

struct BulkDetail : OpDetail {
  const char* what = "cp.async.bulk";
  TargetOperands target;        ///< into shared memory
  LaneOperand global;           ///< the address in global memory
  SharedOperand shared_source;  ///< the address in the block's own shared memory, when that is the source
  LaneOperand size;
  LaneOperand byte_mask;          ///< .cp_mask; absent: all bytes
  BulkFunction reduce = nullptr;  ///< null: it copies
};

const BulkDetail& bulk_detail_of(const Op& op) { return *static_cast<const BulkDetail*>(op.detail); }

uint32_t size_of_lane(const Fragment& fragment, uint32_t lane, const BulkDetail& detail) {
  const auto bytes = static_cast<uint32_t>(detail.size.at(fragment, lane));
  if (bytes % kBulkAlignment != 0) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("{}: the size {} is not a multiple of 16 bytes", detail.what, bytes),
                {"bulk copies move whole pieces of 16 bytes: round the size up and pad the buffers, or copy the rest "
                 "with ordinary loads and stores"});
  }
  return bytes;
}

/// Returns the address in the block's own shared memory that a copy reads, after checking it.
uint32_t check_source(Fragment& fragment, uint32_t lane, const BulkDetail& detail, uint32_t bytes) {
  const std::string name = fmt::format("{}: source", detail.what);
  const uint32_t address = detail.shared_source.at(fragment, lane, name.c_str());
  block_in_scope(fragment.block(), address, bytes, kBulkAlignment, SharedScope::block, name.c_str());
  return address;
}

void apply(const BulkDetail& detail, std::byte* target, const std::byte* source, size_t bytes) {
  if (detail.reduce != nullptr) {
    detail.reduce(target, source, bytes);
  } else {
    std::memcpy(target, source, bytes);
  }
}

Outcome global_to_shared(Fragment& fragment, const Op& op, LaneMask mask) {
  const BulkDetail& detail = bulk_detail_of(op);
  note_effect(fragment);
  issue_lanes(mask, [&](uint32_t lane) {
    const uint32_t bytes = size_of_lane(fragment, lane, detail);
    const uint64_t source = detail.global.at(fragment, lane);
    check_global(fragment.grid(), source, bytes, kBulkAlignment, false, "cp.async.bulk: source");
    const auto targets = targets_of(fragment, lane, detail.target, bytes, kBulkAlignment, detail.what);
    if (!fragment.grid().stores_under_way.empty()) {
      announce_early_copy(fragment, lane, {{source, bytes}});
    }
    Cluster* cluster = &fragment.cluster();
    DeliveryNotes notes{lane, SharedFootprint::whole(bytes), {}};
    if (observes_global(fragment)) notes.global = {{source, bytes}};
    schedule_delivery(fragment, targets, bytes, detail.what, notes, [cluster, source, bytes](const BulkTarget& target) {
      // The memory may have been freed since the issue.
      check_global(*cluster->grid, source, bytes, kBulkAlignment, false, "cp.async.bulk: source");
      Block& block = block_with(*cluster, target.data, bytes, kBulkAlignment, "cp.async.bulk: destination");
      std::memcpy(bytes_of(block, target.data), DeviceMemory::host(source), bytes);
    });
  });
  return Outcome::next;
}

Outcome shared_to_cluster(Fragment& fragment, const Op& op, LaneMask mask) {
  const BulkDetail& detail = bulk_detail_of(op);
  note_effect(fragment);
  issue_lanes(mask, [&](uint32_t lane) {
    const uint32_t bytes = size_of_lane(fragment, lane, detail);
    const uint32_t source = check_source(fragment, lane, detail, bytes);
    const auto targets = targets_of(fragment, lane, detail.target, bytes, kBulkAlignment, detail.what);
    Cluster* cluster = &fragment.cluster();
    if (detail.reduce == nullptr && targets[0].data >> kSharedRankShift == fragment.block().rank) {
      throw Fault(
          FaultKind::illegal_instruction,
          fmt::format("{}: destination {} and source are in the same block", detail.what,
                      spell_shared(targets[0].data)),
          {"a bulk copy from shared to shared memory goes to another block of the cluster (map the address with "
           "mapa); within a block use ordinary loads and stores"});
    }
    const DeliveryNotes notes{lane, SharedFootprint::whole(bytes), {{source, bytes}}, detail.reduce != nullptr};
    schedule_delivery(
        fragment, targets, bytes, detail.what, notes, [cluster, source, bytes, &detail](const BulkTarget& target) {
          Block& from = block_with(*cluster, source, bytes, kBulkAlignment, "cp.async.bulk: source");
          Block& to = block_with(*cluster, target.data, bytes, kBulkAlignment, "cp.async.bulk: destination");
          apply(detail, bytes_of(to, target.data), bytes_of(from, source), bytes);
        });
  });
  return Outcome::next;
}

Outcome shared_to_global(Fragment& fragment, const Op& op, LaneMask mask) {
  const BulkDetail& detail = bulk_detail_of(op);
  note_effect(fragment);
  issue_lanes(mask, [&](uint32_t lane) {
    const uint32_t bytes = size_of_lane(fragment, lane, detail);
    const uint32_t source = check_source(fragment, lane, detail, bytes);
    const uint64_t target = detail.global.at(fragment, lane);
    const std::string name = fmt::format("{}: destination", detail.what);
    check_global(fragment.grid(), target, bytes, kBulkAlignment, true, name.c_str());
    const uint32_t byte_mask =
        detail.byte_mask.present() ? static_cast<uint32_t>(detail.byte_mask.at(fragment, lane) & 0xffff) : 0xffff;
    Block* block = &fragment.block();
    const auto read = [block, source, bytes] {
      const std::byte* from = bytes_of(*block, source);
      return std::vector<std::byte>(from, from + bytes);
    };
    const auto write = [block, target, bytes, byte_mask, &detail, name](const std::vector<std::byte>& data) {
      check_global(*block->cluster->grid, target, bytes, kBulkAlignment, true, name.c_str());
      std::byte* to = DeviceMemory::host(target);
      if (byte_mask == 0xffff) {
        apply(detail, to, data.data(), bytes);
        return;
      }
      for (uint32_t i = 0; i < bytes; ++i) {
        if ((byte_mask >> (i % 16) & 1) != 0) to[i] = data[i];
      }
    };
    // A masked copy writes only some bytes, and is not followed.
    const auto writes = [target, bytes, byte_mask] {
      return byte_mask == 0xffff ? std::vector<GlobalRange>{{target, bytes}} : std::vector<GlobalRange>{};
    };
    schedule_store(fragment, lane, bytes, detail.what, detail.reduce != nullptr, source, SharedFootprint::whole(bytes),
                   writes, read, write);
  });
  return Outcome::next;
}

Outcome prefetch(Fragment& fragment, const Op& op, LaneMask mask) {
  const BulkDetail& detail = bulk_detail_of(op);
  issue_lanes(mask, [&](uint32_t lane) {
    const uint32_t bytes = size_of_lane(fragment, lane, detail);
    const uint64_t source = detail.global.at(fragment, lane);
    if (source % kBulkAlignment != 0) {
      check_global(fragment.grid(), source, bytes, kBulkAlignment, false, "cp.async.bulk.prefetch");
    }
  });
  return Outcome::next;
}

void expect_operands(const Translation& t, size_t count, const char* what) {
  if (t.operand_count() == count) return;
  t.illegal(fmt::format("this form takes {} operands ({}), not {}", count, what, t.operand_count()));
}

/// The size of a copy. One that is a constant is checked here, as ptxas does, others when the copy is issued.
LaneOperand take_size(Translation& t, size_t index) {
  const ptx::Operand& size = t.operand(index);
  if (size.kind == ptx::OperandKind::integer && size.bits % kBulkAlignment != 0) {
    t.illegal(fmt::format("{} bytes: the size of a bulk copy is a multiple of {}", static_cast<int64_t>(size.bits),
                          kBulkAlignment));
  }
  return lane_operand(t, size, Type::u32);
}

/// Takes the operands of a copy into shared memory: [dst], [src], size, [mbar] {, mask} {, policy}.
void take_shared_target(Translation& t, BulkDetail& detail, std::string_view space) {
  t.modifiers.require("mbarrier::complete_tx::bytes");
  const bool multicast = space == "shared::cluster" && t.modifiers.take("multicast::cluster");
  const bool hint = take_cache_hint(t);
  expect_operands(t, 4u + multicast + hint, "destination, source, size, mbarrier, then mask and policy where given");
  detail.target.name_for(detail.what);
  detail.target.destination = shared_operand(t, t.operand(0), scope_of(space));
  detail.target.barrier = shared_operand(t, t.operand(3), scope_of(space));
  if (multicast) detail.target.multicast_mask = lane_operand(t, t.operand(4), Type::b16);
  detail.size = take_size(t, 2);
}

void take_global_target(Translation& t, BulkDetail& detail) {
  t.modifiers.require("bulk_group");
  const bool hint = take_cache_hint(t);
  const bool masked = detail.reduce == nullptr && t.modifiers.take("cp_mask");
  if (masked) require_sm_100(t, ".cp_mask");
  expect_operands(t, 3u + hint + masked, "destination, source, size, then policy and byte mask where given");
  detail.global = lane_address(t, t.operand(0));
  detail.shared_source = shared_operand(t, t.operand(1), SharedScope::block);
  detail.size = take_size(t, 2);
  if (masked) detail.byte_mask = lane_operand(t, t.operand(3u + hint), Type::b16);
}

void translate_either(Translation& t, std::unique_ptr<BulkDetail> detail) {
  const std::string_view destination = take_space(t), source = take_space(t);
  if (destination == "global") {
    if (source == "shared::cluster" || source == "global") t.illegal("the source of a copy to .global is .shared::cta");
    take_global_target(t, *detail);
    t.emit(shared_to_global).detail = t.keep(std::move(detail));
    return;
  }
  if (source == "global") {
    if (detail->reduce != nullptr) t.illegal("the source of a bulk reduction is .shared::cta");
    take_shared_target(t, *detail, destination);
    detail->global = lane_address(t, t.operand(1));
    t.emit(global_to_shared).detail = t.keep(std::move(detail));
    return;
  }
  if (destination != "shared::cluster" || source == "shared::cluster") {
    t.illegal("between shared memories a bulk copy goes from .shared::cta to .shared::cluster");
  }
  if (t.modifiers.has("multicast::cluster")) t.illegal("only copies from .global have .multicast::cluster");
  take_shared_target(t, *detail, destination);
  detail->shared_source = shared_operand(t, t.operand(1), SharedScope::block);
  t.emit(shared_to_cluster).detail = t.keep(std::move(detail));
}

}  // namespace

void translate_bulk_copy(Translation& t) { translate_either(t, std::make_unique<BulkDetail>()); }

void translate_bulk_reduction(Translation& t) {
  auto detail = std::make_unique<BulkDetail>();
  detail->what = "cp.reduce.async.bulk";
  const AtomicOperation operation =
      atomic_operation(t.modifiers.require_one_of({"add", "min", "max", "inc", "dec", "and", "or", "xor"}));
  const Type type = t.modifiers.require_type(
      {Type::u32, Type::s32, Type::u64, Type::s64, Type::b32, Type::b64, Type::f16, Type::bf16, Type::f32, Type::f64});
  const bool halves = type == Type::f16 || type == Type::bf16;
  if (halves && operation == AtomicOperation::add) t.modifiers.require("noftz");
  if (!bulk_reduction_exists(operation, type, !t.modifiers.has("global"))) {
    t.illegal(fmt::format("there is no bulk reduction .{} of this type to this state space", name_of(operation)));
  }
  // A bulk reduction of f32 flushes subnormals; one by tensor map has a type for that (f32_ftz).
  detail->reduce = bulk_function(operation, type, /*flush=*/type == Type::f32);
  translate_either(t, std::move(detail));
}

void translate_bulk_prefetch(Translation& t) {
  auto detail = std::make_unique<BulkDetail>();
  detail->what = "cp.async.bulk.prefetch";
  t.modifiers.require("L2");
  t.modifiers.require("global");
  expect_operands(t, 2u + take_cache_hint(t), "source, size, then the policy where given");
  detail->global = lane_address(t, t.operand(0));
  detail->size = take_size(t, 1);
  t.emit(prefetch).detail = t.keep(std::move(detail));
}

}  // namespace stagecraft::emulator::machine
