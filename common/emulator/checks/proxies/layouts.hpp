// How tiles are swizzled in shared memory: for reports, and where the pattern of each swizzle begins again.
#pragma once

#include <cstdint>
#include <string_view>

#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// "the 128-byte swizzle"
inline std::string_view spell(machine::SharedLayout layout) {
  using machine::SharedLayout;
  switch (layout) {
    case SharedLayout::unknown: return "an unknown layout";
    case SharedLayout::linear: return "no swizzle";
    case SharedLayout::swizzle_32: return "the 32-byte swizzle";
    case SharedLayout::swizzle_64: return "the 64-byte swizzle";
    case SharedLayout::swizzle_128: return "the 128-byte swizzle";
    case SharedLayout::swizzle_128_atom_32: return "the 128-byte swizzle with atoms of 32 bytes";
    case SharedLayout::swizzle_128_atom_32_flip_8: return "the 128-byte swizzle with flipped atoms of 32 bytes";
    case SharedLayout::swizzle_128_atom_64: return "the 128-byte swizzle with atoms of 64 bytes";
  }
  return {};
}

/// After how many bytes a swizzle's pattern repeats; 0 where nothing repeats.
inline uint32_t period_of(machine::SharedLayout layout) {
  using machine::SharedLayout;
  switch (layout) {
    case SharedLayout::swizzle_32: return 256;
    case SharedLayout::swizzle_64: return 512;
    case SharedLayout::swizzle_128: return 1024;
    case SharedLayout::swizzle_128_atom_32: return 512;
    default: return 0;
  }
}

}  // namespace stagecraft::emulator::checks
