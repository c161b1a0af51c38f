// A battery of PTX instructions, each applied to edge values and random ones: what it gives, to the bit.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "instruction.hpp"

namespace stagecraft::conformance {

template <Kind>
struct WordOf {
  using Type = uint32_t;
};
template <>
struct WordOf<Kind::i16> {
  using Type = uint16_t;
};
template <>
struct WordOf<Kind::f16> {
  using Type = uint16_t;
};
template <>
struct WordOf<Kind::bf16> {
  using Type = uint16_t;
};
template <>
struct WordOf<Kind::i64> {
  using Type = uint64_t;
};
template <>
struct WordOf<Kind::f64> {
  using Type = uint64_t;
};
/// The unsigned integer that holds an operand's bits.
template <Kind K>
using Word = typename WordOf<K>::Type;

template <typename Op>
__global__ void apply(const Word<Op::a>* a, const Word<Op::b>* b, const Word<Op::c>* c, Word<Op::result>* result) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  result[i] = Op::apply(a[i], b[i], c[i]);
}

template <typename Op>
void launch(const void* a, const void* b, const void* c, void* result) {
  apply<Op><<<kSamples / 128, 128>>>(static_cast<const Word<Op::a>*>(a), static_cast<const Word<Op::b>*>(b),
                                     static_cast<const Word<Op::c>*>(c), static_cast<Word<Op::result>*>(result));
}

}  // namespace stagecraft::conformance

// Inline assembly needs literal text and literal constraints, so only macros can make a list of instructions.
#define CONSTRAINT_i16 "h"
#define CONSTRAINT_i32 "r"
#define CONSTRAINT_i64 "l"
#define CONSTRAINT_f16 "h"
#define CONSTRAINT_bf16 "h"
#define CONSTRAINT_f32 "r"
#define CONSTRAINT_f64 "l"
#define CONSTRAINT_i16x2 "r"
#define CONSTRAINT_f16x2 "r"
#define CONSTRAINT_bf16x2 "r"
#define OPERATION(...) NUMBERED_OPERATION(__COUNTER__, __VA_ARGS__)
#define NUMBERED_OPERATION(...) OPERATION_OF_NUMBER(__VA_ARGS__)
#define OPERATION_OF_NUMBER(NUMBER, RESULT, A, B, C, NAME, TEXT)                                                     \
  namespace {                                                                                                        \
  struct Operation##NUMBER {                                                                                         \
    static constexpr Kind result = Kind::RESULT, a = Kind::A, b = Kind::B, c = Kind::C;                              \
    static __device__ Word<result> apply(Word<a> x, Word<b> y, Word<c> z) {                                          \
      Word<result> value;                                                                                            \
      asm volatile(TEXT : "=" CONSTRAINT_##RESULT(value) : CONSTRAINT_##A(x), CONSTRAINT_##B(y), CONSTRAINT_##C(z)); \
      return value;                                                                                                  \
    }                                                                                                                \
  };                                                                                                                 \
  [[maybe_unused]] const bool enlisted##NUMBER =                                                                     \
      enlist({NAME, Kind::RESULT, Kind::A, Kind::B, Kind::C, launch<Operation##NUMBER>});                            \
  }

/// One instruction: the kinds of result and operands, and its opcode with modifiers.
#define UNARY(RESULT, A, OPCODE) OPERATION(RESULT, A, i32, i32, OPCODE, OPCODE " %0, %1;")
#define BINARY(RESULT, A, B, OPCODE) OPERATION(RESULT, A, B, i32, OPCODE, OPCODE " %0, %1, %2;")
#define TERNARY(RESULT, A, B, C, OPCODE) OPERATION(RESULT, A, B, C, OPCODE, OPCODE " %0, %1, %2, %3;")
/// A comparison, whose predicate is shown as 0 or 1.
#define COMPARISON(KIND, OPCODE) \
  OPERATION(i32, KIND, KIND, i32, OPCODE, "{\n\t.reg .pred p;\n\t" OPCODE " p, %1, %2;\n\tselp.u32 %0, 1, 0, p;\n\t}")
/// An instruction with each rounding of a floating-point result, or of an integral one. `MACRO` is one of those above,
/// and what follows the types are its kinds.
#define ROUNDED(MACRO, NAME, TYPES, ...) \
  MACRO(__VA_ARGS__, NAME ".rn" TYPES)   \
  MACRO(__VA_ARGS__, NAME ".rz" TYPES)   \
  MACRO(__VA_ARGS__, NAME ".rm" TYPES)   \
  MACRO(__VA_ARGS__, NAME ".rp" TYPES)
#define ROUNDED_TO_INTEGER(NAME, TYPES, RESULT, A) \
  UNARY(RESULT, A, NAME ".rni" TYPES)              \
  UNARY(RESULT, A, NAME ".rzi" TYPES)              \
  UNARY(RESULT, A, NAME ".rmi" TYPES)              \
  UNARY(RESULT, A, NAME ".rpi" TYPES)
