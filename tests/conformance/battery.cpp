// What every instruction of a battery is applied to, and how its results are shown.
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "instruction.hpp"
#include "report.hpp"

namespace stagecraft::conformance {
namespace {

constexpr size_t kEdges = 16;
using Edges = std::array<uint64_t, kEdges>;

constexpr Edges kIntegers16{0, 1, 2, 3, 7, 15, 16, 0x7f, 0x80, 0xff, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff};
constexpr Edges kIntegers32{0,      1,      2,          5,          31,         32,         33,         0xff,
                            0xffff, 0x8000, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
constexpr Edges kIntegers64{0,
                            1,
                            2,
                            31,
                            32,
                            63,
                            64,
                            65,
                            0xffffffff,
                            0x100000000,
                            0x7fffffff80000000,
                            0x7fffffffffffffff,
                            0x8000000000000000,
                            0x8000000000000001,
                            0xfffffffffffffffe,
                            0xffffffffffffffff};
constexpr Edges kHalves{0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0xfd01,
                        0x0001, 0x83ff, 0x0400, 0x7bff, 0x3800, 0x3e00, 0x6400, 0xfbff};
constexpr Edges kBfloats{0x0000, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0xff81,
                         0x0001, 0x807f, 0x0080, 0x7f7f, 0x3f00, 0x3fc0, 0x4300, 0xff7f};
constexpr Edges kSingles{0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                         0x7fc00000, 0xff800001, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff,
                         0x3f000000, 0xbfc00000, 0x4b000001, 0xcf000000};
constexpr Edges kDoubles{0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
                         0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff0000000000001,
                         0x0000000000000001, 0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff,
                         0x3fe0000000000000, 0xbff8000000000000, 0x4330000000000001, 0xc3e0000000000000};

/// Two values in a word: the edges of the one half meet those of the other.
constexpr Edges pairs_of(const Edges& halves) {
  Edges pairs{};
  for (size_t i = 0; i < kEdges; ++i) pairs[i] = halves[i] << 16 | halves[(i * 7 + 3) % kEdges];
  return pairs;
}

Edges edges_of(Kind kind) {
  switch (kind) {
    case Kind::i16: return kIntegers16;
    case Kind::i32: return kIntegers32;
    case Kind::i64: return kIntegers64;
    case Kind::f16: return kHalves;
    case Kind::bf16: return kBfloats;
    case Kind::f32: return kSingles;
    case Kind::f64: return kDoubles;
    case Kind::i16x2: return pairs_of(kIntegers16);
    case Kind::f16x2: return pairs_of(kHalves);
    case Kind::bf16x2: return pairs_of(kBfloats);
  }
  return {};
}

size_t bytes_of(Kind kind) {
  switch (kind) {
    case Kind::i16:
    case Kind::f16:
    case Kind::bf16: return 2;
    case Kind::i64:
    case Kind::f64: return 8;
    default: return 4;
  }
}

/// Operand `position` of all samples: every pair of edges first, then random words, edges, and near relatives of edges.
std::vector<uint8_t> samples(Kind kind, int position, Random random) {
  const Edges edges = edges_of(kind);
  const size_t size = bytes_of(kind);
  for (int skip = 0; skip < position; ++skip) random = Random(random.bits());
  std::vector<uint8_t> words(kSamples * size);
  for (size_t i = 0; i < kSamples; ++i) {
    const uint64_t bits = random.bits();
    const uint64_t edge = edges[bits % kEdges];
    uint64_t word = edge;
    if (i < kEdges * kEdges) {
      if (position == 0) word = edges[i % kEdges];
      if (position == 1) word = edges[i / kEdges];
    } else {
      if (i % 4 == 1) word = edge + bits % 9 - 4;
      if (i % 4 == 2) word = edge ^ (bits >> 44);
      if (i % 4 == 3) word = bits >> 8;
    }
    std::memcpy(&words[i * size], &word, size);  // the low bytes: little-endian, like the GPU
  }
  return words;
}

/// The instructions of the program. A function's variable, since the lists of other files are filled before `main`.
std::vector<Instruction>& battery() {
  static std::vector<Instruction> instructions;
  return instructions;
}

void run_instruction(Report& report, const Instruction& instruction) {
  const DeviceBuffer<uint8_t> a(samples(instruction.a, 0, Random(report.seed())), "a");
  const DeviceBuffer<uint8_t> b(samples(instruction.b, 1, Random(report.seed())), "b");
  const DeviceBuffer<uint8_t> c(samples(instruction.c, 2, Random(report.seed())), "c");
  const size_t size = bytes_of(instruction.result);
  DeviceBuffer<uint8_t> result(kSamples * size, "the results");
  result.poison();
  instruction.launch(a.data(), b.data(), c.data(), result.data());
  finish_kernel(instruction.name);
  report.section(instruction.name, result.to_host().data(), kSamples, size);
}

}  // namespace

bool enlist(const Instruction& instruction) {
  battery().push_back(instruction);
  return true;
}

int run_battery(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    for (const Instruction& instruction : battery()) run_instruction(report, instruction);
  });
}

}  // namespace stagecraft::conformance
