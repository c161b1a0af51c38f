// Vectors of rows for the fused sums, in the compiler's own types. Only files that are compiled once per level include
// this; the intrinsics are for what compilers make poor code of.
#pragma once

#include <cstdint>

#include "emulator/host/isa_level.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {
namespace {

#if STAGECRAFT_ISA_LEVEL == 4
constexpr uint32_t kWidth = 16;
#elif STAGECRAFT_ISA_LEVEL == 3
constexpr uint32_t kWidth = 8;
#else
constexpr uint32_t kWidth = 4;
#endif
constexpr uint32_t kRows = 2 * kWidth;  // of a block of D
constexpr uint32_t kHalf = kWidth / 2;  // doubles in a vector

constexpr int kFractionBits = 23, kBias = 127;

typedef float Floats __attribute__((vector_size(4 * kWidth), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * kWidth), may_alias));
typedef uint32_t Words __attribute__((vector_size(4 * kWidth), may_alias));
// The same, at any address of an element. Not for variables: clang forgets aligned(4) where it reads a lane or an
// element of an array. Arrays of the types below are alignas(64) for the same reason.
typedef float LooseFloats __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
typedef int32_t LooseInts __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
typedef uint32_t LooseWords __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
typedef uint8_t Bytes __attribute__((vector_size(kWidth), aligned(1), may_alias));
typedef int8_t SignedBytes __attribute__((vector_size(kWidth), aligned(1), may_alias));
typedef uint8_t RowBytes __attribute__((vector_size(kRows), aligned(1), may_alias));
typedef int8_t SignedRowBytes __attribute__((vector_size(kRows), aligned(1), may_alias));
typedef uint32_t RowWords __attribute__((vector_size(kRows), may_alias));
typedef uint8_t WideBytes __attribute__((vector_size(2 * kRows), aligned(1), may_alias));
typedef uint32_t WideWords __attribute__((vector_size(2 * kRows), may_alias));
typedef double Doubles __attribute__((vector_size(8 * kHalf), aligned(8), may_alias));
typedef float HalfFloats __attribute__((vector_size(4 * kHalf), aligned(4), may_alias));
typedef int32_t HalfInts __attribute__((vector_size(4 * kHalf), aligned(4), may_alias));

// Not one template, whose argument would lose the alignment.
[[gnu::always_inline]] inline Floats load_floats(const float* from) {
  return *reinterpret_cast<const LooseFloats*>(from);
}
[[gnu::always_inline]] inline Ints load_ints(const float* from) { return *reinterpret_cast<const LooseInts*>(from); }
[[gnu::always_inline]] inline Words load_words(const float* from) { return *reinterpret_cast<const LooseWords*>(from); }
// Intrinsics, because GCC 12 converts bytes one by one.
[[gnu::always_inline]] inline Ints load_bytes(const uint8_t* from) {
#if STAGECRAFT_ISA_LEVEL == 4
  return (Ints)_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif STAGECRAFT_ISA_LEVEL == 3
  return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
  return __builtin_convertvector(*reinterpret_cast<const Bytes*>(from), Ints);
#endif
}

[[gnu::always_inline]] inline void store_bytes(uint8_t* to, Ints values) {
#if STAGECRAFT_ISA_LEVEL == 4
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(0xffff, (__m512i)values));
#elif STAGECRAFT_ISA_LEVEL == 3
  const __m256i halves = _mm256_packs_epi32((__m256i)values, (__m256i)values);
  const __m256i bytes = _mm256_packus_epi16(halves, halves);
  const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi32(low, high));
#else
  *reinterpret_cast<Bytes*>(to) = __builtin_convertvector(values, Bytes);
#endif
}

[[gnu::always_inline]] inline Ints select(Ints mask, Ints yes, Ints no) { return (mask & yes) | (~mask & no); }
#if STAGECRAFT_ISA_LEVEL == 4
[[gnu::always_inline]] inline Ints larger(Ints a, Ints b) {
  return (Ints)_mm512_maskz_max_epi32(0xffff, (__m512i)a, (__m512i)b);
}
[[gnu::always_inline]] inline Words larger(Words a, Words b) {
  return (Words)_mm512_maskz_max_epu32(0xffff, (__m512i)a, (__m512i)b);
}
[[gnu::always_inline]] inline Ints smaller(Ints a, Ints b) {
  return (Ints)_mm512_maskz_min_epi32(0xffff, (__m512i)a, (__m512i)b);
}
#elif STAGECRAFT_ISA_LEVEL == 3
[[gnu::always_inline]] inline Ints larger(Ints a, Ints b) { return (Ints)_mm256_max_epi32((__m256i)a, (__m256i)b); }
[[gnu::always_inline]] inline Ints smaller(Ints a, Ints b) { return (Ints)_mm256_min_epi32((__m256i)a, (__m256i)b); }
[[gnu::always_inline]] inline Words larger(Words a, Words b) { return (Words)_mm256_max_epu32((__m256i)a, (__m256i)b); }
#else
[[gnu::always_inline]] inline Ints larger(Ints a, Ints b) { return select(a > b, a, b); }
[[gnu::always_inline]] inline Ints smaller(Ints a, Ints b) { return select(a < b, a, b); }
[[gnu::always_inline]] inline Words larger(Words a, Words b) {
  const Words mask = (Words)(a > b);
  return (mask & a) | (~mask & b);
}
#endif

[[gnu::always_inline]] inline RowBytes larger(RowBytes a, RowBytes b) {
#if STAGECRAFT_ISA_LEVEL == 4
  return (RowBytes)_mm256_max_epu8((__m256i)a, (__m256i)b);
#elif STAGECRAFT_ISA_LEVEL == 3
  return (RowBytes)_mm_max_epu8((__m128i)a, (__m128i)b);
#else
  const RowBytes mask = (RowBytes)(a > b);
  return (mask & a) | (~mask & b);
#endif
}

[[gnu::always_inline]] inline WideBytes larger(WideBytes a, WideBytes b) {
#if STAGECRAFT_ISA_LEVEL == 4
  return (WideBytes)_mm512_maskz_max_epu8(~__mmask64{}, (__m512i)a, (__m512i)b);
#elif STAGECRAFT_ISA_LEVEL == 3
  return (WideBytes)_mm256_max_epu8((__m256i)a, (__m256i)b);
#else
  const WideBytes mask = (WideBytes)(a > b);
  return (mask & a) | (~mask & b);
#endif
}

[[gnu::always_inline]] inline bool any(Ints mask) {
#if STAGECRAFT_ISA_LEVEL == 4
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif STAGECRAFT_ISA_LEVEL == 3
  return _mm256_testz_si256((__m256i)mask, (__m256i)mask) == 0;
#else
  return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}

#if STAGECRAFT_ISA_LEVEL == 4
[[gnu::always_inline]] inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
  return (Doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
[[gnu::always_inline]] inline Floats multiply_add(Floats a, float b, Floats c) {
  return (Floats)_mm512_fmadd_ps((__m512)a, _mm512_set1_ps(b), (__m512)c);
}
[[gnu::always_inline]] inline Doubles broadcast(double value) { return (Doubles)_mm512_set1_pd(value); }
[[gnu::always_inline]] inline Doubles widen(HalfFloats values) {  // GCC 12 would convert each half on its own
  return (Doubles)_mm512_maskz_cvtps_pd(0xff, (__m256)values);
}
#elif STAGECRAFT_ISA_LEVEL == 3
[[gnu::always_inline]] inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
  return (Doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
[[gnu::always_inline]] inline Floats multiply_add(Floats a, float b, Floats c) {
  return (Floats)_mm256_fmadd_ps((__m256)a, _mm256_set1_ps(b), (__m256)c);
}
[[gnu::always_inline]] inline Doubles broadcast(double value) { return (Doubles)_mm256_set1_pd(value); }
[[gnu::always_inline]] inline Doubles widen(HalfFloats values) { return (Doubles)_mm256_cvtps_pd((__m128)values); }
#else
[[gnu::always_inline]] inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return a * b + c; }
[[gnu::always_inline]] inline Floats multiply_add(Floats a, float b, Floats c) { return a * b + c; }
[[gnu::always_inline]] inline Doubles broadcast(double value) { return Doubles{value, value}; }
[[gnu::always_inline]] inline Doubles widen(HalfFloats values) { return __builtin_convertvector(values, Doubles); }
#endif

[[gnu::always_inline]] inline Doubles widen(HalfInts values) {
#if STAGECRAFT_ISA_LEVEL == 4
  return (Doubles)_mm512_maskz_cvtepi32_pd(0xff, (__m256i)values);
#elif STAGECRAFT_ISA_LEVEL == 3
  return (Doubles)_mm256_cvtepi32_pd((__m128i)values);
#else
  return __builtin_convertvector(values, Doubles);
#endif
}

// Makes doubles of their lower and upper words.
#if STAGECRAFT_ISA_LEVEL == 4
[[gnu::always_inline]] inline Doubles interleave_first(Ints low, Ints high) {
  return (Doubles)__builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
[[gnu::always_inline]] inline Doubles interleave_last(Ints low, Ints high) {
  return (Doubles)__builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
[[gnu::always_inline]] inline Floats join(HalfFloats first, HalfFloats last) {
  return __builtin_shufflevector(first, last, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
#elif STAGECRAFT_ISA_LEVEL == 3
[[gnu::always_inline]] inline Doubles interleave_first(Ints low, Ints high) {
  return (Doubles)__builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
}
[[gnu::always_inline]] inline Doubles interleave_last(Ints low, Ints high) {
  return (Doubles)__builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
}
[[gnu::always_inline]] inline Floats join(HalfFloats first, HalfFloats last) {
  return __builtin_shufflevector(first, last, 0, 1, 2, 3, 4, 5, 6, 7);
}
#else
[[gnu::always_inline]] inline Doubles interleave_first(Ints low, Ints high) {
  return (Doubles)__builtin_shufflevector(low, high, 0, 4, 1, 5);
}
[[gnu::always_inline]] inline Doubles interleave_last(Ints low, Ints high) {
  return (Doubles)__builtin_shufflevector(low, high, 2, 6, 3, 7);
}
[[gnu::always_inline]] inline Floats join(HalfFloats first, HalfFloats last) {
  return __builtin_shufflevector(first, last, 0, 1, 2, 3);
}
#endif

union Pattern {
  uint32_t bits;
  float value;
};
}  // namespace
}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
