// The C interface of attention: it computes what the plan in C++ does, and refuses in words.
#include "stagecraft/attention/c_interface.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/random.hpp"
#include "stagecraft/attention/plan.hpp"

// As in C, what an initialiser leaves out is zero.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace stagecraft {
namespace {

using harness::DeviceBuffer;
using harness::random_values;
using Element = __nv_bfloat16;

std::string message() { return stagecraft_attention_message(); }

/// Enough for each problem below.
struct Inputs {
  DeviceBuffer<Element> q{random_values<Element>(2 * 200 * 4 * 128, 1), "Q"},
      k{random_values<Element>(20 * 64 * 2 * 128, 2), "K"}, v{random_values<Element>(20 * 64 * 2 * 128, 3), "V"};
  DeviceBuffer<float> sinks{std::vector<float>{0.5f, -1, 2, 0}, "the sinks"};
  DeviceBuffer<int> query_begins{std::vector<int>{0, 150, 201}, "the begins of the queries"},
      key_begins{std::vector<int>{0, 130, 400}, "the begins of the keys"},
      key_lengths{std::vector<int>{300, 77}, "the lengths"},
      page_table{std::vector<int>{7, 3, 19, 0, 4, 9, 11, 2, 1, 16}, "the table"};
};

/// Runs the same problem in both ways.
void expect_same(const stagecraft_attention_problem& problem, const AttentionProblem& in_cpp) {
  const auto expected = AttentionPlan::choose(in_cpp);
  ASSERT_TRUE(expected) << expected.error().message;
  stagecraft_attention_plan* plan = nullptr;
  ASSERT_EQ(stagecraft_attention_create(&problem, &plan), STAGECRAFT_OK) << message();
  EXPECT_EQ(stagecraft_attention_description(plan), expected->description());

  const Inputs given;
  DeviceBuffer<Element> one(2 * 200 * 4 * 128, "the output"), other(2 * 200 * 4 * 128, "the output for C");
  DeviceBuffer<float> one_sums(2 * 200 * 4, "the logarithms"), other_sums(2 * 200 * 4, "the logarithms for C");
  one.poison();
  other.poison();
  one_sums.poison();
  other_sums.poison();
  const float output_scale = 0.5f;
  ASSERT_FALSE(expected->run({.q = given.q.data(),
                              .k = given.k.data(),
                              .v = given.v.data(),
                              .o = one.data(),
                              .logsumexp = one_sums.data(),
                              .sinks = given.sinks.data(),
                              .query_begins = given.query_begins.data(),
                              .key_begins = given.key_begins.data(),
                              .key_lengths = given.key_lengths.data(),
                              .page_table = given.page_table.data(),
                              .all_queries = 201,
                              .all_keys = 400,
                              .output_scale = output_scale}));
  const stagecraft_attention_arguments arguments{.q = given.q.data(),
                                                 .k = given.k.data(),
                                                 .v = given.v.data(),
                                                 .o = other.data(),
                                                 .logsumexp = other_sums.data(),
                                                 .sinks = given.sinks.data(),
                                                 .query_begins = given.query_begins.data(),
                                                 .key_begins = given.key_begins.data(),
                                                 .key_lengths = given.key_lengths.data(),
                                                 .page_table = given.page_table.data(),
                                                 .all_queries = 201,
                                                 .all_keys = 400,
                                                 .output_scale = &output_scale};
  ASSERT_EQ(stagecraft_attention_run(plan, &arguments, nullptr), STAGECRAFT_OK) << message();
  stagecraft_attention_destroy(plan);
  const auto bits = [](const auto& buffer) {
    const auto values = buffer.to_host();
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
    return std::vector<unsigned char>(bytes, bytes + values.size() * sizeof values[0]);
  };
  EXPECT_EQ(bits(other), bits(one));
  EXPECT_EQ(bits(other_sums), bits(one_sums));
}

TEST(AttentionCInterfaceTest, ComputesSequencesOfOneLength) {
  expect_same({.sequences = 2,
               .queries = 200,
               .keys = 300,
               .heads = 4,
               .kv_heads = 2,
               .head_dim = 128,
               .scale = 0.2f,
               .soft_cap = 3,
               .has_window = true,
               .window_left = 100,
               .window_right = -1,
               .sinks = true,
               .logsumexp = true,
               .q = {.token = 128, .head = 200 * 128},
               .o = {.token = 128, .head = 200 * 128}},
              {.sequences = 2,
               .queries = 200,
               .keys = 300,
               .heads = 4,
               .kv_heads = 2,
               .head_dim = 128,
               .scale = 0.2f,
               .mask = {.window_left = 100},
               .soft_cap = 3,
               .sinks = true,
               .logsumexp = true,
               .q = {.token = 128, .head = 200 * 128},
               .o = {.token = 128, .head = 200 * 128}});
}

TEST(AttentionCInterfaceTest, ComputesVariableLengthsAndPages) {
  expect_same({.sequences = 2,
               .queries = 150,
               .keys = 270,
               .heads = 2,
               .head_dim = 64,
               .causal = true,
               .variable_queries = true,
               .variable_keys = true},
              {.sequences = 2,
               .queries = 150,
               .keys = 270,
               .heads = 2,
               .head_dim = 64,
               .mask = {.causal = true},
               .variable_queries = true,
               .variable_keys = true});
  expect_same({.sequences = 2,
               .queries = 3,
               .keys = 320,
               .heads = 4,
               .kv_heads = 2,
               .head_dim = 128,
               .variable_keys = true,
               .page_size = 64,
               .page_count = 20},
              {.sequences = 2,
               .queries = 3,
               .keys = 320,
               .heads = 4,
               .kv_heads = 2,
               .variable_keys = true,
               .pages = {.size = 64, .count = 20}});
}

TEST(AttentionCInterfaceTest, RefusesInWords) {
  stagecraft_attention_problem problem{.queries = 1, .keys = 1, .heads = 1, .head_dim = 64};
  stagecraft_attention_plan* plan = nullptr;
  ASSERT_EQ(stagecraft_attention_create(&problem, &plan), STAGECRAFT_OK) << message();
  const stagecraft_attention_arguments none{};
  EXPECT_EQ(stagecraft_attention_run(plan, &none, nullptr), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(message(), "the address of Q is null.");
  EXPECT_EQ(stagecraft_attention_run(plan, nullptr, nullptr), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(stagecraft_attention_run(nullptr, &none, nullptr), STAGECRAFT_BAD_PROBLEM);
  stagecraft_attention_destroy(plan);
  stagecraft_attention_destroy(nullptr);

  problem.type = static_cast<stagecraft_type>(256);
  EXPECT_EQ(stagecraft_attention_create(&problem, &plan), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(plan, nullptr);
  EXPECT_EQ(message(), "the type of Q, K and V is 256. Legal are 0 to 9.");
  problem.type = STAGECRAFT_MXFP8;
  EXPECT_EQ(stagecraft_attention_create(&problem, &plan), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(message(), "Q, K and V must be of bf16, f16 or e4m3.");
  problem = {.queries = 1, .keys = 1, .head_dim = 64};
  EXPECT_EQ(stagecraft_attention_create(&problem, &plan), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(message(), "heads = 0 is too small. Legal are 1 to 65535.");
  EXPECT_EQ(stagecraft_attention_create(nullptr, &plan), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(stagecraft_attention_create(&problem, nullptr), STAGECRAFT_BAD_PROBLEM);
}

}  // namespace
}  // namespace stagecraft
