// Decodes one token for a batch, verifies all of it, and says how many bytes that takes.
//
//     build/decoding bf16 | e4m3 SPLITS [early] [SEQUENCES] [KEYS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "decoding.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_attention.hpp"

namespace {

using namespace stagecraft;
using namespace stagecraft::harness;

/// As in models with 64 heads over 8.
constexpr int kHeads = 64, kKeyHeads = 8;
constexpr double kTerabytes = 8;  // per second: DRAM of a B200

template <typename Element>
void decode_batch(int sequences, int keys, const DecodingOptions& options) {
  AttentionBatch batch{.query_heads = kHeads,
                       .kv_heads = kKeyHeads,
                       .query_lengths = std::vector<int>(sequences, 1),
                       .key_lengths = std::vector<int>(sequences, keys),
                       .scale = 0.3f,
                       .window_right = 0,
                       .page_size = kPageTokens,
                       .page_table = {},
                       .pages_of_sequence = (keys + kPageTokens - 1) / kPageTokens};
  // Pages are where there was room: here the sequences grew in turn.
  for (int i = 0; i < sequences * batch.pages_of_sequence; ++i) {
    batch.page_table.push_back(i % batch.pages_of_sequence * sequences + i / batch.pages_of_sequence);
  }
  RandomAttention drawn = with_random_operands(batch, /*has_sinks=*/false, /*seed=*/1);
  const DeviceBuffer<Element> queries(rounded<Element>(drawn.q), "the queries"),
      key_cache(rounded<Element>(drawn.k), "the keys"), value_cache(rounded<Element>(drawn.v), "the values");
  const DeviceBuffer<int> table(batch.page_table, "the page table"), lengths(batch.key_lengths, "the lengths");
  const DeviceBuffer<float> ones(std::vector<float>(kKeyHeads, 1), "the scales");
  const size_t rows = batch.queries() * kHeads;
  DeviceBuffer<float> partial_outputs(rows * options.splits * kHeadDim, "the outputs of the splits"),
      partial_logsumexps(rows * options.splits, "the logsumexps of the splits");
  DeviceBuffer<__nv_bfloat16> outputs(rows * kHeadDim, "the outputs");
  outputs.poison();
  launch_decoding<Element>({.sequences = sequences,
                            .queries = 1,
                            .heads = kHeads,
                            .key_heads = kKeyHeads,
                            .pages = sequences * batch.pages_of_sequence,
                            .table_pages = batch.pages_of_sequence},
                           {.queries = queries.data(),
                            .keys = {key_cache.data(), ones.data()},
                            .values = {value_cache.data(), ones.data()},
                            .page_table = table.data(),
                            .lengths = lengths.data(),
                            .scale = batch.scale,
                            .partial = {partial_outputs.data(), partial_logsumexps.data()},
                            .results = {outputs.data(), nullptr}},
                           options);
  finish_kernel("decode", std::chrono::seconds(600));
  const AttentionReference reference =
      reference_attention(batch, drawn.q, drawn.k, drawn.v, {}, precision_of_attention<Element, __nv_bfloat16>());
  const std::vector<__nv_bfloat16> got = outputs.to_host();
  const AttentionComparison found =
      compare_attention(batch, reference, wide_all(std::span<const __nv_bfloat16>(got)), {});
  if (found.wrong > 0) throw std::runtime_error(found.worst);
  const double bytes = 2.0 * sequences * keys * kKeyHeads * kHeadDim * sizeof(Element);
  std::printf("%zu outputs are right; keys and values: %.1f MB, %.1f us at %g TB/s\n", rows, bytes * 1e-6,
              bytes * 1e-6 / kTerabytes, kTerabytes);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2 || (arguments[0] != "bf16" && arguments[0] != "e4m3")) {
    throw std::invalid_argument("usage: decoding bf16 | e4m3 SPLITS [early] [SEQUENCES] [KEYS]");
  }
  size_t next = 1;
  const auto number = [&](int otherwise) {
    return next < arguments.size() ? std::atoi(std::string(arguments[next++]).c_str()) : otherwise;
  };
  DecodingOptions options{.splits = number(1), .starts_early = false};
  if (next < arguments.size() && arguments[next] == "early") options.starts_early = true, ++next;
  const int sequences = number(4), keys = number(4096);
  if (arguments[0] == "bf16") {
    decode_batch<__nv_bfloat16>(sequences, keys, options);
  } else {
    decode_batch<__nv_fp8_e4m3>(sequences, keys, options);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "decoding: %s\n", error.what());
  return 2;
}
