// Translates tcgen05.mma, cp and commit, by which single threads start operations of the tensor core. Every active lane
// that executes one of them issues one operation.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/engines/lane_operand.hpp"
#include "emulator/engines/tensor_core/matrix_operand.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_copy.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_mma_operation.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_queue.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr size_t kLaneWords = 4;  // of the disable-output-lane vector, for each block

// Completes an operation, which was checked at its issue; its tensor memory may have been freed since.
template <typename Operation, typename... Observed>
void complete(const Operation& operation, const TensorUnits& units, Observed... observed) {
  try {
    check(operation, units);
  } catch (Fault& fault) {
    fault.details.push_back("it was when the operation was issued: wait for its commit before tcgen05.dealloc");
    throw;
  }
  execute(operation, units, observed...);
}

struct MmaDetail : OpDetail {
  MmaKind kind = MmaKind::f16;
  bool pair = false;
  bool weight_stationary = false;
  bool a_in_tensor_memory = false;
  bool sparse = false;
  MemoryOperand d, a_address, metadata, scales_a, scales_b;
  LaneOperand a, b, instruction, zero_columns;
  std::array<LaneOperand, 2 * kLaneWords> disabled;
  Translation::Predicate accumulate{kNoRegister, 0};
  uint32_t scale_d = 0;
  uint32_t scales_per_slice = 0;
};

/// Refuses zero-column masks of the .ws form. Programs without a mask pass 0; PTX's description of masks and its
/// examples contradict each other about which columns become zeros.
void require_no_zero_columns(uint64_t descriptor, uint32_t lane) {
  constexpr uint64_t kNonZeroMask = uint64_t{1} << 39, kColumnShift = uint64_t{0x3f} << 56;
  if ((descriptor & (kNonZeroMask | kColumnShift)) == 0) return;
  throw Fault(FaultKind::illegal_instruction,
              fmt::format("tcgen05.mma.ws: the zero-column mask descriptor is 0x{:x}: masks other than none "
                          "are not implemented",
                          descriptor),
              {"with 0 in Non-Zero Mask (bit 39) and in Column Shift (bits 56 to 61), all columns of B count",
               "which columns a mask zeroes is not known: PTX ISA 9.7.16.4.3 contradicts its own examples"},
              1u << lane);
}

Tcgen05Mma operation_of(const Fragment& fragment, const MmaDetail& detail, uint32_t lane) {
  Tcgen05Mma operation;
  const auto word = [&](const LaneOperand& operand) { return static_cast<uint32_t>(operand.at(fragment, lane)); };
  operation.shape = decode_instruction_descriptor(word(detail.instruction), detail.kind, detail.weight_stationary,
                                                  detail.pair, detail.sparse);
  operation.weight_stationary = detail.weight_stationary;
  if (detail.zero_columns.present()) require_no_zero_columns(detail.zero_columns.at(fragment, lane), lane);
  const LaneMask enabled = *lanes_at<LaneMask>(fragment.registers, detail.accumulate.offset);
  operation.accumulate = ((enabled ^ detail.accumulate.flip) >> lane & 1) != 0;
  operation.scale_d = detail.scale_d;
  operation.d = tensor_address(fragment, detail.d, lane);
  operation.a_in_tensor_memory = detail.a_in_tensor_memory;
  if (detail.a_in_tensor_memory) {
    operation.a_address = tensor_address(fragment, detail.a_address, lane);
  } else {
    operation.a = decode_shared_descriptor(detail.a.at(fragment, lane), "tcgen05.mma, descriptor of A");
  }
  operation.b = decode_shared_descriptor(detail.b.at(fragment, lane), "tcgen05.mma, descriptor of B");
  if (detail.sparse) operation.metadata = tensor_address(fragment, detail.metadata, lane);
  for (size_t i = 0; i < detail.disabled.size(); ++i) {
    if (detail.disabled[i].present()) operation.disabled[i] = word(detail.disabled[i]);
  }
  if (is_block_scaled(detail.kind)) {
    operation.scales_a = tensor_address(fragment, detail.scales_a, lane);
    operation.scales_b = tensor_address(fragment, detail.scales_b, lane);
    operation.scales_per_slice = detail.scales_per_slice;
  }
  return operation;
}

Outcome multiply(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const MmaDetail*>(op.detail);
  const Latencies& latencies = *fragment.grid().latencies;
  const TensorUnits units = tensor_units_of(fragment, detail.pair, "tcgen05.mma");
  for_each_lane(mask, [&](uint32_t lane) {
    const Tcgen05Mma operation = operation_of(fragment, detail, lane);
    check(operation, units);
    // K is 32 bytes for all kinds, and narrower types are faster in proportion: count 16 elements of 16 bits. Those are
    // the bytes of A: a sparse one is multiplied by twice as much of B in the same time.
    const uint64_t products = uint64_t{operation.shape.m} * operation.shape.n * 16;
    const bool observes_scales = is_block_scaled(detail.kind) && observes_memory(fragment);
    const NanScales issued{.block = &fragment.block(),
                           .warp = fragment.warp->index,
                           .lane = lane,
                           .pc = fragment.pc,
                           .operand = 'A',
                           .ue4m3 = false,
                           .code = 0,
                           .first = 0,
                           .last = 0};
    issue(
        fragment, lane, units, products / (latencies.mma_macs_per_cycle * units.count()), "tcgen05.mma",
        [&] { return footprint_of(operation, units); },
        [operation, observes_scales, issued](const TensorUnits& of_operation) {
          complete(operation, of_operation, observes_scales ? &issued : nullptr);
        });
  });
  note_effect(fragment);
  return Outcome::next;
}

MmaKind take_kind(Translation& t) {
  constexpr std::array<MmaKind, 7> kKinds{MmaKind::f16,      MmaKind::tf32, MmaKind::f8f6f4,  MmaKind::i8,
                                          MmaKind::mxf8f6f4, MmaKind::mxf4, MmaKind::mxf4nvf4};
  const std::string_view name = t.modifiers.require_one_of(
      {"kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"});
  for (const MmaKind kind : kKinds) {
    if (name_of(kind) == name) return kind;
  }
  return MmaKind::f16;
}

// Takes the size of scale vectors. Returns how many scale factors each row has along the K of one instruction.
uint32_t take_scale_vector(Translation& t, MmaKind kind) {
  t.modifiers.require("block_scale");
  const std::optional<std::string_view> size =
      t.modifiers.take_one_of({"scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block32", "block16"});
  const bool block32 = size == "block32";
  switch (kind) {
    case MmaKind::mxf8f6f4:
      if (size && !block32 && size != "scale_vec::1X") t.illegal("kind::mxf8f6f4 has .scale_vec::1X (.block32) only");
      return 1;
    case MmaKind::mxf4:
      if (size && !block32 && size != "scale_vec::2X") t.illegal("kind::mxf4 has .scale_vec::2X (.block32) only");
      return 2;
    default:
      if (block32 || size == "scale_vec::2X") return 2;
      if (size == "block16" || size == "scale_vec::4X") return 4;
      t.illegal("kind::mxf4nvf4 needs .scale_vec::2X (.block32) or .scale_vec::4X (.block16)");
  }
}

// Takes `.collector`, which allows the tensor core to keep an operand between instructions. It has no effect on a
// correct program.
void take_collector(Translation& t) {
  t.modifiers.take_one_of(
      {"collector::a::fill", "collector::a::use", "collector::a::lastuse", "collector::a::discard"});
}
void take_weight_stationary_collector(Translation& t) {
  t.modifiers.take_one_of(
      {"collector::b0::fill", "collector::b0::use", "collector::b0::lastuse", "collector::b0::discard",
       "collector::b1::fill", "collector::b1::use", "collector::b1::lastuse", "collector::b1::discard",
       "collector::b2::fill", "collector::b2::use", "collector::b2::lastuse", "collector::b2::discard",
       "collector::b3::fill", "collector::b3::use", "collector::b3::lastuse", "collector::b3::discard"});
}

// Takes the operands after the instruction descriptor of the kinds without scale factors:
// { {disable-output-lane},} enable-input-d {, scale-input-d}
void take_operands_without_scales(Translation& t, MmaDetail& detail, size_t index) {
  if (t.operand(index).kind == ptx::OperandKind::vector) {
    const std::vector<ptx::Operand>& words = t.operand(index).list;
    if (detail.weight_stationary) t.illegal("the .ws form has no disable-output-lane vector");
    const size_t wanted = detail.pair ? 2 * kLaneWords : kLaneWords;
    if (words.size() != wanted) {
      t.illegal(fmt::format("the disable-output-lane vector has {} words; with cta_group::{} it has {}", words.size(),
                            detail.pair ? 2 : 1, wanted));
    }
    for (size_t i = 0; i < wanted; ++i) detail.disabled[i] = lane_operand(t, words[i], ptx::Type::b32);
    ++index;
  }
  detail.accumulate = t.predicate(t.operand(index));
  ++index;
  if (index == t.operand_count()) return;
  if (detail.weight_stationary) {
    detail.zero_columns = lane_operand(t, t.operand(index), ptx::Type::b64);
    return;
  }
  // PTX allows it for f16 and tf32 only. ptxas 13.0 accepts it for i8 too, and makes the same machine code as without.
  const bool ignored = detail.kind == MmaKind::i8;
  if (detail.kind != MmaKind::f16 && detail.kind != MmaKind::tf32 && !ignored) {
    t.illegal(fmt::format("scale-input-d, which only kind::f16 and kind::tf32 have, with {}", name_of(detail.kind)));
  }
  const int64_t scale = t.integer(t.operand(index), "scale-input-d");
  if (scale < 0 || scale > 15) t.illegal(fmt::format("scale-input-d is {}; legal: 0 to 15", scale));
  if (!ignored) detail.scale_d = static_cast<uint32_t>(scale);
}

}  // namespace

void translate_mma(Translation& t) {
  auto detail = std::make_unique<MmaDetail>();
  detail->sparse = t.modifiers.take("sp");
  detail->weight_stationary = t.modifiers.take("ws");
  detail->pair = take_pair(t);
  if (detail->pair && detail->weight_stationary) t.illegal("the .ws form has no cta_group::2");
  detail->kind = take_kind(t);
  const bool scaled = is_block_scaled(detail->kind);
  if (scaled && detail->weight_stationary) t.illegal("the .ws form has no block-scaled kinds");
  if (scaled) detail->scales_per_slice = take_scale_vector(t, detail->kind);
  if (detail->weight_stationary) {
    take_weight_stationary_collector(t);
  } else {
    take_collector(t);
  }
  if (t.modifiers.take("ashift")) {
    t.unsupported("tcgen05.mma.ashift is not implemented: which rows it moves where is not documented well enough");
  }

  // [d], a-descriptor or [a], b-descriptor, {[metadata],} instruction descriptor, ...
  detail->d = t.address(0);
  detail->a_in_tensor_memory = t.operand(1).kind == ptx::OperandKind::address;
  if (detail->a_in_tensor_memory) {
    detail->a_address = t.address(1);
  } else {
    detail->a = lane_operand(t, t.operand(1), ptx::Type::b64);
  }
  detail->b = lane_operand(t, t.operand(2), ptx::Type::b64);
  size_t next = 3;
  if (detail->sparse) detail->metadata = t.address(next++);
  detail->instruction = lane_operand(t, t.operand(next++), ptx::Type::b32);
  if (scaled) {
    detail->scales_a = t.address(next);
    detail->scales_b = t.address(next + 1);
    detail->accumulate = t.predicate(t.operand(next + 2));
  } else {
    take_operands_without_scales(t, *detail, next);
  }
  t.emit(multiply).detail = t.keep(std::move(detail));
}

// ---- cp ------------------------------------------------------------------------------------------------------------

namespace {

struct CopyDetail : OpDetail {
  bool pair = false;
  CopyShape shape = CopyShape::c128x256b;
  std::optional<ElementFormat> unpacked;
  MemoryOperand address;
  LaneOperand source;
};

Outcome copy(Fragment& fragment, const Op& op, LaneMask mask) {
  constexpr uint32_t kBytesPerCycle = 128;  // of shared memory
  const auto& detail = *static_cast<const CopyDetail*>(op.detail);
  const TensorUnits units = tensor_units_of(fragment, detail.pair, "tcgen05.cp");
  for_each_lane(mask, [&](uint32_t lane) {
    Tcgen05Copy operation{detail.shape, detail.unpacked, tensor_address(fragment, detail.address, lane), {}};
    operation.source = decode_shared_descriptor(detail.source.at(fragment, lane), "tcgen05.cp, descriptor");
    check(operation, units);
    const auto touched = [&] { return footprint_of(operation, units); };
    issue(fragment, lane, units, rows_of(detail.shape) * row_bytes_of(detail.shape) / kBytesPerCycle, "tcgen05.cp",
          touched, [operation](const TensorUnits& of_operation) { complete(operation, of_operation); });
  });
  note_effect(fragment);
  return Outcome::next;
}

CopyShape take_copy_shape(Translation& t) {
  const std::string_view name = t.modifiers.require_one_of({"128x256b", "128x128b", "64x128b", "32x128b", "4x256b"});
  if (name == "128x256b") return CopyShape::c128x256b;
  if (name == "128x128b") return CopyShape::c128x128b;
  if (name == "4x256b") return CopyShape::c4x256b;
  if (name == "32x128b") {
    t.modifiers.require("warpx4");
    return CopyShape::c32x128b;
  }
  return t.modifiers.require_one_of({"warpx2::02_13", "warpx2::01_23"}) == "warpx2::02_13" ? CopyShape::c64x128b_02_13
                                                                                           : CopyShape::c64x128b_01_23;
}

}  // namespace

void translate_copy(Translation& t) {
  auto detail = std::make_unique<CopyDetail>();
  detail->pair = take_pair(t);
  detail->shape = take_copy_shape(t);
  // The destination format, then the source format: `.b8x16.b4x16_p64`.
  if (t.modifiers.take("b8x16")) {
    detail->unpacked = t.modifiers.require_one_of({"b6x16_p32", "b4x16_p64"}) == "b4x16_p64" ? ElementFormat::e2m1
                                                                                             : ElementFormat::e2m3;
  }
  detail->address = t.address(0);
  detail->source = lane_operand(t, t.operand(1), ptx::Type::b64);
  t.emit(copy).detail = t.keep(std::move(detail));
}

// ---- commit --------------------------------------------------------------------------------------------------------

namespace {

struct CommitDetail : OpDetail {
  SharedOperand mbarrier;
  LaneOperand blocks;  ///< multicast: a bit per rank
};

Outcome commit_lanes(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const CommitDetail*>(op.detail);
  for_each_lane(mask, [&](uint32_t lane) {
    const uint32_t address = detail.mbarrier.at(fragment, lane, "tcgen05.commit");
    std::vector<uint32_t> mbarriers;
    if (!detail.blocks.present()) {
      mbarriers.push_back(address);
    } else {
      const uint32_t ranks = static_cast<uint32_t>(detail.blocks.at(fragment, lane));
      for (uint32_t rank = 0; rank < 16; ++rank) {
        if (ranks >> rank & 1) {
          mbarriers.push_back(rank << kSharedRankShift | (address & kSharedOffsetMask));
        }
      }
    }
    for (const uint32_t mbarrier : mbarriers) block_with(fragment.cluster(), mbarrier, 8, 8, "tcgen05.commit");
    commit(fragment, lane, std::move(mbarriers));
  });
  note_effect(fragment);
  return Outcome::next;
}

}  // namespace

void translate_commit(Translation& t) {
  take_pair(t);  // all operations of the thread have the same cta_group, because the whole kernel has
  t.modifiers.require("mbarrier::arrive::one");
  t.modifiers.require("b64");
  const bool cluster_scope = t.modifiers.take("shared::cluster");
  const bool multicast = t.modifiers.take("multicast::cluster");
  auto detail = std::make_unique<CommitDetail>();
  detail->mbarrier = shared_operand(t, t.operand(0), cluster_scope ? SharedScope::cluster : SharedScope::generic);
  if (multicast) {
    detail->blocks = lane_operand(t, t.operand(1), ptx::Type::b16);
  } else if (t.operand_count() > 1) {
    t.illegal("a mask of blocks without .multicast::cluster");
  }
  t.emit(commit_lanes).detail = t.keep(std::move(detail));
}

}  // namespace stagecraft::emulator::machine
