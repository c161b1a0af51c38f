// Random problems on all shipped kernels, each element compared with the host. STAGECRAFT_ATTENTION_SEED and
// STAGECRAFT_ATTENTION_CASES choose others than each run's own.
#include "harness/random.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "verification.hpp"

namespace stagecraft {
namespace {

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// What a case is in addition to its batch.
struct Choice {
  DataType type;
  int head_dim, value_dim;
  AttentionLayout layout;
  bool has_lengths;
};

Choice draw(harness::Random& random) {
  const auto one_of = [&]<typename T, size_t Size>(const T(&values)[Size]) { return values[random.bits() % Size]; };
  Choice choice{.type = one_of({DataType::bf16, DataType::bf16, DataType::f16, DataType::e4m3}),
                .head_dim = one_of({64, 64, 96, 128, 128, 192}),
                .value_dim = 0,
                .layout = one_of({AttentionLayout::tokens, AttentionLayout::heads, AttentionLayout::gaps}),
                .has_lengths = random.bits() % 3 == 0};
  choice.value_dim = std::min(choice.head_dim, 128);
  if (random.bits() % 6 == 0) {  // any legal ones
    const int multiple = 128 / bits_of(choice.type);
    choice.head_dim = multiple * static_cast<int>(1 + random.bits() % static_cast<uint64_t>(192 / multiple));
    choice.value_dim = multiple * static_cast<int>(1 + random.bits() % static_cast<uint64_t>(128 / multiple));
  }
  return choice;
}

TEST(RandomAttentions, AgreeWithTheReference) {
  const uint64_t first = number_from("STAGECRAFT_ATTENTION_SEED", harness::fresh_seed());
  const uint64_t cases = number_from("STAGECRAFT_ATTENTION_CASES", 40);
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    harness::Random random(seed);
    const Choice choice = draw(random);
    const harness::RandomAttention data =
        harness::draw_attention(random.bits(), choice.head_dim, choice.value_dim, {.most_heads = 2});
    const AttentionProblem problem =
        problem_of(data.batch, !data.sinks.empty(), choice.type, choice.layout, choice.has_lengths);
    const std::string again = describe(problem) + "\nagain alone: STAGECRAFT_ATTENTION_SEED=" + std::to_string(seed) +
                              " STAGECRAFT_ATTENTION_CASES=1";
    SCOPED_TRACE(again);
    try {
      const AttentionVerdict verdict = verify({problem, data});
      EXPECT_EQ(verdict.wrong, 0u) << "of " << verdict.elements << "; the worst: " << verdict.worst;
    } catch (const std::exception& error) {
      FAIL() << error.what();  // after an error of a kernel, no other works
    }
  }
}

}  // namespace
}  // namespace stagecraft
