// The functions of warp_mma_kernels.hpp. This file is compiled once per level, so nothing here may call an inline
// function of another header (host/isa_level.hpp).
#include "emulator/engines/tensor_core/warp_mma/warp_mma_kernels.hpp"
#include "emulator/host/isa_level.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {

// In fused_tile_isa.cpp.
bool multiply_fused_tile(const float* rows, const float* columns, uint32_t depth, const FusedSum& how, float* d);

namespace {

// One vector of rows.
#if STAGECRAFT_ISA_LEVEL == 4
using Vector = __m512;
constexpr uint32_t kWidth = 16;
[[gnu::always_inline]] inline Vector load(const float* from) { return _mm512_loadu_ps(from); }
[[gnu::always_inline]] inline void store(float* to, Vector value) { _mm512_storeu_ps(to, value); }
[[gnu::always_inline]] inline Vector broadcast(float value) { return _mm512_set1_ps(value); }
[[gnu::always_inline]] inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
#elif STAGECRAFT_ISA_LEVEL == 3
using Vector = __m256;
constexpr uint32_t kWidth = 8;
[[gnu::always_inline]] inline Vector load(const float* from) { return _mm256_loadu_ps(from); }
[[gnu::always_inline]] inline void store(float* to, Vector value) { _mm256_storeu_ps(to, value); }
[[gnu::always_inline]] inline Vector broadcast(float value) { return _mm256_set1_ps(value); }
[[gnu::always_inline]] inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
#else
// Four floats in the compiler's own vector type, for every processor. The products are exact, so a product and a sum
// round only once, like a fused multiply-add.
typedef float Vector __attribute__((vector_size(16), aligned(4), may_alias));
constexpr uint32_t kWidth = 4;
[[gnu::always_inline]] inline Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
[[gnu::always_inline]] inline void store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }
[[gnu::always_inline]] inline Vector broadcast(float value) { return Vector{value, value, value, value}; }
[[gnu::always_inline]] inline Vector multiply_add(Vector a, Vector b, Vector c) { return a * b + c; }
#endif

union Pattern {
  uint32_t bits;
  float value;
};

// Decodes by a product: a float with the bits of an f16 in the same fields is 2^-112 of its value, even if subnormal.
[[gnu::always_inline]] inline float decode_f16(uint32_t code) {
  const float magnitude = Pattern{(code & 0x7fff) << 13}.value * 0x1p112f;
  const uint32_t special = (code & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
  Pattern result;
  result.value = magnitude;
  result.bits |= special | (code & 0x8000) << 16;
  return result.value;
}

/// Decodes pieces [piece][kLanes] to values [k][kLanes]. Returns the number of elements along K.
template <uint32_t kLanes>
uint32_t decode_operand(const FragmentOperand& operand, uint32_t pieces, float* values) {
  const ElementFormat format = operand.format;
  const bool is_f16 = format == ElementFormat::f16;
  if (is_f16 || format == ElementFormat::bf16) {
    for (uint32_t piece = 0; piece < pieces; ++piece) {
      const uint32_t* const from = operand.pieces + piece * kLanes;
      float* const to = values + 2 * piece * kLanes;
      if (is_f16) {
        for (uint32_t m = 0; m < kLanes; ++m) to[m] = decode_f16(from[m] & 0xffff);
        for (uint32_t m = 0; m < kLanes; ++m) to[kLanes + m] = decode_f16(from[m] >> 16);
      } else {
        for (uint32_t m = 0; m < kLanes; ++m) to[m] = Pattern{from[m] << 16}.value;
        for (uint32_t m = 0; m < kLanes; ++m) to[kLanes + m] = Pattern{from[m] & 0xffff0000u}.value;
      }
    }
    return 2 * pieces;
  }
  if (format == ElementFormat::tf32) {
    for (uint32_t i = 0; i < pieces * kLanes; ++i) values[i] = Pattern{operand.pieces[i] & 0xffffe000u}.value;
    return pieces;
  }
  const bool packed =
      format == ElementFormat::u4 || format == ElementFormat::s4 || format == ElementFormat::e2m1_packed;
  const uint32_t bits = packed ? 4 : 8;
  const uint32_t mask = (1u << bits) - 1;
  for (uint32_t piece = 0; piece < pieces; ++piece) {
    const uint32_t* const from = operand.pieces + piece * kLanes;
    for (uint32_t shift = 0; shift < 32; shift += bits, values += kLanes) {
      for (uint32_t m = 0; m < kLanes; ++m) values[m] = operand.table[from[m] >> shift & mask];
    }
  }
  return pieces * (32 / bits);
}

uint32_t decode(const FragmentOperand& a, const FragmentOperand& b, uint32_t pieces, float* rows, float* columns) {
  decode_operand<kFragmentColumns>(b, pieces, columns);
  return decode_operand<kFragmentRows>(a, pieces, rows);
}

void multiply(const float* rows, const float* columns, uint32_t depth, float* d) {
  for (uint32_t first = 0; first < kFragmentRows; first += kWidth) {
    Vector total[kFragmentColumns];
    for (uint32_t n = 0; n < kFragmentColumns; ++n) total[n] = load(d + n * kFragmentRows + first);
    for (uint32_t k = 0; k < depth; ++k) {
      const Vector row = load(rows + k * kFragmentRows + first);
      const float* const factors = columns + k * kFragmentColumns;
#pragma GCC unroll 8
      for (uint32_t n = 0; n < kFragmentColumns; ++n) total[n] = multiply_add(row, broadcast(factors[n]), total[n]);
    }
    for (uint32_t n = 0; n < kFragmentColumns; ++n) store(d + n * kFragmentRows + first, total[n]);
  }
}

void multiply_doubles(const double* a, const double* b, uint32_t depth, double* d) {
  for (uint32_t k = 0; k < depth; ++k) {
    for (uint32_t n = 0; n < kFragmentColumns; ++n) {
      const double factor = b[k * kFragmentColumns + n];
      double* const column = d + n * kFragmentRows;
      for (uint32_t m = 0; m < kFragmentRows; ++m) {
        column[m] = __builtin_fma(a[k * kFragmentRows + m], factor, column[m]);
      }
    }
  }
}

constexpr WarpMmaKernels kKernels{decode, multiply, multiply_fused_tile, multiply_doubles};

}  // namespace

const WarpMmaKernels& warp_kernels() { return kKernels; }

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
