// What one tcgen05.mma computes: its kind, its shape, the formats of its operands. The tensor core takes it as a word
// of bit fields, the instruction descriptor; here every field has its name, and an MMA that does not exist does not
// compile.
#pragma once

#include <cstdint>

#include "stagecraft/tile.hpp"

namespace stagecraft {

/// The kinds of `tcgen05.mma`, which say what sorts of operands it takes. The last three scale blocks of 16 or 32
/// elements along K by factors in tensor memory. Source: PTX ISA, "tcgen05.mma" (.kind).
enum class MmaKind : uint8_t {
  f16,       ///< f16, bf16
  tf32,      ///< tf32
  f8f6f4,    ///< e4m3, e5m2, e2m3, e3m2, e2m1, in any mixture
  mxf8f6f4,  ///< the same, scaled by blocks of 32
  mxf4,      ///< e2m1, scaled by blocks of 32
  mxf4nvf4,  ///< e2m1, scaled by blocks of 32 or 16
};

/// Formats of operands. Those of 6 bits, and e2m1 in other kinds than mxf4 and mxf4nvf4, need shared memory in which 16
/// elements take 16 bytes; Tile has no such form.
enum class ElementFormat : uint8_t { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1 };

/// What the tensor core sums in. f16 only with f16 operands, and of kind f8f6f4.
enum class AccumulatorFormat : uint8_t { f16 = 0, f32 = 1 };

/// Formats of scale factors: powers of two, or small positive floats. The numbers are those of the descriptor.
enum class ScaleFormat : uint8_t { ue4m3 = 0, ue8m0 = 1 };

/// What one `tcgen05.mma` computes: D[m x n] = A[m x k] * B[n x k] transposed (+ D).
///
/// Source: PTX ISA, "Tensorcore 5th Generation Instructions: instruction descriptor".
struct Mma {
  MmaKind kind = MmaKind::f16;            ///< what sorts of operands
  int m = 0;                              ///< rows of D: 64 or 128; of a pair of blocks 128 or 256
  int n = 0;                              ///< columns of D: 8 to 256, a multiple of 8 or more, see below
  ElementFormat a = ElementFormat::bf16;  ///< format of A's elements
  ElementFormat b = ElementFormat::bf16;  ///< format of B's elements
  AccumulatorFormat accumulator = AccumulatorFormat::f32;  ///< format of D's elements
  Major a_major = Major::k;                                ///< layout of A in shared memory
  Major b_major = Major::k;                                ///< layout of B in shared memory
  bool negate_a = false;                                   ///< A's elements change their sign
  bool negate_b = false;                                   ///< B's elements change their sign
  int cta_group = 1;                                       ///< blocks that compute together: 1 or 2
  int scale_block = 32;                                    ///< elements along K that share a scale factor
  ScaleFormat scale_format = ScaleFormat::ue8m0;           ///< format of the scale factors
  int sfa_id = 0;                                          ///< first byte of a cell that holds A's scale factors
  int sfb_id = 0;                                          ///< the same of B's

  /// Products summed per element by one instruction: 32 bytes of each operand row.
  __host__ __device__ constexpr int k() const {
    switch (kind) {
      case MmaKind::f16: return 16;
      case MmaKind::tf32: return 8;
      case MmaKind::f8f6f4:
      case MmaKind::mxf8f6f4: return 32;
      default: return 64;
    }
  }

  /// Whether its kind multiplies by scale factors.
  __host__ __device__ constexpr bool is_scaled() const {
    return kind == MmaKind::mxf8f6f4 || kind == MmaKind::mxf4 || kind == MmaKind::mxf4nvf4;
  }
};

namespace detail {

/// The number by which the descriptor knows a format, which depends on the kind; -1 for one that the kind does not
/// have.
__host__ __device__ constexpr int format_code(MmaKind kind, ElementFormat format) {
  switch (kind) {
    case MmaKind::f16: return format == ElementFormat::f16 ? 0 : format == ElementFormat::bf16 ? 1 : -1;
    case MmaKind::tf32: return format == ElementFormat::tf32 ? 2 : -1;
    case MmaKind::f8f6f4:
    case MmaKind::mxf8f6f4:
      switch (format) {
        case ElementFormat::e4m3: return 0;
        case ElementFormat::e5m2: return 1;
        case ElementFormat::e2m3: return 3;
        case ElementFormat::e3m2: return 4;
        case ElementFormat::e2m1: return 5;
        default: return -1;
      }
    default: return format == ElementFormat::e2m1 ? 1 : -1;
  }
}

/// Whether a format may have M or N contiguous: true for formats of whole bytes.
__host__ __device__ constexpr bool may_be_mn_major(ElementFormat format) {
  return format != ElementFormat::e2m3 && format != ElementFormat::e3m2 && format != ElementFormat::e2m1;
}

__host__ __device__ constexpr bool is_8_bit(ElementFormat format) {
  return format == ElementFormat::e4m3 || format == ElementFormat::e5m2;
}

/// What N must be a multiple of.
__host__ __device__ constexpr int granularity_of_n(const Mma& mma) {
  const int of_transposed_bytes = mma.b_major == Major::mn && is_8_bit(mma.b) ? 16 * mma.cta_group : 0;
  const int of_shape = mma.cta_group == 2 || (mma.m == 128 && !mma.is_scaled()) ? 16 : 8;
  return of_transposed_bytes > of_shape ? of_transposed_bytes : of_shape;
}

/// Whether a scale factor id is one that the kind has: the scale factors of one instruction must fit in the cell.
__host__ __device__ constexpr bool is_legal_scale_id(const Mma& mma, int id) {
  if (mma.kind == MmaKind::mxf8f6f4) return id >= 0 && id <= 3;
  return mma.scale_block == 32 ? id == 0 || id == 2 : id == 0;
}

}  // namespace detail

/// The word that says to `tcgen05.mma` what to compute. An MMA that the tensor core does not have does not compile.
///
/// Source: PTX ISA, "Tensorcore 5th Generation Instructions: instruction descriptor". Where M is 128, the manual and
/// CUTLASS (cute/arch/mma_sm100_umma.hpp) also have steps of 8 in N, the latter not for A in tensor memory; here they
/// are of 16.
template <Mma Instruction>
consteval uint32_t instruction_descriptor() {
  constexpr Mma mma = Instruction;
  constexpr int a_code = detail::format_code(mma.kind, mma.a);
  constexpr int b_code = detail::format_code(mma.kind, mma.b);
  static_assert(mma.cta_group == 1 || mma.cta_group == 2, "tcgen05.mma: cta_group must be 1 or 2, a block or a pair");
  if constexpr (mma.is_scaled()) {
    static_assert(mma.cta_group == 2 || mma.m == 128, "block-scaled tcgen05.mma of one CTA: M must be 128");
  } else {
    static_assert(mma.cta_group == 2 || mma.m == 64 || mma.m == 128, "tcgen05.mma of one CTA: M must be 64 or 128");
  }
  static_assert(mma.cta_group == 1 || mma.m == 128 || mma.m == 256,
                "tcgen05.mma of a pair of CTAs: M must be 128 or 256");
  if constexpr (mma.cta_group == 1) {
    static_assert(mma.n >= 8 && mma.n <= 256 && mma.n % (detail::granularity_of_n(mma) == 16 ? 16 : 8) == 0,
                  "tcgen05.mma of one CTA: N must be 16, 32, ..., 256 for M = 128 and 8, 16, ..., 256 for M = 64; 8, "
                  "16, ..., 256 if block-scaled; and 16, 32, ..., 256 where B is of 8-bit elements contiguous along N");
  } else {
    static_assert(mma.n >= 16 && mma.n <= 256 && mma.n % detail::granularity_of_n(mma) == 0,
                  "tcgen05.mma of a pair of CTAs: N must be 16, 32, ..., 256; and 32, 64, ..., 256 where B is of 8-bit "
                  "elements contiguous along N");
  }
  static_assert(a_code >= 0 && b_code >= 0,
                "tcgen05.mma: A and B must be of formats that the kind has: f16 and bf16 for kind f16, tf32 for tf32, "
                "e4m3, e5m2, e2m3, e3m2 and e2m1 for f8f6f4 and mxf8f6f4, e2m1 for mxf4 and mxf4nvf4");
  static_assert(mma.accumulator == AccumulatorFormat::f32 || mma.kind == MmaKind::f8f6f4 ||
                    (mma.a == ElementFormat::f16 && mma.b == ElementFormat::f16),
                "tcgen05.mma: an f16 accumulator needs f16 operands or kind f8f6f4; bf16 sums in f32, and so do tf32 "
                "and the block-scaled kinds");
  static_assert((mma.a_major == Major::k || detail::may_be_mn_major(mma.a)) &&
                    (mma.b_major == Major::k || detail::may_be_mn_major(mma.b)),
                "tcgen05.mma: operands of 4- and 6-bit elements must be contiguous along K (Major::k)");
  constexpr uint32_t common = uint32_t(a_code) << 7 | uint32_t(b_code) << 10 | uint32_t(mma.negate_a) << 13 |
                              uint32_t(mma.negate_b) << 14 | uint32_t(mma.a_major) << 15 | uint32_t(mma.b_major) << 16 |
                              uint32_t(mma.n / 8) << 17 | uint32_t(mma.m / 16) << 24;
  if constexpr (mma.is_scaled()) {
    static_assert(mma.scale_block == 32 || (mma.scale_block == 16 && mma.kind == MmaKind::mxf4nvf4),
                  "tcgen05.mma: scale factors are for blocks of 32 elements along K; with kind mxf4nvf4 also of 16");
    static_assert(mma.scale_format == ScaleFormat::ue8m0 || (mma.kind == MmaKind::mxf4nvf4 && mma.scale_block == 16),
                  "tcgen05.mma: scale factors are ue8m0; with kind mxf4nvf4 and blocks of 16 also ue4m3");
    static_assert(detail::is_legal_scale_id(mma, mma.sfa_id) && detail::is_legal_scale_id(mma, mma.sfb_id),
                  "tcgen05.mma: sfa_id and sfb_id must be 0 to 3 for kind mxf8f6f4, 0 or 2 for blocks of 32 of the "
                  "4-bit kinds, and 0 for blocks of 16");
    return common | uint32_t(mma.sfb_id) << 4 | uint32_t(mma.scale_format) << 23 | uint32_t(mma.sfa_id) << 29;
  } else {
    static_assert(mma.sfa_id == 0 && mma.sfb_id == 0,
                  "tcgen05.mma: only the kinds mxf8f6f4, mxf4 and mxf4nvf4 have scale factors");
    return common | uint32_t(mma.accumulator) << 4;
  }
}

/// The same MMA with scale factors from other bytes of their cells: the next slice along K.
/// @param descriptor      of a block-scaled kind.
/// @param sfa_id, sfb_id  as in Mma.
__host__ __device__ constexpr uint32_t with_scale_factor_ids(uint32_t descriptor, uint32_t sfa_id, uint32_t sfb_id) {
  constexpr uint32_t kIds = 3u << 29 | 3u << 4;
  return (descriptor & ~kIds) | sfa_id << 29 | sfb_id << 4;
}

// ---- From tiles -----------------------------------------------------------------------------------------------------

/// The format of an element type as an operand.
template <TileElement Element>
consteval ElementFormat element_format() {
  using detail::is_one_of;
  static_assert(is_one_of<Element, __half, __nv_bfloat16, tf32, __nv_fp8_e4m3, __nv_fp8_e5m2, __nv_fp4_e2m1>,
                "tcgen05.mma: operands must be of __half, __nv_bfloat16, tf32, __nv_fp8_e4m3, __nv_fp8_e5m2 or "
                "__nv_fp4_e2m1; a matrix of float is multiplied as tf32");
  if constexpr (is_one_of<Element, __half>) return ElementFormat::f16;
  if constexpr (is_one_of<Element, __nv_bfloat16>) return ElementFormat::bf16;
  if constexpr (is_one_of<Element, tf32>) return ElementFormat::tf32;
  if constexpr (is_one_of<Element, __nv_fp8_e4m3>) return ElementFormat::e4m3;
  if constexpr (is_one_of<Element, __nv_fp8_e5m2>) return ElementFormat::e5m2;
  return ElementFormat::e2m1;
}

namespace detail {

/// The kind of MMA without scale factors that takes a format.
__host__ __device__ constexpr MmaKind dense_kind(ElementFormat format) {
  switch (format) {
    case ElementFormat::f16:
    case ElementFormat::bf16: return MmaKind::f16;
    case ElementFormat::tf32: return MmaKind::tf32;
    default: return MmaKind::f8f6f4;
  }
}

}  // namespace detail

/// The MMA that multiplies a tile of A with a tile of B: its kind, shape, formats and majors are theirs.
/// @tparam CtaGroup  with 2, each block of the pair holds half the rows of A and half those of B.
template <typename ATile, typename BTile, int CtaGroup = 1>
consteval Mma mma_of() {
  constexpr ElementFormat a = element_format<typename ATile::element_type>();
  constexpr ElementFormat b = element_format<typename BTile::element_type>();
  static_assert(ATile::columns == BTile::columns,
                "tcgen05.mma: the tiles of A and of B must have equally many columns, along K");
  static_assert(detail::dense_kind(a) == detail::dense_kind(b),
                "tcgen05.mma: A and B must be of one kind: both of 16 bits, both tf32, or both of 8 bits or less");
  static_assert(a != ElementFormat::e2m1 && b != ElementFormat::e2m1,
                "tcgen05.mma: packed __nv_fp4_e2m1 is for the block-scaled kinds: name the tile of scale factors too");
  return {.kind = detail::dense_kind(a),
          .m = ATile::rows * CtaGroup,
          .n = BTile::rows * CtaGroup,
          .a = a,
          .b = b,
          .a_major = ATile::major,
          .b_major = BTile::major,
          .cta_group = CtaGroup};
}

/// The block-scaled MMA that multiplies a tile of A with a tile of B, scaled by factors as in `SfaTile`.
template <typename ATile, typename BTile, typename SfaTile, int CtaGroup = 1>
consteval Mma scaled_mma_of() {
  constexpr ElementFormat a = element_format<typename ATile::element_type>();
  constexpr ElementFormat b = element_format<typename BTile::element_type>();
  constexpr bool ue4m3 = std::same_as<typename SfaTile::element_type, __nv_fp8_e4m3>;
  constexpr int block = ATile::columns / SfaTile::columns;
  static_assert(ATile::columns == BTile::columns,
                "tcgen05.mma: the tiles of A and of B must have equally many columns, along K");
  static_assert((a == ElementFormat::e2m1) == (b == ElementFormat::e2m1),
                "block-scaled tcgen05.mma: A and B must both be of 8 bits, or both packed __nv_fp4_e2m1");
  static_assert(ATile::columns % SfaTile::columns == 0 && (block == 32 || block == 16),
                "block-scaled tcgen05.mma: a scale factor is for 32 elements along K, or 16 of kind mxf4nvf4: the tile "
                "of scale factors must have a 32nd or a 16th of the columns of A");
  return {.kind = a != ElementFormat::e2m1 ? MmaKind::mxf8f6f4
                  : block == 32            ? MmaKind::mxf4
                                           : MmaKind::mxf4nvf4,
          .m = ATile::rows * CtaGroup,
          .n = BTile::rows * CtaGroup,
          .a = a,
          .b = b,
          .a_major = ATile::major,
          .b_major = BTile::major,
          .cta_group = CtaGroup,
          .scale_block = block,
          .scale_format = ue4m3 ? ScaleFormat::ue4m3 : ScaleFormat::ue8m0};
}

}  // namespace stagecraft
