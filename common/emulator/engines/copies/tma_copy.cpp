// Bulk copies of tensor boxes: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, cp.async.bulk.prefetch.tensor.
#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "emulator/engines/copies/bulk_engine.hpp"
#include "emulator/engines/copies/bulk_reduction.hpp"
#include "emulator/engines/copies/tensor_map_access.hpp"
#include "emulator/engines/copies/tma_box.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

using ptx::Type;

namespace {

/// The alignment that a tile in shared memory needs in practice; with less, the chip stops the kernel or corrupts the
/// tile.
constexpr uint32_t kTileAlignment = 128;

struct TensorDetail : OpDetail {
  const char* what = "cp.async.bulk.tensor";
  int rank = 0;
  bool four_rows = false;  ///< gather4, scatter4
  TensorMode mode = TensorMode::box;
  LaneOperand map;
  std::vector<LaneOperand> coordinates;
  std::vector<LaneOperand> offsets;  ///< im2colInfo
  TargetOperands target;             ///< loads
  SharedOperand shared_source;       ///< stores
  bool reduces = false;
  AtomicOperation operation = AtomicOperation::add;
};

const TensorDetail& tensor_detail_of(const Op& op) { return *static_cast<const TensorDetail*>(op.detail); }

[[noreturn]] void refuse(const TensorDetail& detail, const std::string& message, std::vector<std::string> advice = {}) {
  throw Fault(FaultKind::illegal_instruction, fmt::format("{}: {}", detail.what, message), std::move(advice));
}

std::string spell_coordinates(const TensorBox& box, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", box.start[i]);
  return text + "}";
}

/// Adds the offsets of a column of pixels to its start, and refuses what PTX does not define. An H200 stops a kernel
/// for such coordinates, and takes an offset that is too large modulo a power of two.
void place_pixels(const Fragment& fragment, uint32_t lane, const TensorDetail& detail, TensorBox& box) {
  const TensorMap& map = box.map;
  const bool wide = map.mode != TensorMode::pixels;
  const auto offset = [&](size_t i) { return static_cast<int64_t>(detail.offsets[i].at(fragment, lane) & 0xffff); };
  for (int i = 0; i < map.corners(); ++i) {
    const int64_t at = box.start[i + 1], lowest = map.lower[i];
    const int64_t highest = static_cast<int64_t>(map.last_index[i + 1]) + map.upper[i];
    if (at > highest || (at < lowest && !wide)) {
      refuse(detail, fmt::format("coordinate {} of {} is outside of the tensor map's box", at, "WHD"[i]),
             {fmt::format("its corners are {} and, from the end of the dimension, {}: legal are {} to {}", lowest,
                          map.upper[i], wide ? -0x8000'0000ll : lowest, highest)});
    }
  }
  if (detail.offsets.empty()) return;
  if (wide) {
    if (offset(0) != 0) {
      refuse(detail, fmt::format("not implemented: wHalo = {}", offset(0)),
             {"PTX shows where halo pixels are by figures only; without a halo, 0, the mode is there"});
    }
    if (offset(1) > 31) refuse(detail, fmt::format("wOffset is {}; legal are 0 to 31", offset(1)));
    box.offsets[0] = offset(1);
  } else {
    const int64_t most = map.rank == 3 ? 0xffff : map.rank == 4 ? 0xff : 0x1f;
    for (int i = 0; i < map.corners(); ++i) {
      box.offsets[i] = offset(static_cast<size_t>(i));
      if (box.offsets[i] <= most) continue;
      refuse(detail, fmt::format("offset {} of {}; with {} dimensions legal are 0 to {}", box.offsets[i], "WHD"[i],
                                 map.rank, most));
    }
  }
  for (int i = 0; i < map.corners(); ++i) box.start[i + 1] += box.offsets[i];
}

/// Returns the box that a lane's operands describe. Its map and coordinates are legal.
TensorBox box_of(const Fragment& fragment, uint32_t lane, const TensorDetail& detail, bool store) {
  TensorBox box;
  box.map = read_tensor_map(fragment, detail.map.at(fragment, lane), detail.what);
  if (const std::string flaw = find_flaw(box.map); !flaw.empty()) refuse(detail, flaw);
  if (box.map.rank != detail.rank) {
    refuse(detail,
           fmt::format("the instruction is for {} dimension(s), the tensor map has {}", detail.rank, box.map.rank));
  }
  if (box.map.mode != detail.mode) {
    refuse(detail, fmt::format("the tensor map is one of {}, and this form needs one of {}{}", encoder_of(box.map.mode),
                               encoder_of(detail.mode),
                               detail.mode == TensorMode::wide       ? " in mode W"
                               : detail.mode == TensorMode::wide_128 ? " in mode W128"
                                                                     : ""));
  }
  const auto coordinate = [&](size_t i) {
    return static_cast<int64_t>(static_cast<int32_t>(detail.coordinates[i].at(fragment, lane)));
  };
  box.four_rows = detail.four_rows;
  if (detail.four_rows) {
    box.start[0] = coordinate(0);
    for (size_t i = 0; i < 4; ++i) box.rows[i] = coordinate(i + 1);
    if (box.map.box[1] != 1) {
      refuse(detail,
             fmt::format("the tensor map's box has {} rows; gather4 and scatter4 need boxDim[1] = 1", box.map.box[1]));
    }
  } else {
    for (int i = 0; i < detail.rank; ++i) box.start[i] = coordinate(static_cast<size_t>(i));
  }
  if (detail.mode != TensorMode::box) place_pixels(fragment, lane, detail, box);
  box.measure();
  if (!box.start_is_aligned()) {
    const std::string rule =
        is_padded(box.map.element)
            ? "for this data type the first coordinate must be a multiple of 128"
            : fmt::format(
                  "the box must begin at a 16-byte boundary of global memory: with elements of {} bits the "
                  "first coordinate must be a multiple of {}",
                  bits_of(box.map.element), 128 / bits_of(box.map.element));
    refuse(detail, fmt::format("first coordinate {} of the box", box.start[0]), {rule});
  }
  if (store) {
    for (int i = 0; i < box.map.corners(); ++i) {
      if (box.map.lower[i] >= 0) continue;
      refuse(
          detail, fmt::format("the tensor map's lower corner of {} is {}", "WHD"[i], box.map.lower[i]),
          {"a store may reach over the tensor's end, where it is cut, but its box may not begin before its start, as "
           "on an H200"});
    }
    bool negative = false;
    const int bounded = detail.four_rows || detail.mode != TensorMode::box ? 1 : detail.rank;
    for (int i = 0; i < bounded; ++i) negative = negative || box.start[i] < 0;
    for (const int64_t row : box.rows) negative = negative || row < 0;
    if (negative) {
      refuse(detail, fmt::format("negative coordinate in {}", spell_coordinates(box, bounded)),
             {"a store may reach over the tensor's end, where it is cut, but may not begin before its start"});
    }
  }
  return box;
}

void check_rows(const Grid& grid, const TensorBox& box, bool write, const char* what) {
  std::string problem = find_bad_access(box, *grid.memory, write);
  if (problem.empty()) return;
  throw Fault(FaultKind::illegal_address, fmt::format("{}: {}", what, problem),
              {fmt::format("the tensor map says: address 0x{:x}, {} elements in the innermost of {} dimension(s)",
                           box.map.address, box.map.extent(0), box.map.rank),
               fmt::format("check the extents and strides given to {} against the allocation, and that the memory has "
                           "not been freed",
                           encoder_of(box.map.mode))});
}

SharedLayout layout_of(TensorSwizzle swizzle) {
  switch (swizzle) {
    case TensorSwizzle::none: return SharedLayout::linear;
    case TensorSwizzle::span_32: return SharedLayout::swizzle_32;
    case TensorSwizzle::span_64: return SharedLayout::swizzle_64;
    case TensorSwizzle::span_128: return SharedLayout::swizzle_128;
    case TensorSwizzle::span_128_atom_32: return SharedLayout::swizzle_128_atom_32;
    case TensorSwizzle::span_128_atom_32_flip_8: return SharedLayout::swizzle_128_atom_32_flip_8;
    case TensorSwizzle::span_128_atom_64: return SharedLayout::swizzle_128_atom_64;
  }
  return SharedLayout::unknown;
}

/// The bytes of global memory that a copy of the box accesses.
std::vector<GlobalRange> rows_of(const TensorBox& box) {
  std::vector<GlobalRange> rows;
  if (box.inside_first >= box.inside_end) return rows;
  box.for_each_row([&](uint32_t, bool inside, uint64_t address) {
    if (inside) rows.push_back({address + box.inside_first, box.inside_end - box.inside_first});
  });
  return rows;
}

/// Announces a store still under way that a load of the box reads too early.
void announce_early_load(const Fragment& fragment, uint32_t lane, const TensorBox& box) {
  const auto& stores = fragment.grid().stores_under_way;
  if (stores.empty()) return;
  const auto [lowest, highest] = box.inside_rows();
  // Nearly always all of the box is other memory.
  if (lowest > highest || find_store(stores, lowest, highest - lowest + box.inside_end) == nullptr) return;
  announce_early_copy(fragment, lane, rows_of(box));
}

/// The address of a copy's tensor map, for observers; 0 where no kernel can change it.
uint64_t changeable_map_of(const Fragment& fragment, uint32_t lane, const TensorDetail& detail) {
  if (!observes_memory(fragment)) return 0;
  const uint64_t address = detail.map.at(fragment, lane);
  return fragment.grid().memory->find(address)->writable_by_kernels ? address : 0;
}

SharedFootprint footprint_of(const std::shared_ptr<const TensorBox>& box) {
  return {[box](uint32_t address) { return shared_ranges(*box, address); }};
}

/// Where the box is to land. A box too large for its place may be that of another map: its size is said.
std::vector<BulkTarget> targets_of_box(Fragment& fragment, uint32_t lane, const TensorDetail& detail,
                                       const TensorBox& box) {
  try {
    return targets_of(fragment, lane, detail.target, box.shared_bytes(), kTileAlignment, detail.what);
  } catch (Fault& fault) {
    if (fault.kind == FaultKind::illegal_address && box.map.mode == TensorMode::box) {
      std::string sizes;
      for (int i = 0; i < box.map.rank; ++i) sizes += fmt::format("{}{}", i == 0 ? "" : " x ", box.map.box[i]);
      fault.details.push_back(
          fmt::format("the box of its tensor map has {} elements, the contiguous ones first: is it the map of this "
                      "tile?",
                      sizes));
    }
    throw;
  }
}

Outcome load(Fragment& fragment, const Op& op, LaneMask mask) {
  const TensorDetail& detail = tensor_detail_of(op);
  note_effect(fragment);
  issue_lanes(mask, [&](uint32_t lane) {
    const auto box = std::make_shared<const TensorBox>(box_of(fragment, lane, detail, false));
    check_rows(fragment.grid(), *box, false, detail.what);
    auto targets = targets_of_box(fragment, lane, detail, *box);
    announce_early_load(fragment, lane, *box);
    Cluster* cluster = &fragment.cluster();
    DeliveryNotes notes{.lane = lane, .layout = layout_of(box->map.swizzle)};
    if (observes_memory(fragment)) notes.footprint = footprint_of(box);
    if (observes_global(fragment)) notes.global = rows_of(*box);
    notes.tensor_map = changeable_map_of(fragment, lane, detail);
    schedule_delivery(
        fragment, std::move(targets), box->bytes(), detail.what, notes,
        [cluster, box, what = detail.what, memory = DeviceMemory::generation()](const BulkTarget& target) {
          if (memory != DeviceMemory::generation()) check_rows(*cluster->grid, *box, false, what);
          Block& block = block_with(*cluster, target.data, box->shared_bytes(), kTileAlignment, what);
          load_box(*box, block.shared.data(), target.data & kSharedOffsetMask);
        });
  });
  return Outcome::next;
}

/// The reduction of the elements of a map.
BulkFunction reduction_of(const TensorDetail& detail, TensorElement element) {
  const AtomicOperation operation = detail.operation;
  const bool bits = operation == AtomicOperation::bit_and || operation == AtomicOperation::bit_or ||
                    operation == AtomicOperation::bit_xor;
  ptx::Type type = ptx::Type::none;
  switch (element) {
    case TensorElement::u32: type = bits ? ptx::Type::b32 : ptx::Type::u32; break;
    case TensorElement::s32: type = bits ? ptx::Type::b32 : ptx::Type::s32; break;
    case TensorElement::u64: type = bits ? ptx::Type::b64 : ptx::Type::u64; break;
    case TensorElement::s64: type = bits ? ptx::Type::b64 : ptx::Type::s64; break;
    case TensorElement::f16: type = ptx::Type::f16; break;
    case TensorElement::bf16: type = ptx::Type::bf16; break;
    case TensorElement::f32:
    case TensorElement::f32_ftz: type = ptx::Type::f32; break;
    default: refuse(detail, fmt::format("there are no reductions of {}", name_of(element)));
  }
  if (type == ptx::Type::s64 && operation == AtomicOperation::add) type = ptx::Type::u64;
  if (!bulk_reduction_exists(operation, type, false)) {
    refuse(detail, fmt::format("there is no .{} of {}", name_of(operation), name_of(element)),
           {"legal are add of 32-bit integers, u64, f16, bf16 and f32; min and max of integers, f16 and bf16; inc and "
            "dec of u32; and, or and xor of 32 and 64-bit integers"});
  }
  return bulk_function(operation, type, /*flush=*/element == TensorElement::f32_ftz);
}

Outcome store(Fragment& fragment, const Op& op, LaneMask mask) {
  const TensorDetail& detail = tensor_detail_of(op);
  note_effect(fragment);
  issue_lanes(mask, [&](uint32_t lane) {
    const auto box = std::make_shared<const TensorBox>(box_of(fragment, lane, detail, true));
    if (box->map.element == TensorElement::u4_unpacked) {
      refuse(detail, fmt::format("{} can be loaded, not stored", name_of(box->map.element)));
    }
    const BulkFunction reduce = detail.reduces ? reduction_of(detail, box->map.element) : nullptr;
    check_rows(fragment.grid(), *box, true, detail.what);
    const std::string name = fmt::format("{}: source", detail.what);
    const uint32_t source = detail.shared_source.at(fragment, lane, name.c_str());
    Block* block = &fragment.block();
    block_in_scope(*block, source, box->shared_bytes(), kTileAlignment, SharedScope::block, name.c_str());
    const auto read = [block, box, source] {
      return gather_box(*box, block->shared.data(), source & kSharedOffsetMask);
    };
    const auto write = [block, box, reduce, &detail](const std::vector<std::byte>& rows) {
      const Grid& grid = *block->cluster->grid;
      check_rows(grid, *box, true, detail.what);
      const uint32_t inside = box->inside_end - box->inside_first;
      scatter_box(*box, rows, [&](uint64_t address, const std::byte* bytes, uint32_t count) {
        // The last piece of 16 bytes may reach past the tensor; past the allocation it must not.
        if (count > inside && grid.memory->find(address, count) == nullptr) count = inside;
        std::byte* target = DeviceMemory::host(address);
        if (reduce != nullptr) {
          reduce(target, bytes, count);
        } else {
          std::memcpy(target, bytes, count);
        }
      });
    };
    const auto writes = [box] { return rows_of(*box); };
    schedule_store(fragment, lane, box->bytes(), detail.what, detail.reduces, source, footprint_of(box), writes, read,
                   write, changeable_map_of(fragment, lane, detail));
  });
  return Outcome::next;
}

Outcome prefetch(Fragment& fragment, const Op& op, LaneMask mask) {
  const TensorDetail& detail = tensor_detail_of(op);
  issue_lanes(mask, [&](uint32_t lane) { box_of(fragment, lane, detail, false); });
  return Outcome::next;
}

/// Takes an operand `[map, {c0, c1, ...}]`.
void take_map(Translation& t, TensorDetail& detail, size_t index) {
  const ptx::Operand& operand = t.operand(index);
  const size_t wanted = detail.four_rows ? 5 : static_cast<size_t>(detail.rank);
  if (operand.kind != ptx::OperandKind::address || operand.list.size() != 2 ||
      operand.list[1].kind != ptx::OperandKind::vector || operand.list[1].list.size() != wanted) {
    t.illegal(fmt::format("operand {} must be a tensor map and {} coordinate(s), innermost first: [map, {{c0, ...}}]",
                          index + 1, wanted));
  }
  detail.map = lane_address(t, operand);
  for (const ptx::Operand& coordinate : operand.list[1].list) {
    detail.coordinates.push_back(lane_operand(t, coordinate, Type::s32));
  }
}

int take_rank(Translation& t) {
  const std::string_view name = t.modifiers.require_one_of({"1d", "2d", "3d", "4d", "5d"});
  return name[0] - '0';
}

/// What the modes below move; to where decides which chips have them.
enum class Direction { to_block, to_cluster, to_global, to_l2 };

/// Takes the mode, which decides how many coordinates and offsets there are. On an RTX 50, ptxas 13.0 refuses
/// .im2col::w and .tile::gather4 except into .shared::cta, and .im2col::w::128 and .tile::scatter4 everywhere.
void take_mode(Translation& t, TensorDetail& detail, Direction direction) {
  const bool store = direction == Direction::to_global;
  const auto mode = store ? t.modifiers.take_one_of({"tile", "tile::scatter4", "im2col_no_offs"})
                          : t.modifiers.take_one_of({"tile", "tile::gather4", "im2col", "im2col::w", "im2col::w::128"});
  if (!mode || *mode == "tile") return;
  const bool is_late = *mode != "im2col" && *mode != "im2col_no_offs";
  if (is_late && direction == Direction::to_block && *mode != "im2col::w::128") {
    require_sm_100(t, fmt::format(".{}", *mode));
  } else if (is_late) {
    require_sm_100a(t, fmt::format(".{}", *mode),
                    direction == Direction::to_cluster && *mode != "im2col::w::128"
                        ? "name .shared::cta as the destination"
                        : "use mode .tile, for one row at a time if need be, or .im2col");
  }
  if (mode->starts_with("im2col")) {
    if (detail.rank < 3) t.illegal(fmt::format(".{} is for three, four or five dimensions", *mode));
    detail.mode = *mode == "im2col::w"        ? TensorMode::wide
                  : *mode == "im2col::w::128" ? TensorMode::wide_128
                                              : TensorMode::pixels;
    return;
  }
  if (detail.rank != 2) t.illegal(fmt::format(".{} is for two dimensions", *mode));
  detail.four_rows = true;
}

/// Takes the operand behind those of all loads that im2col modes have: {offsets} of W, H and D, or {wHalo, wOffset}.
/// Returns how many operands that is.
size_t take_offsets(Translation& t, TensorDetail& detail, size_t index) {
  if (detail.mode == TensorMode::box) return 0;
  const size_t wanted = detail.mode == TensorMode::pixels ? static_cast<size_t>(detail.rank) - 2 : 2;
  const ptx::Operand& operand = t.operand(index);
  if (operand.kind != ptx::OperandKind::vector || operand.list.size() != wanted) {
    t.illegal(fmt::format("operand {} must be {}", index + 1,
                          detail.mode == TensorMode::pixels
                              ? fmt::format("{} im2col offset(s) in braces, of W first", wanted)
                              : "{wHalo, wOffset}"));
  }
  for (const ptx::Operand& offset : operand.list) detail.offsets.push_back(lane_operand(t, offset, Type::u16));
  return 1;
}

}  // namespace

void translate_tensor_copy(Translation& t, bool reduction) {
  auto detail = std::make_unique<TensorDetail>();
  detail->reduces = reduction;
  if (reduction) {
    detail->what = "cp.reduce.async.bulk.tensor";
    detail->operation =
        atomic_operation(t.modifiers.require_one_of({"add", "min", "max", "inc", "dec", "and", "or", "xor"}));
  }
  detail->rank = take_rank(t);
  const std::string_view destination = take_space(t), source = take_space(t);

  if (destination == "global") {
    if (source != "shared::cta" && source != "shared") t.illegal("the source of a tensor store is .shared::cta");
    take_mode(t, *detail, Direction::to_global);
    t.modifiers.require("bulk_group");
    const size_t operands = 2u + take_cache_hint(t);
    if (t.operand_count() != operands) t.illegal(fmt::format("a tensor store takes {} operands here", operands));
    take_map(t, *detail, 0);
    detail->shared_source = shared_operand(t, t.operand(1), SharedScope::block);
    t.emit(store).detail = t.keep(std::move(detail));
    return;
  }

  if (reduction) t.illegal("a tensor reduction goes from .shared::cta to .global");
  if (source != "global") t.illegal("a tensor copy goes from .global to shared memory or from .shared::cta to .global");
  take_mode(t, *detail, destination == "shared::cta" ? Direction::to_block : Direction::to_cluster);
  t.modifiers.require("mbarrier::complete_tx::bytes");
  if (const auto group = t.modifiers.take_one_of({"cta_group::1", "cta_group::2"})) {
    require_sm_100a(t, fmt::format(".{}", *group), "let each block copy its own tile, and leave the modifier out");
    detail->target.cta_group = *group == "cta_group::2" ? 2 : 1;
  }
  const bool multicast = destination == "shared::cluster" && t.modifiers.take("multicast::cluster");
  const size_t before = 3u + take_offsets(t, *detail, 3);
  const size_t operands = before + multicast + take_cache_hint(t);
  if (t.operand_count() != operands) {
    t.illegal(
        fmt::format("a tensor load takes {} operands here: destination, map with coordinates, mbarrier, then offsets, "
                    "mask and policy where given",
                    operands));
  }
  const SharedScope scope = scope_of(destination);
  detail->target.name_for(detail->what);
  detail->target.destination = shared_operand(t, t.operand(0), scope);
  take_map(t, *detail, 1);
  detail->target.barrier =
      shared_operand(t, t.operand(2), detail->target.cta_group == 2 ? SharedScope::cluster : scope);
  if (multicast) detail->target.multicast_mask = lane_operand(t, t.operand(before), Type::b16);
  t.emit(load).detail = t.keep(std::move(detail));
}

void translate_tensor_prefetch(Translation& t) {
  auto detail = std::make_unique<TensorDetail>();
  detail->what = "cp.async.bulk.prefetch.tensor";
  detail->rank = take_rank(t);
  t.modifiers.require("L2");
  t.modifiers.require("global");
  take_mode(t, *detail, Direction::to_l2);
  const size_t operands = 1u + take_offsets(t, *detail, 1) + take_cache_hint(t);
  if (t.operand_count() != operands) t.illegal(fmt::format("a tensor prefetch takes {} operand(s) here", operands));
  take_map(t, *detail, 0);
  t.emit(prefetch).detail = t.keep(std::move(detail));
}

}  // namespace stagecraft::emulator::machine
