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

using namespace stagecraft::harness;

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

float known_sum(int row, int column) { return static_cast<float>((row + 3 * column) % 251); }
float known_bias(int column) { return static_cast<float>(column % 5); }

/// What the known numbers are, if a usual mistake makes just these.
std::string misplaced(const std::vector<Bf16>& got, int m, int n) {
  const auto is = [&](auto element) {
    for (int i = 0; i < m * n; ++i) {
      if (!(static_cast<float>(got[i]) == element(i / n, i % n))) return false;
    }
    return true;
  };
  if (is(known_sum)) return ": these are the sums alone. Are the operations applied?";
  if (is([](int row, int column) { return known_sum(row ^ 8, column) + known_bias(column); })) {
    return ": rows have changed places with those eight below. Which of a lane's sums are in which?";
  }
  if (is([](int row, int column) {
        const int from_row = (row & ~8) | (column & 8), from_column = (column & ~8) | (row & 8);
        return known_sum(from_row, from_column) + known_bias(from_column);
      })) {
    return ": of each 16 x 16, the matrices at the top right and the bottom left have changed places. Which lanes give "
           "the addresses of the second matrix?";
  }
  if (is([](int row, int column) { return known_sum(row, column ^ 1) + known_bias(column); })) {
    return ": neighbouring columns have changed places";
  }
  if (is([](int row, int column) {  // a line of a slice is 128 bytes, eight chunks of eight columns
        const int from = column / 64 * 64 + (column / 8 % 8 ^ row % 8) * 8 + column % 8;
        return known_sum(row, from) + known_bias(from);
      })) {
    return ": chunks of 16 bytes have changed places. Does each go where the swizzle has it?";
  }
  return "";
}

/// What the answer's writer makes of known sums.
void expect_known(int m, int n, int tiles) {
  std::vector<float> bias(n);
  for (int column = 0; column < n; ++column) bias[column] = known_bias(column);
  const DeviceBuffer<float> there_bias(bias, "the bias");
  DeviceBuffer<Bf16> d(size_t(m) * n, "D");
  d.poison();
  launch_write_known(d.data(), there_bias.data(), m, n, tiles);
  finish_kernel("write_known");
  const std::vector<Bf16> got = d.to_host();
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      ASSERT_EQ(static_cast<float>(got[row * n + column]), known_sum(row, column) + known_bias(column))
          << "D[" << row << "][" << column << "] of " << m << " x " << n << misplaced(got, m, n);
    }
  }
}

TEST_F(Chapter19, Todo3SumsLeaveTheirRegisters) { expect_known(128, 128, 1); }
TEST_F(Chapter19, Todo3TheSameMemoryForTheNextTile) { expect_known(256, 128, 2); }
TEST_F(Chapter19, Todo3TheEdgesOfD) {
  ASSERT_NO_FATAL_FAILURE(expect_known(70, 40, 1));
  ASSERT_NO_FATAL_FAILURE(expect_known(129, 72, 2));
}

// ---- The kernel -----------------------------------------------------------------------------------------------------

/// Fresh random operands through the answer's kernel; every element must be right.
void expect_product(Schedule schedule, int m, int n, int k, uint32_t blocks) {
  const uint64_t seed = std::random_device{}();
  const std::vector<Bf16> a = random_values<Bf16>(size_t(m) * k, seed), b = random_values<Bf16>(size_t(n) * k, ~seed);
  const std::vector<float> bias = random_values<float>(n, seed + 1);
  const DeviceBuffer<Bf16> there_a(a, "A"), there_b(b, "B");
  const DeviceBuffer<float> there_bias(bias, "the bias");
  DeviceBuffer<Bf16> there_d(size_t(m) * n, "D");
  there_d.poison();
  launch_gemm(schedule, there_a.data(), there_b.data(), there_bias.data(), there_d.data(), m, n, k, blocks);
  finish_kernel("gemm");
  const std::vector<Bf16> d = there_d.to_host();
  const std::vector<double> product = reference_product<Bf16>(a, b, m, n, k);
  std::vector<double> reference = product;
  for (size_t i = 0; i < reference.size(); ++i) reference[i] += bias[i % n];
  const ProductTolerance tolerance{.k = static_cast<size_t>(k)};
  const Comparison found = compare<Bf16>(d, reference, tolerance);
  if (found.wrong == 0) return;
  const float worst = static_cast<float>(d[found.worst]);
  ProductShape shape{m, n, k, 128, 128, 64};
  shape.result = 'D';
  const auto add_bias = [&](const Guess& sum, int row, int column) { return sum(row, column) + bias[column]; };
  FAIL() << "D of " << m << " x " << n << " x " << k << " on "
         << (schedule == Schedule::launch_control ? "the blocks that launch control keeps"
                                                  : std::to_string(blocks) + " block(s)")
         << ", seed " << seed << ": " << found.wrong << " of " << d.size() << " elements are wrong"
         << likely_mistake<Bf16, Bf16>(d, product, a, b, shape, tolerance, add_bias) << "\nfor example D["
         << found.worst / n << "][" << found.worst % n << "] = " << worst << ", which should be "
         << reference[found.worst];
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
