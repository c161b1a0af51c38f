// What a GEMM kernel can be compiled for, for the host to ask before a compiler does.
#pragma once

#include <cstdint>

#include "stagecraft/gemm/config.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tmem_layout.hpp"

namespace stagecraft {

/// Bytes of shared memory for barriers and the words beside them, which are not in `GemmTypes::Shared`.
inline constexpr uint32_t kGemmBarrierBytes = 1024;

namespace detail {

/// Whether `whole` is a multiple of `part`; of 0 nothing is.
constexpr bool divides(int part, int whole) { return part > 0 && whole % part == 0; }

/// Whether clusters have two sizes.
constexpr bool has_fallback(const GemmConfig& config) { return config.fallback_m > 0 || config.fallback_n > 0; }

/// Lines of a block's tile of A or B, along the index that is not contiguous.
constexpr int lines_of(DataType type, Major major, int rows) { return major == Major::k ? rows : tile_k_of(type); }

/// Columns of an accumulator that each warp of the epilogue has.
constexpr int columns_of_warp(const GemmConfig& config) {
  return accumulator_columns(accumulator_layout(config.tile_m, config.cta_group), config.tile_n);
}

/// Columns of the sums that make one column of D.
constexpr int columns_per_result(const GemmConfig& config) { return config.epilogue == GemmEpilogue::gated ? 2 : 1; }

/// Bytes that a warp has of a row of D.
constexpr int row_bytes_of_warp(const GemmConfig& config) {
  return columns_of_warp(config) / columns_per_result(config) * bits_of(config.d) / 8;
}

/// Columns of the sums in a slice, as `Slices::sums`.
constexpr int columns_of_slice(const GemmConfig& config) {
  const int line = static_cast<int>(swizzle_span(widest_swizzle(row_bytes_of_warp(config))));
  const int sums = line * 8 / bits_of(config.d) * columns_per_result(config);
  return sums < 128 ? sums : 128;
}

/// Bytes of shared memory that the epilogue takes, `GemmTypes::EpilogueStorage`: slices of D and of a second output,
/// two for each of four warps, two stages of C, and eight of A's f32 scales. Without the last two, the second that is
/// absent takes a byte at the end, and so as many as the alignment.
constexpr int epilogue_bytes(const GemmConfig& config) {
  const bool copies_second = copies_second_output(config), loads_c = copies_c(config);
  const int block_rows = config.tile_m / config.cta_group, bits_of_second = bits_of(companion_of(config.d));
  const int rows = accumulator_layout(config.tile_m, config.cta_group) == AccumulatorLayout::f ? 16 : 32;
  const int halves = config.tile_n / columns_of_warp(config), sums = columns_of_slice(config);
  int bytes = 8 * rows * sums / columns_per_result(config) * bits_of(config.d) / 8;
  if (copies_second) bytes += 8 * rows * sums * bits_of_second / 8;
  if (loads_c) bytes += 2 * halves * block_rows * sums * bits_of(config.c) / 8;
  if (is_blockwise(config.a)) bytes += 8 * (((block_rows + (config.groups ? 4 : 0)) * 4 + 127) / 128 * 128);
  if (is_blockwise(config.a) || loads_c) return bytes;
  const auto alignment = [](int line) { return static_cast<int>(tile_alignment(widest_swizzle(line))); };
  const int of_d = alignment(sums / columns_per_result(config) * bits_of(config.d) / 8);
  const int of_second = copies_second ? alignment(sums * bits_of_second / 8) : 0;
  return bytes + (of_d > of_second ? of_d : of_second);
}

/// Scale factors of A, and of B, for each row and k-tile of block-scaled operands.
constexpr int scale_factors_of_row(const GemmConfig& config) { return tile_k_of(config.a) / scale_block_of(config.a); }

/// Rows of scale factors of A and B in a k-tile, in whole atoms of 128.
constexpr int scale_factor_rows_of(const GemmConfig& config) {
  const int common = (config.tile_n & -config.tile_n) < 128 ? config.tile_n & -config.tile_n : 128;
  return 128 + (128 - common + config.tile_n + 127) / 128 * 128;
}

/// Bytes of shared memory that a stage of operands takes.
constexpr int stage_bytes(const GemmConfig& config) {
  int bytes = (config.tile_m + config.tile_n) / config.cta_group * 128;
  if (is_block_scaled(config.a)) bytes += scale_factor_rows_of(config) * scale_factors_of_row(config);
  return (config.k_group * bytes + 1023) / 1024 * 1024;
}

/// Stages that fit in shared memory.
constexpr int stages_that_fit(const GemmConfig& config) {
  const int left = static_cast<int>(kSharedBytesPerBlock - kGemmBarrierBytes) - epilogue_bytes(config);
  return left < 0 ? 0 : left / stage_bytes(config);
}

/// Stages of the ring of operands.
constexpr int stages_of(const GemmConfig& config) {
  if (config.stages > 0) return config.stages;
  return stages_that_fit(config) < 12 ? stages_that_fit(config) : 12;
}

/// Columns of tensor memory that accumulators and scale factors take.
constexpr int tmem_columns_of(const GemmConfig& config) {
  const int sums = config.accumulators * columns_of_warp(config);
  if (!is_block_scaled(config.a)) return sums;
  return sums +
         stages_of(config) * config.k_group * scale_factor_rows_of(config) / 32 * scale_factors_of_row(config) / 4;
}

}  // namespace detail

/// Why no kernel can be compiled for a configuration, in the words of its members; null if one can.
constexpr const char* why_illegal(const GemmConfig& config) {
#define STAGECRAFT_GEMM_RULE(condition, text) \
  if (!(condition)) return text;
#include "stagecraft/gemm/rules.inc"
#undef STAGECRAFT_GEMM_RULE
  return nullptr;
}

}  // namespace stagecraft
