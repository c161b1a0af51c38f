// mma.sync of narrow floats and with scale factors (.kind::f8f6f4, mxf8f6f4, mxf4, mxf4nvf4), of compute
// capability 12.x. Each sum is compared with one in double precision, from codes that the CUDA headers decode; the
// words themselves are printed as in the other programs. Bytes of scale factors that no selector names are random.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"  // two in cuda_fp4.hpp of CUDA 13.0
#include <cuda_fp4.h>
#pragma GCC diagnostic pop
#include <cuda_fp6.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "report.hpp"

using namespace stagecraft::conformance;

constexpr int kLanes = 32, kRows = 16, kColumns = 8, kTiles = 16;
// Words of a lane: A, B, C, the scale factors, {byte-id, thread-id} of A and of B.
constexpr int kB = 4, kC = 6, kScaleA = 10, kScaleB = 11, kSelectors = 12, kWords = 16;

enum Kind { f8f6f4, f8f6f4_to_f16, mxf8f6f4, mxf4, mxf4nvf4_2x, mxf4nvf4_4x };
constexpr const char* kKindNames[] = {"f8f6f4", "f8f6f4 to f16", "mxf8f6f4", "mxf4", "mxf4nvf4 2X", "mxf4nvf4 4X"};
enum Type { e4m3, e5m2, e3m2, e2m3, e2m1, kTypes };
constexpr const char* kTypeNames[] = {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"};
__host__ __device__ constexpr int form_of(Kind kind, Type a, Type b) {
  return (static_cast<int>(kind) * kTypes + static_cast<int>(a)) * kTypes + static_cast<int>(b);
}

// ---- The chip's side: one kernel has all forms, and a block multiplies one tile
// --------------------------------------

#define SUMS_F32(KIND, SHAPE, A, B, SCALE, ...)                                                                       \
  asm volatile("mma.sync.aligned.kind::" KIND "." SHAPE ".row.col.f32." #A "." #B ".f32" SCALE                        \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}" __VA_ARGS__ ";"                      \
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                       \
               : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(w[kB]), "r"(w[kB + 1]), "r"(w[kScaleA]), "h"(id[0]), \
                 "h"(id[1]), "r"(w[kScaleB]), "h"(id[2]), "h"(id[3]));                                                \
  break
#define SCALED ", %10, {%11, %12}, %13, {%14, %15}"
#define PAIR(A, B)                                                                                                  \
  case form_of(f8f6f4, A, B): SUMS_F32("f8f6f4", "m16n8k32", A, B, "");                                             \
  case form_of(mxf8f6f4, A, B): SUMS_F32("mxf8f6f4.block_scale.scale_vec::1X", "m16n8k32", A, B, ".ue8m0", SCALED); \
  case form_of(f8f6f4_to_f16, A, B):                                                                                \
    asm volatile("mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f16." #A "." #B                                    \
                 ".f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"                                             \
                 : "+r"(d[0]), "+r"(d[1])                                                                           \
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(w[kB]), "r"(w[kB + 1]));                         \
    break
#define WITH_ALL(A) \
  PAIR(A, e4m3);    \
  PAIR(A, e5m2);    \
  PAIR(A, e3m2);    \
  PAIR(A, e2m3);    \
  PAIR(A, e2m1)

__global__ void multiply(int form, const uint32_t* words, uint32_t* sums) {
  uint32_t w[kWords], d[4];
  for (int i = 0; i < kWords; ++i) w[i] = words[(blockIdx.x * kWords + i) * kLanes + threadIdx.x];
  uint16_t id[4];
  for (int i = 0; i < 4; ++i) {
    id[i] = static_cast<uint16_t>(w[kSelectors + i]);
    d[i] = w[kC + i];
  }
  switch (form) {
    WITH_ALL(e4m3);
    WITH_ALL(e5m2);
    WITH_ALL(e3m2);
    WITH_ALL(e2m3);
    WITH_ALL(e2m1);
    case form_of(mxf4, e2m1, e2m1): SUMS_F32("mxf4.block_scale", "m16n8k64", e2m1, e2m1, ".ue8m0", SCALED);
    case form_of(mxf4nvf4_2x, e2m1, e2m1):
      SUMS_F32("mxf4nvf4.block_scale.scale_vec::2X", "m16n8k64", e2m1, e2m1, ".ue8m0", SCALED);
    case form_of(mxf4nvf4_4x, e2m1, e2m1):
      SUMS_F32("mxf4nvf4.block_scale.scale_vec::4X", "m16n8k64", e2m1, e2m1, ".ue4m3", SCALED);
  }
  for (int i = 0; i < 4; ++i) sums[(blockIdx.x * 4 + i) * kLanes + threadIdx.x] = d[i];
}

// ---- The reference
// ---------------------------------------------------------------------------------------------------

struct Format {
  int bits;
  double least_normal;  // a smaller number counts as this large when terms are aligned
};
constexpr Format kFormats[] = {{8, 0x1p-6}, {8, 0x1p-14}, {6, 0x1p-2}, {6, 1}, {4, 1}};

double value_of(Type type, uint32_t code) {
  const auto of = [](__half_raw half) { return double{__half2float(half)}; };
  const auto byte = static_cast<unsigned char>(code);
  switch (type) {
    case e4m3: return of(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3));
    case e5m2: return of(__nv_cvt_fp8_to_halfraw(byte, __NV_E5M2));
    case e3m2: return of(__nv_cvt_fp6_to_halfraw(byte, __NV_E3M2));
    case e2m3: return of(__nv_cvt_fp6_to_halfraw(byte, __NV_E2M3));
    default: return of(__nv_cvt_fp4_to_halfraw(byte, __NV_E2M1));
  }
}

double scale_of(Kind kind, uint32_t code) {
  if (kind == mxf4nvf4_4x) return value_of(e4m3, code & 0x7f);
  return code == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(code) - 127);
}

double accumulator_of(Kind kind, uint32_t word) {
  if (kind == f8f6f4_to_f16) return __half2float(__half_raw{static_cast<unsigned short>(word)});
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

/// A tile as matrices, and as the words of a warp.
struct Tile {
  Kind kind;
  Type a_type, b_type;
  double a[kRows][64], b[kColumns][64], c[kRows][kColumns], scales_a[kRows][4], scales_b[kColumns][4];
  uint32_t words[kWords][kLanes];

  bool packed() const { return kind >= mxf4; }
  int depth() const { return packed() ? 64 : 32; }
  int scales() const { return kind == mxf4nvf4_4x ? 4 : kind >= mxf4 ? 2 : 1; }

  void put(int word, int lane, int index, int bits, uint32_t code) {
    uint32_t& to = words[word + index * bits / 32][lane];
    const int shift = index * bits % 32;
    const uint32_t mask = (bits == 32 ? ~0u : (1u << bits) - 1) << shift;
    to = (to & ~mask) | (code << shift & mask);
  }
};

// Draws a code: of all, or with exponents near 1's, and none where NaN would spoil all sums of the row.
uint32_t draw_code(Random& random, Type type, bool any) {
  const uint32_t mask = (1u << kFormats[type].bits) - 1;
  for (;;) {
    const auto code = static_cast<uint32_t>(random.bits() >> 20) & mask;
    if (any || std::isfinite(value_of(type, code))) return code;
  }
}

// Element i of register r in lane 4 * g + q is of row g, or g + 8 in A's odd registers, and of K (4 * (r / 2) + q) * n
// + i in A and (4 * r + q) * n + i in B, where a register has n elements.
void draw_operand(Random& random, Tile& tile, bool is_a) {
  const Type type = is_a ? tile.a_type : tile.b_type;
  const int bits = tile.packed() ? 4 : 8, per_word = 32 / bits;
  for (int row = 0; row < (is_a ? kRows : kColumns); ++row) {
    const bool any = random.bits() % 8 == 0;
    for (int k = 0; k < tile.depth(); ++k) {
      const uint32_t code = random.bits() % 8 == 0 ? 0 : draw_code(random, type, any);
      (is_a ? tile.a : tile.b)[row][k] = value_of(type, code);
      const int piece = k / per_word, lane = 4 * (row % 8) + piece % 4;
      const int word = is_a ? piece / 4 * 2 + row / 8 : kB + piece / 4;
      tile.put(word, lane, k % per_word, bits, type == e2m1 && bits == 8 ? code << 2 : code);
    }
  }
}

void draw_scales(Random& random, Tile& tile) {
  const int count = tile.scales();
  uint32_t id[4];
  for (int i = 0; i < 4; ++i) {
    const auto drawn = static_cast<uint32_t>(random.bits() >> 8);
    id[i] = i == 1 ? drawn % 2 : i == 3 ? drawn % 4 : drawn % (4 / count) * count;
    for (int lane = 0; lane < kLanes; ++lane) tile.words[kSelectors + i][lane] = id[i];
  }
  for (int row = 0; row < kRows + kColumns; ++row) {
    const bool is_a = row < kRows;
    const int m = is_a ? row : row - kRows, any = random.bits() % 8 == 0;
    for (int i = 0; i < count; ++i) {
      const auto bits = static_cast<uint32_t>(random.bits() >> 8);
      uint32_t code = any ? bits % 256 : tile.kind == mxf4nvf4_4x ? bits % 0x7f : 117 + bits % 21;
      if (any && code % 128 == 127 && bits >> 8 & 7) code = 0;
      (is_a ? tile.scales_a[m] : tile.scales_b[m])[i] = scale_of(tile.kind, code);
      const auto lane = is_a ? 4 * (m % 8) + 2 * id[1] + m / 8 : 4 * m + id[3];
      tile.put(is_a ? kScaleA : kScaleB, static_cast<int>(lane), static_cast<int>(id[is_a ? 0 : 2]) + i, 8, code);
    }
  }
}

void draw_c(Random& random, Tile& tile) {
  const bool halves = tile.kind == f8f6f4_to_f16;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const auto bits = static_cast<uint32_t>(random.bits() >> 16);
      uint32_t code = bits % 8 == 0   ? 0
                      : bits % 8 == 1 ? bits / 8
                      : halves        ? (bits / 8 & 0x83ff) | (15 + bits / 8192 % 12) << 10
                                      : (bits & 0x807fffff) | (117 + bits / 8 % 32) << 23;
      if (halves) code &= 0xffff;
      tile.put(kC, lane, i, halves ? 16 : 32, code);
      tile.c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = accumulator_of(tile.kind, code);
    }
  }
}

// Compares a word with the sum in double precision: each term may lose a unit of the last of 25 bits after the point of
// the largest, and the result is rounded.
void compare(const Tile& tile, int m, int n, uint32_t word) {
  const bool halves = tile.kind == f8f6f4_to_f16, scaled = tile.kind >= mxf8f6f4;
  const Format &a_format = kFormats[tile.a_type], &b_format = kFormats[tile.b_type];
  double sum = tile.c[m][n], largest = std::abs(sum);
  for (int k = 0; k < tile.depth(); ++k) {
    const double x = tile.a[m][k], y = tile.b[n][k];
    const double of_x = scaled ? tile.scales_a[m][k * tile.scales() / tile.depth()] : 1;
    const double of_y = scaled ? tile.scales_b[n][k * tile.scales() / tile.depth()] : 1;
    sum += x * y * of_x * of_y;
    const double least_scale = tile.kind == mxf4nvf4_4x ? 0x1p-6 : 0;
    largest = std::fmax(largest, std::fmax(std::abs(x), a_format.least_normal) *
                                     std::fmax(std::abs(y), b_format.least_normal) * std::fmax(of_x, least_scale) *
                                     std::fmax(of_y, least_scale));
  }
  const double found = accumulator_of(tile.kind, word), most = halves ? 65504.0 : 0x1.fffffep127;
  bool right = word == (halves ? 0x7fff : 0x7fffffff);  // the one NaN that tensor cores return
  if (!std::isnan(sum)) {
    const double last =
        halves ? std::fmax(std::abs(sum) * 0x1p-11, 0x1p-25) : std::fmax(std::abs(sum) * 0x1p-23, 0x1p-149);
    const double tolerance = largest * (tile.depth() + 1) * 0x1p-25 + last;
    const double clamped = std::fmin(std::fmax(sum, -most), most);
    right = std::isinf(sum)     ? found == sum
            : std::isinf(found) ? std::abs(sum) + tolerance >= most && (found > 0) == (sum > 0)
                                : std::abs(found - clamped) <= tolerance;
  }
  if (right) return;
  char text[200];
  snprintf(text, sizeof text, "kind %s of %s and %s: element (%d, %d) is %a (0x%x), and %a in double precision",
           kKindNames[tile.kind], kTypeNames[tile.a_type], kTypeNames[tile.b_type], m, n, found, word, sum);
  throw std::runtime_error(text);
}

void show(Report& report, Random& random, Kind kind, Type a_type, Type b_type) {
  std::vector<Tile> tiles(kTiles);
  std::vector<uint32_t> words;
  for (Tile& tile : tiles) {
    tile.kind = kind;
    tile.a_type = a_type;
    tile.b_type = b_type;
    for (auto& word : tile.words) {
      for (uint32_t& of_lane : word) of_lane = static_cast<uint32_t>(random.bits());
    }
    draw_operand(random, tile, true);
    draw_operand(random, tile, false);
    draw_scales(random, tile);
    draw_c(random, tile);
    for (const auto& word : tile.words) words.insert(words.end(), word, word + kLanes);
  }
  const DeviceBuffer<uint32_t> in(words, "words");
  DeviceBuffer<uint32_t> out(kTiles * 4 * kLanes, "sums");
  multiply<<<kTiles, kLanes>>>(form_of(kind, a_type, b_type), in.data(), out.data());
  finish_kernel(kKindNames[kind]);
  const bool halves = kind == f8f6f4_to_f16;
  std::vector<uint32_t> sums;
  const std::vector<uint32_t> found = out.to_host();
  for (int t = 0; t < kTiles; ++t) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const uint32_t word = found[(t * 4 + (halves ? i / 2 : i)) * kLanes + lane];
        sums.push_back(halves ? word >> 16 * (i % 2) & 0xffff : word);
        compare(tiles[t], lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2, sums.back());
      }
    }
  }
  report.section(std::string(kKindNames[kind]) + ", " + kTypeNames[a_type] + " and " + kTypeNames[b_type], sums);
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    Random random(report.seed());
    for (const Kind kind : {f8f6f4, f8f6f4_to_f16, mxf8f6f4}) {
      for (int a = 0; a < kTypes; ++a) {
        for (int b = 0; b < kTypes; ++b) show(report, random, kind, static_cast<Type>(a), static_cast<Type>(b));
      }
    }
    for (const Kind kind : {mxf4, mxf4nvf4_2x, mxf4nvf4_4x}) show(report, random, kind, e2m1, e2m1);
  });
}
