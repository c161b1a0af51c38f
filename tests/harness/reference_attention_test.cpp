#include "harness/reference_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"

namespace stagecraft::harness {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
using Element = __nv_bfloat16;

void round_to_bf16(std::vector<float>& values) {
  for (float& value : values) value = static_cast<float>(Element(value));
}

/// What a flash kernel computes: in f32, tile by tile, with weights of bf16 relative to the largest logit so far.
struct Computed {
  std::vector<Element> output;
  std::vector<float> logsumexp;
};

/// @param seen  which keys a query sees: seen(batch, query, key), of those that it sees.
template <typename Seen>
Computed compute(const RandomAttention& random, const Seen& seen, int kv_head_shift = 0, bool adds_sinks = true) {
  const AttentionBatch& b = random.batch;
  Computed result{std::vector<Element>(b.queries() * b.query_heads * b.value_dim),
                  std::vector<float>(b.queries() * b.query_heads)};
  int64_t queries_before = 0, keys_before = 0;
  for (int i = 0; i < b.batches(); ++i) {
    for (int query = 0; query < b.query_lengths[i]; ++query) {
      for (int head = 0; head < b.query_heads; ++head) {
        const int kv_head = (head / (b.query_heads / b.kv_heads) + kv_head_shift) % b.kv_heads;
        const int64_t row = (queries_before + query) * b.query_heads + head;
        const bool has_sink = adds_sinks && !random.sinks.empty();
        float largest = has_sink ? random.sinks[head] : -kInfinity, sum = has_sink ? 1 : 0;
        std::vector<float> sums(b.value_dim);
        for (int first = 0; first < b.key_lengths[i]; first += 128) {
          std::vector<float> logits;
          for (int key = first; key < std::min(first + 128, b.key_lengths[i]); ++key) {
            float logit = 0;
            const int64_t at = b.key_row(i, keys_before, key) * b.kv_heads + kv_head;
            for (int j = 0; j < b.head_dim; ++j)
              logit += random.q[row * b.head_dim + j] * random.k[at * b.head_dim + j];
            logit *= b.scale;
            if (b.soft_cap != 0) logit = b.soft_cap * std::tanh(logit / b.soft_cap);
            const bool sees = key >= b.first_key(i, query) && key < b.end_of_keys(i, query) && seen(i, query, key);
            logits.push_back(sees ? logit : -kInfinity);
          }
          float new_largest = largest;
          for (const float logit : logits) new_largest = std::fmax(new_largest, logit);
          const float base = new_largest == -kInfinity ? 0 : new_largest, factor = std::exp(largest - base);
          sum *= factor;
          for (float& value : sums) value *= factor;
          largest = new_largest;
          for (size_t j = 0; j < logits.size(); ++j) {
            const float weight = std::exp(logits[j] - base), rounded = static_cast<float>(Element(weight));
            sum += weight;
            const int64_t at = b.key_row(i, keys_before, first + static_cast<int>(j)) * b.kv_heads + kv_head;
            for (int column = 0; column < b.value_dim; ++column) {
              sums[column] += rounded * random.v[at * b.value_dim + column];
            }
          }
        }
        for (int column = 0; column < b.value_dim; ++column) {
          result.output[row * b.value_dim + column] = Element(sum == 0 ? 0 : sums[column] / sum);
        }
        const int64_t queries = b.queries();
        result.logsumexp[head * queries + queries_before + query] = sum == 0 ? -kInfinity : largest + std::log(sum);
      }
    }
    queries_before += b.query_lengths[i];
    keys_before += b.key_lengths[i];
  }
  return result;
}

bool all(int /*batch*/, int /*query*/, int /*key*/) { return true; }

AttentionComparison compared(const RandomAttention& random, const Computed& computed) {
  const auto reference =
      reference_attention(random.batch, random.q, random.k, random.v, random.sinks, precision_of_attention<Element>());
  return compare_attention(random.batch, reference, wide_all<Element>(computed.output),
                           wide_all<float>(computed.logsumexp));
}

RandomAttention drawn(uint64_t seed, const AttentionLimits& limits = {.most_queries = 40, .most_keys = 300}) {
  RandomAttention random = draw_attention(seed, 16, 8, limits);
  for (auto* values : {&random.q, &random.k, &random.v}) round_to_bf16(*values);
  return random;
}

/// One sequence whose queries see all keys.
RandomAttention plain(int queries, int keys, uint64_t seed) {
  RandomAttention random = with_random_operands(
      {.head_dim = 16, .value_dim = 8, .query_lengths = {queries}, .key_lengths = {keys}, .scale = 1.5}, false, seed);
  for (auto* values : {&random.q, &random.k, &random.v}) round_to_bf16(*values);
  return random;
}

AttentionReference reference_of(const RandomAttention& random) {
  return reference_attention(random.batch, random.q, random.k, random.v, random.sinks, {});
}

TEST(ReferenceAttentionTest, AgreesWithTheDefinition) {
  for (uint64_t i = 0; i < 10; ++i) {
    const RandomAttention random = drawn(fresh_seed() + i);
    const AttentionBatch& b = random.batch;
    const AttentionReference reference = reference_of(random);
    int64_t queries_before = 0, keys_before = 0;
    for (int batch = 0; batch < b.batches(); ++batch) {
      const int more_keys = b.key_lengths[batch] - b.query_lengths[batch];
      for (int query = 0; query < b.query_lengths[batch]; ++query) {
        for (int head = 0; head < b.query_heads; ++head) {
          const int64_t row = (queries_before + query) * b.query_heads + head;
          std::vector<double> logits(b.key_lengths[batch], -kInfinity), rows(b.key_lengths[batch]);
          double sum = random.sinks.empty() ? 0 : std::exp(double{random.sinks[head]});
          for (int key = 0; key < b.key_lengths[batch]; ++key) {
            const int64_t place =
                b.page_size == 0
                    ? keys_before + key
                    : b.page_table[batch * b.pages_of_sequence + key / b.page_size] * b.page_size + key % b.page_size;
            rows[key] = static_cast<double>(place * b.kv_heads + head / (b.query_heads / b.kv_heads));
            if (b.window_left >= 0 && key < query + more_keys - b.window_left) continue;
            if (b.window_right >= 0 && key > query + more_keys + b.window_right) continue;
            double logit = 0;
            for (int j = 0; j < b.head_dim; ++j) {
              logit +=
                  double{random.q[row * b.head_dim + j]} * random.k[static_cast<int64_t>(rows[key]) * b.head_dim + j];
            }
            logit *= b.scale;
            logits[key] = b.soft_cap == 0 ? logit : b.soft_cap * std::tanh(logit / b.soft_cap);
            sum += std::exp(logits[key]);
          }
          const double logsumexp = reference.logsumexp[head * b.queries() + queries_before + query];
          ASSERT_EQ(std::isinf(logsumexp), sum == 0);
          if (sum > 0) {
            ASSERT_NEAR(logsumexp, std::log(sum), 1e-9) << "seed " << fresh_seed() + i;
          }
          for (int column = 0; column < b.value_dim; ++column) {
            double expected = 0;
            for (int key = 0; key < b.key_lengths[batch] && sum > 0; ++key) {
              expected +=
                  std::exp(logits[key]) / sum * random.v[static_cast<int64_t>(rows[key]) * b.value_dim + column];
            }
            ASSERT_NEAR(reference.output[row * b.value_dim + column], expected, 1e-9) << "seed " << fresh_seed() + i;
          }
        }
      }
      queries_before += b.query_lengths[batch];
      keys_before += b.key_lengths[batch];
    }
  }
}

TEST(ReferenceAttentionTest, AcceptsAFlawlessKernelAndIsNotFarFromItsErrors) {
  double worst = 0;
  for (uint64_t i = 0; i < 8; ++i) {
    const RandomAttention random = drawn(fresh_seed() + i);
    const Computed computed = compute(random, all);
    const AttentionComparison found = compared(random, computed);
    EXPECT_EQ(found.wrong, 0u) << found.worst << " (seed " << fresh_seed() + i << ")";
    AttentionReference tighter = reference_of(random);
    for (double& error : tighter.output_error) error /= 8;
    worst =
        std::max(worst, compare_attention(random.batch, tighter, wide_all<Element>(computed.output), {}).worst_excess);
  }
  EXPECT_GT(worst, 1) << "an eighth of the tolerance would do";
}

TEST(ReferenceAttentionTest, StatesTheResultOfRowsThatSeeNothing) {
  RandomAttention random = plain(5, 3, 1);
  random.batch.window_right = 0;  // the first two queries are before the first key
  AttentionReference reference = reference_of(random);
  for (int query = 0; query < 5; ++query) EXPECT_EQ(reference.logsumexp[query] == -kInfinity, query < 2) << query;
  for (int column = 0; column < 16; ++column) {
    EXPECT_EQ(reference.output[column], 0);
    EXPECT_EQ(reference.output_error[column], 0);
  }
  random.sinks = {0.5f};
  reference = reference_of(random);
  EXPECT_DOUBLE_EQ(reference.logsumexp[0], 0.5);
  EXPECT_EQ(reference.output[0], 0);
  random.batch.key_lengths = {0};
  random.sinks.clear();
  reference = reference_of(random);
  EXPECT_TRUE(std::ranges::all_of(reference.output, [](double value) { return value == 0; }));
  EXPECT_TRUE(std::ranges::all_of(reference.logsumexp, [](double value) { return value == -kInfinity; }));
}

TEST(ReferenceAttentionTest, StatesWhatInfinitiesAndNaNDo) {
  RandomAttention random = plain(4, 6, 1);
  random.batch.window_right = 0;  // query i sees keys 0 to i + 2
  random.v[4 * 8 + 3] = kInfinity;
  AttentionReference reference = reference_of(random);
  EXPECT_EQ(reference.output_kind[0 * 8 + 3], AttentionKind::anything);
  EXPECT_EQ(reference.output_kind[1 * 8 + 3], AttentionKind::anything);
  EXPECT_EQ(reference.output_kind[2 * 8 + 3], AttentionKind::not_finite);
  EXPECT_EQ(reference.output_kind[2 * 8 + 2], AttentionKind::number);
  random.k[5 * 16] = NAN;  // the last query alone sees it
  reference = reference_of(random);
  EXPECT_EQ(reference.output_kind[2 * 8 + 2], AttentionKind::number);
  EXPECT_EQ(reference.output_kind[3 * 8 + 2], AttentionKind::not_number);
  EXPECT_TRUE(std::isnan(reference.logsumexp[3]));
  random = plain(1, 6, 1);
  random.k[5 * 16] = random.q[0] > 0 ? -kInfinity : kInfinity;  // a logit of -inf: as if the key was not there
  const double with_infinity = reference_of(random).logsumexp[0];
  random.batch.key_lengths = {5};
  EXPECT_DOUBLE_EQ(with_infinity, reference_of(random).logsumexp[0]);
}

TEST(ReferenceAttentionTest, LargeLogitsHaveAResult) {
  RandomAttention random = plain(3, 200, 1);
  random.batch.scale = 1e4f / 16;
  const AttentionReference reference = reference_of(random);
  for (size_t i = 0; i < reference.output.size(); ++i) {
    EXPECT_TRUE(std::isfinite(reference.output[i]));
    EXPECT_LT(reference.output_error[i], 0.1);
  }
}

/// How many of some random problems a mistake is found in.
template <typename Wrong>
int found_in(const AttentionLimits& limits, const Wrong& wrong) {
  int found = 0;
  for (uint64_t i = 0; i < 10; ++i) {
    RandomAttention random = drawn(fresh_seed() + i, limits);
    found += compared(random, wrong(random)).wrong > 0 ? 1 : 0;
  }
  return found;
}

/// One sequence with as many queries as keys may be.
constexpr AttentionLimits kOne{
    .most_queries = 200, .most_keys = 200, .most_batches = 1, .has_soft_cap = false, .has_lengths = false};

TEST(ReferenceAttentionTest, RejectsOneKeyTooFew) {
  for (uint64_t i = 0; i < 5; ++i) {
    const RandomAttention random = plain(16, 500, fresh_seed() + i);
    const auto without_last = [&](int, int, int key) { return key != 499; };
    EXPECT_GT(compared(random, compute(random, without_last)).wrong, 0u) << "seed " << fresh_seed() + i;
  }
}

TEST(ReferenceAttentionTest, RejectsAMaskThatIsOffByOne) {
  for (uint64_t i = 0; i < 5; ++i) {
    RandomAttention random = plain(50, 80, fresh_seed() + i);
    random.batch.window_right = 0;
    random.batch.window_left = 20;
    for (const int shift : {0, 20}) {
      const auto misses_one = [&](int, int query, int key) { return key != query + 30 - shift; };
      EXPECT_GT(compared(random, compute(random, misses_one)).wrong, 150u) << "seed " << fresh_seed() + i;
    }
  }
}

TEST(ReferenceAttentionTest, RejectsAnotherHeadsKeys) {
  for (uint64_t i = 0; i < 5; ++i) {
    RandomAttention random = drawn(fresh_seed() + i, kOne);
    if (random.batch.kv_heads == 1) continue;
    EXPECT_GT(compared(random, compute(random, all, 1)).wrong, 0u) << "seed " << fresh_seed() + i;
  }
}

TEST(ReferenceAttentionTest, RejectsAMissingSink) {
  EXPECT_GE(found_in(kOne,
                     [](RandomAttention& random) {
                       random.sinks.assign(random.batch.query_heads, 1.0f);
                       return compute(random, all, 0, false);
                     }),
            10);
}

TEST(ReferenceAttentionTest, RejectsWhatWasNotWritten) {
  RandomAttention random = plain(5, 3, 1);
  random.k[0] = NAN;  // even where NaN is right
  Computed computed = compute(random, all);
  for (Element& element : computed.output) element = Element(NAN);
  for (float& logsumexp : computed.logsumexp) logsumexp = NAN;
  ASSERT_EQ(compared(random, computed).wrong, 0u);
  __nv_bfloat16_raw poison;
  poison.x = 0xffff;
  computed.output[13] = poison;
  const AttentionComparison found = compared(random, computed);
  EXPECT_EQ(found.wrong, 1u);
  EXPECT_EQ(found.worst, "query 1 of sequence 0, head 0, column 5 is not written, and should be NaN");
}

TEST(ReferenceAttentionTest, NamesTheWorstElement) {
  const RandomAttention random = plain(5, 300, 1);
  Computed computed = compute(random, all);
  computed.output[3 * 8 + 5] = Element(9.0f);
  computed.logsumexp[2] += 0.01f;
  const AttentionComparison found = compared(random, computed);
  EXPECT_EQ(found.wrong, 2u);
  EXPECT_NE(found.worst.find("query 3 of sequence 0, head 0, column 5 is 9.000000, and should be "), std::string::npos)
      << found.worst;
}

}  // namespace
}  // namespace stagecraft::harness
