// Tests of chapter 17's kernel: every output is compared with attention in double, and a wrong one with what typical
// mistakes would give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "kernel.hpp"
#include "tcgen05_test.hpp"

using namespace stagecraft::harness;

namespace {

using Chapter17 = stagecraft::chapters::Tcgen05Test;

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr int kTile = 128;  // queries of a tile, and keys of a block

/// A problem with its operands and what a kernel made of them.
template <typename Element>
struct Attention {
  static constexpr int kDim = std::is_same_v<Element, __half> ? 64 : 128;
  AttentionCase problem;
  std::vector<Element> queries, keys, values, outputs;
  std::vector<float> logsumexp;

  /// @param magnitude  of the queries: the larger it is, the more the maxima of rows grow.
  explicit Attention(const AttentionCase& problem, float magnitude = 1)
      : problem(problem),
        queries(random_values<Element>(size_t(problem.queries) * problem.heads * kDim, 1)),
        keys(random_values<Element>(size_t(std::max(problem.keys, 1)) * problem.key_heads * kDim, 2)),
        values(random_values<Element>(size_t(std::max(problem.keys, 1)) * problem.key_heads * kDim, 3)) {
    for (Element& query : queries) query = Element(float(query) * magnitude);
  }

  void run() {
    const DeviceBuffer<Element> there_queries(queries, "Q"), there_keys(keys, "K"), there_values(values, "V");
    DeviceBuffer<Element> there_outputs(queries.size(), "O");
    DeviceBuffer<float> there_logsumexp(size_t(problem.heads) * problem.queries, "the logarithms");
    there_outputs.poison();
    there_logsumexp.poison();
    launch_attention(problem, {there_queries.data(), there_keys.data(), there_values.data(), there_outputs.data(),
                               there_logsumexp.data()});
    finish_kernel("attention");
    outputs = there_outputs.to_host();
    logsumexp = there_logsumexp.to_host();
  }

  int key_head(int head) const { return head / (problem.heads / problem.key_heads); }
  double query(int head, int row, int i) const {
    return float(queries[(size_t(row) * problem.heads + head) * kDim + i]);
  }
  double key(int head, int row, int i) const {
    return float(keys[(size_t(row) * problem.key_heads + key_head(head)) * kDim + i]);
  }
  double value(int head, int row, int i) const {
    return float(values[(size_t(row) * problem.key_heads + key_head(head)) * kDim + i]);
  }
  double output(int head, int row, int i) const {
    return float(outputs[(size_t(row) * problem.heads + head) * kDim + i]);
  }
  int visible(int row) const {
    return problem.causal ? std::clamp(row + 1 + problem.keys - problem.queries, 0, problem.keys) : problem.keys;
  }
};

/// What a row is computed from, or would be by a mistake.
struct Variant {
  int visible;               ///< keys
  bool corrects_o = true;    ///< O is multiplied by the factor when the maximum grows
  bool corrects_sum = true;  ///< the sum is
  bool divides = true;       ///< by the sum
  bool keys_as_values = false;
  int zeros = 0;  ///< scores of 0 in the sum, of keys that are none
};

/// A row of attention in double, by the rule of the kernel: block by block, relative to a maximum that may lag by 8.
struct Row {
  std::vector<double> output, weight;  ///< weight: the same with magnitudes, for the tolerance
  double logsumexp = kNone, sum = 0, largest_score = 0;
};

template <typename Element>
Row row_of(const Attention<Element>& all, int head, int row, const Variant& variant) {
  constexpr int kDim = Attention<Element>::kDim;
  constexpr double kLog2E = 1.4426950408889634;
  Row result{std::vector<double>(kDim), std::vector<double>(kDim)};
  double maximum = kNone;
  for (int first = 0; first < variant.visible; first += kTile) {
    std::vector<double> scores;
    for (int key = first; key < std::min(first + kTile, variant.visible); ++key) {
      double score = 0;
      for (int i = 0; i < kDim; ++i) score += all.query(head, row, i) * all.key(head, key, i);
      scores.push_back(score * all.problem.scale * kLog2E);
      result.largest_score = std::max(result.largest_score, std::abs(scores.back()));
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    if (largest - maximum > 8) {
      const double factor = std::exp2(maximum - largest);
      for (double& sum : result.output) sum *= variant.corrects_o ? factor : 1;
      for (double& sum : result.weight) sum *= variant.corrects_o ? factor : 1;
      result.sum *= variant.corrects_sum ? factor : 1;
      maximum = largest;
    }
    for (size_t j = 0; j < scores.size(); ++j) {
      const double power = std::exp2(scores[j] - maximum);
      result.sum += power;
      for (int i = 0; i < kDim; ++i) {
        const int key = first + static_cast<int>(j);
        const double value = variant.keys_as_values ? all.key(head, key, i) : all.value(head, key, i);
        result.output[i] += power * value;
        result.weight[i] += power * std::abs(value);
      }
    }
  }
  if (maximum == kNone) return result;
  result.sum += variant.zeros * std::exp2(-maximum);
  result.logsumexp = (maximum + std::log2(result.sum)) / kLog2E;
  for (int i = 0; i < kDim; ++i) {
    result.weight[i] /= result.sum;
    if (variant.divides) result.output[i] /= result.sum;
  }
  return result;
}

/// How far an element may be off: P and O are rounded to 16 bits, powers may be polynomials, scores are sums in float.
template <typename Element>
double tolerance(const Attention<Element>& all, const Row& right, int i) {
  const bool is_half = std::is_same_v<Element, __half>;
  const double rounding = is_half ? 0x1p-11 : 0x1p-8, polynomial = 1e-4, score = right.largest_score * 4e-7;
  const double smallest = is_half ? 0x1p-24 * all.problem.keys : 1e-30;  // powers below 2^-14 have fewer bits
  return right.weight[i] * (rounding + polynomial + score) + std::abs(right.output[i]) * rounding + smallest + 1e-7;
}

/// The mistake that makes such a row, in words; empty if none that is known does.
template <typename Element>
std::string described(const Attention<Element>& all, int head, int row) {
  constexpr int kDim = Attention<Element>::kDim;
  const int visible = all.visible(row), keys = all.problem.keys;
  const auto is = [&](const Variant& variant) {
    const Row wrong = row_of(all, head, row, variant);
    for (int i = 0; i < kDim; ++i) {
      const double got = all.output(head, row, i);
      const double range = tolerance(all, wrong, i) * (variant.divides ? 1 : wrong.sum);
      if (!(std::abs(got - wrong.output[i]) <= 2 * range)) return false;
    }
    return true;
  };
  const auto all_are = [&](auto condition) {
    for (int i = 0; i < kDim; ++i) {
      if (!condition(all.output(head, row, i))) return false;
    }
    return true;
  };
  if (all_are([](double got) { return std::isnan(got); })) {
    return "; a row of NaN: -inf - -inf, 0 * inf, 0 / 0, or it was never written";
  }
  if (all.problem.causal && is({visible - 1})) return "; the diagonal is off by one: the row sees one key too few";
  if (all.problem.causal && is({visible + 1 > keys ? keys : visible + 1})) {
    return "; the diagonal is off by one: the row sees one key too many";
  }
  if (all.problem.causal && is({keys})) return "; keys that the row does not see have weight";
  const int beyond = (visible + kTile - 1) / kTile * kTile - visible;
  // Pieces of 32 keys that no row of a warp sees are left out, also where nothing is masked.
  const int seen_by_warp = all.visible(std::min(row | 31, all.problem.queries - 1));
  if (all.problem.causal && is({std::min(keys, (seen_by_warp + 31) / 32 * 32)})) {
    return "; keys that the row does not see, and others of its warp do, have weight";
  }
  if (is({.visible = visible, .zeros = beyond})) return "; keys beyond the last, which are zeros, have weight";
  if (is({.visible = visible, .divides = false})) return "; O is not divided by the sum of its row";
  if (is({.visible = visible, .corrects_o = false})) {
    return "; O is not multiplied by the factor where the maximum has grown";
  }
  if (is({.visible = visible, .corrects_sum = false})) {
    return "; the sum of the row is not multiplied by the factor where the maximum has grown";
  }
  if (is({.visible = visible, .keys_as_values = true})) return "; keys are in the place of values";
  if (visible > kTile && is({.visible = visible - kTile})) return "; the last block of keys is missing";
  if (row >= kTile) {
    const Row right = row_of(all, head, row, {.visible = visible});
    const Row other = row_of(all, head, row - kTile, {.visible = all.visible(row - kTile)});
    bool same = other.sum > 0;
    for (int i = 0; i < kDim && same; ++i) {
      same = std::abs(all.output(head, row, i) - right.output[i] * right.sum / other.sum) <=
             2 * tolerance(all, right, i) * right.sum / other.sum;
    }
    if (same) return "; it is divided by the sum of the row of tile 0 beside it";
  }
  return "";
}

template <typename Element>
void expect_attention(const AttentionCase& problem, float magnitude = 1) {
  Attention<Element> all(problem, magnitude);
  ASSERT_NO_FATAL_FAILURE(all.run());
  for (int head = 0; head < problem.heads; ++head) {
    // All rows of small problems; else the first and last of each tile, and some in between.
    for (int row = 0; row < problem.queries; row += row % kTile % 127 == 0 || row + 1 == problem.queries ? 1 : 6) {
      const Row right = row_of(all, head, row, {.visible = all.visible(row)});
      const std::string place = "head " + std::to_string(head) + ", query " + std::to_string(row) + " of " +
                                std::to_string(problem.queries) + " (" + std::to_string(all.visible(row)) + " of " +
                                std::to_string(problem.keys) + " keys are seen)";
      for (int i = 0; i < all.kDim; ++i) {
        ASSERT_NEAR(all.output(head, row, i), right.output[i], tolerance(all, right, i))
            << "O[" << i << "] of " << place << described(all, head, row);
      }
      const float logsumexp = all.logsumexp[size_t(head) * problem.queries + row];
      if (right.logsumexp == kNone) {
        ASSERT_EQ(logsumexp, float(kNone)) << place;
      } else {
        ASSERT_NEAR(logsumexp, right.logsumexp, 2e-4 + 1e-6 * right.largest_score) << "logsumexp of " << place;
      }
    }
  }
}

using Bf16 = __nv_bfloat16;

TEST_F(Chapter17, Todo5To10OneBlockOfKeys) { expect_attention<Bf16>({.queries = 256, .keys = 128}); }

TEST_F(Chapter17, Todo5To10FourBlocksOfKeys) { expect_attention<Bf16>({.queries = 256, .keys = 512}); }

TEST_F(Chapter17, Todo5To10MaximaThatGrow) { expect_attention<Bf16>({.queries = 256, .keys = 640}, 30); }

TEST_F(Chapter17, Todo5To10TilesAtTheEdges) {
  ASSERT_NO_FATAL_FAILURE(expect_attention<Bf16>({.queries = 1, .keys = 1}));
  ASSERT_NO_FATAL_FAILURE(expect_attention<Bf16>({.queries = 300, .keys = 200}));
}

TEST_F(Chapter17, Todo6And8ACausalProblem) {
  ASSERT_NO_FATAL_FAILURE(expect_attention<Bf16>({.queries = 300, .keys = 300, .causal = true}));
  ASSERT_NO_FATAL_FAILURE(expect_attention<Bf16>({.queries = 130, .keys = 400, .causal = true}));
}

TEST_F(Chapter17, Todo6And7QueriesThatSeeNoKey) {
  ASSERT_NO_FATAL_FAILURE(expect_attention<Bf16>({.queries = 300, .keys = 100, .causal = true}));
  ASSERT_NO_FATAL_FAILURE(expect_attention<Bf16>({.queries = 130, .keys = 0}));
}

TEST_F(Chapter17, Todo8HeadsInGroups) {
  expect_attention<Bf16>({.queries = 130, .keys = 140, .heads = 4, .key_heads = 2});
}

TEST_F(Chapter17, Todo9And10ABlockThatGoesOnToTheNextItem) {
  expect_attention<__half>({.queries = 600, .keys = 600, .heads = 2, .causal = true, .scale = 0.125f, .blocks = 2}, 8);
}

}  // namespace
