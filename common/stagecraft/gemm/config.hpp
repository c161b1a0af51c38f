// What a GEMM kernel is compiled for: one structure of options. rules.inc says what is legal, and types.hpp what
// follows from it.
#pragma once

#include <cstdint>

#include "stagecraft/tile.hpp"

namespace stagecraft {

/// The types of matrices, as a user names them. A tf32 operand is a matrix of floats.
///
/// mxfp8, mxfp4 and nvfp4 are block-scaled: elements of few bits, and a scale factor for 32 or 16 of them along K,
/// which the tensor core applies; see BlockScaledType. fp8_blockwise is e4m3 with f32 scales, which it cannot apply: A
/// has one for 128 elements along K, B one for 128 x 128.
enum class DataType : uint8_t { bf16, f16, tf32, e4m3, e5m2, f32, mxfp8, mxfp4, nvfp4, fp8_blockwise };

/// Which operations on the sums are compiled in, besides alpha. Those of `full` are chosen and left out per launch.
enum class GemmEpilogue : uint8_t {
  plain,  ///< none
  full,   ///< scales of rows and columns, bias, second output, activation, absolute maximum, scale of D
  gated,  ///< the same with a gated activation, which makes one column of D of two
};

/// What one GEMM kernel is compiled for. It is a template argument: `GemmTypes<GemmConfig{.tile_n = 256}>`.
///
/// D (m x n) = A (m x k) * B (n x k) transposed, with sums in f32 and an epilogue, for each of a batch of them.
struct GemmConfig {
  DataType a = DataType::bf16;  ///< elements of A
  DataType b = DataType::bf16;  ///< elements of B: A's type; or e4m3 with e5m2
  DataType d = DataType::bf16;  ///< elements of the result: f32, bf16, f16, e4m3, or a block-scaled type
  Major a_major = Major::k;     ///< which index of A is contiguous in memory
  Major b_major = Major::k;     ///< which index of B is contiguous in memory
  int tile_m = 128;             ///< rows of the tile of D that one MMA sums: 64 or 128, of a pair of blocks 128 or 256
  int tile_n = 128;             ///< its columns: 16, 32, ..., 256
  int k_group = 1;              ///< k-tiles that share a stage, and so its barriers
  int accumulators = 2;         ///< tiles of D in tensor memory: with 2, one is summed while another is stored
  int stages = 0;               ///< stages of the ring of operands; 0: as many as fit, at most 12
  int cta_group = 1;            ///< blocks whose tensor cores work together: 2 is a pair
  int cluster_m = 1;            ///< blocks of a cluster along M, which share tiles of B; even for pairs
  int cluster_n = 1;            ///< blocks of a cluster along N, which share tiles of A
  int fallback_m = 0;           ///< the same of a smaller cluster, for multiprocessors where no such cluster fits:
  int fallback_n = 0;           ///< each divides its counterpart. 0 and 0: all clusters have the same size
  bool launch_control = false;  ///< tiles are dealt out by cluster launch control, not before the launch
  bool divides_k = false;       ///< several blocks may compute pieces of a tile along K
  GemmEpilogue epilogue = GemmEpilogue::plain;  ///< what happens to the sums
  bool groups = false;                          ///< D's rows are in groups, each of its own size, with a B for each
  bool transposes_d = false;      ///< the sums are those of D transposed: A and B are exchanged, because D has few rows
  bool adds_c = false;            ///< beta * C is added; with epilogue full or gated
  DataType c = DataType::bf16;    ///< elements of C, where it is added: f32, bf16 or f16
  DataType bias = DataType::f32;  ///< elements of the bias: f32, bf16 or f16
  bool device_factors = false;    ///< alpha, beta and scales may be in device memory; with epilogue full or gated
  bool gathers_c = false;         ///< the epilogue's threads read C: its rows begin off 16-byte boundaries

  /// The same kernel.
  bool operator==(const GemmConfig&) const = default;
};

// ---- Types ----------------------------------------------------------------------------------------------------------

/// Bits of an element.
constexpr int bits_of(DataType type) {
  switch (type) {
    case DataType::tf32:
    case DataType::f32: return 32;
    case DataType::bf16:
    case DataType::f16: return 16;
    case DataType::mxfp4:
    case DataType::nvfp4: return 4;
    default: return 8;
  }
}

/// Whether elements have scale factors in blocks along K, as the tensor core takes them.
constexpr bool is_block_scaled(DataType type) {
  return type == DataType::mxfp8 || type == DataType::mxfp4 || type == DataType::nvfp4;
}

/// Whether elements have f32 scales in blocks along K, by which the epilogue's warps multiply the sums of each k-tile.
constexpr bool is_blockwise(DataType type) { return type == DataType::fp8_blockwise; }

/// Whether elements come with scales for blocks along K, of either kind.
constexpr bool has_scale_factors(DataType type) { return is_block_scaled(type) || is_blockwise(type); }

/// Elements along K that share a scale factor.
constexpr int scale_block_of(DataType type) {
  if (is_blockwise(type)) return 128;
  return type == DataType::nvfp4 ? 16 : 32;
}

/// Whether one tensor core instruction multiplies elements of the two types: equal ones, or any two of 8 bits.
constexpr bool can_multiply(DataType a, DataType b) {
  if (a == DataType::f32 || b == DataType::f32) return false;
  return a == b || (bits_of(a) == 8 && bits_of(b) == 8 && !has_scale_factors(a) && !has_scale_factors(b));
}

/// Whether D can be of this type.
constexpr bool can_store(DataType d) {
  return d == DataType::f32 || d == DataType::bf16 || d == DataType::f16 || d == DataType::e4m3 || is_block_scaled(d);
}

/// The type of the second output, and of C where nobody says: D's, or bf16 where D has 8 bits or fewer, because those
/// need a scale of their own.
constexpr DataType companion_of(DataType d) { return bits_of(d) <= 8 ? DataType::bf16 : d; }

/// Whether C, or a bias, can be of this type.
constexpr bool can_add(DataType type) {
  return type == DataType::f32 || type == DataType::bf16 || type == DataType::f16;
}

/// Whether TMA brings C.
constexpr bool copies_c(const GemmConfig& config) { return config.adds_c && !config.transposes_d && !config.gathers_c; }

/// Whether TMA stores the second output. It cannot where a group's rows end inside of a tile.
constexpr bool copies_second_output(const GemmConfig& config) {
  return config.epilogue == GemmEpilogue::full && !config.groups && !config.transposes_d;
}

/// The swizzle of an operand's tiles: the widest of which `rows` (along M or N) fill whole lines. Along K there are
/// always 128 bytes. Source: PTX ISA, "Shared memory layout and swizzling" (tf32 contiguous along M or N has one only).
constexpr Swizzle operand_swizzle(DataType type, Major major, int rows) {
  if (major == Major::k) return Swizzle::bytes_128;
  if (type == DataType::tf32) return Swizzle::bytes_128_atom_32;
  const int bytes = rows * bits_of(type) / 8;
  return bytes % 128 == 0  ? Swizzle::bytes_128
         : bytes % 64 == 0 ? Swizzle::bytes_64
         : bytes % 32 == 0 ? Swizzle::bytes_32
                           : Swizzle::none;
}

/// Elements along K in a tile of an operand: 128 bytes, as wide as the widest swizzle.
constexpr int tile_k_of(DataType type) { return 128 * 8 / bits_of(type); }

}  // namespace stagecraft
