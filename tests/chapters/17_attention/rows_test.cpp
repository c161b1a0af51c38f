// Tests of chapter 17's first part: the softmax of a row, block of keys by block of keys.
#include "rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "tcgen05_test.hpp"

using namespace stagecraft::harness;

namespace {

using Chapter17 = stagecraft::chapters::Tcgen05Test;

constexpr int kAllKeys = kRowBlocks * kRowKeys;
constexpr float kScaleLog2 = 0.125f;
constexpr double kLog2E = 1.4426950408889634;
constexpr double kNone = -std::numeric_limits<double>::infinity();

double from_bf16(uint16_t bits) {
  const uint32_t word = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// Rows that grow by nothing, a little, much; that see some keys, all, or none; that begin with keys of -inf.
struct Rows {
  std::vector<float> scores = random_values<float>(size_t(kRows) * kAllKeys, 17);
  std::vector<int> visible = std::vector<int>(kRows, kAllKeys);
  std::vector<RowOfBlock> found;
  std::vector<float> ends;

  Rows() {
    for (int row = 0; row < kRows; ++row) {
      // Times the scale, a block's largest score is 0, 1, ... 15 above that of the block before.
      for (int key = 0; key < kAllKeys; ++key) at(row, key) += float(key / kRowKeys * (row % 16)) / kScaleLog2;
      if (row % 8 == 3) visible[row] = row * 4;
      if (row % 8 == 5) visible[row] = row == 5 ? 0 : kAllKeys - row;
    }
    for (int key = 0; key < kRowKeys; ++key) at(30, key) = -std::numeric_limits<float>::infinity();
    for (int key = 0; key < kAllKeys; ++key) at(31, key) = 1000 - float(key);  // large, and falling
  }
  float& at(int row, int key) { return scores[row * kAllKeys + key]; }
  float inverse_sum(int row) const { return ends[2 * row]; }
  float logsumexp(int row) const { return ends[2 * row + 1]; }

  void run(bool polynomials) {
    const DeviceBuffer<float> there_scores(scores, "the scores");
    const DeviceBuffer<int> there_visible(visible, "the numbers of keys that are seen");
    DeviceBuffer<RowOfBlock> there_found(size_t(kRows) * kRowBlocks, "what was found");
    DeviceBuffer<float> there_ends(size_t(kRows) * 2, "inverse sums and logarithms");
    there_found.poison();
    there_ends.poison();
    launch_rows(there_scores.data(), there_visible.data(), kScaleLog2, polynomials, there_found.data(),
                reinterpret_cast<float(*)[2]>(there_ends.data()));
    finish_kernel("softmax_of_rows");
    found = there_found.to_host();
    ends = there_ends.to_host();
  }
};

std::string place(int row, int block) { return "row " + std::to_string(row) + ", block " + std::to_string(block); }

/// Compares factors, and where asked for powers, with what the rule gives in double.
void expect_blocks(Rows& rows, bool powers_too) {
  for (int row = 0; row < kRows; ++row) {
    double used = kNone;
    for (int block = 0; block < kRowBlocks; ++block) {
      const RowOfBlock& found = rows.found[row * kRowBlocks + block];
      double largest = used;
      for (int i = 0; i < kRowKeys && block * kRowKeys + i < rows.visible[row]; ++i) {
        largest = std::max<double>(largest, rows.at(row, block * kRowKeys + i));
      }
      const double growth = largest == used ? 0 : kScaleLog2 * (largest - used);
      const bool raised = growth > 8;
      if (raised) used = largest;
      const double factor = raised ? std::exp2(-growth) : 1;
      // A row that has seen nothing has nothing to be multiplied: any finite factor is right.
      if (used == kNone || std::isinf(growth)) {
        ASSERT_TRUE(std::isfinite(found.factor)) << place(row, block) << ": -inf - -inf is NaN";
      } else {
        const auto is = [&](double other) { return std::abs(found.factor - other) <= 1e-4 * other; };
        ASSERT_NEAR(found.factor, factor, 1e-5 * factor)
            << place(row, block) << ": the largest score has grown by " << growth << " powers of two since the last "
            << "change of the maximum; sums stay as they are up to 8"
            << (is(std::exp2(-growth * kLog2E)) ? "; log2(e) is in scale_log2 already"
                : is(std::exp2(-growth))        ? "; the growth is compared before it is scaled, or with another number"
                                                : "");
      }
      if (!powers_too) continue;
      for (int i = 0; i < kRowKeys; ++i) {
        const int key = block * kRowKeys + i;
        const bool seen = key < rows.visible[row] && used != kNone;
        const double exponent = kScaleLog2 * (rows.at(row, key) - used);
        const double power = seen ? std::exp2(exponent) : 0, got = from_bf16(found.powers[i]);
        const double rounding = power * (1.0 / 256 + 2e-4) + 1e-30;
        const auto is = [&](double other) { return std::abs(got - other) <= other * 0.01; };
        ASSERT_NEAR(got, power, rounding)
            << place(row, block) << ", key " << i << ", with a score of " << rows.at(row, key) << " and a maximum of "
            << used
            << (std::isnan(got)                                        ? "; -inf - -inf is NaN"
                : !seen                                                ? "; the row does not see this key"
                : is(std::exp2(kScaleLog2 * rows.at(row, key) - used)) ? "; the maximum is not scaled"
                : is(std::exp2(exponent * kLog2E))                     ? "; log2(e) is in scale_log2 already"
                                                                       : "");
      }
    }
  }
}

TEST_F(Chapter17, Todo1And2TheMaximumIsRaisedWhereItHasGrownByMoreThanEight) {
  Rows rows;
  rows.run(/*polynomials=*/false);
  ASSERT_NO_FATAL_FAILURE(expect_blocks(rows, /*powers_too=*/false));
}

TEST_F(Chapter17, Todo3KeysThatARowDoesNotSeeHaveNoPower) {
  Rows rows;
  rows.run(/*polynomials=*/false);
  ASSERT_NO_FATAL_FAILURE(expect_blocks(rows, /*powers_too=*/true));
}

TEST_F(Chapter17, Todo3HalfOfThePowersAsPolynomials) {
  Rows rows;
  rows.run(/*polynomials=*/true);
  ASSERT_NO_FATAL_FAILURE(expect_blocks(rows, /*powers_too=*/true));
}

TEST_F(Chapter17, Todo4TheEndOfARow) {
  Rows rows;
  rows.run(/*polynomials=*/false);
  for (int row = 0; row < kRows; ++row) {
    double largest = kNone, sum = 0, used = kNone, unscaled = 0;
    for (int key = 0; key < rows.visible[row]; ++key) largest = std::max<double>(largest, rows.at(row, key));
    for (int key = 0; key < rows.visible[row]; ++key) sum += std::exp2(kScaleLog2 * (rows.at(row, key) - largest));
    // The sum is relative to the maximum that is in use, which may be smaller than the largest score.
    for (int first = 0; first < rows.visible[row]; first += kRowKeys) {
      double of_block = used;
      for (int key = first; key < std::min(first + kRowKeys, rows.visible[row]); ++key) {
        of_block = std::max<double>(of_block, rows.at(row, key));
      }
      if (of_block != used && kScaleLog2 * (of_block - used) > 8) used = of_block;
      for (int key = first; key < std::min(first + kRowKeys, rows.visible[row]); ++key) {
        unscaled += std::exp2(kScaleLog2 * (rows.at(row, key) - used));  // as if no factor were ever applied
      }
    }
    if (rows.visible[row] == 0) {
      ASSERT_EQ(rows.inverse_sum(row), 0) << "row " << row << " sees no key: its output is 0";
      ASSERT_EQ(rows.logsumexp(row), float(kNone)) << "row " << row << " sees no key";
      continue;
    }
    const double inverse = 1 / (sum * std::exp2(kScaleLog2 * (largest - used)));
    ASSERT_NEAR(rows.inverse_sum(row), inverse, 1e-4 * inverse)
        << "row " << row << ": 1 / the sum of all powers, relative to the maximum that is in use"
        << (std::abs(rows.inverse_sum(row) * unscaled - 1) < 1e-3
                ? "; what was summed before is not multiplied by the factor when the maximum grows"
                : "");
    const double logarithm = (kScaleLog2 * largest + std::log2(sum)) * std::log(2.0);
    ASSERT_NEAR(rows.logsumexp(row), logarithm, 1e-4 * std::max(1.0, std::abs(logarithm))) << "row " << row;
  }
}

}  // namespace
