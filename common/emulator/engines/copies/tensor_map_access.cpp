#include "emulator/engines/copies/tensor_map_access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "emulator/engines/copies/bulk_engine.hpp"
#include "emulator/engines/lane_operand.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

using ptx::Type;

namespace {

constexpr uint32_t kMapAlignment = 64;

void check_map_alignment(uint64_t address, uint32_t alignment, const char* what) {
  if (address % alignment == 0) return;
  throw Fault(
      FaultKind::misaligned_address,
      fmt::format("{}: the tensor map at 0x{:x} is not {}-byte aligned", what, address, alignment),
      {"declare it as a CUtensorMap, which is aligned, or with alignas(64) (in memory that kernels change: 128)"});
}

}  // namespace

TensorMap read_tensor_map(const Fragment& fragment, uint64_t address, const char* what) {
  const Located located = locate(address);
  if (located.where != Located::Where::global) {
    const bool local = located.where == Located::Where::local;
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("{}: the tensor map at 0x{:x} is in {} memory", what, address, local ? "local" : "shared"),
                {local ? "the kernel has copied its parameter: declare it `const __grid_constant__ CUtensorMap map`, "
                         "and pass &map"
                       : "a map must be in a kernel parameter, in constant or in global memory; copy one that was "
                         "changed in shared memory to global memory with tensormap.cp_fenceproxy"});
  }
  check_map_alignment(address, kMapAlignment, what);
  const DeviceMemory& memory = *fragment.grid().memory;
  if (memory.find(address, sizeof(TensorMap)) == nullptr) {
    throw Fault(FaultKind::illegal_address, fmt::format("{}: there is no tensor map at 0x{:x}", what, address),
                {address == 0 ? "the pointer is null" : memory.describe(address),
                 "a host pointer to a CUtensorMap does not do: pass the map by value, as a `const __grid_constant__ "
                 "CUtensorMap` parameter, or copy it to device memory"});
  }
  TensorMap map;
  std::memcpy(static_cast<void*>(&map), DeviceMemory::host(address), sizeof map);
  return map;
}

namespace {

/// Fields that tensormap.replace can set.
enum class MapField : uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  fill_mode,
  swizzle_atomicity,
};
constexpr const char* kFieldNames[] = {"global_address", "rank",           "box_dim",          "global_dim",
                                       "global_stride",  "element_stride", "elemtype",         "interleave_layout",
                                       "swizzle_mode",   "fill_mode",      "swizzle_atomicity"};

struct ReplaceDetail : OpDetail {
  LaneOperand address;
  bool shared = false;  ///< .shared::cta; else global or generic
  MapField field{};
  uint32_t ordinal = 0;  ///< of the dimension
  LaneOperand value;
};

/// The elements by their codes in `elemtype`, which differ from those of the driver.
constexpr TensorElement kReplaceElements[] = {
    TensorElement::u8,       TensorElement::u16,       TensorElement::u32,         TensorElement::s32,
    TensorElement::u64,      TensorElement::s64,       TensorElement::f16,         TensorElement::f32,
    TensorElement::f32_ftz,  TensorElement::f64,       TensorElement::bf16,        TensorElement::tf32,
    TensorElement::tf32_ftz, TensorElement::u4_packed, TensorElement::u4_unpacked, TensorElement::u6_unpacked};

[[noreturn]] void bad_value(const ReplaceDetail& detail, uint64_t value, const char* legal) {
  throw Fault(FaultKind::illegal_instruction,
              fmt::format("tensormap.replace: {} cannot be {}", kFieldNames[static_cast<size_t>(detail.field)], value),
              {fmt::format("legal are {}", legal)});
}

void replace_field(TensorMap& map, const ReplaceDetail& detail, uint64_t value) {
  const uint32_t i = detail.ordinal;
  const auto note_set = [&](TensorMapField field) {
    map.unset &= static_cast<uint16_t>(~field_bit(field, static_cast<int>(i)));
  };
  switch (detail.field) {
    case MapField::global_address: map.address = value; return note_set(TensorMapField::global_address);
    case MapField::rank:  // given minus 1
      if (value > 4) bad_value(detail, value, "0 to 4 (the rank minus 1)");
      map.rank = static_cast<uint8_t>(value + 1);
      return note_set(TensorMapField::rank);
    case MapField::box_dim:
      map.box[i] = static_cast<uint16_t>(std::min<uint64_t>(value, 0xffff));
      return note_set(TensorMapField::box_dim);
    case MapField::global_dim:
      map.last_index[i] = static_cast<uint32_t>(value - 1);
      return note_set(TensorMapField::global_dim);
    case MapField::global_stride: map.strides[i] = value; return note_set(TensorMapField::global_stride);
    case MapField::element_stride:
      map.element_strides[i] = static_cast<uint8_t>(std::min<uint64_t>(value, 255));
      return;
    case MapField::elemtype:
      if (value >= std::size(kReplaceElements)) bad_value(detail, value, "0 to 15");
      map.element = kReplaceElements[value];
      return;
    case MapField::interleave_layout:
      if (value > 2) bad_value(detail, value, "0 to 2");
      map.interleave = static_cast<TensorInterleave>(value);
      return;
    case MapField::swizzle_mode:  // keeps the atomicity only where it applies: with 128 bytes
      if (value > 3) bad_value(detail, value, "0 to 3 (none, 32, 64, 128 bytes)");
      map.swizzle = static_cast<TensorSwizzle>(value);
      return;
    case MapField::fill_mode:
      if (value > 1) bad_value(detail, value, "0 and 1");
      map.fill = static_cast<TensorFill>(value);
      return;
    case MapField::swizzle_atomicity:
      if (value > 3) bad_value(detail, value, "0 to 3 (16, 32, 32 with a flip of 8, 64 bytes)");
      if (map.swizzle >= TensorSwizzle::span_128) {
        map.swizzle = static_cast<TensorSwizzle>(static_cast<uint64_t>(TensorSwizzle::span_128) + value);
      } else if (value != 0) {
        bad_value(detail, value, "0, but with the 128-byte swizzle, which is to be set first");
      }
      return;
  }
}

/// Returns the host's pointer to a map that a kernel changes. Throws Fault.
std::byte* changeable_map(Fragment& fragment, uint64_t address, bool shared, const char* what) {
  const Located located = shared ? Located{Located::Where::shared, address} : locate(address);
  if (located.where == Located::Where::shared) {
    const auto offset = static_cast<uint32_t>(located.address);
    return bytes_of(block_in_scope(fragment.block(), offset, sizeof(TensorMap), 128, SharedScope::block, what), offset);
  }
  check_map_alignment(address, 128, what);
  check_global(fragment.grid(), address, sizeof(TensorMap), kMapAlignment, true, what);
  return DeviceMemory::host(address);
}

bool is_blank(const std::byte* place) {
  return std::all_of(place, place + sizeof(TensorMap), [](std::byte byte) { return byte == std::byte{0}; });
}

Outcome replace(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const ReplaceDetail*>(op.detail);
  note_effect(fragment);
  issue_lanes(mask, [&](uint32_t lane) {
    std::byte* place = changeable_map(fragment, detail.address.at(fragment, lane), detail.shared, "tensormap.replace");
    TensorMap map;
    std::memcpy(static_cast<void*>(&map), place, sizeof map);
    if (is_blank(place)) map = blank_tensor_map();  // as Triton makes a map: of zeros, field by field
    if (map.mark != kTensorMapMark) throw Fault(FaultKind::illegal_instruction, "tensormap.replace: " + find_flaw(map));
    if (map.mode != TensorMode::box) {
      throw Fault(FaultKind::illegal_instruction,
                  fmt::format("tensormap.replace.tile: the tensor map is one of {}", encoder_of(map.mode)),
                  {"PTX has replacements in maps of cuTensorMapEncodeTiled only; let the host encode it again"});
    }
    replace_field(map, detail, detail.value.at(fragment, lane));
    std::memcpy(place, &map, sizeof map);
  });
  if (!detail.shared) {
    LaneMask global = 0;
    const auto address = [&](uint32_t lane) { return detail.address.at(fragment, lane); };
    for_each_lane(mask, [&](uint32_t lane) {
      global |= (locate(address(lane)).where == Located::Where::global ? 1u : 0u) << lane;
    });
    announce_tensor_map(fragment, TensorMapEventKind::replace, global, address);
  }
  return Outcome::next;
}

struct CopyMapDetail : OpDetail {
  LaneOperand target;
  SharedOperand source;
};

/// Copies a map once for the whole warp.
Outcome copy_map(Fragment& fragment, const Op& op, LaneMask mask) {
  static constexpr const char* kWhat = "tensormap.cp_fenceproxy";
  const auto& detail = *static_cast<const CopyMapDetail*>(op.detail);
  mask = converge_warp(fragment, mask);
  if (mask == 0) return Outcome::blocked;
  note_effect(fragment);
  const uint32_t lane = first_lane(mask);
  const uint32_t source = detail.source.at(fragment, lane, kWhat);
  Block& block = block_in_scope(fragment.block(), source, sizeof(TensorMap), 128, SharedScope::block, kWhat);
  const uint64_t target = detail.target.at(fragment, lane);
  std::memcpy(changeable_map(fragment, target, false, kWhat), bytes_of(block, source), sizeof(TensorMap));
  announce_tensor_map(fragment, TensorMapEventKind::copy, mask, [&](uint32_t) { return target; });
  return Outcome::next;
}

struct MapFenceDetail : OpDetail {
  LaneOperand address;  ///< absent: it releases
};

/// Memory is sequentially consistent here, so the fence is announced, and does nothing.
Outcome map_fence(Fragment& fragment, const Op& op, LaneMask mask) {
  const LaneOperand& map = static_cast<const MapFenceDetail*>(op.detail)->address;
  announce_tensor_map(fragment, map.present() ? TensorMapEventKind::acquire : TensorMapEventKind::release, mask,
                      [&](uint32_t lane) { return map.present() ? map.at(fragment, lane) : 0; });
  return Outcome::next;
}

void translate_replace(Translation& t) {
  auto detail = std::make_unique<ReplaceDetail>();
  t.modifiers.require("tile");
  const std::string_view name =
      t.modifiers.require_one_of({"global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride",
                                  "elemtype", "interleave_layout", "swizzle_mode", "fill_mode", "swizzle_atomicity"});
  for (size_t i = 0; i < std::size(kFieldNames); ++i) {
    if (name == kFieldNames[i]) detail->field = static_cast<MapField>(i);
  }
  const auto space = t.modifiers.take_one_of({"global", "shared::cta", "shared"});
  detail->shared = space && *space != "global";
  t.modifiers.require("b1024");
  const Type type = t.modifiers.require_type({Type::b32, Type::b64});
  const bool ordered = detail->field >= MapField::box_dim && detail->field <= MapField::element_stride;
  if (t.operand_count() != 2u + ordered) {
    t.illegal(fmt::format("tensormap.replace of {} takes {} operands", name, 2 + ordered));
  }
  if (ordered) {
    const int64_t ordinal = t.integer(t.operand(1), "the dimension");
    const int64_t limit = detail->field == MapField::global_stride ? 4 : 5;
    if (ordinal < 0 || ordinal >= limit) {
      t.illegal(fmt::format("{} has dimensions 0 to {}, not {}", name, limit - 1, ordinal));
    }
    detail->ordinal = static_cast<uint32_t>(ordinal);
  }
  detail->address = lane_address(t, t.operand(0));
  detail->value = lane_operand(t, t.operand(1u + ordered), type);
  t.emit(replace).detail = t.keep(std::move(detail));
}

void translate_copy_map(Translation& t) {
  auto detail = std::make_unique<CopyMapDetail>();
  t.modifiers.require("global");
  t.modifiers.require_one_of({"shared::cta", "shared"});
  t.modifiers.require("tensormap::generic");
  t.modifiers.require("release");
  t.modifiers.require_one_of({"cta", "cluster", "gpu", "sys"});
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
  if (t.integer(t.operand(2), "the size of a tensor map") != 128) t.illegal("a tensor map has 128 bytes");
  detail->target = lane_address(t, t.operand(0));
  detail->source = shared_operand(t, t.operand(1), SharedScope::block);
  t.emit(copy_map).detail = t.keep(std::move(detail));
}

}  // namespace

void translate_tensormap_fence(Translation& t) {
  t.modifiers.require("proxy");
  t.modifiers.require("tensormap::generic");
  const bool acquires = t.modifiers.require_one_of({"acquire", "release"}) == "acquire";
  t.modifiers.require_one_of({"cta", "cluster", "gpu", "sys"});
  auto detail = std::make_unique<MapFenceDetail>();
  if (acquires) {
    if (t.integer(t.operand(1), "the size of a tensor map") != 128) t.illegal("a tensor map has 128 bytes");
    detail->address = lane_address(t, t.operand(0));
  }
  t.emit(map_fence).detail = t.keep(std::move(detail));
}

void translate_tensormap(Translation& t) {
  if (t.modifiers.take("replace")) return translate_replace(t);
  t.modifiers.require("cp_fenceproxy");
  translate_copy_map(t);
}

}  // namespace stagecraft::emulator::machine
