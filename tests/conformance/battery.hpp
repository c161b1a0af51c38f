// A battery of PTX instructions, each applied to edge values and random ones: what it gives, to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report.hpp"

namespace stagecraft::conformance {

/// Kinds of operand: the word that holds it and the values that instructions treat specially.
struct I16 {
  using Word = uint16_t;
  static inline const std::vector<Word> edges{0, 1, 2, 3, 7, 15, 16, 0x7f, 0x80, 0xff, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff};
};
struct I32 {
  using Word = uint32_t;
  static inline const std::vector<Word> edges{0,      1,      2,          5,          31,         32,         33,         0xff,
                                              0xffff, 0x8000, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
};
struct I64 {
  using Word = uint64_t;
  static inline const std::vector<Word> edges{0, 1, 2, 31, 32, 63, 64, 65, 0xffffffff, 0x100000000, 0x7fffffff80000000, 0x7fffffffffffffff,
                                              0x8000000000000000, 0x8000000000000001, 0xfffffffffffffffe, 0xffffffffffffffff};
};
struct F16 {
  using Word = uint16_t;
  static inline const std::vector<Word> edges{0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0xfd01,
                                              0x0001, 0x83ff, 0x0400, 0x7bff, 0x3800, 0x3e00, 0x6400, 0xfbff};
};
struct BF16 {
  using Word = uint16_t;
  static inline const std::vector<Word> edges{0x0000, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0xff81,
                                              0x0001, 0x807f, 0x0080, 0x7f7f, 0x3f00, 0x3fc0, 0x4300, 0xff7f};
};
struct F32 {
  using Word = uint32_t;
  static inline const std::vector<Word> edges{0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xff800001,
                                              0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3f000000, 0xbfc00000, 0x4b000001, 0xcf000000};
};
struct F64 {
  using Word = uint64_t;
  static inline const std::vector<Word> edges{
      0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000,
      0x7ff8000000000000, 0xfff0000000000001, 0x0000000000000001, 0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff,
      0x3fe0000000000000, 0xbff8000000000000, 0x4330000000000001, 0xc3e0000000000000};
};
/// Two values in a word: the edges of the one half meet those of the other.
template <typename Half>
struct Pair {
  using Word = uint32_t;
  static inline const std::vector<Word> edges = [] {
    std::vector<Word> pairs;
    for (size_t i = 0; i < Half::edges.size(); ++i) {
      pairs.push_back(static_cast<Word>(Half::edges[i]) << 16 | Half::edges[(i * 7 + 3) % Half::edges.size()]);
    }
    return pairs;
  }();
};
using I16x2 = Pair<I16>;
using F16x2 = Pair<F16>;
using BF16x2 = Pair<BF16>;

inline constexpr size_t kSamples = 512;  ///< applications of each instruction

/// Operand `position` of all samples: every pair of edges first, then random words, edges, and near relatives of edges.
template <typename Kind>
std::vector<typename Kind::Word> samples(int position, Random random) {
  using Word = typename Kind::Word;
  const size_t edges = Kind::edges.size();
  std::vector<Word> words(kSamples);
  for (int skip = 0; skip < position; ++skip) random = Random(random.bits());
  for (size_t i = 0; i < kSamples; ++i) {
    const uint64_t bits = random.bits();
    const Word edge = Kind::edges[bits % edges];
    if (i < edges * edges) {
      words[i] = position == 0 ? Kind::edges[i % edges] : position == 1 ? Kind::edges[i / edges] : edge;
    } else {
      switch (i % 4) {
        case 0: words[i] = edge; break;
        case 1: words[i] = static_cast<Word>(edge + bits % 9 - 4); break;
        case 2: words[i] = static_cast<Word>(edge ^ (bits >> 44)); break;
        default: words[i] = static_cast<Word>(bits >> 8); break;
      }
    }
  }
  return words;
}

/// The instructions of a program, in the order of its text.
inline std::vector<std::function<void(Report&)>>& battery() {
  static std::vector<std::function<void(Report&)>> instructions;
  return instructions;
}

template <typename Op>
__global__ void apply(const typename Op::A::Word* a, const typename Op::B::Word* b, const typename Op::C::Word* c,
                      typename Op::R::Word* result) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  result[i] = Op::apply(a[i], b[i], c[i]);
}

/// Operands of an instruction, on the device.
template <typename Op>
struct Operands {
  explicit Operands(uint64_t seed)
      : a(samples<typename Op::A>(0, Random(seed)), "a"),
        b(samples<typename Op::B>(1, Random(seed)), "b"),
        c(samples<typename Op::C>(2, Random(seed)), "c"),
        result(kSamples, "the results") {}

  std::vector<typename Op::R::Word> run() {
    result.poison();
    apply<Op><<<kSamples / 128, 128>>>(a.data(), b.data(), c.data(), result.data());
    finish_kernel(Op::name);
    return result.to_host();
  }

  DeviceBuffer<typename Op::A::Word> a;
  DeviceBuffer<typename Op::B::Word> b;
  DeviceBuffer<typename Op::C::Word> c;
  DeviceBuffer<typename Op::R::Word> result;
};

template <typename Op>
bool enlist() {
  battery().push_back([](Report& report) { report.section(Op::name, Operands<Op>(report.seed()).run()); });
  return true;
}

inline int run_battery(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    for (const auto& instruction : battery()) instruction(report);
  });
}

}  // namespace stagecraft::conformance

// Inline assembly wants literal text and literal constraints, so only macros can make a list of instructions.
#define CONSTRAINT_I16 "h"
#define CONSTRAINT_I32 "r"
#define CONSTRAINT_I64 "l"
#define CONSTRAINT_F16 "h"
#define CONSTRAINT_BF16 "h"
#define CONSTRAINT_F32 "r"
#define CONSTRAINT_F64 "l"
#define CONSTRAINT_I16x2 "r"
#define CONSTRAINT_F16x2 "r"
#define CONSTRAINT_BF16x2 "r"
#define OPERATION_NAME_(line) Operation##line
#define OPERATION_NAME(line) OPERATION_NAME_(line)
#define ENLISTED_NAME_(line) enlisted##line
#define ENLISTED_NAME(line) ENLISTED_NAME_(line)
#define OPERATION(RESULT, KIND_A, KIND_B, KIND_C, NAME, TEXT)                                                \
  namespace {                                                                                                \
  struct OPERATION_NAME(__LINE__) {                                                                          \
    using R = RESULT;                                                                                        \
    using A = KIND_A;                                                                                        \
    using B = KIND_B;                                                                                        \
    using C = KIND_C;                                                                                        \
    static constexpr const char* name = NAME;                                                                \
    static __device__ R::Word apply(A::Word a, B::Word b, C::Word c) {                                       \
      R::Word result;                                                                                        \
      asm volatile(TEXT                                                                                      \
                   : "=" CONSTRAINT_##RESULT(result)                                                         \
                   : CONSTRAINT_##KIND_A(a), CONSTRAINT_##KIND_B(b), CONSTRAINT_##KIND_C(c));                \
      return result;                                                                                         \
    }                                                                                                        \
  };                                                                                                         \
  [[maybe_unused]] const bool ENLISTED_NAME(__LINE__) = enlist<OPERATION_NAME(__LINE__)>();                  \
  }

/// One instruction: the kinds of result and operands, and its opcode with modifiers.
#define UNARY(RESULT, A, OPCODE) OPERATION(RESULT, A, I32, I32, OPCODE, OPCODE " %0, %1;")
#define BINARY(RESULT, A, B, OPCODE) OPERATION(RESULT, A, B, I32, OPCODE, OPCODE " %0, %1, %2;")
#define TERNARY(RESULT, A, B, C, OPCODE) OPERATION(RESULT, A, B, C, OPCODE, OPCODE " %0, %1, %2, %3;")
/// A comparison, whose predicate is shown as 0 or 1.
#define COMPARISON(KIND, OPCODE)                \
  OPERATION(I32, KIND, KIND, I32, OPCODE,       \
            "{\n\t.reg .pred p;\n\t" OPCODE " p, %1, %2;\n\tselp.u32 %0, 1, 0, p;\n\t}")
