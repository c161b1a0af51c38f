// Tests of chapter 12, in the order of its TODOs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
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
using stagecraft::TilePosition;
using Chapter12 = stagecraft::chapters::Tcgen05Test;

TEST_F(Chapter12, Todo1EachTileHasOneNumber) {
  for (const auto& [rows, columns, width] :
       {std::tuple{4u, 4u, 1u}, {4u, 4u, 2u}, {5u, 7u, 3u}, {7u, 5u, 4u}, {3u, 2u, 8u}}) {
    std::vector<int> times(size_t{rows} * columns);
    for (uint32_t number = 0; number < rows * columns; ++number) {
      const TilePosition at = answer_in_panels(number, rows, columns, width);
      const std::string what = "tile " + std::to_string(number) + " of " + std::to_string(rows) + " x " +
                               std::to_string(columns) + " in panels of " + std::to_string(width);
      ASSERT_LT(at.row, rows) << what << " is in row " << at.row;
      ASSERT_LT(at.column, columns) << what << " is in column " << at.column;
      ASSERT_EQ(++times[at.row * columns + at.column], 1)
          << what << " is in row " << at.row << ", column " << at.column << ", and so is another";
    }
  }
}

TEST_F(Chapter12, Todo1APanelIsFinishedBeforeTheNext) {
  const uint32_t rows = 5, columns = 7, width = 3;
  std::vector<TilePosition> right;  // counted out, so that a failing test does not print the formula
  for (uint32_t first = 0; first < columns; first += width) {
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t column = first; column < std::min(first + width, columns); ++column) right.push_back({row, column});
    }
  }
  for (uint32_t number = 0; number < rows * columns; ++number) {
    const TilePosition at = answer_in_panels(number, rows, columns, width), expected = right[number];
    ASSERT_TRUE(at.row == expected.row && at.column == expected.column)
        << "tile " << number << " of " << rows << " x " << columns << " in panels of " << width << " is in row "
        << at.row << ", column " << at.column << ", and should be in row " << expected.row << ", column "
        << expected.column << ": a panel's numbers go across it first, then down";
  }
}

/// What the turns of a role are, if a usual mistake makes just these.
/// @param taken    by the role, of each tile.
/// @param threads  of the role, each of which must take each tile once.
std::string mistake_of_turns(const uint32_t* taken, uint32_t rows, uint32_t columns, uint32_t threads,
                             Grouping grouping) {
  const auto is = [&](auto times) {
    for (uint32_t tile = 0; tile < rows * columns; ++tile) {
      if (taken[tile] != threads * times(tile / columns)) return false;
    }
    return true;
  };
  if (is([](uint32_t) { return 0; })) return ". This role has taken no turn at all";
  if (grouping == Grouping::pairs_of_blocks && is([](uint32_t row) { return row % 2 == 0 ? 2 : 0; })) {
    return ". Both blocks of each cluster have taken the tile of its first block";
  }
  if (is([](uint32_t) { return 2; })) return ". Every tile was taken twice: who else requests?";
  return "";
}

/// All units are taken once, by each thread of each of the three roles.
void expect_all_taken(Grouping grouping, uint32_t rows, uint32_t columns) {
  constexpr uint32_t kRoles = 3, kThreads[kRoles] = {1, 1, 32};
  DeviceBuffer<uint32_t> taken(size_t{kRoles} * rows * columns, "the tiles taken");
  check(cudaMemset(taken.data(), 0, taken.bytes()), "clear the record");
  DeviceBuffer<uint32_t> started(1, "the clusters that started");
  check(cudaMemset(started.data(), 0, started.bytes()), "clear the record");
  launch_take_turns(grouping, rows, columns, taken.data(), started.data());
  finish_kernel("take_turns");
  const std::vector<uint32_t> got = taken.to_host();
  for (uint32_t role = 0; role < kRoles; ++role) {
    for (uint32_t tile = 0; tile < rows * columns; ++tile) {
      ASSERT_EQ(got[role * rows * columns + tile], kThreads[role])
          << "turns of warp " << role << " for the tile in row " << tile / columns << ", column " << tile % columns
          << " of " << rows << " x " << columns << ": " << kThreads[role] << " thread(s) must take it once each"
          << mistake_of_turns(&got[role * rows * columns], rows, columns, kThreads[role], grouping);
    }
  }
  const uint32_t units = (grouping == Grouping::blocks ? rows : (rows + 1) / 2) * columns;
  if (units > 148) {
    EXPECT_LT(started.to_host()[0], units)
        << "every cluster has started, and computed its own unit only: none was taken "
           "over by a cluster that was running";
  }
}

TEST_F(Chapter12, Todo2To5OneTile) { expect_all_taken(Grouping::blocks, 1, 1); }

TEST_F(Chapter12, Todo2To5MoreTilesThanBlocksFit) { expect_all_taken(Grouping::blocks, 23, 21); }

TEST_F(Chapter12, Todo2To5BlocksOfAClusterTakeTheirTurnsTogether) {
  ASSERT_NO_FATAL_FAILURE(expect_all_taken(Grouping::pairs_of_blocks, 1, 3));
  ASSERT_NO_FATAL_FAILURE(expect_all_taken(Grouping::pairs_of_blocks, 21, 23));
}

/// Fresh random operands through the answer's kernel; every element must be right.
void expect_product(Schedule schedule, Grouping grouping, int m, int n, int k, uint32_t clusters) {
  const uint64_t seed = std::random_device{}();
  const std::vector<Element> a = random_values<Element>(size_t(m) * k, seed);
  const std::vector<Element> b = random_values<Element>(size_t(n) * k, ~seed);
  const DeviceBuffer<Element> there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<float> there_c(size_t(m) * n, "C");
  there_c.poison();
  launch_answer(schedule, grouping, there_a.data(), there_b.data(), there_c.data(), m, n, k, clusters);
  finish_kernel("gemm");
  const std::vector<float> c = there_c.to_host();
  const std::vector<double> reference = reference_product<Element>(a, b, m, n, k);
  const ProductTolerance tolerance{.k = static_cast<size_t>(k), .output_epsilon = kRounding<float>};
  const Comparison found = compare<float>(c, reference, tolerance);
  if (found.wrong == 0) return;
  FAIL() << "C of " << m << " x " << n << " x " << k << ", seed " << seed << ": " << found.wrong << " of " << c.size()
         << " elements are wrong"
         << likely_mistake<float, Element>(c, reference, a, b, {m, n, k, 128, 128, 64}, tolerance) << "\nfor example C["
         << found.worst / n << "][" << found.worst % n << "] = " << c[found.worst] << ", which should be "
         << reference[found.worst];
}

TEST_F(Chapter12, Todo6AFixedSchedule) {
  ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::fixed, Grouping::blocks, 128, 128, 64, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::fixed, Grouping::blocks, 300, 600, 200, 3));
  ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::fixed, Grouping::pairs_of_blocks, 300, 300, 72, 2));
}

TEST_F(Chapter12, Todo7LaunchControl) {
  ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::launch_control, Grouping::blocks, 128, 128, 64, 0));
  ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::launch_control, Grouping::blocks, 300, 130, 328, 0));
}

TEST_F(Chapter12, Todo7LaunchControlTakesOverBlocksThatHaveNotStarted) {
  // A block needs more than half of a multiprocessor, and the chip has 148. With 600 tiles each block takes four turns,
  // one more than the rings of the scheduler have stages.
  ASSERT_NO_FATAL_FAILURE(expect_product(Schedule::launch_control, Grouping::blocks, 5, 600 * 128 - 3, 72, 0));
  ASSERT_NO_FATAL_FAILURE(
      expect_product(Schedule::launch_control, Grouping::pairs_of_blocks, 13 * 128 - 5, 14 * 128 - 3, 72, 0));
}

}  // namespace
