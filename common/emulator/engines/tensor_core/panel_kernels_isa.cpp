// The functions of panel_kernels.hpp. This file is compiled once per level, so nothing here may call an inline function
// of another header (host/isa_level.hpp), except the compiler's intrinsics, which are always inlined.
#include "emulator/engines/tensor_core/fused_panels.hpp"
#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/host/isa_level.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {
namespace {

// One vector of floats, and the number of columns of D that the inner loop keeps in registers.
#if STAGECRAFT_ISA_LEVEL == 4
using Vector = __m512;
constexpr uint32_t kWidth = 16, kBlockColumns = 8;
[[gnu::always_inline]] inline Vector load(const void* from) { return _mm512_loadu_ps(from); }
[[gnu::always_inline]] inline void store(void* to, Vector value) { _mm512_storeu_ps(to, value); }
[[gnu::always_inline]] inline Vector broadcast(float value) { return _mm512_set1_ps(value); }
[[gnu::always_inline]] inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
[[gnu::always_inline]] inline Vector zero() { return _mm512_setzero_ps(); }
#elif STAGECRAFT_ISA_LEVEL == 3
using Vector = __m256;
constexpr uint32_t kWidth = 8, kBlockColumns = 4;
[[gnu::always_inline]] inline Vector load(const void* from) { return _mm256_loadu_ps(static_cast<const float*>(from)); }
[[gnu::always_inline]] inline void store(void* to, Vector value) { _mm256_storeu_ps(static_cast<float*>(to), value); }
[[gnu::always_inline]] inline Vector broadcast(float value) { return _mm256_set1_ps(value); }
[[gnu::always_inline]] inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
[[gnu::always_inline]] inline Vector zero() { return _mm256_setzero_ps(); }
#else
// Four floats in the compiler's own vector type, for every processor.
typedef float Vector __attribute__((vector_size(16), aligned(4), may_alias));
constexpr uint32_t kWidth = 4, kBlockColumns = 4;
[[gnu::always_inline]] inline Vector load(const void* from) { return *static_cast<const Vector*>(from); }
[[gnu::always_inline]] inline void store(void* to, Vector value) { *static_cast<Vector*>(to) = value; }
[[gnu::always_inline]] inline Vector broadcast(float value) { return Vector{value, value, value, value}; }
[[gnu::always_inline]] inline Vector multiply_add(Vector a, Vector b, Vector c) { return a * b + c; }
[[gnu::always_inline]] inline Vector zero() { return broadcast(0.0f); }
#endif

// What D must be so that plain sums are exact: multiples of a unit, not too large, and not -0.
struct Fit {
  Vector rounder;  ///< a sum with it is a multiple of the unit
  Vector bound;
};
#if STAGECRAFT_ISA_LEVEL == 4
using Misfits = __mmask16;
[[gnu::always_inline]] inline Misfits misfits(Vector value, const Fit& fit) {
  const Vector rounded = _mm512_sub_ps(_mm512_add_ps(value, fit.rounder), fit.rounder);
  return _mm512_cmpneq_epi32_mask(_mm512_castps_si512(rounded), _mm512_castps_si512(value)) |
         _mm512_cmp_ps_mask(_mm512_abs_ps(value), fit.bound, _CMP_NLE_UQ);
}
#else
typedef int32_t Misfits __attribute__((vector_size(4 * kWidth)));
[[gnu::always_inline]] inline Misfits misfits(Vector value, const Fit& fit) {
  typedef float Floats __attribute__((vector_size(4 * kWidth)));  // the compiler's own, for comparisons
  const Floats number = (Floats)value, rounder = (Floats)fit.rounder, bound = (Floats)fit.bound;
  const Floats rounded = (number + rounder) - rounder;
  const Floats magnitude = (Floats)((Misfits)number & INT32_MAX);
  return ((Misfits)rounded ^ (Misfits)number) | ~(magnitude <= bound);
}
#endif

[[gnu::always_inline]] inline bool any(Misfits found) {
#if STAGECRAFT_ISA_LEVEL == 4
  return found != 0;
#elif STAGECRAFT_ISA_LEVEL == 3
  return _mm256_testz_si256((__m256i)found, (__m256i)found) == 0;
#else
  return (found[0] | found[1] | found[2] | found[3]) != 0;
#endif
}

enum class Addend : uint8_t { none, any, checked };

// Multiplies two vectors of lanes by kBlockColumns columns of D, over all of K. Returns false, and does nothing, if D
// is checked and does not fit.
template <Addend kAddend>
[[gnu::always_inline]] inline bool multiply_block(float* first, float* second, const float* a, const float* b,
                                                  uint32_t depth, const Fit& fit) {
  Vector sum[kBlockColumns][2];
  Misfits found{};
  for (uint32_t n = 0; n < kBlockColumns; ++n) {
    sum[n][0] = kAddend != Addend::none ? load(first + n * kPanelLanes) : zero();
    sum[n][1] = kAddend != Addend::none ? load(second + n * kPanelLanes) : zero();
    if constexpr (kAddend == Addend::checked) {
      found |= misfits(sum[n][0], fit);
      found |= misfits(sum[n][1], fit);
    }
  }
  if (kAddend == Addend::checked && any(found)) return false;
  for (uint32_t k = 0; k < depth; ++k) {
    const Vector a0 = load(a + k * kPanelLanes);
    const Vector a1 = load(a + k * kPanelLanes + kWidth);
#pragma GCC unroll 8
    for (uint32_t n = 0; n < kBlockColumns; ++n) {
      const Vector value = broadcast(b[n * depth + k]);
      sum[n][0] = multiply_add(a0, value, sum[n][0]);
      sum[n][1] = multiply_add(a1, value, sum[n][1]);
    }
  }
  for (uint32_t n = 0; n < kBlockColumns; ++n) {
    store(first + n * kPanelLanes, sum[n][0]);
    store(second + n * kPanelLanes, sum[n][1]);
  }
  return true;
}

// Multiplies with the usual depths as constants, which turns the addresses of b into displacements. Where D does not
// fit, it does nothing and appends the part to `misfits`.
template <uint32_t kDepth>
void multiply_depth(float* d, const FusedOperands& operands, FusedPart* misfits, uint32_t& misfit_count) {
  const MultiplyShape& shape = operands.shape;
  const float* const a = operands.a;
  const uint32_t depth = kDepth != 0 ? kDepth : shape.k;
  const Fit fit{broadcast(operands.rounder), broadcast(operands.bound)};
  for (uint32_t n = 0; n < shape.n; n += kBlockColumns) {
    float* const columns = d + n * kPanelLanes;
    const float* const factors = operands.b + n * depth;
    for (uint32_t m = 0; m < shape.m; m += 2 * kWidth) {
      float* const first = columns + m + m / 16 * shape.lane_gap;
      float* const second = columns + (m + kWidth) + (m + kWidth) / 16 * shape.lane_gap;
      if (!shape.accumulate) {
        multiply_block<Addend::none>(first, second, a + m, factors, depth, fit);
      } else if (!operands.exact) {
        multiply_block<Addend::any>(first, second, a + m, factors, depth, fit);
      } else if (!multiply_block<Addend::checked>(first, second, a + m, factors, depth, fit)) {
        misfits[misfit_count++] = {static_cast<uint16_t>(m), 2 * kWidth, static_cast<uint16_t>(n), kBlockColumns};
      }
    }
  }
}

void multiply(void* d, const float* a, const float* b, const MultiplyShape& shape) {
  float* const cells = static_cast<float*>(d);
  FusedOperands operands(a, b, shape);
  if (shape.sum.fraction_bits != 0) {
    examine(operands);
    const FusedPart all{0, static_cast<uint16_t>(shape.m), 0, static_cast<uint16_t>(shape.n)};
    if (!operands.exact) return multiply_fused(operands, cells, &all, 1);
  }
  FusedPart misfits[kFusedColumns / kBlockColumns * kPanelLanes / (2 * kWidth)];
  uint32_t misfit_count = 0;
  switch (shape.k) {
    case 8: multiply_depth<8>(cells, operands, misfits, misfit_count); break;
    case 16: multiply_depth<16>(cells, operands, misfits, misfit_count); break;
    case 32: multiply_depth<32>(cells, operands, misfits, misfit_count); break;
    default: multiply_depth<0>(cells, operands, misfits, misfit_count); break;
  }
  if (misfit_count != 0) multiply_fused(operands, cells, misfits, misfit_count);
}

union Pattern {
  uint32_t bits;
  float value;
};

[[gnu::always_inline]] inline float decode_bf16(uint32_t code) { return Pattern{code << 16}.value; }

// Decodes by a product: a float with the bits of an f16 in the same fields is 2^-112 of its value, even if subnormal.
[[gnu::always_inline]] inline float decode_f16(uint32_t code) {
  const float magnitude = Pattern{(code & 0x7fff) << 13}.value * 0x1p112f;
  const uint32_t special = (code & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
  Pattern result;
  result.value = magnitude;
  result.bits |= special | (code & 0x8000) << 16;
  return result.value;
}

[[gnu::always_inline]] inline float decode_tf32(uint32_t code) { return Pattern{code & 0xffffe000u}.value; }

typedef uint16_t Halfword __attribute__((may_alias));
typedef uint32_t Word __attribute__((may_alias));

void decode(ElementFormat format, const void* elements, uint32_t count, const float* table, float* values) {
  if (format == ElementFormat::bf16) {
    const Halfword* const codes = static_cast<const Halfword*>(elements);
    for (uint32_t i = 0; i < count; ++i) values[i] = decode_bf16(codes[i]);
  } else if (format == ElementFormat::f16) {
    const Halfword* const codes = static_cast<const Halfword*>(elements);
    for (uint32_t i = 0; i < count; ++i) values[i] = decode_f16(codes[i]);
  } else if (format == ElementFormat::tf32) {
    const Word* const codes = static_cast<const Word*>(elements);
    for (uint32_t i = 0; i < count; ++i) values[i] = decode_tf32(codes[i]);
  } else if (format == ElementFormat::e2m1_packed) {
    const uint8_t* const codes = static_cast<const uint8_t*>(elements);
    for (uint32_t i = 0; i < count / 2; ++i) {
      values[2 * i] = table[codes[i] & 15];
      values[2 * i + 1] = table[codes[i] >> 4];
    }
  } else {
    const uint8_t* const codes = static_cast<const uint8_t*>(elements);
    for (uint32_t i = 0; i < count; ++i) values[i] = table[codes[i]];
  }
}

void decode_cells(ElementFormat format, const uint32_t* cells, uint32_t columns, const float* table, float* panel) {
  for (uint32_t column = 0; column < columns; ++column) {
    const uint32_t* const from = cells + column * kPanelLanes;
    if (format == ElementFormat::bf16) {
      float* const to = panel + 2 * column * kPanelLanes;
      for (uint32_t m = 0; m < kPanelLanes; ++m) to[m] = decode_bf16(from[m] & 0xffff);
      for (uint32_t m = 0; m < kPanelLanes; ++m) to[kPanelLanes + m] = decode_bf16(from[m] >> 16);
    } else if (format == ElementFormat::f16) {
      float* const to = panel + 2 * column * kPanelLanes;
      for (uint32_t m = 0; m < kPanelLanes; ++m) to[m] = decode_f16(from[m] & 0xffff);
      for (uint32_t m = 0; m < kPanelLanes; ++m) to[kPanelLanes + m] = decode_f16(from[m] >> 16);
    } else if (format == ElementFormat::tf32) {
      float* const to = panel + column * kPanelLanes;
      for (uint32_t m = 0; m < kPanelLanes; ++m) to[m] = decode_tf32(from[m]);
    } else {
      const uint32_t bits = format == ElementFormat::e2m1_packed ? 4 : 8;
      const uint32_t mask = (1u << bits) - 1;
      float* to = panel + column * (32 / bits) * kPanelLanes;
      for (uint32_t shift = 0; shift < 32; shift += bits, to += kPanelLanes) {
        for (uint32_t m = 0; m < kPanelLanes; ++m) to[m] = table[from[m] >> shift & mask];
      }
    }
  }
}

// Transposes four by four words at a time, which compilers turn into shuffles.
typedef uint32_t Quad __attribute__((vector_size(16), aligned(4), may_alias));

void transpose(const uint32_t* in, uint32_t in_stride, uint32_t rows, uint32_t columns, uint32_t* out,
               uint32_t out_stride) {
  for (uint32_t row = 0; row < rows; row += 4) {
    for (uint32_t column = 0; column < columns; column += 4) {
      const uint32_t* const from = in + row * in_stride + column;
      const Quad r0 = *reinterpret_cast<const Quad*>(from);
      const Quad r1 = *reinterpret_cast<const Quad*>(from + in_stride);
      const Quad r2 = *reinterpret_cast<const Quad*>(from + 2 * in_stride);
      const Quad r3 = *reinterpret_cast<const Quad*>(from + 3 * in_stride);
      const Quad low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
      const Quad high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
      const Quad low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
      const Quad high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
      uint32_t* const to = out + column * out_stride + row;
      *reinterpret_cast<Quad*>(to) = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
      *reinterpret_cast<Quad*>(to + out_stride) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
      *reinterpret_cast<Quad*>(to + 2 * out_stride) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
      *reinterpret_cast<Quad*>(to + 3 * out_stride) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    }
  }
}

constexpr PanelKernels kKernels{multiply, multiply_scaled, decode, decode_cells, transpose};

}  // namespace

const PanelKernels& kernels() { return kKernels; }

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
