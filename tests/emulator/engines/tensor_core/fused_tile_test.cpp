// The fused sums of mma.sync's tiles against those of one element, at every level of the processor's instructions that
// is built.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "emulator/engines/tensor_core/fused_sum.hpp"
#include "emulator/engines/tensor_core/warp_mma/warp_mma_kernels.hpp"
#include "emulator/host/isa_level.hpp"
#include "emulator/host/processor_level.hpp"
#include "harness/random.hpp"

namespace stagecraft::emulator::machine {

STAGECRAFT_DECLARE_ISA(const WarpMmaKernels& warp_kernels())

namespace {

using harness::Random;

/// Numbers whose exponents are `spread` below `most` at most; one in `special_in` is a value that needs care.
struct Numbers {
  int bits, most, spread;
  uint32_t special_in;
  std::vector<float> special;

  float draw(Random& random) const {
    const uint64_t drawn = random.bits();
    if (drawn % special_in == 0) return special[drawn / special_in % special.size()];
    const float fraction = static_cast<float>(drawn >> 32 & ((1u << bits) - 1)) / static_cast<float>(1u << bits);
    const int exponent = most - static_cast<int>(drawn >> 20 & 0xfff) % (spread + 1);
    return std::ldexp(drawn >> 63 != 0 ? -1 - fraction : 1 + fraction, exponent);
  }
};

struct Tile {
  std::vector<float> rows, columns, d;
};

Tile draw_tile(uint32_t depth, const Numbers& elements, const Numbers& addends, uint64_t seed) {
  Random random(seed);
  Tile tile;
  for (uint32_t i = 0; i < depth * kFragmentRows; ++i) tile.rows.push_back(elements.draw(random));
  for (uint32_t i = 0; i < depth * kFragmentColumns; ++i) tile.columns.push_back(elements.draw(random));
  for (uint32_t i = 0; i < kFragmentRows * kFragmentColumns; ++i) tile.d.push_back(addends.draw(random));
  return tile;
}

/// Compares what fits; returns whether it does.
bool compare(const Tile& tile, uint32_t depth, const FusedSum& how) {
  bool fits = true;
  const auto compare_level = [&](int level, const WarpMmaKernels& kernels) {
    if (level > processor_level()) return;
    std::vector<float> d = tile.d;
    fits = kernels.multiply_fused(tile.rows.data(), tile.columns.data(), depth, how, d.data());
    for (uint32_t i = 0; fits && i < d.size(); ++i) {
      const float expected = fused_sum(&tile.rows[i % kFragmentRows], kFragmentRows, &tile.columns[i / kFragmentRows],
                                       kFragmentColumns, depth, tile.d[i], how);
      ASSERT_EQ(std::bit_cast<uint32_t>(d[i]), std::bit_cast<uint32_t>(expected))
          << "level " << level << ", depth " << depth << ", element " << i << ", added to " << tile.d[i] << ": " << d[i]
          << ", not " << expected;
    }
  };
#define STAGECRAFT_LEVEL(level, isa, ...) compare_level(level, isa::warp_kernels());
  STAGECRAFT_EACH_ISA(STAGECRAFT_LEVEL, )
#undef STAGECRAFT_LEVEL
  return fits;
}

TEST(FusedTileTest, GivesTheSumsOfSingleElements) {
  const std::vector<float> zeros{0.0f, -0.0f}, subnormal{0x1p-24f, -0x1.8p-23f, 0.0f};
  const std::vector<float> any{INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 0x1.fffffep127f, 1e-45f, -1e-40f};
  const FusedSum bf16{25, -126, -126, SumResult::f32}, f16{25, -14, -14, SumResult::f32};
  const FusedSum halves{25, -14, -14, SumResult::odd};
  uint64_t seed = 0;
  for (const uint32_t depth : {4u, 8u, 16u}) {
    for (uint32_t i = 0; i < 20; ++i) {
      EXPECT_TRUE(compare(draw_tile(depth, {7, 2, 12, 9, zeros}, {23, 4, 30, 6, any}, ++seed), depth, bf16));
      EXPECT_TRUE(compare(draw_tile(depth, {7, 20, 60, 2, zeros}, {23, 40, 80, 6, any}, ++seed), depth, bf16));
      EXPECT_TRUE(compare(draw_tile(depth, {10, 0, 14, 5, subnormal}, {23, 2, 30, 4, zeros}, ++seed), depth, f16));
      EXPECT_TRUE(compare(draw_tile(depth, {10, -4, 10, 3, subnormal}, {10, -4, 10, 4, zeros}, ++seed), depth, halves));
      EXPECT_TRUE(compare(draw_tile(depth, {0, 1, 0, 1, {0x1.ffcp0f}}, {23, 1, 0, 3, any}, ++seed), depth, f16));
    }
  }
}

TEST(FusedTileTest, LeavesWhatDoesNotFit) {
  const FusedSum bf16{25, -126, -126, SumResult::f32};
  const Numbers addends{23, 0, 3, 2, {0.0f}};
  EXPECT_FALSE(compare(draw_tile(16, {7, 0, 4, 3, {INFINITY}}, addends, 1), 16, bf16));
  EXPECT_FALSE(compare(draw_tile(16, {7, 0, 4, 3, {NAN}}, addends, 2), 16, bf16));
  EXPECT_FALSE(compare(draw_tile(16, {7, 100, 4, 3, {0.0f}}, addends, 3), 16, bf16)) << "too large";
  EXPECT_FALSE(compare(draw_tile(16, {7, -60, 4, 3, {0.0f}}, addends, 4), 16, bf16)) << "too small";
  EXPECT_FALSE(compare(draw_tile(32, {7, 0, 4, 3, {0.0f}}, addends, 5), 32, bf16)) << "too deep";
}

}  // namespace
}  // namespace stagecraft::emulator::machine
