#include "emulator/engines/tensor_core/warp_mma/mma_tile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/register_fragments.hpp"
#include "emulator/engines/tensor_core/warp_mma/tile_operands.hpp"
#include "emulator/engines/tensor_core/warp_mma/warp_mma_kernels.hpp"
#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Adds the exact sum of an instruction to an integer of C, modulo 2^32 or clamped.
uint32_t add_integer(uint32_t c, int64_t sum, bool saturate) {
  sum += static_cast<int32_t>(c);
  if (saturate) {
    sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  }
  return static_cast<uint32_t>(sum);
}

// ---- Products -------------------------------------------------------------------------------------------------------

// Adds the products of the elements [first, first + count) along K to d, as the chip does.
void add_fused_products(const MmaTile& tile, const TileOperands& operands, uint32_t first, uint32_t count, float* d) {
  TilePanels panels(operands, first, count, d);
  panel_kernels().multiply(panels.d, panels.a, panels.b, panels.shape(tile.sum));
  panels.store(d);
}

// Does the same as the user asks for it.
void add_products(const MmaTile& tile, const TileOperands& operands, uint32_t first, uint32_t count, float* d) {
  const WarpMmaKernels& kernels = warp_mma_kernels();
  const float* const rows = operands.rows + first * kFragmentRows;
  const float* const columns = operands.columns + first * kFragmentColumns;
  if (tile.sum.fraction_bits == 0) return kernels.multiply(rows, columns, count, d);
  if (!kernels.multiply_fused(rows, columns, count, tile.sum, d)) add_fused_products(tile, operands, first, count, d);
}

void multiply_pieces(const MmaTile& tile, const Pieces& pieces, float* d) {
  TileOperands operands;
  decode(tile, pieces, operands);
  const uint32_t count = operands.depth / tile.steps;
  for (uint32_t first = 0; first < operands.depth; first += count) add_products(tile, operands, first, count, d);
}

// Sorts the elements along K: of each four the first two to the first half, the others to the second.
void split_fours(float* values, uint32_t depth, uint32_t lanes) {
  float sorted[kFragmentDepth * kFragmentRows];
  for (uint32_t k = 0; k < depth; ++k) {
    const uint32_t to = k % 4 / 2 * (depth / 2) + k / 4 * 2 + k % 2;
    std::copy_n(values + k * lanes, lanes, sorted + to * lanes);
  }
  std::copy_n(sorted, depth * lanes, values);
}

// Multiplies 8-bit floats on sm_90 and sm_100: these have no such instruction for a warp, and ptxas makes two of f16
// without C, of the first and of the last two of each four elements along K, and an addition of C.
void multiply_bytes_tile(Fragment& fragment, const MmaTile& tile) {
  Pieces pieces;
  gather(fragment, tile, pieces);
  TileOperands operands;
  decode(tile, pieces, operands);
  split_fours(operands.rows, operands.depth, kFragmentRows);
  split_fours(operands.columns, operands.depth, kFragmentColumns);
  float d[kFragmentColumns * kFragmentRows] = {};
  const bool halves = tile.d_type == Accumulator::f16;
  const uint32_t half = operands.depth / 2;
  for (uint32_t first = 0; first < operands.depth; first += half) {
    add_products(tile, operands, first, half, d);
    for (float& sum : d) {
      if (halves) sum = from_f16(to_f16(sum));
    }
  }
  for_each_element(tile, [&](uint32_t lane, uint32_t i, uint32_t at) {
    d[at] += read_float(fragment, tile.c, tile.c_type, lane, i);
    if (std::isnan(d[at])) d[at] = std::bit_cast<float>(0x7fffffffu);
  });
  for_each_element(tile, [&](uint32_t lane, uint32_t i, uint32_t at) {
    write_float(fragment, tile.d, tile.d_type, lane, i, d[at]);
  });
}

void multiply_f32_tile(Fragment& fragment, const MmaTile& tile) {
  Pieces pieces;
  gather(fragment, tile, pieces);
  TileWords d = load_words(fragment, tile);
  multiply_pieces(tile, pieces, reinterpret_cast<float*>(d.data()));
  store_words(fragment, tile, d);
}

// Multiplies when C or D is f16.
void multiply_half_tile(Fragment& fragment, const MmaTile& tile) {
  Pieces pieces;
  gather(fragment, tile, pieces);
  float d[kFragmentColumns * kFragmentRows];
  for_each_element(tile, [&](uint32_t lane, uint32_t i, uint32_t at) {
    d[at] = read_float(fragment, tile.c, tile.c_type, lane, i);
  });
  multiply_pieces(tile, pieces, d);
  for_each_element(tile, [&](uint32_t lane, uint32_t i, uint32_t at) {
    write_float(fragment, tile.d, tile.d_type, lane, i, d[at]);
  });
}

void multiply_integer_tile(Fragment& fragment, const MmaTile& tile) {
  Pieces pieces;
  gather(fragment, tile, pieces);
  float sums[kFragmentColumns * kFragmentRows] = {};  // below 2^24 in magnitude, and thus exact
  multiply_pieces(tile, pieces, sums);
  TileWords d = load_words(fragment, tile);
  for (size_t i = 0; i < d.size(); ++i) d[i] = add_integer(d[i], static_cast<int64_t>(sums[i]), tile.saturate);
  store_words(fragment, tile, d);
}

void multiply_bit_tile(Fragment& fragment, const MmaTile& tile) {
  Pieces pieces;
  gather(fragment, tile, pieces);
  TileWords d = load_words(fragment, tile);
  for (uint32_t n = 0; n < kFragmentColumns; ++n) {
    for (uint32_t m = 0; m < tile.m; ++m) {
      int64_t sum = 0;
      for (uint32_t piece = 0; piece < tile.pieces; ++piece) {
        const uint32_t a = pieces.a[piece * kFragmentRows + m], b = pieces.b[piece * kFragmentColumns + n];
        sum += std::popcount(tile.exclusive_or ? a ^ b : a & b);
      }
      uint32_t& cell = d[n * kFragmentRows + m];
      cell = add_integer(cell, sum, false);
    }
  }
  store_words(fragment, tile, d);
}

void multiply_double_tile(Fragment& fragment, const MmaTile& tile) {
  const auto doubles = [&](RegisterOffset offset) { return lanes_at<double>(fragment.registers, offset); };
  double a[kFragmentDoubles * kFragmentRows] = {}, b[kFragmentDoubles * kFragmentColumns] = {};
  double d[kFragmentColumns * kFragmentRows] = {};
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    for (uint32_t r = 0; r < tile.a_count; ++r) {
      const FragmentPlace place = place_in_a(tile.m, lane, r);
      a[place.column * kFragmentRows + place.row] = doubles(tile.a[r])[lane];
    }
    for (uint32_t r = 0; r < tile.b_count; ++r) {
      const FragmentPlace place = place_in_b(lane, r);
      b[place.column * kFragmentColumns + place.row] = doubles(tile.b[r])[lane];
    }
  }
  for_each_element(tile, [&](uint32_t lane, uint32_t i, uint32_t at) { d[at] = doubles(tile.c[i])[lane]; });
  const int before = std::fegetround();
  if (tile.rounding != before) std::fesetround(tile.rounding);
  warp_mma_kernels().multiply_doubles(a, b, tile.k, d);
  if (tile.rounding != before) std::fesetround(before);
  for_each_element(tile, [&](uint32_t lane, uint32_t i, uint32_t at) { doubles(tile.d[i])[lane] = d[at]; });
}

// Executes m8n8k4 of f16: four products of 8x4 by 4x8 matrices, each in eight lanes. ptxas makes fused multiply-adds in
// fp32 of it, of two pairs of products if D is f16, and adds C last.
void multiply_quad_pair_tile(Fragment& fragment, const MmaTile& tile) {
  constexpr uint32_t kPairs = 4, kRows = 8, kDepth = 4;
  float a[kPairs][kRows][kDepth], b[kPairs][kRows][kDepth], d[kPairs][kRows][kRows];
  const auto place = [](Accumulator type, uint32_t lane, uint32_t i) {
    return type == Accumulator::f16 ? place_in_quad_pair_f16(lane, i) : place_in_quad_pair_f32(lane, i);
  };
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t pair = quad_pair_of(lane);
    for (uint32_t i = 0; i < kDepth; ++i) {
      const FragmentPlace in_a = place_in_quad_pair(tile.a_along_k, lane, i);
      const FragmentPlace in_b = place_in_quad_pair(tile.b_along_k, lane, i);
      a[pair][in_a.row][in_a.column] = read_float(fragment, tile.a, Accumulator::f16, lane, i);
      b[pair][in_b.row][in_b.column] = read_float(fragment, tile.b, Accumulator::f16, lane, i);
    }
    for (uint32_t i = 0; i < kRows; ++i) {
      const FragmentPlace at = place(tile.c_type, lane, i);
      d[pair][at.row][at.column] = read_float(fragment, tile.c, tile.c_type, lane, i);
    }
  }
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t pair = quad_pair_of(lane);
    for (uint32_t i = 0; i < kRows; ++i) {
      const FragmentPlace at = place(tile.d_type, lane, i);
      const float c = d[pair][at.row][at.column];
      const float* const x = a[pair][at.row];
      const float* const y = b[pair][at.column];
      float sum = 0;
      if (tile.d_type == Accumulator::f16) {
        sum = std::fma(x[1], y[1], x[0] * y[0]) + std::fma(x[3], y[3], x[2] * y[2]);
      } else {
        for (uint32_t k = 0; k < kDepth; ++k) sum = std::fma(x[k], y[k], sum);
      }
      sum += c;
      if (std::isnan(sum)) sum = std::bit_cast<float>(0x7fffffffu);
      write_float(fragment, tile.d, tile.d_type, lane, i, sum);
    }
  }
}

}  // namespace

ElementFormat element_format_of(std::string_view type) {
  // The two bits below an e2m1 in its byte are more of its mantissa: so a DGX Spark reads them (docs/sm_120a.md).
  constexpr std::array<std::pair<std::string_view, ElementFormat>, 12> kFormats{{{"f16", ElementFormat::f16},
                                                                                 {"bf16", ElementFormat::bf16},
                                                                                 {"tf32", ElementFormat::tf32},
                                                                                 {"e4m3", ElementFormat::e4m3},
                                                                                 {"e5m2", ElementFormat::e5m2},
                                                                                 {"e3m2", ElementFormat::e3m2},
                                                                                 {"e2m3", ElementFormat::e2m3},
                                                                                 {"e2m1", ElementFormat::e2m3},
                                                                                 {"s8", ElementFormat::s8},
                                                                                 {"u8", ElementFormat::u8},
                                                                                 {"s4", ElementFormat::s4},
                                                                                 {"u4", ElementFormat::u4}}};
  for (const auto& [name, format] : kFormats) {
    if (name == type) return format;
  }
  return ElementFormat::u8;  // b1 and f64, which are not decoded
}

Accumulator accumulator_of(std::string_view type) {
  return type == "f16"   ? Accumulator::f16
         : type == "f32" ? Accumulator::f32
         : type == "s32" ? Accumulator::s32
                         : Accumulator::f64;
}

int take_f64_rounding(Translation& t) {
  const std::optional<std::string_view> mode = t.modifiers.take_one_of({"rn", "rz", "rm", "rp"});
  if (mode == "rz") return FE_TOWARDZERO;
  if (mode == "rm") return FE_DOWNWARD;
  if (mode == "rp") return FE_UPWARD;
  return FE_TONEAREST;
}

void choose_multiply(MmaTile& tile) {
  const bool bytes = tile.bytes_as_halves;
  if (tile.d_type == Accumulator::f16 || tile.d_type == Accumulator::f32) {
    const ElementFormat a = bytes ? ElementFormat::f16 : tile.a_format, b = bytes ? ElementFormat::f16 : tile.b_format;
    tile.sum = sum_of(a, b, tile.d_type == Accumulator::f16 ? SumResult::odd : SumResult::f32);
  }
  tile.multiply = tile.scale_count != 0                                                ? multiply_scaled_tile
                  : bytes                                                              ? multiply_bytes_tile
                  : tile.quad_pairs                                                    ? multiply_quad_pair_tile
                  : tile.d_type == Accumulator::f64                                    ? multiply_double_tile
                  : tile.single_bits                                                   ? multiply_bit_tile
                  : tile.d_type == Accumulator::s32                                    ? multiply_integer_tile
                  : tile.d_type == Accumulator::f16 || tile.c_type == Accumulator::f16 ? multiply_half_tile
                                                                                       : multiply_f32_tile;
}

LaneMask gather_warp(Fragment& fragment, LaneMask mask, const char* name) {
  mask = converge_warp(fragment, mask);
  if (mask == 0 || mask == kAllLanes) return mask;
  throw Fault(FaultKind::illegal_instruction,
              fmt::format("{} is executed by {} of 32 threads", name, std::popcount(mask)),
              {"the whole warp must execute it: 32 threads that have not exited"});
}

}  // namespace stagecraft::emulator::machine
