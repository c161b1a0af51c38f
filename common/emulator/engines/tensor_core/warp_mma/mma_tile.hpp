// One product of matrices in the registers of a warp, as mma.sync makes it; wmma is made of one or two.
#pragma once

#include <array>
#include <cfenv>
#include <cstdint>
#include <string_view>

#include "emulator/numerics/narrow_floats.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/op.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

enum class Accumulator : uint8_t { f16, f32, s32, f64 };

/// The shape, the types and the registers of D = A * B + C. Layouts: register_fragments.hpp.
struct MmaTile {
  static constexpr size_t kMostRegisters = 8;
  using Registers = std::array<RegisterOffset, kMostRegisters>;

  uint32_t m = 16, k = 16;
  uint32_t pieces = 8;  ///< registers along K of one row, in lanes: 32 bits each, of f64 64
  ElementFormat a_format = ElementFormat::f16, b_format = ElementFormat::f16;
  Accumulator d_type = Accumulator::f32, c_type = Accumulator::f32;
  bool single_bits = false;
  bool quad_pairs = false;  ///< m8n8k4 of f16
  bool saturate = false;
  bool exclusive_or = false;                          ///< single bits: xor instead of and
  bool a_along_k = true, b_along_k = true;            ///< m8n8k4 of f16: A of .row, B of .col
  int rounding = FE_TONEAREST;                        ///< of f64
  uint32_t a_count = 0, b_count = 0, d_elements = 0;  ///< registers of A and B; elements of C and D per lane
  Registers a{}, b{}, c{}, d{};

  /// Multiplies, for all lanes. D may share registers with A, B and C. The function follows from what is above.
  void (*multiply)(Fragment& fragment, const MmaTile& tile) = nullptr;
};

/// Formats by their names in PTX; b1 and f64, which are not decoded, pass as u8.
ElementFormat element_format_of(std::string_view type);
Accumulator accumulator_of(std::string_view type);
/// Takes .rn, .rz, .rm or .rp, and gives it as fesetround() takes it.
int take_f64_rounding(Translation& t);

/// Gives the tile its function; call when it is otherwise complete.
void choose_multiply(MmaTile& tile);

/// The lanes that execute an instruction of the whole warp; empty when the fragment sleeps.
LaneMask gather_warp(Fragment& fragment, LaneMask mask, const char* name);

}  // namespace stagecraft::emulator::machine
