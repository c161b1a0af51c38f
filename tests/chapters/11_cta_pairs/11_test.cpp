// Tests of chapter 11, in the order of its TODOs.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "launches.hpp"
#include "tcgen05_test.hpp"

using namespace stagecraft::harness;

namespace {

using Element = __nv_bfloat16;
using Chapter11 = stagecraft::chapters::Tcgen05Test;

/// Fresh random operands through `launch(a, b, c)`; every element must be right.
/// @param in_pairs  two blocks compute a tile.
template <typename Launch>
void expect_product(int m, int n, int k, bool in_pairs, const char* kernel, Launch launch) {
  const int tile = in_pairs ? 256 : 128;
  const uint64_t seed = std::random_device{}();
  const std::vector<Element> a = random_values<Element>(size_t(m) * k, seed);
  const std::vector<Element> b = random_values<Element>(size_t(n) * k, ~seed);
  const DeviceBuffer<Element> there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<float> there_c(size_t(m) * n, "C");
  there_c.poison();
  launch(there_a.data(), there_b.data(), there_c.data());
  finish_kernel(kernel);
  const std::vector<float> c = there_c.to_host();
  const std::vector<double> reference = reference_product<Element>(a, b, m, n, k);
  const ProductTolerance tolerance{.k = static_cast<size_t>(k), .output_epsilon = 0x1p-24};
  const Comparison found = compare<float>(c, reference, tolerance);
  if (found.wrong == 0) return;
  FAIL() << "C of " << m << " x " << n << " x " << k << ", seed " << seed << ": " << found.wrong << " of " << c.size()
         << " elements are wrong"
         << likely_mistake<float, Element>(
                c, reference, a, b,
                {.m = m, .n = n, .k = k, .tile_m = tile, .tile_n = tile, .tile_k = 64, .in_pairs = in_pairs}, tolerance)
         << "\nfor example C[" << found.worst / n << "][" << found.worst % n << "] = " << c[found.worst]
         << ", which should be " << reference[found.worst];
}

void expect_product_of_pairs(int m, int n, int k, int pairs) {
  expect_product(m, n, k, /*in_pairs=*/true, "multiply_by_pair",
                 [&](const Element* a, const Element* b, float* c) { launch_pair(a, b, c, m, n, k, pairs); });
}

void expect_gemm(Shape shape, int m, int n, int k, int clusters, unsigned slow_nanoseconds = 0) {
  const bool in_pairs = shape == Shape::pair || shape == Shape::two_pairs || shape == Shape::four_pairs;
  expect_product(m, n, k, in_pairs, "gemm", [&](const Element* a, const Element* b, float* c) {
    launch_gemm(shape, a, b, c, m, n, k, clusters, slow_nanoseconds);
  });
}

TEST_F(Chapter11, Todo1To5ATileOfCInOneStepOfK) { expect_product_of_pairs(256, 256, 64, 1); }

TEST_F(Chapter11, Todo2And3TheStageIsFilledAgainAndAgain) {
  for (const int steps : {2, 3, 6}) ASSERT_NO_FATAL_FAILURE(expect_product_of_pairs(256, 256, 64 * steps, 1));
}

TEST_F(Chapter11, Todo4TheAccumulatorIsUsedAgain) {
  for (const int tiles : {2, 3}) ASSERT_NO_FATAL_FAILURE(expect_product_of_pairs(256 * tiles, 256, 128, 1));
}

TEST_F(Chapter11, Todo5BothBlocksStayUntilNothingIsUnderWay) {
  ASSERT_NO_FATAL_FAILURE(expect_product_of_pairs(1, 1, 8, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product_of_pairs(300, 300, 72, 2));
  ASSERT_NO_FATAL_FAILURE(expect_product_of_pairs(520, 130, 200, 3));
}

TEST_F(Chapter11, Todo6And7APairWithRings) {
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::pair, 256, 256, 64, 1));
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::pair, 256, 768, 64 * 6, 1));
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::pair, 300, 520, 200, 2));
}

TEST_F(Chapter11, Todo6And7BlocksThatShareTiles) {
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::one_block, 300, 130, 328, 2));
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::square, 300, 520, 64 * 6, 1));
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::two_down, 600, 130, 64 * 6, 1));
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::two_across, 130, 600, 64 * 6, 1));
}

// The others are done before the first block, whose tensor core has yet to read what they have brought.
TEST_F(Chapter11, Todo6ABlockStaysUntilItsNeighbourHasRead) {
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::two_down, 256, 768, 64, 1, 20000));
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::square, 256, 1536, 64, 1, 20000));
}

TEST_F(Chapter11, Todo6And7PairsThatShareTiles) {
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::two_pairs, 256, 1024, 64 * 6, 1));
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::two_pairs, 300, 300, 72, 2));
  ASSERT_NO_FATAL_FAILURE(expect_gemm(Shape::four_pairs, 600, 600, 64 * 5, 1));
}

}  // namespace
