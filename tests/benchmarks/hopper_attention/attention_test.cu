// The attention kernels for Hopper against a reference in double: every compiled configuration, with few blocks, so
// that each goes through several tiles of queries.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_attention.hpp"
#include "stagecraft/hopper_attention/attention.hpp"

namespace stagecraft {
namespace {

using namespace harness;

/// What there is to compute, in [tokens][heads][head_dim], sequence after sequence.
struct Case {
  int head_dim = 128, sequences = 1, heads = 1, key_heads = 1, queries = 1, keys = 1;
  bool causal = false;
  float spread = 2;  ///< standard deviation of the logits
  int blocks = 2;
};

AttentionRows rows_of(void* data, int tokens, int heads, int head_dim) {
  const int64_t row = int64_t{heads} * head_dim;
  return {.data = data, .token_stride = row, .head_stride = head_dim, .sequence_stride = tokens * row};
}

class HopperAttentionTest : public testing::Test {
 protected:
  void SetUp() override {
    if (current_device().major != 9) GTEST_SKIP() << "wgmma needs Hopper: set STAGECRAFT_DEVICE=h200";
  }

  /// Computes attention of random operands `rounds` times by one launch, and checks every element each time.
  /// @param change  what else is to be done to the operands before they are rounded.
  template <typename Element, typename Change>
  void expect_attention(const Case& c, int rounds, Change change) {
    const uint64_t seed = fresh_seed();
    SCOPED_TRACE(std::to_string(c.sequences) + " sequences of " + std::to_string(c.queries) + " queries and " +
                 std::to_string(c.keys) + " keys, " + std::to_string(c.heads) + " heads over " +
                 std::to_string(c.key_heads) + ", rows of " + std::to_string(c.head_dim) +
                 (c.causal ? ", causal" : "") + ", seed " + std::to_string(seed));
    // Products of two numbers that are uniform in [-1, 1) have a variance of 1/9.
    const float scale = c.spread * 3 / std::sqrt(static_cast<float>(c.head_dim));
    RandomAttention random = with_random_operands({.query_heads = c.heads,
                                                   .kv_heads = c.key_heads,
                                                   .head_dim = c.head_dim,
                                                   .value_dim = c.head_dim,
                                                   .query_lengths = std::vector<int>(c.sequences, c.queries),
                                                   .key_lengths = std::vector<int>(c.sequences, c.keys),
                                                   .scale = scale,
                                                   .window_right = c.causal ? 0 : -1},
                                                  /*has_sinks=*/false, seed);
    change(random);
    const std::vector<Element> q = rounded<Element>(random.q), k = rounded<Element>(random.k),
                               v = rounded<Element>(random.v);
    const DeviceBuffer<Element> there_q(q, "Q"), there_k(k, "K"), there_v(v, "V");
    DeviceBuffer<Element> out(q.size(), "the output");
    DeviceBuffer<float> logsumexp(q.size() / c.head_dim, "the logarithms");
    const auto launch = prepare_hopper_attention(
        {.element = std::is_same_v<Element, __half> ? AttentionElement::f16 : AttentionElement::bf16,
         .head_dim = c.head_dim,
         .sequences = c.sequences,
         .heads = c.heads,
         .key_heads = c.key_heads,
         .queries = c.queries,
         .keys = c.keys,
         .causal = c.causal,
         .scale = scale,
         .q = rows_of(there_q.data(), c.queries, c.heads, c.head_dim),
         .k = rows_of(there_k.data(), c.keys, c.key_heads, c.head_dim),
         .v = rows_of(there_v.data(), c.keys, c.key_heads, c.head_dim),
         .out = rows_of(out.data(), c.queries, c.heads, c.head_dim),
         .logsumexp = logsumexp.data()},
        c.blocks);
    AttentionPrecision precision = precision_of_attention<Element>();
    // Weights are relative to a maximum that may be 2^8 too small, which costs nothing, or too large: they then lose
    // what is below the smallest number of f16.
    const AttentionReference reference =
        reference_attention(random.batch, random.q, random.k, random.v, random.sinks, precision);
    for (int round = 0; round < rounds; ++round) {
      out.poison();
      logsumexp.poison();
      launch(nullptr);
      finish_kernel("hopper_attention");
      // The reference has all sequences' queries of a head together.
      const std::vector<float> got = logsumexp.to_host();
      std::vector<double> ordered;
      for (int head = 0; head < c.heads; ++head) {
        for (int sequence = 0; sequence < c.sequences; ++sequence) {
          const auto first = got.begin() + (int64_t{sequence} * c.heads + head) * c.queries;
          ordered.insert(ordered.end(), first, first + c.queries);
        }
      }
      const AttentionComparison found =
          compare_attention(random.batch, reference, wide_all<Element>(out.to_host()), ordered);
      EXPECT_EQ(found.wrong, 0u) << found.worst;
    }
  }

  template <typename Element>
  void expect_attention(const Case& c, int rounds = 1) {
    expect_attention<Element>(c, rounds, [](RandomAttention&) {});
  }
};

using Bf16 = __nv_bfloat16;

TEST_F(HopperAttentionTest, OneTile) {
  expect_attention<Bf16>({.head_dim = 128, .queries = 128, .keys = 128});
  expect_attention<__half>({.head_dim = 64, .queries = 192, .keys = 128});
}

TEST_F(HopperAttentionTest, EveryBlockTakesSeveralItemsAndLeavesTheCountAsItWas) {
  expect_attention<Bf16>({.head_dim = 128, .heads = 3, .queries = 200, .keys = 150}, 2);
  expect_attention<Bf16>({.head_dim = 64, .heads = 3, .queries = 250, .keys = 270, .causal = true}, 2);
}

TEST_F(HopperAttentionTest, GroupsOfHeadsShareKeysInSeveralSequences) {
  expect_attention<__half>({.head_dim = 128, .sequences = 2, .heads = 4, .key_heads = 2, .queries = 70, .keys = 140});
}

TEST_F(HopperAttentionTest, TheLastQueryIsAtTheLastKey) {
  expect_attention<__half>({.head_dim = 128, .queries = 130, .keys = 300, .causal = true});
  expect_attention<Bf16>({.head_dim = 64, .queries = 1, .keys = 300, .causal = true});
}

TEST_F(HopperAttentionTest, QueriesThatSeeNoKeyGetZeros) {
  expect_attention<Bf16>({.head_dim = 128, .queries = 300, .keys = 40, .causal = true});
  expect_attention<Bf16>({.head_dim = 64, .queries = 70, .keys = 0});
}

TEST_F(HopperAttentionTest, LongSequencesOfShortRowsHaveTilesOf192Queries) {
  expect_attention<Bf16>({.head_dim = 64, .queries = 400, .keys = 1600, .causal = true});
}

// The maximum grows by more than is tolerated, again and again, so that sums are rescaled.
TEST_F(HopperAttentionTest, WeightsThatDifferByManyPowersOfTwo) {
  expect_attention<Bf16>({.head_dim = 128, .queries = 128, .keys = 520, .spread = 30});
  expect_attention<__half>({.head_dim = 64, .queries = 64, .keys = 520, .causal = true, .spread = 30});
}

TEST_F(HopperAttentionTest, AQueryOfInfinitiesIsNaNAndOthersAreNot) {
  expect_attention<Bf16>({.head_dim = 128, .queries = 130, .keys = 200}, 1, [](RandomAttention& random) {
    std::fill_n(random.q.begin() + 5 * 128, 128, std::numeric_limits<float>::infinity());
  });
}

TEST_F(HopperAttentionTest, RandomProblems) {
  Random random(fresh_seed());
  const auto draw = [&random](int first, int last) {
    return first + static_cast<int>(random.bits() % (last - first + 1));
  };
  for (int i = 0; i < 4; ++i) {
    const int group = draw(1, 2), key_heads = draw(1, 2);
    const Case c{.head_dim = 64 * draw(1, 2),
                 .sequences = draw(1, 2),
                 .heads = group * key_heads,
                 .key_heads = key_heads,
                 .queries = draw(1, 300),
                 .keys = draw(0, 400),
                 .causal = draw(0, 1) == 1,
                 .blocks = draw(1, 4)};
    draw(0, 1) == 1 ? expect_attention<Bf16>(c) : expect_attention<__half>(c);
  }
}

TEST_F(HopperAttentionTest, RefusesWhatNoKernelComputes) {
  const HopperAttention legal{.heads = 4, .key_heads = 2};
  const auto message = [](const HopperAttention& attention) -> std::string {
    try {
      prepare_hopper_attention(attention);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(legal), "");  // no queries
  HopperAttention changed = legal;
  changed.head_dim = 96;
  EXPECT_EQ(message(changed), "head_dim = 96: it must be 64 or 128. Pad rows with zeros.");
  changed = legal;
  changed.key_heads = 3;
  EXPECT_EQ(message(changed), "key_heads = 3: it must divide the heads of queries, which are 4.");
  changed = legal;
  changed.scale = -1;
  EXPECT_EQ(message(changed),
            "scale = -1: it must be a number greater than 0: the largest product is taken for the largest logit.");
}

}  // namespace
}  // namespace stagecraft
