// Tests of chapter 15, in the order of its TODOs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "hopper_test.hpp"
#include "launches.hpp"

using namespace stagecraft::harness;

namespace {

using Bf16 = __nv_bfloat16;

using Chapter15 = stagecraft::chapters::HopperTest;

constexpr double kKnownTolerance = 1e-3;

/// What the sums of `times` products of two tiles are, if a usual mistake makes just these.
std::string mistake_of_a_product(const std::vector<float>& got, const std::vector<double>& product,
                                 const std::vector<Bf16>& a, const std::vector<Bf16>& b, int times) {
  // A thread has 32 sums of its row and of the row eight below it, which held its index.
  const auto with_index = [times](const Guess& sum, int row, int column) {
    return row / 16 * 32 + row % 8 * 4 + column % 8 / 2 + times * sum(row, column);
  };
  return likely_mistake<float, Bf16>(
      got, product, a, b, {64, 64, 64, 64, 64, 64}, [](double) { return kKnownTolerance; },
      [times](const Guess& sum, int row, int column) { return times * sum(row, column); },
      {{"they are those of one product. Which products overwrite the sums, and which add to them?", TheSum{}},
       {"what the registers held before has been added to. Which product overwrites it?", with_index}});
}

TEST_F(Chapter15, Todo1AWarpgroupMultipliesIntoItsRegisters) {
  const uint64_t seed = std::random_device{}();
  const std::vector<Bf16> a = random_values<Bf16>(64 * 64, seed), b = random_values<Bf16>(64 * 64, ~seed);
  const DeviceBuffer<Bf16> there_a(a, "A"), there_b(b, "B");
  const std::vector<double> product = reference_product<Bf16>(a, b, 64, 64, 64);
  for (const int times : {1, 3}) {
    DeviceBuffer<float> sums(64 * 64, "the sums");
    sums.poison();
    launch_multiply_known(there_a.data(), there_b.data(), sums.data(), times);
    finish_kernel("multiply_known");
    const std::vector<float> got = sums.to_host();
    for (int i = 0; i < 64 * 64; ++i) {
      const double expected = times * product[i];
      ASSERT_NEAR(got[i], expected, kKnownTolerance)
          << "row " << i / 64 << ", column " << i % 64 << " of the sums of " << times
          << " products; each thread's registers held its index before. Seed " << seed
          << mistake_of_a_product(got, product, a, b, times);
    }
  }
}

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
    return ": rows have changed places with those eight below. Which of a thread's sums are in which?";
  }
  if (is([](int row, int column) { return known_sum(row, column ^ 1) + known_bias(column); })) {
    return ": neighbouring columns have changed places";
  }
  if (is([](int row, int column) { return known_sum(row, column % 64) + known_bias(column); })) {
    return ": the first slice of sums is repeated. Which of them belong to a slice?";
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

TEST_F(Chapter15, Todo2SumsLeaveTheirRegisters) { expect_known(128, 64, 1); }
TEST_F(Chapter15, Todo2TheBuffersAreUsedInTurn) {
  ASSERT_NO_FATAL_FAILURE(expect_known(128, 128, 1));
  ASSERT_NO_FATAL_FAILURE(expect_known(384, 128, 3));
}
TEST_F(Chapter15, Todo2TheEdgesOfD) {
  ASSERT_NO_FATAL_FAILURE(expect_known(70, 40, 1));
  ASSERT_NO_FATAL_FAILURE(expect_known(129, 8, 2));
}

/// Fresh random operands through the answer's kernel; every element must be right.
void expect_product(TwinKernel kernel, int m, int n, int k, int clusters) {
  const uint64_t seed = std::random_device{}();
  const std::vector<Bf16> a = random_values<Bf16>(size_t(m) * k, seed), b = random_values<Bf16>(size_t(n) * k, ~seed);
  const std::vector<float> bias = random_values<float>(n, seed + 1);
  const DeviceBuffer<Bf16> there_a(a, "A"), there_b(b, "B");
  const DeviceBuffer<float> there_bias(bias, "the bias");
  DeviceBuffer<Bf16> there_d(size_t(m) * n, "D");
  there_d.poison();
  launch_gemm(kernel, there_a.data(), there_b.data(), there_bias.data(), there_d.data(), m, n, k, clusters);
  finish_kernel("gemm");
  const std::vector<Bf16> d = there_d.to_host();
  const std::vector<double> product = reference_product<Bf16>(a, b, m, n, k);
  std::vector<double> reference = product;
  for (size_t i = 0; i < reference.size(); ++i) reference[i] += bias[i % n];
  const ProductTolerance tolerance{.k = static_cast<size_t>(k)};
  const Comparison found = compare<Bf16>(d, reference, tolerance);
  if (found.wrong == 0) return;
  const float worst = static_cast<float>(d[found.worst]);
  ProductShape shape{m, n, k, kernel == TwinKernel::ping_pong ? 64 : 128, 128, 64};
  shape.result = 'D';
  const auto add_bias = [&](const Guess& sum, int row, int column) { return sum(row, column) + bias[column]; };
  FAIL() << "D of " << m << " x " << n << " x " << k << " on " << clusters << " cluster(s), seed " << seed << ": "
         << found.wrong << " of " << d.size() << " elements are wrong"
         << likely_mistake<Bf16, Bf16>(d, product, a, b, shape, tolerance, add_bias) << "\nfor example D["
         << found.worst / n << "][" << found.worst % n << "] = " << worst << ", which should be "
         << reference[found.worst];
}

TEST_F(Chapter15, Todo3To5ATileInOneStepOfK) { expect_product(TwinKernel::cooperative, 128, 128, 64, 1); }
TEST_F(Chapter15, Todo3To5TheStagesOfTheRingAreUsedAgain) {
  for (const int steps : {2, 4, 5, 11}) {
    ASSERT_NO_FATAL_FAILURE(expect_product(TwinKernel::cooperative, 128, 128, 64 * steps, 1));
  }
}
TEST_F(Chapter15, Todo3To5ABlockGoesFromTileToTile) {
  ASSERT_NO_FATAL_FAILURE(expect_product(TwinKernel::cooperative, 384, 128, 192, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product(TwinKernel::cooperative, 300, 264, 72, 2));
}

TEST_F(Chapter15, Todo6WarpgroupsTakeTurns) {
  ASSERT_NO_FATAL_FAILURE(expect_product(TwinKernel::ping_pong, 64, 128, 128, 1));
  for (const int tiles : {2, 3, 5}) {
    ASSERT_NO_FATAL_FAILURE(expect_product(TwinKernel::ping_pong, 64 * tiles, 128, 64 * 3, 1));
  }
  ASSERT_NO_FATAL_FAILURE(expect_product(TwinKernel::ping_pong, 200, 264, 328, 2));
}

TEST_F(Chapter15, Todo7BlocksOfAClusterShareTiles) {
  ASSERT_NO_FATAL_FAILURE(expect_product(TwinKernel::cluster, 256, 128, 64, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product(TwinKernel::cluster, 256, 128, 64 * 9, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product(TwinKernel::cluster, 600, 136, 320, 2));
}

}  // namespace
