// Tests of chapter 15, in the order of its TODOs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "hopper_test.hpp"
#include "launches.hpp"
#include "register_sums_test.hpp"

using namespace stagecraft::harness;
using stagecraft::chapters::known_bias;
using stagecraft::chapters::known_sum;

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

void expect_known(int m, int n, int tiles) {
  stagecraft::chapters::expect_known(
      launch_write_known, m, n, tiles,
      {{"the first slice of sums is repeated. Which of them belong to a slice?",
        [](int row, int column) { return known_sum(row, column % 64) + known_bias(column); }}});
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

void expect_product(TwinKernel kernel, int m, int n, int k, int clusters) {
  stagecraft::chapters::expect_product({m, n, k, kernel == TwinKernel::ping_pong ? 64 : 128, 128, 64},
                                       std::to_string(clusters) + " cluster(s)",
                                       [&](const Bf16* a, const Bf16* b, const float* bias, Bf16* d) {
                                         launch_gemm(kernel, a, b, bias, d, m, n, k, clusters);
                                       });
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
