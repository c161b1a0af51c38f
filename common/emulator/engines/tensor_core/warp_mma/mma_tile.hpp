// One product of matrices in the registers of a warp: one mma.sync. A wmma is one or two of these.
#pragma once

#include <array>
#include <cfenv>
#include <cstdint>
#include <string_view>

#include "emulator/engines/tensor_core/fused_sum.hpp"
#include "emulator/numerics/narrow_floats.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/op.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

enum class Accumulator : uint8_t { f16, f32, s32, f64 };

/// Scale factors of A or B: each row of A, or column of B, has 1, 2 or 4 of them in a word of one lane.
struct TileScales {
  RegisterOffset words = kNoRegister;
  RegisterOffset byte_id = kNoRegister, thread_id = kNoRegister;  ///< of 16 bits, the same in all lanes
};

/// The shape, the types and the registers of D = A * B + C. Layouts: register_fragments.hpp.
struct MmaTile {
  static constexpr size_t kMostRegisters = 8;
  using Registers = std::array<RegisterOffset, kMostRegisters>;

  uint32_t m = 16, k = 16;
  uint32_t pieces = 8;  ///< registers along K of one row, in lanes: 32 bits each, 64 for f64
  ElementFormat a_format = ElementFormat::f16, b_format = ElementFormat::f16;
  Accumulator d_type = Accumulator::f32, c_type = Accumulator::f32;
  bool single_bits = false;
  bool quad_pairs = false;  ///< m8n8k4 of f16
  bool saturate = false;
  bool bytes_as_halves = false;             ///< 8-bit floats are multiplied as f16, for want of an instruction
  bool exclusive_or = false;                ///< single bits: xor instead of and
  bool a_along_k = true, b_along_k = true;  ///< m8n8k4 of f16: A of .row, B of .col
  int rounding = FE_TONEAREST;              ///< of f64
  FusedSum sum;                             ///< of floats except f64; one for each of `steps` parts of K
  uint32_t steps = 1;
  uint32_t a_count = 0, b_count = 0, d_elements = 0;  ///< registers of A and B; elements of C and D per lane
  Registers a{}, b{}, c{}, d{};
  uint32_t scale_count = 0;   ///< of a row of A; 0: A and B are not scaled
  bool scales_ue4m3 = false;  ///< else ue8m0
  TileScales a_scales, b_scales;

  /// Multiplies, for all lanes. D may share registers with A, B and C. The fields above determine the function.
  void (*multiply)(Fragment& fragment, const MmaTile& tile) = nullptr;
};

/// Returns the format with this name in PTX, e2m1 for one that is alone in a byte; u8 for b1 and f64, which are not
/// decoded.
ElementFormat element_format_of(std::string_view type);
Accumulator accumulator_of(std::string_view type);
/// Takes .rn, .rz, .rm or .rp. Returns the argument of fesetround() for it.
int take_f64_rounding(Translation& t);

/// Sets the tile's function. Must be called when all other fields are set.
void choose_multiply(MmaTile& tile);

/// Multiplies with scale factors, for all lanes.
void multiply_scaled_tile(Fragment& fragment, const MmaTile& tile);

/// Returns the lanes that execute an instruction of the whole warp; 0 when the fragment sleeps.
LaneMask gather_warp(Fragment& fragment, LaneMask mask, const char* name);

}  // namespace stagecraft::emulator::machine
