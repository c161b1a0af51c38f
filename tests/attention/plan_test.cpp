// What plans of attention refuse, in which words; and results that are stated: of rows that see nothing, of infinities
// and NaN, of large logits, and of what is beside a sequence.
#include "stagecraft/attention/plan.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "harness/device_buffer.hpp"
#include "harness/random.hpp"
#include "verification.hpp"

namespace stagecraft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string refusal(const AttentionProblem& problem) {
  const auto plan = AttentionPlan::choose(problem);
  return plan ? "" : plan.error().message;
}

TEST(AttentionPlanTest, SaysWhatIsLegal) {
  const std::pair<AttentionProblem, const char*> cases[] = {
      {{.type = DataType::e5m2}, "Q, K and V must be of bf16, f16 or e4m3."},
      {{.output = DataType::f16}, "an output of f16 cannot be stored. Legal with bf16 is bf16."},
      {{.sequences = 0}, "sequences = 0 is too small. Legal are 1 to "},
      {{.queries = -1}, "queries = -1 is too small. Legal are 0 to "},
      {{.head_dim = 100}, "head_dim = 100 is not a multiple of 8, which in bf16 are 16 bytes"},
      {{.type = DataType::e4m3, .head_dim = 72}, "Pad it to 80."},
      {{.head_dim = 256}, "head_dim = 256 is too large. Legal are 8 to 192."},
      {{.head_dim = 192, .value_dim = 192}, "value_dim = 192 is too large. Legal are 8 to 128."},
      {{.heads = 6, .kv_heads = 4}, "heads = 6 is not a multiple of kv_heads = 4: each head of K and V serves equally"},
      {{.scale = -1}, "scale = -1.000000 must be positive and finite"},
      {{.soft_cap = -2}, "soft_cap = -2.000000 must be positive and finite, or 0 for none."},
      {{.soft_cap = NAN}, "soft_cap = nan must be positive"},
      {{.mask = {.window_left = -2}}, "window_left = -2 is too small. Legal are -1 to "},
      {{.pages = {.size = 48, .count = 4}}, "pages.size = 48. Legal are 16, 32, 64 and multiples of 128"},
      {{.keys = 100, .pages = {.size = 16, .count = 4, .of_sequence = 6}},
       "pages.of_sequence = 6 is too small: 100 keys are in 7 pages of 16."},
      {{.pages = {.size = 16}}, "pages.count = 0 is too small. Legal are 1 to "},
      {{.heads = 2, .q = {.head = 132}},
       "the stride from one head of Q to the next, 132 bf16 elements, is not a multiple of 8: the next would start off "
       "a "
       "16-byte boundary, which the tensor map cannot address. Pad it to 136."},
      {{.k = {.token = 64}},
       "the stride from one token of K to the next, 64 bf16 elements, is less than the 128 of a row."},
      {{.sequences = 2, .queries = 3, .q = {.sequence = 512}},
       "the stride from one sequence of Q to the next, 512 bf16 elements, is neither 384, that of its tokens, nor 128"},
      {{.variable_queries = true, .q = {.sequence = 512}}, "is of sequences of one length."},
      {{.sequences = 2, .queries = 3, .heads = 2, .q = {.token = 128, .head = 384, .sequence = 768}},
       "Q and the output have their sequences in different orders"},
  };
  for (const auto& [problem, sentence] : cases) {
    EXPECT_NE(refusal(problem).find(sentence), std::string::npos) << sentence << "\nbut: " << refusal(problem);
  }
}

TEST(AttentionPlanTest, SaysWhichAddressIsMissing) {
  const auto plan = AttentionPlan::choose({.logsumexp = true});
  ASSERT_TRUE(plan);
  const harness::DeviceBuffer<unsigned char> memory(1024, "memory");
  unsigned char* const at = memory.data();
  EXPECT_EQ(plan->run({.q = at, .k = at, .v = at}).value().message, "the address of the output is null.");
  EXPECT_EQ(plan->run({.q = at, .k = at + 8, .v = at, .o = at}).value().message,
            "the address of K is not a multiple of 16 bytes, as the tensor map needs.");
  EXPECT_EQ(plan->run({.q = at, .k = at, .v = at, .o = at}).value().message, "the address of the logsumexp is null.");
}

TEST(AttentionPlanTest, ChoosesTheSmallestKernelThatHoldsTheDimensions) {
  EXPECT_EQ(AttentionPlan::choose({.head_dim = 40})->config().head_dim, 64);
  EXPECT_EQ(AttentionPlan::choose({.head_dim = 96})->config().head_dim, 128);
  EXPECT_EQ(AttentionPlan::choose({.head_dim = 64, .value_dim = 128})->config().head_dim, 128);
  EXPECT_EQ(AttentionPlan::choose({.head_dim = 192})->config().value_dim, 128);
}

/// Runs a batch with these operands and fails where the kernel does not do what the reference says.
void expect_stated(harness::RandomAttention data, DataType type = DataType::bf16) {
  const AttentionProblem problem =
      problem_of(data.batch, !data.sinks.empty(), type, AttentionLayout::tokens, /*has_lengths=*/false);
  const AttentionVerdict verdict = verify({problem, std::move(data)});
  EXPECT_EQ(verdict.wrong, 0u) << verdict.worst;
}

harness::RandomAttention operands(std::vector<int> queries, std::vector<int> keys, bool has_sinks = false) {
  return harness::with_random_operands({.head_dim = 64,
                                        .value_dim = 64,
                                        .query_lengths = std::move(queries),
                                        .key_lengths = std::move(keys),
                                        .scale = 0.5},
                                       has_sinks, harness::fresh_seed());
}

TEST(StatedResults, RowsThatSeeNoKey) {
  for (const bool has_sinks : {false, true}) {
    auto data = operands({200}, {100}, has_sinks);  // a hundred queries are before the first key
    data.batch.window_right = 0;
    expect_stated(data);
    expect_stated(operands({5}, {0}, has_sinks));
    expect_stated(operands({3, 0, 130}, {0, 7, 129}, has_sinks));
  }
}

TEST(StatedResults, NaNAndInfinitiesOfKeysAndQueries) {
  for (const float value : {NAN, kInfinity, -kInfinity}) {
    for (const int key : {2, 3, 130}) {  // powers by both units, in both blocks
      auto data = operands({140}, {140});
      data.batch.window_right = 0;
      data.k[key * 64 + 7] = value;
      data.q[139 * 64 + 7] = value;
      expect_stated(data);
    }
  }
}

TEST(StatedResults, NaNAndInfinitiesOfValues) {
  for (const float value : {NAN, kInfinity}) {
    auto data = operands({140}, {140});
    data.batch.window_right = 0;
    data.v[130 * 64 + 7] = value;
    expect_stated(data);
  }
}

TEST(StatedResults, OfASequenceBesideOneWithNaN) {
  auto data = operands({3, 3}, {70, 70});
  for (size_t i = 70 * 64; i < data.k.size(); ++i) data.k[i] = data.v[i] = NAN;
  expect_stated(data);
}

TEST(StatedResults, LogitsOfTenThousand) {
  auto data = operands({130}, {300});
  data.batch.scale = 1e4f / 8;
  expect_stated(data);
  data.batch.scale = 1e-3f;  // and all nearly equal
  expect_stated(data, DataType::f16);
}

TEST(StatedResults, SinksThatAreLargerThanAllLogits) {
  auto data = operands({130}, {300}, true);
  data.sinks[0] = 100;
  expect_stated(data);
  data.sinks[0] = -kInfinity;
  expect_stated(data);
  data.sinks[0] = kInfinity;
  expect_stated(data);
}

TEST(StatedResults, TheSameBitsInEachRun) {
  const auto data = operands({300, 20}, {300, 500});
  const auto problem = problem_of(data.batch, false, DataType::bf16, AttentionLayout::tokens, true);
  const AttentionVerdict first = verify({problem, data}), second = verify({problem, data});
  EXPECT_EQ(first.wrong, 0u) << first.worst;
  EXPECT_EQ(first.output_bits, second.output_bits);
}

TEST(DescriptionOfAProblem, IsInTheWordsOfTheOptions) {
  AttentionProblem problem{.sequences = 1, .queries = 1, .keys = 7, .heads = 1, .kv_heads = 1, .value_dim = 128};
  EXPECT_EQ(describe(problem), "1 sequence of 1 query and 7 keys, 1 head over 1, bf16 128 and 128");
  problem.heads = 4;
  problem.mask.window_right = 7;
  EXPECT_EQ(describe(problem), "1 sequence of 1 query and 7 keys, 4 heads over 1, bf16 128 and 128, window :7");
  problem.mask.window_left = 5;
  EXPECT_EQ(describe(problem), "1 sequence of 1 query and 7 keys, 4 heads over 1, bf16 128 and 128, window 5:7");
}

}  // namespace
}  // namespace stagecraft
