// mma.sync with scale factors, which chips of compute capability 12.x have.
//
// A word of scale factors has those of one row of A, or of one column of B. That of row r of A is in lane 4 * (r % 8) +
// r / 8 + 2 * thread-id-a, that of column n of B in lane 4 * n + thread-id-b. Its bytes from byte-id on are for equal
// parts of K, one after another. The sums are those of tcgen05 (scaled_sum.hpp): MMA-Sim has one model for both chips.
// Sources: PTX ISA 9.0, "Block Scaling for mma.sync"; CUTLASS, cute/atom/mma_traits_sm120.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/scaled_sum.hpp"
#include "emulator/engines/tensor_core/warp_mma/mma_tile.hpp"
#include "emulator/engines/tensor_core/warp_mma/tile_operands.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fault.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr uint32_t kTileGroups = kScaledGroups;

std::string spell_legal(uint32_t step, uint32_t most) {
  return most == 0 ? "legal is 0" : step == 2 ? "legal are 0 and 2" : fmt::format("legal is 0 to {}", most);
}

// Reads a selector. ptxas moves it to a uniform register, of which a warp has one.
uint32_t read_selector(const Fragment& fragment, RegisterOffset offset, const char* name, uint32_t step,
                       uint32_t most) {
  const uint16_t* const lanes = lanes_at<uint16_t>(fragment.registers, offset);
  const auto* const other = std::find_if(lanes, lanes + kWarpSize, [&](uint16_t each) { return each != lanes[0]; });
  if (other != lanes + kWarpSize) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("{} is {} in lane 0 and {} in lane {}; it must be the same in the whole warp", name,
                            lanes[0], *other, other - lanes));
  }
  if (lanes[0] > most || lanes[0] % step != 0) {
    throw Fault(FaultKind::illegal_instruction, fmt::format("{} is {}", name, lanes[0]), {spell_legal(step, most)});
  }
  return lanes[0];
}

using FactorTable = std::array<ScaledFactor, 256>;

// Returns the factors of all codes.
const FactorTable& factors_of(bool ue4m3) {
  const auto make = [](float (*value_of)(uint32_t), int least) {
    FactorTable table;
    for (uint32_t code = 0; code < table.size(); ++code) table[code] = factor_of(value_of(code), least);
    return table;
  };
  static const FactorTable of_ue8m0 = make(from_ue8m0, kLeastUe8m0), of_ue4m3 = make(from_ue4m3, kLeastUe4m3);
  return ue4m3 ? of_ue4m3 : of_ue8m0;
}

/// The scale factors of A or B.
struct WarpScales {
  std::array<std::array<ScaledFactor, kTileGroups>, kFragmentRows> factors;  ///< [row][group]
  std::array<uint32_t, kFragmentRows> lanes;                                 ///< that have their words
  uint32_t first_byte = 0, rows = 0, groups = 0;

  uint32_t byte_of(const MmaTile& tile, uint32_t group) const { return first_byte + group * tile.scale_count / groups; }
};

// Reads the scale factors of an operand; `lane_of(row, thread_id)` is the lane that has the word of a row.
template <typename LaneOf>
WarpScales read_scales(const Fragment& fragment, const MmaTile& tile, const TileScales& from, const char* byte_id,
                       const char* thread_id, uint32_t threads, uint32_t rows, LaneOf lane_of) {
  WarpScales scales;
  scales.first_byte = read_selector(fragment, from.byte_id, byte_id, tile.scale_count, 4 - tile.scale_count);
  scales.rows = rows;
  scales.groups = tile.scale_count == 1 ? 1 : kTileGroups;
  const uint32_t thread = read_selector(fragment, from.thread_id, thread_id, 1, threads - 1);
  const uint32_t* const words = lanes_at<uint32_t>(fragment.registers, from.words);
  const FactorTable& table = factors_of(tile.scales_ue4m3);
  for (uint32_t row = 0; row < rows; ++row) {
    scales.lanes[row] = lane_of(row, thread);
    for (uint32_t group = 0; group < scales.groups; ++group) {
      const uint32_t code = words[scales.lanes[row]] >> 8 * scales.byte_of(tile, group) & 0xff;
      scales.factors[row][group] = table[code];
    }
  }
  return scales;
}

// Announces rows that are multiplied by NaN, except where they are zeros, as padding is.
void announce_nan_factors(const Fragment& fragment, const MmaTile& tile, char operand, const TileScales& from,
                          const WarpScales& scales, const float* values, uint32_t depth) {
  const uint32_t* const words = lanes_at<uint32_t>(fragment.registers, from.words);
  NanScales found{.block = &fragment.block(),
                  .warp = fragment.warp->index,
                  .lane = 0,
                  .pc = fragment.pc,
                  .operand = operand,
                  .ue4m3 = tile.scales_ue4m3,
                  .code = 0,
                  .first = 0,
                  .last = 0,
                  .in_registers = true};
  const auto is_used = [&](uint32_t row, uint32_t group) {
    if (!std::isnan(scales.factors[row][group].significand)) return false;
    for (uint32_t k = group * depth / scales.groups; k < (group + 1) * depth / scales.groups; ++k) {
      if (values[k * scales.rows + row] != 0) return true;
    }
    return false;
  };
  for (uint32_t row = 0; row < scales.rows; ++row) {
    for (uint32_t group = 0; group < scales.groups; ++group) {
      if (!is_used(row, group)) continue;
      if (found.count++ == 0) {
        const uint32_t word = words[scales.lanes[row]];
        found.lane = scales.lanes[row];
        found.column = scales.byte_of(tile, group);
        found.code = static_cast<uint8_t>(word >> 8 * found.column);
        found.first = row;
        found.all_ones = word == UINT32_MAX;
      }
      found.last = row;
      break;
    }
  }
  if (found.count == 0) return;
  for (Observer* observer : fragment.grid().memory_observers) observer->nan_scales_used(found);
}

// Adds one product after another, in doubles.
void multiply_scaled_plain(const TileOperands& operands, const WarpScales& a, const WarpScales& b, float* d) {
  const auto scaled = [](const ScaledFactor& factor) { return std::ldexp(factor.significand, factor.exponent); };
  for (uint32_t n = 0; n < kFragmentColumns; ++n) {
    for (uint32_t m = 0; m < kFragmentRows; ++m) {
      double sum = d[n * kFragmentRows + m];
      for (uint32_t k = 0; k < operands.depth; ++k) {
        const uint32_t group = k * a.groups / operands.depth;
        sum += double{operands.rows[k * kFragmentRows + m]} * double{operands.columns[k * kFragmentColumns + n]} *
               scaled(a.factors[m][group]) * scaled(b.factors[n][group]);
      }
      d[n * kFragmentRows + m] = static_cast<float>(sum);
    }
  }
}

// Adds as scaled_sum.hpp says.
void multiply_scaled_fused(const MmaTile& tile, const TileOperands& operands, const WarpScales& a, const WarpScales& b,
                           float* d) {
  const uint32_t groups = a.groups;
  TilePanels panels(operands, 0, operands.depth, d);
  int32_t a_exponents[kTileGroups * kPanelLanes], b_exponents[kFragmentColumns * kTileGroups];
  float a_significands[kTileGroups * kPanelLanes], b_significands[kFragmentColumns * kTileGroups];
  const auto exponent_of = [](const ScaledFactor& factor) {
    return std::isnan(factor.significand) ? kNoScale : factor.exponent;
  };
  const auto significand_of = [](const ScaledFactor& factor) {
    return std::isnan(factor.significand) ? 0.0f : static_cast<float>(factor.significand);
  };
  for (uint32_t group = 0; group < groups; ++group) {
    for (uint32_t m = 0; m < TilePanels::kRows; ++m) {
      const ScaledFactor factor = m < kFragmentRows ? a.factors[m][group] : ScaledFactor{1, 0};
      a_exponents[group * kPanelLanes + m] = exponent_of(factor);
      a_significands[group * kPanelLanes + m] = significand_of(factor);
    }
    for (uint32_t n = 0; n < kFragmentColumns; ++n) {
      b_exponents[n * groups + group] = exponent_of(b.factors[n][group]);
      b_significands[n * groups + group] = significand_of(b.factors[n][group]);
    }
  }
  panel_kernels().multiply_scaled(panels.d, panels.a, panels.b, panels.shape(tile.sum),
                                  {groups, a_exponents, b_exponents, a_significands, b_significands});
  panels.store(d);
}

}  // namespace

void multiply_scaled_tile(Fragment& fragment, const MmaTile& tile) {
  const WarpScales a = read_scales(fragment, tile, tile.a_scales, "byte-id-a", "thread-id-a", 2, kFragmentRows,
                                   [](uint32_t row, uint32_t thread) { return 4 * (row % 8) + row / 8 + 2 * thread; });
  const WarpScales b = read_scales(fragment, tile, tile.b_scales, "byte-id-b", "thread-id-b", 4, kFragmentColumns,
                                   [](uint32_t column, uint32_t thread) { return 4 * column + thread; });
  Pieces pieces;
  gather(fragment, tile, pieces);
  TileOperands operands;
  decode(tile, pieces, operands);
  if (observes_memory(fragment)) {
    announce_nan_factors(fragment, tile, 'A', tile.a_scales, a, operands.rows, operands.depth);
    announce_nan_factors(fragment, tile, 'B', tile.b_scales, b, operands.columns, operands.depth);
  }
  TileWords words = load_words(fragment, tile);
  float* const d = reinterpret_cast<float*>(words.data());
  if (tile.sum.fraction_bits == 0) {
    multiply_scaled_plain(operands, a, b, d);
  } else {
    multiply_scaled_fused(tile, operands, a, b, d);
  }
  store_words(fragment, tile, words);
}

}  // namespace stagecraft::emulator::machine
