// Tests of chapter 18, in the order of its TODOs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_attention.hpp"
#include "launches.hpp"
#include "tcgen05_test.hpp"

using namespace stagecraft;
using namespace stagecraft::harness;

namespace {

/// The tests of a chapter run with the checks of races alone. Grids that overlap need one more.
class Chapter18 : public chapters::Tcgen05Test {
 protected:
  static void SetUpTestSuite() {
    const char* const checks = std::getenv("STAGECRAFT_CHECKS");
    if (checks != nullptr && std::string(checks) == "race") setenv("STAGECRAFT_CHECKS", "race,global", /*replace=*/1);
  }
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A page table with room for `longest` keys of each sequence, in which each page of the cache is used once, in any
/// order; there are some more pages.
struct Pages {
  std::vector<int> table;
  int in_row, in_cache;
};
Pages shuffled_pages(int sequences, int longest, uint64_t seed) {
  Pages pages{.table = {}, .in_row = std::max(1, (longest + kPageTokens - 1) / kPageTokens), .in_cache = 0};
  std::vector<int> all(size_t(sequences) * pages.in_row + 3);
  std::iota(all.begin(), all.end(), 0);
  Random random(seed);
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.bits() % i]);
  pages.in_cache = static_cast<int>(all.size());
  pages.table.assign(all.begin(), all.end() - 3);
  return pages;
}

DecodingShape shape_of(const AttentionBatch& batch, int pages) {
  return {.sequences = batch.batches(),
          .queries = batch.query_lengths[0],
          .heads = batch.query_heads,
          .key_heads = batch.kv_heads,
          .pages = pages,
          .table_pages = batch.pages_of_sequence};
}

/// A batch as the kernels take it: the same number of queries for each sequence, and each sees the keys up to its own.
AttentionBatch make_batch(int heads, int key_heads, int queries, std::vector<int> lengths, uint64_t seed) {
  const int sequences = static_cast<int>(lengths.size());
  Pages pages = shuffled_pages(sequences, *std::max_element(lengths.begin(), lengths.end()), seed);
  return {.query_heads = heads,
          .kv_heads = key_heads,
          .query_lengths = std::vector<int>(sequences, queries),
          .key_lengths = std::move(lengths),
          .scale = 0.3f,
          .window_right = 0,
          .page_size = kPageTokens,
          .page_table = std::move(pages.table),
          .pages_of_sequence = pages.in_row};
}

/// An operand rounded to the kernel's type, and what the kernel reads it as.
template <typename Element>
struct Rounded {
  std::vector<Element> elements;
  std::vector<float> values;
};
/// @param scales  of the heads of a row.
/// @param rows    of the operand: those after the values are NaN.
template <typename Element>
Rounded<Element> rounded(const std::vector<float>& values, const std::vector<float>& scales, size_t rows) {
  Rounded<Element> result;
  result.elements.resize(rows * scales.size() * kHeadDim, Element(NAN));
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = scales[i / kHeadDim % scales.size()];
    result.elements[i] = Element(values[i] / scale);
    result.values.push_back(static_cast<float>(result.elements[i]) * scale);
  }
  return result;
}

/// The operands of a run on the device, and room for its results.
template <typename Element>
class Decoding {
 public:
  static constexpr bool kHasScales = sizeof(Element) == 1;

  /// @param largest  value of the cache.
  explicit Decoding(const RandomAttention& drawn, float largest = 1) : batch_(drawn.batch) {
    const AttentionBatch& b = batch_;
    pages_ = 3 + (b.page_table.empty() ? 0 : *std::max_element(b.page_table.begin(), b.page_table.end()) + 1);
    for (int head = 0; head < b.kv_heads; ++head) {
      if (!kHasScales) {
        key_scales_.push_back(1);
        value_scales_.push_back(1);
      } else {
        key_scales_.push_back(std::ldexp(1.0f, head - 8));
        value_scales_.push_back(std::ldexp(largest, head - 7));
      }
    }
    const size_t tokens = size_t(pages_) * kPageTokens;
    q_ = rounded<Element>(drawn.q, {1}, b.queries() * b.query_heads);
    k_ = rounded<Element>(drawn.k, key_scales_, tokens);
    v_ = rounded<Element>(drawn.v, value_scales_, tokens);
    queries.emplace(q_.elements, "the queries");
    keys_.emplace(k_.elements, "the keys");
    values_.emplace(v_.elements, "the values");
    table_.emplace(b.page_table, "the page table");
    lengths_.emplace(b.key_lengths, "the lengths");
    key_scale_buffer_.emplace(key_scales_, "the scales of the keys");
    value_scale_buffer_.emplace(value_scales_, "the scales of the values");
    const size_t rows = b.queries() * b.query_heads;
    partial_outputs_.emplace(rows * kMostSplits * kHeadDim, "the outputs of the splits");
    partial_logsumexps_.emplace(rows * kMostSplits, "the logsumexps of the splits");
    outputs_.emplace(rows * kHeadDim, "the outputs");
    logsumexps_.emplace(rows, "the logsumexps");
    poison();
  }

  void poison() {
    partial_outputs_->poison();
    partial_logsumexps_->poison();
    outputs_->poison();
    logsumexps_->poison();
  }

  DecodingShape shape() const { return shape_of(batch_, pages_); }

  DecodingOperands<Element> operands() const {
    return {.queries = queries->data(),
            .keys = {keys_->data(), kHasScales ? key_scale_buffer_->data() : nullptr},
            .values = {values_->data(), kHasScales ? value_scale_buffer_->data() : nullptr},
            .page_table = table_->data(),
            .lengths = lengths_->data(),
            .scale = batch_.scale,
            .partial = {partial_outputs_->data(), partial_logsumexps_->data()},
            .results = {outputs_->data(), logsumexps_->data()}};
  }

  std::vector<double> outputs() const { return wide_all(std::span<const __nv_bfloat16>(outputs_->to_host())); }

  /// As the reference has them: [head][query].
  std::vector<double> logsumexps() const {
    const std::vector<float> got = logsumexps_->to_host();
    std::vector<double> result(got.size());
    const size_t heads = batch_.query_heads, rows = batch_.queries();
    for (size_t i = 0; i < got.size(); ++i) {
      result[i % heads * rows + i / heads] = wide_all(std::span<const float>(&got[i], 1))[0];
    }
    return result;
  }

  AttentionReference reference(bool is_random = true) const {
    AttentionPrecision precision = precision_of_attention<Element, __nv_bfloat16>();
    precision.is_random = is_random;
    precision.key_tile = 32;  // the sums are rescaled for each tile of 128, and once more for each split
    return reference_attention(batch_, q_.values, k_.values, v_.values, {}, precision);
  }

  /// The queries, which a test may have written late.
  std::optional<DeviceBuffer<Element>> queries;

 private:
  AttentionBatch batch_;
  int pages_;
  std::vector<float> key_scales_, value_scales_;
  Rounded<Element> q_, k_, v_;
  std::optional<DeviceBuffer<Element>> keys_, values_;
  std::optional<DeviceBuffer<int>> table_, lengths_;
  std::optional<DeviceBuffer<float>> key_scale_buffer_, value_scale_buffer_, partial_outputs_, partial_logsumexps_,
      logsumexps_;
  std::optional<DeviceBuffer<__nv_bfloat16>> outputs_;
};

std::string text_of(const AttentionBatch& batch, int splits) {
  std::string text = std::to_string(batch.query_heads) + " heads over " + std::to_string(batch.kv_heads) + ", " +
                     std::to_string(batch.query_lengths[0]) + " queries, keys";
  for (const int length : batch.key_lengths) text += " " + std::to_string(length);
  return text + ", " + std::to_string(splits) + " splits";
}

/// Fresh random operands through the answer's kernels; every element must be right.
template <typename Element>
void expect_attention(AttentionBatch batch, int splits, uint64_t seed = fresh_seed()) {
  const Decoding<Element> run(with_random_operands(batch, /*has_sinks=*/false, seed));
  launch_decoding<Element>(run.shape(), run.operands(), {.splits = splits});
  finish_kernel("decode");
  const AttentionComparison found = compare_attention(batch, run.reference(), run.outputs(), run.logsumexps());
  if (found.wrong == 0) return;
  FAIL() << (sizeof(Element) == 2 ? "bf16, " : "e4m3, ") << text_of(batch, splits) << ", seed " << seed << ": "
         << found.wrong << " numbers are wrong; for example " << found.worst;
}

// ---- TODO 1 and 2: pages, and the rows of a tile
// ----------------------------------------------------------------------

TEST_F(Chapter18, Todo1EachPartOfATileIsAPageOfItsSequence) {
  const Pages pages = shuffled_pages(3, 1000, fresh_seed());
  const DecodingShape shape{
      .sequences = 3, .queries = 1, .heads = 1, .key_heads = 1, .pages = pages.in_cache, .table_pages = pages.in_row};
  const DeviceBuffer<int> table(pages.table, "the page table");
  for (const int length : {0, 1, 64, 65, 128, 129, 1000}) {
    for (int sequence = 0; sequence < 3; ++sequence) {
      constexpr int kTiles = 8;
      const std::vector<int> got = pages_of_tiles(shape, table.data(), sequence, length, kTiles);
      for (int part = 0; part < 2 * kTiles; ++part) {
        const std::string which = "part " + std::to_string(part % 2) + " of tile " + std::to_string(part / 2) +
                                  " of sequence " + std::to_string(sequence) + ", which has " + std::to_string(length) +
                                  " keys";
        if (part * kPageTokens >= length) {
          ASSERT_EQ(got[part], shape.pages) << which << ": the sequence has ended before it";
        } else {
          ASSERT_EQ(got[part], pages.table[sequence * pages.in_row + part]) << which;
        }
      }
    }
  }
}

TEST_F(Chapter18, Todo2TheHeadsOfAGroupAreTheRowsOfATile) {
  for (const auto& [heads, key_heads, queries] :
       {std::tuple{32, 8, 1}, {32, 8, 4}, {16, 1, 1}, {6, 2, 5}, {3, 3, 16}}) {
    const DecodingShape shape{
        .sequences = 1, .queries = queries, .heads = heads, .key_heads = key_heads, .pages = 1, .table_pages = 1};
    for (int key_head = 0; key_head < key_heads; ++key_head) {
      const std::vector<RowOfGroup> rows = rows_of_group(shape, key_head, /*length=*/100);
      int row = 0;
      for (int query = 0; query < queries; ++query) {
        for (int head = 0; head < heads; ++head) {
          if (head / (heads / key_heads) != key_head) continue;
          const RowOfGroup got = rows[row];
          const std::string which = "row " + std::to_string(row) + " of key head " + std::to_string(key_head) + ", " +
                                    std::to_string(heads) + " heads over " + std::to_string(key_heads) + ", " +
                                    std::to_string(queries) + " queries";
          ASSERT_EQ(got.head, head) << "the head of " << which;
          ASSERT_EQ(got.query, query) << "the query of " << which;
          ASSERT_EQ(got.visible_keys, 100 - (queries - 1) + query) << "the keys, of 100, that it sees: " << which;
          ++row;
        }
      }
    }
  }
}

// ---- TODO 3: the softmax
// ----------------------------------------------------------------------------------------------

/// Scores of three tiles, in which the maximum grows, and then does not.
std::vector<float> uneven_scores(uint64_t seed) {
  std::vector<float> scores = random_values<float>(size_t{3} * kKeysOfTile * kPackedRows, seed);
  for (size_t i = 0; i < scores.size(); ++i) {
    const size_t tile = i / (kKeysOfTile * kPackedRows);
    scores[i] = scores[i] * 8 + (tile == 1 ? 6.0f : 0.0f);
  }
  return scores;
}

void expect_softmax(const std::vector<float>& scores) {
  const SoftmaxAnswer got = softmax_of(scores);
  const int tiles = static_cast<int>(scores.size() / (kKeysOfTile * kPackedRows));
  for (int row = 0; row < kPackedRows; ++row) {
    float maximum = -kInfinity;
    double sum = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      const std::string which = "row " + std::to_string(row) + ", tile " + std::to_string(tile);
      const auto score = [&](int key) { return scores[(tile * kKeysOfTile + key) * kPackedRows + row]; };
      const float before = maximum;
      for (int key = 0; key < kKeysOfTile; ++key) maximum = std::max(maximum, score(key));
      const double factor = before == -kInfinity ? 0 : std::exp2(double{before} - maximum);
      const float got_factor = got.factors[tile * kPackedRows + row];
      if (maximum == -kInfinity) {  // it multiplies sums of nothing, which are 0
        ASSERT_TRUE(std::isfinite(got_factor)) << "the factor of " << which << " is " << got_factor;
      } else {
        ASSERT_NEAR(got_factor, factor, 1e-6) << "the factor of " << which;
      }
      for (int key = 0; key < kKeysOfTile; ++key) {
        const double weight = score(key) == -kInfinity ? 0 : std::exp2(double{score(key)} - maximum);
        ASSERT_NEAR(got.weights[(tile * kKeysOfTile + key) * kPackedRows + row], weight, 1e-6)
            << "the weight of key " << key << " in " << which;
        if (key == 0) sum = sum * factor + weight;
      }
    }
    ASSERT_EQ(got.maximum[row], maximum) << "the maximum of row " << row;
    ASSERT_NEAR(got.sum[row], sum, 1e-5) << "the sum of row " << row << ", of the first key of each tile";
  }
}

TEST_F(Chapter18, Todo3WeightsAreRelativeToTheLargestScoreSoFar) { expect_softmax(uneven_scores(fresh_seed())); }

TEST_F(Chapter18, Todo3ATileWithoutVisibleKeysHasNoWeight) {
  std::vector<float> scores = uneven_scores(fresh_seed());
  std::fill_n(scores.begin(), kKeysOfTile * kPackedRows, -kInfinity);  // the first tile
  expect_softmax(scores);
}

// ---- TODO 4 to 7: the roles
// -------------------------------------------------------------------------------------------

TEST_F(Chapter18, Todo4To7OneTile) { expect_attention<__nv_bfloat16>(make_batch(4, 1, 1, {128}, fresh_seed()), 1); }

TEST_F(Chapter18, Todo4To7TheStagesOfTheRingsAreUsedAgain) {
  for (const int tiles : {2, 3, 4, 7}) {
    ASSERT_NO_FATAL_FAILURE(expect_attention<__nv_bfloat16>(make_batch(4, 1, 1, {128 * tiles}, fresh_seed()), 1));
  }
}

TEST_F(Chapter18, Todo4To7WhatIsAfterTheLastKeyDoesNotCount) {
  // Unused tokens of a page are NaN.
  for (const int length : {1, 63, 64, 65, 127, 129, 450}) {
    ASSERT_NO_FATAL_FAILURE(expect_attention<__nv_bfloat16>(make_batch(2, 1, 1, {length}, fresh_seed()), 1));
  }
}

/// Each query has one key that fits, and gets its value, which says where in the cache it is.
template <typename Element>
void expect_values_of_own_pages() {
  constexpr int kKeyHeads = 2, kHeads = 4;
  const AttentionBatch batch = make_batch(kHeads, kKeyHeads, 1, {300, 129, 640}, fresh_seed());
  RandomAttention drawn = with_random_operands(batch, /*has_sinks=*/false, fresh_seed());
  Random random(fresh_seed());
  for (float& sign : drawn.k) sign = std::isnan(sign) ? sign : random.bits() % 2 == 0 ? 1.0f : -1.0f;
  const auto digits = [](int page, int token, int head) {
    return std::vector<float>{float(page % 16), float(page / 16), float(token % 16), float(token / 16), float(head)};
  };
  for (size_t row = 0; row < drawn.v.size() / kHeadDim; ++row) {
    if (std::isnan(drawn.v[row * kHeadDim])) continue;
    const int head = static_cast<int>(row % kKeyHeads), token = static_cast<int>(row / kKeyHeads);
    std::ranges::copy(digits(token / kPageTokens, token % kPageTokens, head), &drawn.v[row * kHeadDim]);
  }
  std::vector<int64_t> rows_of_keys;  // that the queries ask for
  for (int i = 0; i < batch.batches() * kHeads; ++i) {
    const int sequence = i / kHeads;
    const int key = static_cast<int>(random.bits() % static_cast<uint64_t>(batch.key_lengths[sequence]));
    rows_of_keys.push_back(batch.key_row(sequence, 0, key) * kKeyHeads + i % kHeads / (kHeads / kKeyHeads));
    std::copy_n(&drawn.k[rows_of_keys.back() * kHeadDim], kHeadDim, &drawn.q[size_t(i) * kHeadDim]);
  }
  drawn.batch.scale = 1;  // another key's score is smaller by some 128
  const Decoding<Element> run(drawn, /*largest=*/16);
  launch_decoding<Element>(run.shape(), run.operands(), {});
  finish_kernel("decode");
  const std::vector<double> got = run.outputs();
  for (int i = 0; i < batch.batches() * kHeads; ++i) {
    const auto place = [&](double page, double token, double head) {
      return "page " + std::to_string(int(page)) + " of the cache, token " + std::to_string(int(token)) +
             ", key head " + std::to_string(int(head));
    };
    const double* const row = &got[size_t(i) * kHeadDim];
    const auto digit = [&](int at) {  // the other keys add next to nothing
      return std::abs(row[at] - std::round(row[at])) < 1e-6 ? std::round(row[at]) : -1;
    };
    const std::string which = "head " + std::to_string(i % kHeads) + " of sequence " + std::to_string(i / kHeads);
    for (int at = 0; at < 5; ++at) {
      ASSERT_GE(digit(at), 0) << which << " got " << row[at] << " as element " << at
                              << ", which is no value of the cache";
    }
    const int64_t token = rows_of_keys[i] / kKeyHeads;
    ASSERT_EQ(place(digit(0) + 16 * digit(1), digit(2) + 16 * digit(3), digit(4)),
              place(double(token / kPageTokens), double(token % kPageTokens), double(rows_of_keys[i] % kKeyHeads)))
        << "the value that " << which << " got, and the one whose key it asks for";
  }
}

TEST_F(Chapter18, Todo4To7EachSequenceReadsItsOwnPages) { expect_values_of_own_pages<__nv_bfloat16>(); }

TEST_F(Chapter18, Todo4To7SequencesOfDifferentLengths) {
  ASSERT_NO_FATAL_FAILURE(expect_attention<__nv_bfloat16>(make_batch(8, 2, 1, {0, 1, 300, 64}, fresh_seed()), 1));
  ASSERT_NO_FATAL_FAILURE(expect_attention<__nv_bfloat16>(make_batch(6, 2, 5, {3, 5, 200}, fresh_seed()), 1));
}

TEST_F(Chapter18, Todo4To7EightBitsWithScales) {
  ASSERT_NO_FATAL_FAILURE(expect_values_of_own_pages<__nv_fp8_e4m3>());
  ASSERT_NO_FATAL_FAILURE(expect_attention<__nv_fp8_e4m3>(make_batch(16, 2, 2, {0, 513, 70}, fresh_seed()), 1));
}

void expect_large_scores_and_infinities(int splits) {
  AttentionBatch batch = make_batch(4, 1, 1, {200, 200}, fresh_seed());
  batch.scale = 3e3f;  // scores of some 1e4
  RandomAttention drawn = with_random_operands(batch, /*has_sinks=*/false, fresh_seed());
  drawn.q[0] = kInfinity;  // head 0 of sequence 0: its scores are infinite, of both signs
  drawn.q[1] = 0;
  const Decoding<__nv_bfloat16> run(drawn);
  launch_decoding<__nv_bfloat16>(run.shape(), run.operands(), {.splits = splits});
  finish_kernel("decode");
  const AttentionComparison found = compare_attention(batch, run.reference(), run.outputs(), run.logsumexps());
  EXPECT_EQ(found.wrong, 0u) << found.worst;
}

TEST_F(Chapter18, Todo4To7LargeScoresAndInfinities) { expect_large_scores_and_infinities(1); }

// ---- TODO 8: splits
// ---------------------------------------------------------------------------------------------------

TEST_F(Chapter18, Todo8SplitsAreWeighedByTheirLogsumexps) {
  constexpr int kRows = 6, kSplits = 5;
  std::vector<float> outputs = random_values<float>(size_t{kRows} * kSplits * kHeadDim, fresh_seed());
  std::vector<float> logsumexps = random_values<float>(size_t{kRows} * kSplits, ~fresh_seed());
  for (float& logsumexp : logsumexps) logsumexp = logsumexp * 4 + 100;  // 2^100 is a number, and e^100 is none
  for (int row = 0; row < kRows; ++row) {
    for (int split = 0; split < kSplits; ++split) {
      if ((row >> split) % 2 == 0 && row != 5) continue;  // row 5 has no keys at all
      logsumexps[row * kSplits + split] = -kInfinity;
      std::fill_n(&outputs[(size_t(row) * kSplits + split) * kHeadDim], kHeadDim, NAN);
    }
  }
  const DeviceBuffer<float> partial_outputs(outputs, "the outputs of the splits"),
      partial_logsumexps(logsumexps, "the logsumexps of the splits");
  DeviceBuffer<__nv_bfloat16> there(size_t{kRows} * kHeadDim, "the outputs");
  DeviceBuffer<float> logsumexps_there(kRows, "the logsumexps");
  there.poison();
  logsumexps_there.poison();
  launch_combine({partial_outputs.data(), partial_logsumexps.data()}, {there.data(), logsumexps_there.data()}, kRows,
                 kSplits);
  const std::vector<__nv_bfloat16> got = there.to_host();
  const std::vector<float> got_logsumexps = logsumexps_there.to_host();
  for (int row = 0; row < kRows; ++row) {
    double total = 0;
    std::vector<double> sums(kHeadDim);
    for (int split = 0; split < kSplits; ++split) {
      const double weight = std::exp2(double{logsumexps[row * kSplits + split]});
      if (weight == 0) continue;
      total += weight;
      for (int i = 0; i < kHeadDim; ++i) sums[i] += weight * outputs[(size_t(row) * kSplits + split) * kHeadDim + i];
    }
    for (int i = 0; i < kHeadDim; ++i) {
      const double expected = total == 0 ? 0 : sums[i] / total;
      ASSERT_NEAR(static_cast<float>(got[size_t(row) * kHeadDim + i]), expected, 0x1p-8)
          << "element " << i << " of row " << row << (total == 0 ? ", none of whose splits has a key" : "");
    }
    if (total == 0) {
      ASSERT_EQ(got_logsumexps[row], -kInfinity)
          << "the logsumexp of row " << row << ", none of whose splits has a key";
    } else {
      ASSERT_NEAR(got_logsumexps[row], std::log(total), 1e-4) << "the logsumexp of row " << row;
    }
  }
}

TEST_F(Chapter18, Todo8TheKeysAreSplitOverBlocks) {
  // Splits of some tiles, of one tile each, and more of them than there are tiles.
  for (const int splits : {2, 5, 8}) {
    ASSERT_NO_FATAL_FAILURE(
        expect_attention<__nv_bfloat16>(make_batch(4, 2, 2, {600, 0, 1, 129}, fresh_seed()), splits));
  }
  ASSERT_NO_FATAL_FAILURE(expect_attention<__nv_fp8_e4m3>(make_batch(8, 1, 1, {1000, 64}, fresh_seed()), 3));
}

TEST_F(Chapter18, Todo8InfinitiesOfASplit) { expect_large_scores_and_infinities(2); }

// ---- TODO 9: grids that start early
// -----------------------------------------------------------------------------------

TEST_F(Chapter18, Todo9EarlyGridsWaitForWhatTheyRead) {
  AttentionBatch batch = make_batch(4, 1, 1, {384}, fresh_seed());
  RandomAttention drawn = with_random_operands(batch, /*has_sinks=*/false, fresh_seed());
  Decoding<__nv_bfloat16> run(drawn);
  const DeviceBuffer<__nv_bfloat16> queries(run.queries->to_host(), "the queries before they are copied");
  run.queries->poison();
  for (int token = 0; token < 2; ++token) {  // the second one writes the same partial results again
    launch_late_copy(run.queries->data(), queries.data(), queries.bytes());
    launch_decoding<__nv_bfloat16>(run.shape(), run.operands(), {.splits = 2, .starts_early = true});
    launch_decoding<__nv_bfloat16>(run.shape(), run.operands(), {.splits = 3, .starts_early = true});
  }
  finish_kernel("decode");
  const AttentionComparison found = compare_attention(batch, run.reference(), run.outputs(), run.logsumexps());
  EXPECT_EQ(found.wrong, 0u) << found.worst;
}

}  // namespace
