// Decoding on Hopper against the reference in double: caches with and without pages, any lengths, edges.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_attention.hpp"
#include "stagecraft/hopper_attention/decoding.hpp"

namespace stagecraft {
namespace {

using harness::DeviceBuffer;

/// Decodes on the device, and compares with the reference. The cache is in pages, those of a sequence in any order;
/// where each sequence has one page, the kernel gets no table.
template <typename T>
void expect_right(harness::RandomAttention problem) {
  harness::AttentionBatch& batch = problem.batch;
  const auto q = harness::rounded<T>(problem.q), k = harness::rounded<T>(problem.k), v = harness::rounded<T>(problem.v);
  const bool has_table = batch.pages_of_sequence > 1;
  const DeviceBuffer<T> queries(std::span<const T>(q), "queries"), keys(std::span<const T>(k), "keys"),
      values(std::span<const T>(v), "values");
  const DeviceBuffer<int> lengths(std::span<const int>(batch.key_lengths), "lengths"),
      table(std::span<const int>(batch.page_table), "page table");
  DeviceBuffer<T> out(static_cast<size_t>(batch.batches()) * batch.query_heads * batch.value_dim, "out");
  DeviceBuffer<float> logsumexp(static_cast<size_t>(batch.batches()) * batch.query_heads, "logsumexp");
  out.poison();
  logsumexp.poison();
  const int64_t row = int64_t{batch.kv_heads} * batch.head_dim;
  const auto decode = prepare_decoding({.type = std::is_same_v<T, __half> ? CacheType::f16 : CacheType::bf16,
                                        .queries = queries.data(),
                                        .keys = keys.data(),
                                        .values = values.data(),
                                        .out = out.data(),
                                        .logsumexp = logsumexp.data(),
                                        .lengths = lengths.data(),
                                        .page_table = has_table ? table.data() : nullptr,
                                        .sequences = batch.batches(),
                                        .heads = batch.query_heads,
                                        .key_heads = batch.kv_heads,
                                        .head_dim = batch.head_dim,
                                        .longest = batch.page_size * batch.pages_of_sequence,
                                        .pages = static_cast<int>(k.size() / row / batch.page_size),
                                        .page_tokens = batch.page_size,
                                        .pages_per_sequence = batch.pages_of_sequence,
                                        .token_stride = row,
                                        .head_stride = batch.head_dim,
                                        .page_stride = row * batch.page_size,
                                        .scale = batch.scale});
  decode(nullptr);
  harness::check(cudaDeviceSynchronize(), "decode");

  const auto reference =
      harness::reference_attention(batch, problem.q, problem.k, problem.v, {}, harness::precision_of_attention<T>());
  const auto found = harness::wide_all<T>(out.to_host());
  auto logarithms = logsumexp.to_host();
  std::vector<double> by_head(logarithms.size());  // the reference has [heads][queries]
  for (int sequence = 0; sequence < batch.batches(); ++sequence) {
    for (int head = 0; head < batch.query_heads; ++head) {
      by_head[static_cast<size_t>(head) * batch.batches() + sequence] =
          logarithms[static_cast<size_t>(sequence) * batch.query_heads + head];
    }
  }
  const auto comparison = harness::compare_attention(batch, reference, found, by_head);
  EXPECT_EQ(comparison.wrong, 0U) << comparison.worst;
}

/// Sequences with a query and so many keys each, in pages.
harness::RandomAttention draw(std::vector<int> key_lengths, int page_size, int kv_heads, int group, int head_dim,
                              uint64_t seed) {
  harness::AttentionBatch batch{.query_heads = kv_heads * group,
                                .kv_heads = kv_heads,
                                .head_dim = head_dim,
                                .value_dim = head_dim,
                                .query_lengths = std::vector<int>(key_lengths.size(), 1),
                                .key_lengths = key_lengths,
                                .scale = 4.0F / std::sqrt(static_cast<float>(head_dim)),
                                .page_size = page_size};
  const int longest = *std::max_element(key_lengths.begin(), key_lengths.end());
  batch.pages_of_sequence = std::max(1, (longest + page_size - 1) / page_size);
  batch.page_table.resize(key_lengths.size() * batch.pages_of_sequence);
  std::iota(batch.page_table.begin(), batch.page_table.end(), 0);
  if (batch.pages_of_sequence > 1) {
    harness::Random random(seed);
    for (size_t i = batch.page_table.size(); i > 1; --i) {
      std::swap(batch.page_table[i - 1], batch.page_table[random.bits() % i]);
    }
  }
  return harness::with_random_operands(std::move(batch), /*has_sinks=*/false, seed);
}

TEST(HopperDecodingTest, ReadsPagesInTheOrderOfTheTable) {
  const uint64_t seed = harness::fresh_seed();
  SCOPED_TRACE(seed);
  expect_right<__nv_bfloat16>(draw({200, 33, 0, 1, 96, 31}, 16, 2, 4, 128, seed));
  expect_right<__half>(draw({65, 130}, 48, 1, 16, 64, seed + 1));
  expect_right<__nv_bfloat16>(draw({300, 64}, 64, 3, 1, 128, seed + 2));
}

TEST(HopperDecodingTest, NeedsNoPageTable) {
  const uint64_t seed = harness::fresh_seed();
  SCOPED_TRACE(seed);
  expect_right<__half>(draw({100, 37, 99}, 101, 2, 8, 128, seed));
  expect_right<__nv_bfloat16>(draw(std::vector<int>(40, 40), 40, 1, 5, 64, seed + 1));
}

TEST(HopperDecodingTest, TakesLongSequencesAndHugeLogits) {
  const uint64_t seed = harness::fresh_seed();
  SCOPED_TRACE(seed);
  auto problem = draw({5000}, 128, 1, 4, 128, seed);
  problem.batch.scale = 1000;
  expect_right<__nv_bfloat16>(std::move(problem));
}

TEST(HopperDecodingTest, InfinitiesAndNaNStayInTheirSequence) {
  const uint64_t seed = harness::fresh_seed();
  SCOPED_TRACE(seed);
  auto problem = draw({40, 40, 40}, 16, 1, 2, 64, seed);
  const auto row = [&](int sequence, int key) { return problem.batch.key_row(sequence, 0, key) * 64; };
  problem.k[row(0, 5)] = std::numeric_limits<float>::quiet_NaN();
  problem.v[row(1, 39) + 7] = std::numeric_limits<float>::infinity();
  expect_right<__nv_bfloat16>(std::move(problem));
}

TEST(HopperDecodingTest, SaysWhatIsLegal) {
  DecodingInputs inputs{
      .heads = 17, .key_heads = 1, .longest = 1, .token_stride = 128, .head_stride = 128, .page_stride = 128};
  EXPECT_THROW(prepare_decoding(inputs), std::invalid_argument);
  inputs.heads = 16;
  inputs.head_dim = 96;
  EXPECT_THROW(prepare_decoding(inputs), std::invalid_argument);
  inputs.head_dim = 128;
  inputs.longest = 2;
  EXPECT_THROW(prepare_decoding(inputs), std::invalid_argument);
}

}  // namespace
}  // namespace stagecraft
