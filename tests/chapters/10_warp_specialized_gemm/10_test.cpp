// Tests of chapter 10, in the order of its TODOs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "launches.hpp"
#include "product_mistakes.hpp"
#include "tcgen05_test.hpp"

using namespace stagecraft::harness;

namespace {

using Element = __nv_bfloat16;
constexpr int kTileM = 128, kTileN = 128, kTileK = 64;  // of the answer: problem.cuh
using Chapter10 = stagecraft::chapters::Tcgen05Test;

TEST_F(Chapter10, Todo1EachWarpStoresTheRowsThatItReaches) {
  for (const auto& [m, n] : {std::pair{128, 128}, {128, 96}, {70, 33}, {1, 1}}) {
    DeviceBuffer<float> c(size_t(m) * n, "C");
    c.poison();
    launch_store_known(c.data(), m, n);
    finish_kernel("store_known");
    const std::vector<float> got = c.to_host();
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < n; ++column) {
        ASSERT_EQ(got[row * n + column], static_cast<float>(row * 1000 + column))
            << "C[" << row << "][" << column << "] of " << m << " x " << n
            << ": row r of the tile is lane r of tensor memory, and column c is column c"
            << (got[row * n + column] == static_cast<float>(row * 1000 + column % 32)
                    ? ". Here columns 0 to 31 are repeated"
                    : "");
      }
    }
  }
}

/// Fresh random operands through the answer's kernel; every element must be right.
void expect_product(int64_t m, int64_t n, int64_t k, int blocks) {
  const uint64_t seed = std::random_device{}();
  const std::vector<Element> a = random_values<Element>(m * k, seed), b = random_values<Element>(n * k, ~seed);
  const DeviceBuffer<Element> there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<Element> there_c(m * n, "C");
  there_c.poison();
  launch_answer(there_a.data(), there_b.data(), there_c.data(), m, n, k, blocks);
  finish_kernel("gemm");
  const std::vector<Element> c = there_c.to_host();
  const std::vector<double> reference = reference_product<Element>(a, b, m, n, k);
  const ProductTolerance tolerance{.k = static_cast<size_t>(k)};
  const Comparison found = compare<Element>(c, reference, tolerance);
  if (found.wrong == 0) return;
  const float worst = static_cast<float>(c[found.worst]);
  FAIL() << "C of " << m << " x " << n << " x " << k << " on " << blocks << " block(s), seed " << seed << ": "
         << found.wrong << " of " << c.size() << " elements are wrong"
         << stagecraft::chapters::likely_mistake<Element, Element>(
                c, reference, a, b, {int(m), int(n), int(k), kTileM, kTileN, kTileK}, tolerance)
         << "\nfor example C[" << found.worst / n << "][" << found.worst % n << "] = " << worst << ", which should be "
         << reference[found.worst]
         << (std::isnan(worst) ? " (a NaN is what C and tensor memory hold before anybody writes there)" : "");
}

TEST_F(Chapter10, Todo2To5ATileOfCInOneStepOfK) { expect_product(128, 128, 64, 1); }

TEST_F(Chapter10, Todo3And5TheRingOfTilesIsUsedAgain) {
  for (const int64_t steps : {2, 4, 5, 11}) ASSERT_NO_FATAL_FAILURE(expect_product(128, 128, 64 * steps, 1));
}

TEST_F(Chapter10, Todo4TheRingOfAccumulatorsIsUsedAgain) {
  for (const int64_t tiles : {2, 3, 5}) ASSERT_NO_FATAL_FAILURE(expect_product(128 * tiles, 128, 192, 1));
}

TEST_F(Chapter10, EveryTileOfCIsSomeBlocks) {
  ASSERT_NO_FATAL_FAILURE(expect_product(1, 1, 8, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product(300, 300, 72, 2));
  ASSERT_NO_FATAL_FAILURE(expect_product(257, 130, 328, 4));
  ASSERT_NO_FATAL_FAILURE(expect_product(200, 520, 264, 3));
}

}  // namespace
