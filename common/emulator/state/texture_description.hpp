// A texture or surface object: a description of texels in device memory. Its handle is the address of the description.
#pragma once

#include <cstdint>

namespace stagecraft::emulator::machine {

enum class TextureKind : uint32_t { texture = 0x74657831, surface = 0x73757231 };  ///< also marks a description
enum class TexelFormat : uint8_t { unsigned_integer, signed_integer, floating };
enum class AddressMode : uint8_t { wrap, clamp, mirror, border };

struct TextureDescription {
  TextureKind kind = TextureKind::texture;
  uint32_t dimensions = 1;  ///< 1 to 3, without the layers
  bool layered = false;
  uint32_t width = 1, height = 1, depth = 1;  ///< in texels; `depth` of layered ones is the number of layers
  uint64_t data = 0;                          ///< device address of the first texel
  uint64_t pitch = 0, slice = 0;              ///< bytes from row to row, from slice to slice
  uint64_t bytes = 0;                         ///< of all texels
  uint8_t channels = 1, channel_bytes = 4;
  TexelFormat format = TexelFormat::floating;
  AddressMode address_mode[3] = {AddressMode::clamp, AddressMode::clamp, AddressMode::clamp};
  bool linear = false;      ///< filtering
  bool normalized = false;  ///< coordinates from 0 to 1
  bool as_float = false;    ///< integers become fractions of their largest value
  float border[4] = {};
};

}  // namespace stagecraft::emulator::machine
