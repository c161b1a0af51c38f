// Tests of chapter 02, in the order of its TODOs.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "launches.hpp"

using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;
using stagecraft::harness::Random;

namespace {

std::vector<uint32_t> random_words(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> words(count);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random.bits());
  return words;
}

TEST(Chapter02, Todo1AStepGoesAroundTheRingAndTurnsThePhase) {
  constexpr int kSteps = 14;
  for (const int stages : {1, 2, 3, 4}) {
    for (const uint32_t first_phase : {0u, 1u}) {
      DeviceBuffer<uint32_t> indices(kSteps, "the indices"), phases(kSteps, "the phases");
      indices.poison();
      phases.poison();
      launch_walk(stages, first_phase, kSteps, indices.data(), phases.data());
      finish_kernel("walk");
      const std::vector<uint32_t> got_indices = indices.to_host(), got_phases = phases.to_host();
      for (int step = 0; step < kSteps; ++step) {
        ASSERT_EQ(got_indices[step], step % stages) << "index() after step " << step << " in a ring of " << stages;
        ASSERT_EQ(got_phases[step], (first_phase + step / stages) % 2)
            << "phase() after step " << step << " in a ring of " << stages << ", begun in phase " << first_phase;
      }
    }
  }
}

/// The sum of row `row`, modulo 2^32.
uint32_t sum_of_row(const std::vector<uint32_t>& words, int row) {
  return std::accumulate(words.begin() + row * kRow, words.begin() + (row + 1) * kRow, uint32_t{0});
}

/// Which mistake gives a row the wrong sum `got`.
std::string explain_sum(const std::vector<uint32_t>& words, int rows, uint32_t got) {
  for (int other = 0; other < rows; ++other) {
    if (got == sum_of_row(words, other)) {
      return "this is the sum of row " + std::to_string(other) +
             ": was that row copied once more, or its stage read once more?";
    }
  }
  return "was its stage read before the row had come, or overwritten or wiped before it was added up?";
}

/// Sends `rows` random rows through the ring and checks the result.
void check_ring(int stages, int rows, int work, bool wipe) {
  const std::vector<uint32_t> words = random_words(size_t{kRow} * rows, 100 * stages + rows);
  const DeviceBuffer<uint32_t> in(words, "the rows");
  DeviceBuffer<uint32_t> sums(std::max(rows, 1), "the sums"), left(size_t{kRow} * stages, "what is left");
  sums.poison();
  left.poison();
  launch_sum_rows(stages, in.data(), rows, sums.data(), wipe ? left.data() : nullptr, work);
  finish_kernel("sum_rows");
  const std::vector<uint32_t> got = sums.to_host();
  for (int row = 0; row < rows; ++row) {
    ASSERT_EQ(got[row], sum_of_row(words, row))
        << "row " << row << " of " << rows << ", " << stages << " stages: " << explain_sum(words, rows, got[row]);
  }
  if (!wipe) return;
  for (const uint32_t word : left.to_host()) ASSERT_EQ(word, 0u) << "the ring was not wiped, or a copy came after that";
}

/// The same for each number of stages, up to the first failure.
void check_rings(std::initializer_list<int> rows, int work, bool wipe) {
  for (const int stages : {1, 2, 3, 4}) {
    for (const int count : rows) {
      check_ring(stages, count, work, wipe);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Chapter02, Todo2To5ARowGoesThroughTheRing) { check_ring(/*stages=*/2, /*rows=*/1, /*work=*/0, /*wipe=*/false); }

TEST(Chapter02, Todo2To5RowsGoAroundTheRing) { check_rings({1, 2, 3, 4, 5, 8, 9, 37}, /*work=*/0, /*wipe=*/false); }

TEST(Chapter02, Todo2To5ASlowConsumerHoldsTheProducerBack) { check_rings({5, 11}, /*work=*/4000, /*wipe=*/false); }

TEST(Chapter02, Todo6TheRingIsWipedOnlyWhenItIsDrained) { check_rings({0, 1, 3, 4, 7}, /*work=*/2000, /*wipe=*/true); }

TEST(Chapter02, MoreThanOneStageHidesTheCopies) {
  constexpr int kRows = 12;
  const DeviceBuffer<uint32_t> in(random_words(size_t{kRow} * kRows, 7), "the rows");
  long long cycles[5] = {};
  for (const int stages : {1, 2, 4}) {
    DeviceBuffer<uint32_t> sums(kRows, "the sums"), left(size_t{kRow} * stages, "what is left");
    DeviceBuffer<RowTimes> times(kRows, "the times");
    launch_sum_rows(stages, in.data(), kRows, sums.data(), left.data(), /*work=*/800, times.data());
    finish_kernel("sum_rows");
    const std::vector<RowTimes> got = times.to_host();
    cycles[stages] = got.back().freed - got.front().asked;
  }
  for (const int stages : {2, 4}) {
    EXPECT_LT(cycles[stages], cycles[1])
        << "with " << stages << " stages the rows took " << cycles[stages] << " cycles, with one " << cycles[1]
        << ": the copies do not run ahead. Does a role wait at a stage that is not its own, or free another?";
  }
}

}  // namespace
