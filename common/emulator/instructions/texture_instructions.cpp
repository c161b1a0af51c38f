// tex, suld and sust: reading and writing texels through texture and surface objects.
//
// CUDA programming guide, "Texture Fetching": filtering, addressing and its weights of 8 fractional bits, which an H200
// rounds to the nearest (half upwards). In which order and width it then adds is not documented; here it is fp32.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "emulator/instructions/families.hpp"
#include "emulator/numerics/narrow_floats.hpp"
#include "emulator/state/device_memory.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/texture_description.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {
namespace {

using ptx::Type;

const TextureDescription& description_at(const Fragment& fragment, uint64_t handle, TextureKind kind, uint32_t lane) {
  const DeviceMemory& memory = *fragment.grid().memory;
  const bool is_texture = kind == TextureKind::texture;
  if (memory.find(handle, sizeof(TextureDescription)) == nullptr ||
      reinterpret_cast<const TextureDescription*>(DeviceMemory::host(handle))->kind != kind) {
    throw Fault(FaultKind::illegal_address,
                fmt::format("{:#x} is no {} object", handle, is_texture ? "texture" : "surface"),
                {fmt::format("{} gives one; it may have been destroyed",
                             is_texture ? "cudaCreateTextureObject" : "cudaCreateSurfaceObject")},
                1u << lane);
  }
  const auto& found = *reinterpret_cast<const TextureDescription*>(DeviceMemory::host(handle));
  if (memory.find(found.data, found.bytes) == nullptr) {
    throw Fault(FaultKind::illegal_address, "the memory of the texture or surface has been freed",
                {memory.describe(found.data)}, 1u << lane);
  }
  return found;
}

/// One texel, as the instruction returns it: 32 bits of each channel.
struct Texel {
  uint32_t bits[4] = {};
};

uint32_t channel_of(const TextureDescription& texture, const std::byte* at) {
  uint32_t raw = 0;
  std::memcpy(&raw, at, texture.channel_bytes);
  const uint32_t bits = 8u * texture.channel_bytes;
  if (texture.format == TexelFormat::floating) {
    if (bits == 32) return raw;
    return std::bit_cast<uint32_t>(from_f16(raw));
  }
  const bool is_signed = texture.format == TexelFormat::signed_integer;
  const int32_t value =
      is_signed && bits < 32 ? static_cast<int32_t>(raw << (32 - bits)) >> (32 - bits) : static_cast<int32_t>(raw);
  if (!texture.as_float) return static_cast<uint32_t>(value);
  const float largest = static_cast<float>((uint64_t{1} << (bits - (is_signed ? 1 : 0))) - 1);
  return std::bit_cast<uint32_t>(std::max(static_cast<float>(value) / largest, -1.0f));
}

/// The coordinate of a texel along one dimension, as the mode of addressing has it; -1 for the border.
int64_t resolve(int64_t index, uint32_t extent, AddressMode mode) {
  const int64_t size = extent;
  if (index >= 0 && index < size) return index;
  switch (mode) {
    case AddressMode::clamp: return std::clamp<int64_t>(index, 0, size - 1);
    case AddressMode::border: return -1;
    case AddressMode::wrap: return (index % size + size) % size;
    case AddressMode::mirror: {
      const int64_t place = (index % (2 * size) + 2 * size) % (2 * size);
      return place < size ? place : 2 * size - 1 - place;
    }
  }
  return -1;
}

uint32_t extent_of(const TextureDescription& texture, uint32_t dimension) {
  return dimension == 0 ? texture.width : dimension == 1 ? texture.height : texture.depth;
}

Texel texel_at(const TextureDescription& texture, const int64_t* index, uint32_t layer) {
  int64_t place[3] = {0, 0, layer};
  for (uint32_t dimension = 0; dimension < texture.dimensions; ++dimension) {
    place[dimension] = resolve(index[dimension], extent_of(texture, dimension), texture.address_mode[dimension]);
  }
  Texel texel;
  const bool gives_floats = texture.format == TexelFormat::floating || texture.as_float;
  const bool is_outside = std::min({place[0], place[1], place[2]}) < 0;
  uint64_t at = texture.data;
  if (!is_outside) {
    at += static_cast<uint64_t>(place[2]) * texture.slice + static_cast<uint64_t>(place[1]) * texture.pitch +
          static_cast<uint64_t>(place[0]) * texture.channels * texture.channel_bytes;
  }
  for (uint32_t channel = 0; channel < 4; ++channel) {
    if (is_outside) {
      texel.bits[channel] = gives_floats ? std::bit_cast<uint32_t>(texture.border[channel])
                                         : static_cast<uint32_t>(texture.border[channel]);
    } else if (channel < texture.channels) {
      texel.bits[channel] = channel_of(texture, DeviceMemory::host(at + channel * texture.channel_bytes));
    }
  }
  return texel;
}

/// The weights of four neighbours have 8 fractional bits themselves: that of the far corner is rounded, and the others
/// are what remains, so that their sum is 1. The results of an H200 agree; three dimensions were not measured.
float share_of_four(const float* weight, uint32_t corner) {
  const float far = std::floor(weight[0] * weight[1] * 256 + 0.5f) / 256;
  switch (corner) {
    case 0: return 1 - weight[0] - weight[1] + far;
    case 1: return weight[0] - far;
    case 2: return weight[1] - far;
    default: return far;
  }
}

Texel fetch(const TextureDescription& texture, const float* coordinates, uint32_t layer) {
  int64_t index[3] = {};
  float weight[3] = {};
  for (uint32_t dimension = 0; dimension < texture.dimensions; ++dimension) {
    float x = coordinates[dimension];
    if (texture.normalized) x *= static_cast<float>(extent_of(texture, dimension));
    if (std::isnan(x)) x = 0;
    x = std::clamp(x, -1e9f, 1e9f);
    if (!texture.linear) {
      index[dimension] = static_cast<int64_t>(std::floor(x));
      continue;
    }
    const float below = std::floor(x - 0.5f);
    index[dimension] = static_cast<int64_t>(below);
    weight[dimension] = std::floor((x - 0.5f - below) * 256 + 0.5f) / 256;
  }
  if (!texture.linear) return texel_at(texture, index, layer);
  float sums[4] = {};
  for (uint32_t corner = 0; corner < 1u << texture.dimensions; ++corner) {
    int64_t place[3] = {};
    float share = 1;
    for (uint32_t dimension = 0; dimension < texture.dimensions; ++dimension) {
      const bool upper = (corner >> dimension & 1) != 0;
      place[dimension] = index[dimension] + (upper ? 1 : 0);
      share *= upper ? weight[dimension] : 1 - weight[dimension];
    }
    if (texture.dimensions == 2) share = share_of_four(weight, corner);
    if (share == 0) continue;
    const Texel texel = texel_at(texture, place, layer);
    for (uint32_t channel = 0; channel < 4; ++channel)
      sums[channel] += share * std::bit_cast<float>(texel.bits[channel]);
  }
  Texel result;
  for (uint32_t channel = 0; channel < 4; ++channel) result.bits[channel] = std::bit_cast<uint32_t>(sums[channel]);
  return result;
}

struct TextureDetail : OpDetail {
  uint32_t dimensions = 1;
  bool layered = false;
  bool integer_coordinates = false;
  RegisterOffset handle = kNoRegister;
  bool handle_is_wide = true;
  RegisterOffset layer = kNoRegister;
  std::vector<RegisterOffset> coordinates;
  std::vector<RegisterOffset> values;  ///< destinations of tex and suld, sources of sust
  uint32_t value_bytes = 4;            ///< of each
  enum class Outside : uint8_t { trap, clamp, zero } outside = Outside::trap;

  const TextureDescription& object(const Fragment& fragment, TextureKind kind, uint32_t lane) const {
    const TextureDescription& found =
        description_at(fragment, lanes_at<uint64_t>(fragment.registers, handle)[lane], kind, lane);
    if (found.dimensions != dimensions || found.layered != layered) {
      throw Fault(FaultKind::illegal_instruction,
                  fmt::format("the object has {} dimensions{}, and the instruction accesses {}{}", found.dimensions,
                              found.layered ? " and layers" : "", dimensions, layered ? " and layers" : ""),
                  {}, 1u << lane);
    }
    return found;
  }
  uint32_t layer_of(const Fragment& fragment, const TextureDescription& object, uint32_t lane) const {
    if (layer == kNoRegister) return 0;
    return std::min(lanes_at<uint32_t>(fragment.registers, layer)[lane], object.depth - 1);
  }
};

Outcome read_texture(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const TextureDetail*>(op.detail);
  Texel texels[kWarpSize];
  for_each_lane(mask, [&](uint32_t lane) {
    const TextureDescription& texture = detail.object(fragment, TextureKind::texture, lane);
    const uint32_t layer = detail.layer_of(fragment, texture, lane);
    float coordinates[3] = {};
    int64_t index[3] = {};
    for (uint32_t dimension = 0; dimension < detail.dimensions; ++dimension) {
      const uint32_t bits = lanes_at<uint32_t>(fragment.registers, detail.coordinates[dimension])[lane];
      coordinates[dimension] = std::bit_cast<float>(bits);
      index[dimension] = static_cast<int32_t>(bits);
    }
    texels[lane] = detail.integer_coordinates ? texel_at(texture, index, layer) : fetch(texture, coordinates, layer);
  });
  for (size_t channel = 0; channel < detail.values.size(); ++channel) {
    auto* const destination = lanes_at<uint32_t>(fragment.registers, detail.values[channel]);
    for_each_lane(mask, [&](uint32_t lane) { destination[lane] = texels[lane].bits[channel]; });
  }
  return Outcome::next;
}

/// Where a surface access of a lane goes; null when it is outside and has no effect. x counts bytes.
std::byte* surface_address(const Fragment& fragment, const TextureDetail& detail, uint32_t lane, bool writes) {
  const TextureDescription& surface = detail.object(fragment, TextureKind::surface, lane);
  const int64_t bytes = static_cast<int64_t>(detail.value_bytes) * static_cast<int64_t>(detail.values.size());
  const int64_t row = int64_t{surface.width} * surface.channels * surface.channel_bytes;
  int64_t place[3] = {0, 0, detail.layer_of(fragment, surface, lane)};
  bool is_outside = false;
  for (uint32_t dimension = 0; dimension < detail.dimensions; ++dimension) {
    const int64_t last = dimension == 0 ? row - bytes : int64_t{extent_of(surface, dimension)} - 1;
    int64_t value = lanes_at<int32_t>(fragment.registers, detail.coordinates[dimension])[lane];
    is_outside |= value < 0 || value > last;
    place[dimension] = std::clamp<int64_t>(value, 0, last);
  }
  if (place[0] % bytes != 0) {
    throw Fault(FaultKind::misaligned_address,
                fmt::format("x = {} bytes is not a multiple of the {} bytes accessed", place[0], bytes),
                {"the x coordinate of a surface counts in bytes"}, 1u << lane);
  }
  if (is_outside && detail.outside == TextureDetail::Outside::trap) {
    throw Fault(
        FaultKind::illegal_address,
        fmt::format("outside of the surface, which has {} bytes by {} by {}", row, surface.height, surface.depth),
        {"x counts in bytes; cudaBoundaryModeZero or Clamp permits such an access"}, 1u << lane);
  }
  if (is_outside && (writes || detail.outside == TextureDetail::Outside::zero)) return nullptr;
  return DeviceMemory::host(surface.data + static_cast<uint64_t>(place[2]) * surface.slice +
                            static_cast<uint64_t>(place[1]) * surface.pitch + static_cast<uint64_t>(place[0]));
}

/// 8-bit values have 16-bit registers.
uint32_t register_bytes(const TextureDetail& detail) { return std::max<uint32_t>(2, detail.value_bytes); }

Outcome read_surface(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const TextureDetail*>(op.detail);
  const std::byte* from[kWarpSize];
  for_each_lane(mask, [&](uint32_t lane) { from[lane] = surface_address(fragment, detail, lane, false); });
  for (size_t element = 0; element < detail.values.size(); ++element) {
    for_each_lane(mask, [&](uint32_t lane) {
      std::byte* const to = fragment.registers + detail.values[element] + lane * register_bytes(detail);
      std::memset(to, 0, register_bytes(detail));
      if (from[lane] != nullptr) std::memcpy(to, from[lane] + element * detail.value_bytes, detail.value_bytes);
    });
  }
  return Outcome::next;
}

Outcome write_surface(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const TextureDetail*>(op.detail);
  note_effect(fragment);
  for_each_lane(mask, [&](uint32_t lane) {
    std::byte* const to = surface_address(fragment, detail, lane, true);
    if (to == nullptr) return;
    for (size_t element = 0; element < detail.values.size(); ++element) {
      std::memcpy(to + element * detail.value_bytes,
                  fragment.registers + detail.values[element] + lane * register_bytes(detail), detail.value_bytes);
    }
  });
  return Outcome::next;
}

void take_geometry(Translation& t, TextureDetail& detail) {
  const std::string_view geometry = t.modifiers.require_one_of({"1d", "2d", "3d", "a1d", "a2d"});
  detail.layered = geometry.front() == 'a';
  detail.dimensions = static_cast<uint32_t>(geometry[geometry.size() - 2] - '0');
}

/// Reads `[object, {coordinates}]`. Coordinates of layered objects begin with the layer; vectors of three have a fourth
/// element that does not count.
void take_place(Translation& t, TextureDetail& detail, const ptx::Operand& place, Type type) {
  const size_t needed = detail.dimensions + (detail.layered ? 1 : 0);
  if (place.kind != ptx::OperandKind::address || place.list.size() != 2) {
    t.illegal("the texels are named as [object, {coordinates}]");
  }
  const ptx::Operand& vector = place.list[1];
  const std::vector<ptx::Operand> coordinates =
      vector.kind == ptx::OperandKind::vector ? vector.list : std::vector<ptx::Operand>{vector};
  if (coordinates.size() != needed && !(needed == 3 && coordinates.size() == 4)) {
    t.illegal(fmt::format("{} coordinates; {} are needed", coordinates.size(), needed));
  }
  ptx::Operand object = place;
  object.list.resize(1);
  bool wide = false;
  detail.handle = t.address_vector(object, wide);
  if (!wide) t.unsupported("textures by reference; those by object (cudaCreateTextureObject) are there");
  size_t next = 0;
  if (detail.layered) detail.layer = t.source(coordinates[next++], Type::u32);
  while (detail.coordinates.size() < detail.dimensions)
    detail.coordinates.push_back(t.source(coordinates[next++], type));
}

void translate_texture(Translation& t) {
  auto detail = std::make_unique<TextureDetail>();
  take_geometry(t, *detail);
  t.modifiers.require("v4");
  const Type result = t.modifiers.require_type({Type::u32, Type::s32, Type::f32});
  const Type coordinate = t.modifiers.require_type({Type::s32, Type::f32});
  detail->integer_coordinates = coordinate == Type::s32;
  if (t.operand_count() != 2) t.unsupported("offsets, samplers and depth comparison of tex");
  const ptx::Operand& destination = t.operand(0);
  if (destination.kind != ptx::OperandKind::vector || destination.list.size() != 4) t.illegal("tex gives four values");
  take_place(t, *detail, t.operand(1), coordinate);
  for (const ptx::Operand& value : destination.list) detail->values.push_back(t.destination(value, result));
  t.emit(read_texture).detail = t.keep(std::move(detail));
}

void translate_surface(Translation& t, bool writes) {
  auto detail = std::make_unique<TextureDetail>();
  t.modifiers.require("b");
  take_geometry(t, *detail);
  t.modifiers.take_one_of({"ca", "cg", "cs", "cv", "wb", "wt"});
  const std::string_view vector = t.modifiers.take_one_of({"v2", "v4"}).value_or("");
  const Type type = t.modifiers.require_type({Type::b8, Type::b16, Type::b32, Type::b64});
  const std::string_view outside = t.modifiers.require_one_of({"trap", "clamp", "zero"});
  detail->outside = outside == "trap"    ? TextureDetail::Outside::trap
                    : outside == "clamp" ? TextureDetail::Outside::clamp
                                         : TextureDetail::Outside::zero;
  detail->value_bytes = ptx::size_of(type);
  take_place(t, *detail, t.operand(writes ? 0 : 1), Type::s32);
  const ptx::Operand& operand = t.operand(writes ? 1 : 0);
  const std::vector<ptx::Operand> values =
      operand.kind == ptx::OperandKind::vector ? operand.list : std::vector<ptx::Operand>{operand};
  const size_t wanted = vector.empty() ? 1 : static_cast<size_t>(vector.back() - '0');
  if (values.size() != wanted) t.illegal(fmt::format("{} values; {} are needed", values.size(), wanted));
  for (const ptx::Operand& value : values) {
    detail->values.push_back(writes ? t.source(value, type) : t.destination(value, type));
  }
  t.emit(writes ? write_surface : read_surface).detail = t.keep(std::move(detail));
}

}  // namespace

void add_texture_instructions(InstructionSet& set) {
  set.add("tex", translate_texture, kOrdinary, InstructionClass::memory);
  set.add(
      "suld", [](Translation& t) { translate_surface(t, false); }, kOrdinary, InstructionClass::memory);
  set.add(
      "sust", [](Translation& t) { translate_surface(t, true); }, kOrdinary, InstructionClass::memory);
}

}  // namespace stagecraft::emulator::machine
