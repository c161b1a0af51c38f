// Runs one step of the kernel and checks every element. For looking at and for timing:
// STAGECRAFT_TIMELINE=text build/attention_steps two_tiles, ./stagecraft time build/attention_steps two_tiles 1024 2048
// 37
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/options.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_attention.hpp"
#include "steps.hpp"

namespace {

using namespace stagecraft;
using namespace stagecraft::harness;
using Element = __nv_bfloat16;

constexpr int kBadOptions = 2, kHeadDim = 128;
constexpr struct {
  std::string_view name;
  AttentionStep step;
} kSteps[] = {{"one_role", AttentionStep::one_role},       {"online", AttentionStep::online},
              {"two_tiles", AttentionStep::two_tiles},     {"correction", AttentionStep::correction},
              {"polynomials", AttentionStep::polynomials}, {"persistent", AttentionStep::persistent}};

std::vector<float> as_floats(const std::vector<Element>& values) { return {values.begin(), values.end()}; }

/// Says what is wrong, if anything is. @param causal  as in AttentionShape.
bool run_and_verify(AttentionStep step, int queries, int keys, int heads, bool causal) {
  const size_t row = static_cast<size_t>(heads) * kHeadDim;
  const float scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
  const std::vector<Element> q = random_values<Element>(queries * row, 1), k = random_values<Element>(keys * row, 2),
                             v = random_values<Element>(keys * row, 3);
  const DeviceBuffer<Element> there_q(q, "Q"), there_k(k, "K"), there_v(v, "V");
  DeviceBuffer<Element> outputs(queries * row, "the outputs");
  DeviceBuffer<float> logsumexp(static_cast<size_t>(heads) * queries, "the logarithms");
  outputs.poison();
  logsumexp.poison();
  run_attention_step(step, {.queries = queries,
                            .keys = keys,
                            .heads = heads,
                            .causal = causal,
                            .scale = scale,
                            .q = there_q.data(),
                            .k = there_k.data(),
                            .v = there_v.data(),
                            .outputs = outputs.data(),
                            .logsumexp = logsumexp.data()});

  const AttentionBatch batch{.query_heads = heads,
                             .kv_heads = heads,
                             .head_dim = kHeadDim,
                             .value_dim = kHeadDim,
                             .query_lengths = {queries},
                             .key_lengths = {keys},
                             .scale = scale,
                             .window_right = causal ? 0 : -1};
  AttentionPrecision precision = precision_of_attention<Element>();
  const bool has_polynomials = step == AttentionStep::polynomials || step == AttentionStep::persistent;
  if (has_polynomials) precision.exponential = 1e-4;  // that of the polynomial: exponential.hpp
  const AttentionReference reference =
      reference_attention(batch, as_floats(q), as_floats(k), as_floats(v), {}, precision);
  const std::vector<Element> got = outputs.to_host();
  const std::vector<float> got_logsumexp = logsumexp.to_host();
  const AttentionComparison found =
      compare_attention(batch, reference, wide_all<Element>(got), wide_all<float>(got_logsumexp));
  if (found.wrong > 0) std::printf("%zu are wrong, among them %s\n", found.wrong, found.worst.c_str());
  return found.wrong == 0;
}

}  // namespace

int main(int argc, char** argv) try {
  for (const auto& [name, step] : kSteps) {
    if (argc < 2 || name != argv[1] || argc > 6 || (argc == 6 && argv[5] != std::string_view("causal"))) continue;
    const auto number = [&](int index, const char* what, int otherwise) {
      return argc > index ? static_cast<int>(parse_number(what, argv[index], 1, 1 << 20)) : otherwise;
    };
    const int queries = number(2, "QUERIES", 512), keys = number(3, "KEYS", 512), heads = number(4, "HEADS", 1);
    require_tcgen05(current_device());
    const bool right = run_and_verify(step, queries, keys, heads, argc == 6);
    std::printf("%s: %d queries, %d keys, %d head(s)%s: %s\n", argv[1], queries, keys, heads,
                argc == 6 ? ", causal" : "", right ? "right" : "WRONG");
    return right ? 0 : 1;
  }
  std::fprintf(stderr,
               "usage: attention_steps one_role|online|two_tiles|correction|polynomials|persistent "
               "[QUERIES [KEYS [HEADS [causal]]]]\n");
  return kBadOptions;
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "attention_steps: %s\n", error.what());
  return kBadOptions;
} catch (const std::exception& error) {
  std::fprintf(stderr, "attention_steps: %s\n", error.what());
  return 1;
}
