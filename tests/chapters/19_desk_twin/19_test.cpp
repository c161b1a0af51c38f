// Tests of chapter 19's kernel for bf16, in the order of its TODOs.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "desk_test.hpp"
#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "launches.hpp"
#include "register_sums_test.hpp"

using namespace stagecraft::harness;
using stagecraft::chapters::known_bias;
using stagecraft::chapters::known_sum;

namespace {

using Bf16 = __nv_bfloat16;

using Chapter19 = stagecraft::chapters::DeskTest;

// ---- Fragments ------------------------------------------------------------------------------------------------------

constexpr uint16_t kOfB = 0x4000;  // set in the elements of B

/// A tile whose elements say where they are.
std::vector<Bf16> numbered(uint16_t operand) {
  std::vector<Bf16> tile(kKnownRows * kKnownColumns);
  for (size_t i = 0; i < tile.size(); ++i) tile[i] = std::bit_cast<Bf16>(static_cast<uint16_t>(operand | i));
  return tile;
}

/// Which two elements a register holds, in words.
std::string elements(uint32_t word) {
  const auto element = [](uint32_t half) {
    const uint32_t at = half & (kOfB - 1);
    return std::string(half & kOfB ? "B[" : "A[") + std::to_string(at / kKnownColumns) + "][" +
           std::to_string(at % kKnownColumns) + "]";
  };
  return element(word & 0xffff) + " and " + element(word >> 16);
}

/// The word of a matrix of 8 x 8 that begins at (row, column) which a lane must have.
uint32_t word_of(uint16_t operand, int row, int column, int lane) {
  const uint32_t at = operand | ((row + lane / 4) * kKnownColumns + column + lane % 4 * 2);
  return at | (at + 1) << 16;
}

void expect_fragments(bool plain) {
  const DeviceBuffer<Bf16> a(numbered(0), "A"), b(numbered(kOfB), "B");
  DeviceBuffer<KnownFragments> found(size_t{kKnownSlices} * 32, "the fragments");
  found.poison();
  launch_load_known(a.data(), b.data(), found.data(), plain);
  finish_kernel("load_known");
  const std::vector<KnownFragments> got = found.to_host();
  for (int slice = 0; slice < kKnownSlices; ++slice) {
    for (int i = 0; i < kLoadedRows / 16; ++i) {
      for (int j = 0; j < 4; ++j) {
        for (int lane = 0; lane < 32; ++lane) {
          const KnownFragments& of = got[slice * 32 + lane];
          const uint32_t of_a = word_of(0, kFirstOfA + 16 * i + j % 2 * 8, 16 * slice + j / 2 * 8, lane);
          const uint32_t of_b = word_of(kOfB, kFirstOfB + 16 * i + j / 2 * 8, 16 * slice + j % 2 * 8, lane);
          const std::string which = "of lane " + std::to_string(lane) + ", slice " + std::to_string(slice) + " of a " +
                                    (plain ? "plain" : "swizzled") + " tile, ";
          if (of.a[i][j] != of_a) {
            FAIL() << "a[" << i << "][" << j << "] " << which << "has " << elements(of.a[i][j]) << ", and must have "
                   << elements(of_a);
          }
          if (of.b[i][j] != of_b) {
            FAIL() << "b[" << i << "][" << j << "] " << which << "has " << elements(of.b[i][j]) << ", and must have "
                   << elements(of_b);
          }
        }
      }
    }
  }
}

TEST_F(Chapter19, Todo1EachLaneHasItsElements) { expect_fragments(/*plain=*/true); }
TEST_F(Chapter19, Todo1AlsoOfASwizzledTile) { expect_fragments(/*plain=*/false); }

TEST_F(Chapter19, Todo2AWarpAddsAProductToItsSums) {
  constexpr int kSize = 32;
  constexpr float kFirst = 5;
  constexpr double kKnownTolerance = 1e-3;
  const uint64_t seed = std::random_device{}();
  const std::vector<Bf16> a = random_values<Bf16>(kSize * kKnownColumns, seed),
                          b = random_values<Bf16>(kSize * kKnownColumns, ~seed);
  const DeviceBuffer<Bf16> there_a(a, "A"), there_b(b, "B");
  const std::vector<double> product = reference_product<Bf16>(a, b, kSize, kSize, kKnownColumns);
  DeviceBuffer<float> sums(kSize * kSize, "the sums");
  sums.poison();
  launch_multiply_known(there_a.data(), there_b.data(), sums.data(), kFirst);
  finish_kernel("multiply_known");
  const std::vector<float> got = sums.to_host();
  const auto add_first = [](const Guess& sum, int row, int column) { return sum(row, column) + kFirst; };
  const auto of_matrices_side_by_side = [&](const Guess&, int row, int column) {
    double sum = kFirst;
    for (int k = 0; k < kKnownColumns;
         ++k) {  // the first or second half of K of both rows, in place of both halves of one
      const int row_of_b = column / 16 * 16 + k / 8 % 2 * 8 + column % 8;
      const int k_of_b = k / 16 * 16 + column / 8 % 2 * 8 + k % 8;
      sum += static_cast<double>(static_cast<float>(a[row * kKnownColumns + k])) *
             static_cast<float>(b[row_of_b * kKnownColumns + k_of_b]);
    }
    return sum;
  };
  for (int i = 0; i < kSize * kSize; ++i) {
    ASSERT_NEAR(got[i], product[i] + kFirst, kKnownTolerance)
        << "row " << i / kSize << ", column " << i % kSize << " of the sums, which were " << kFirst << " before. Seed "
        << seed
        << likely_mistake<float, Bf16>(
               got, product, a, b, {kSize, kSize, kKnownColumns, kSize, kSize, kKnownColumns},
               [](double) { return kKnownTolerance; }, add_first,
               {{"what the sums held before is lost. Which product overwrites them?", TheSum{}},
                {"columns have changed places with those eight to the right. Which of the four matrices of B belong to "
                 "which eight columns?",
                 [](const Guess& sum, int row, int column) { return sum(row, column ^ 8) + kFirst; }},
                {"a product takes matrices 0 and 2 of B, or 1 and 3: two of different rows of B, which are different "
                 "columns of the sums",
                 of_matrices_side_by_side}});
  }
}

// ---- The writer -----------------------------------------------------------------------------------------------------

void expect_known(int m, int n, int tiles) {
  stagecraft::chapters::expect_known(
      launch_write_known, m, n, tiles,
      {{"of each 16 x 16, the matrices at the top right and the bottom left have changed places. Which lanes give the "
        "addresses of the second matrix?",
        [](int row, int column) {
          const int from = (column & ~8) | (row & 8);
          return known_sum((row & ~8) | (column & 8), from) + known_bias(from);
        }}});
}

TEST_F(Chapter19, Todo3SumsLeaveTheirRegisters) { expect_known(128, 128, 1); }
TEST_F(Chapter19, Todo3TheSameMemoryForTheNextTile) { expect_known(256, 128, 2); }
TEST_F(Chapter19, Todo3TheEdgesOfD) {
  ASSERT_NO_FATAL_FAILURE(expect_known(70, 40, 1));
  ASSERT_NO_FATAL_FAILURE(expect_known(129, 72, 2));
}

// ---- The kernel -----------------------------------------------------------------------------------------------------

void expect_product(Schedule schedule, int m, int n, int k, uint32_t blocks) {
  stagecraft::chapters::expect_product({m, n, k, 128, 128, 64},
                                       schedule == Schedule::launch_control ? "the blocks that launch control keeps"
                                                                            : std::to_string(blocks) + " block(s)",
                                       [&](const Bf16* a, const Bf16* b, const float* bias, Bf16* d) {
                                         launch_gemm(schedule, a, b, bias, d, m, n, k, blocks);
                                       });
}

TEST_F(Chapter19, Todo4To7ATileInOneStepOfK) { expect_product(Schedule::before_launch, 128, 128, 64, 1); }
TEST_F(Chapter19, Todo4To7TheStagesOfTheRingAreUsedAgain) {
  for (const int steps : {2, 3, 7}) {
    ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::before_launch, 128, 128, 64 * steps, 1));
  }
}
TEST_F(Chapter19, Todo7ABlockGoesFromTileToTile) {
  ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::before_launch, 384, 128, 64, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::before_launch, 300, 264, 200, 2));
}
TEST_F(Chapter19, Todo8TheHardwareHandsOutTiles) {
  ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::launch_control, 128, 128, 64, 1));
  // 13 x 14 tiles are more than the chip has multiprocessors, and a block needs more than half of one.
  ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::launch_control, 13 * 128 - 5, 14 * 128 - 8, 72, 1));
}

// ---- The blank page -------------------------------------------------------------------------------------------------

TEST_F(Chapter19, Todo9TheTilesOfTheLowerTriangle) {
  constexpr int kTile = 128;
  struct Case {
    int m, k, blocks;
  };
  for (const auto& [m, k, blocks] : {Case{128, 64, 1}, Case{328, 200, 1}, Case{520, 72, 4}}) {
    const uint64_t seed = std::random_device{}();
    const std::vector<Bf16> a = random_values<Bf16>(size_t(m) * k, seed);
    const DeviceBuffer<Bf16> there_a(a, "A");
    DeviceBuffer<Bf16> there_d(size_t(m) * m, "D");
    there_d.poison();
    const std::vector<Bf16> before = there_d.to_host();
    launch_lower_triangle(there_a.data(), there_d.data(), m, k, blocks);
    finish_kernel("the kernel");
    const std::vector<Bf16> d = there_d.to_host();
    const std::vector<double> product = reference_product<Bf16>(a, a, m, m, k);
    const ProductTolerance tolerance{.k = static_cast<size_t>(k)};
    for (int i = 0; i < m * m; ++i) {
      const int row = i / m, column = i % m;
      if (column / kTile > row / kTile) {
        ASSERT_EQ(std::bit_cast<uint16_t>(d[i]), std::bit_cast<uint16_t>(before[i]))
            << "D[" << row << "][" << column << "] of " << m << " x " << m
            << " is in a tile above the diagonal, and was written";
      } else {
        ASSERT_NEAR(static_cast<float>(d[i]), product[i], tolerance(product[i]))
            << "D[" << row << "][" << column << "] of " << m << " x " << m << ", K = " << k << ", on " << blocks
            << " block(s), seed " << seed;
      }
    }
  }
}

}  // namespace
