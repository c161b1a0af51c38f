// The complete attention on the command line: random matrices, a plan, a run, and every element checked against the
// host.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/command_line.hpp"
#include "harness/device.hpp"
#include "harness/options.hpp"
#include "harness/random.hpp"
#include "stagecraft/attention/kernel_table.hpp"
#include "verification.hpp"

namespace {

using namespace stagecraft;
using harness::parse_number;
constexpr int kNotVerified = 1;
constexpr int kBadOptions = 2;
/// What the host computes in some seconds, and what two cores emulate in minutes.
constexpr uint64_t kMostLength = 1 << 20;

/// What the user wrote.
struct Options {
  std::string type = "bf16", queries = "512", keys, heads = "2", kv_heads, head_dim = "128", value_dim;
  std::string sequences = "1", lengths, window, soft_cap = "0", scale, pages, layout = "tokens", seed = "1";
  bool causal = false, sinks = false, explain = false, list = false;
};

DataType parse_type(const std::string& text) {
  for (const DataType type : {DataType::bf16, DataType::f16, DataType::e4m3}) {
    if (text == (type == DataType::bf16 ? "bf16" : type == DataType::f16 ? "f16" : "e4m3")) return type;
  }
  throw std::invalid_argument("--type = \"" + text + "\" is unknown. Legal are bf16, f16 and e4m3.");
}

float parse_real(const char* name, const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const float value = std::strtof(text.c_str(), &end);
  const bool is_number = !text.empty() && end == text.c_str() + text.size() && std::isfinite(value);
  if (is_number && !(errno == ERANGE && value == 0)) return value;
  throw std::invalid_argument(std::string(name) + " = \"" + text + "\" is not a number of type float.");
}

int parse_int(const char* name, const std::string& text, uint64_t least, uint64_t most) {
  return static_cast<int>(parse_number(name, text, least, most));
}

/// "5:70,0:12": queries and keys of each sequence.
void parse_lengths(const std::string& text, harness::AttentionBatch& batch) {
  for (const std::string& pair : harness::split(text)) {
    const size_t colon = pair.find(':');
    if (colon == std::string::npos) {
      throw std::invalid_argument("--lengths = \"" + text +
                                  "\" is not queries:keys of each sequence, such as 5:70,300:300.");
    }
    batch.query_lengths.push_back(parse_int("--lengths", pair.substr(0, colon), 0, kMostLength));
    batch.key_lengths.push_back(parse_int("--lengths", pair.substr(colon + 1), 0, kMostLength));
  }
}

/// "128:0": how many keys before and after its own a query sees; empty parts are all.
void parse_window(const std::string& text, harness::AttentionBatch& batch) {
  if (text.empty()) return;
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw std::invalid_argument(
        "--window = \"" + text +
        "\" is not two numbers of keys, before and after a query's own, such as 128:0 or 128:.");
  }
  const std::string left = text.substr(0, colon), right = text.substr(colon + 1);
  if (!left.empty()) batch.window_left = parse_int("--window", left, 0, kMostTokens);
  if (!right.empty()) batch.window_right = parse_int("--window", right, 0, kMostTokens);
}

/// Each page of the cache once, in random order.
void deal_pages(harness::AttentionBatch& batch, uint64_t seed) {
  harness::Random random(seed);
  const int longest = *std::ranges::max_element(batch.key_lengths);
  batch.pages_of_sequence = (longest + batch.page_size - 1) / batch.page_size;
  batch.page_table.resize(static_cast<size_t>(batch.pages_of_sequence) * batch.key_lengths.size());
  std::iota(batch.page_table.begin(), batch.page_table.end(), 0);
  for (size_t i = batch.page_table.size(); i > 1; --i) {
    std::swap(batch.page_table[i - 1], batch.page_table[random.bits() % i]);
  }
}

AttentionCase read(const Options& options) {
  const DataType type = parse_type(options.type);
  harness::AttentionBatch batch;
  batch.query_heads = parse_int("--heads", options.heads, 1, 65535);
  batch.kv_heads = options.kv_heads.empty() ? batch.query_heads : parse_int("--kv-heads", options.kv_heads, 1, 65535);
  batch.head_dim = parse_int("--head-dim", options.head_dim, 1, 65535);
  batch.value_dim =
      options.value_dim.empty() ? std::min(batch.head_dim, 128) : parse_int("--value-dim", options.value_dim, 1, 65535);
  parse_lengths(options.lengths, batch);
  if (batch.query_lengths.empty()) {
    const int sequences = parse_int("--sequences", options.sequences, 1, 65535);
    const int queries = parse_int("--queries", options.queries, 0, kMostLength);
    batch.query_lengths.assign(sequences, queries);
    batch.key_lengths.assign(sequences,
                             options.keys.empty() ? queries : parse_int("--keys", options.keys, 0, kMostLength));
  }
  parse_window(options.window, batch);
  if (options.causal) batch.window_right = 0;
  batch.soft_cap = parse_real("--soft-cap", options.soft_cap);
  // Uniform operands: without --scale, logits have a standard deviation of 2.
  batch.scale =
      options.scale.empty() ? 6 / std::sqrt(static_cast<float>(batch.head_dim)) : parse_real("--scale", options.scale);
  // For the plan it means that the usual one is to be used.
  if (batch.scale == 0) throw std::invalid_argument("--scale = 0 makes all logits 0. It must be positive.");
  const uint64_t seed = parse_number("--seed", options.seed, 0, UINT64_MAX);
  AttentionLayout layout = AttentionLayout::tokens;
  if (options.layout == "heads") {
    layout = AttentionLayout::heads;
  } else if (options.layout != "tokens") {
    throw std::invalid_argument("--layout = \"" + options.layout + "\" is unknown. Legal are tokens and heads.");
  }
  if (!options.pages.empty()) {
    batch.page_size = parse_int("--page-size", options.pages, 1, kMostTokens);
    deal_pages(batch, seed);
  }
  AttentionCase run;
  run.problem = problem_of(batch, options.sinks, type, layout, !options.lengths.empty());
  // Before operands are drawn for it.
  if (const auto plan = AttentionPlan::choose(run.problem); !plan) throw std::invalid_argument(plan.error().message);
  run.data = harness::with_random_operands(std::move(batch), options.sinks, seed);
  return run;
}

/// A message about members of AttentionProblem, in the words of the options that name them.
std::string in_words_of_options(std::string message) {
  constexpr std::pair<const char*, const char*> kWords[] = {{"pages.size", "--page-size"}, {"head_dim", "--head-dim"},
                                                            {"value_dim", "--value-dim"},  {"kv_heads", "--kv-heads"},
                                                            {"soft_cap", "--soft-cap"},    {"heads = ", "--heads = "},
                                                            {"scale = ", "--scale = "}};
  for (const auto& [member, option] : kWords) {
    for (size_t at = 0; (at = message.find(member, at)) != std::string::npos; at += std::strlen(option)) {
      if (at == 0 || message[at - 1] == ' ') message.replace(at, std::strlen(member), option);
    }
  }
  return message;
}

int run(const Options& options) {
  if (options.list) {
    for (const AttentionKernel* kernel : shipped_attentions()) std::printf("%s\n", describe(kernel->config).c_str());
    return 0;
  }
  const cudaDeviceProp device = harness::current_device();
  harness::require_tcgen05(device);
  const AttentionCase run = read(options);
  if (options.explain) {
    std::printf("kernel: %s\n", AttentionPlan::choose(run.problem)->description().c_str());
  }
  const AttentionVerdict verdict = verify(run);
  const std::string text = describe(AttentionPlan::choose(run.problem)->problem());
  if (verdict.wrong > 0) {
    std::printf("attention of %s on %s: WRONG in %zu of %zu elements; the worst: %s (seed %s)\n", text.c_str(),
                device.name, verdict.wrong, verdict.elements, verdict.worst.c_str(), options.seed.c_str());
    return kNotVerified;
  }
  std::printf("attention of %s on %s: all %zu elements agree with the host, %.2f s\n", text.c_str(), device.name,
              verdict.elements, verdict.seconds);
  return 0;
}

/// A status of 0 only where all output could be written.
int written(int status) {
  std::cout.flush();
  if (status == 0 && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout)) {
    std::fprintf(stderr, "attention: the output cannot be written\n");
    return kNotVerified;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{
      "O = softmax(scale * Q * K transposed) * V on random matrices, verified against the host. Needs a B200, or the "
      "emulated GPU.",
      "attention"};
  const auto text = [&](const char* name, std::string& value, const char* type, const char* what) {
    app.add_option(name, value, what)->type_name(type)->capture_default_str()->check(harness::refuse_empty);
  };
  text("--type", options.type, "TYPE", "of Q, K and V: bf16, f16, e4m3; the output is the same, or bf16 for e4m3");
  text("--queries", options.queries, "NUMBER", "of a sequence");
  text("--keys", options.keys, "NUMBER", "of a sequence; default: as many as queries");
  text("--sequences", options.sequences, "NUMBER", "each with queries and keys of its own");
  text("--lengths", options.lengths, "Q:K,Q:K,...", "queries and keys of each sequence, in place of these three");
  text("--heads", options.heads, "NUMBER", "of Q and of the output");
  text("--kv-heads", options.kv_heads, "NUMBER", "of K and V, a divisor of the heads; default: as many");
  text("--head-dim", options.head_dim, "NUMBER", "elements of a row of Q and K: a multiple of 8 (e4m3: 16) up to 192");
  text(
      "--value-dim", options.value_dim, "NUMBER",
      "elements of a row of V and of the output: a multiple of 8 (e4m3: 16) up to 128; default: as --head-dim, or 128");
  app.add_flag("--causal", options.causal, "no query sees keys after its own; that of the last query is the last key");
  text("--window", options.window, "LEFT:RIGHT",
       "how many keys before and after its own a query sees; 128: for all after");
  text("--soft-cap", options.soft_cap, "NUMBER", "c makes c * tanh(logit / c) of a logit; 0: leaves it");
  text("--scale", options.scale, "NUMBER",
       "of products of queries and keys; default: 6 / sqrt(head dim), for uniform ones");
  app.add_flag("--sinks", options.sinks, "each head has a logit without a value");
  text("--page-size", options.pages, "NUMBER",
       "K and V are in pages of so many keys: 16, 32, 64, or a multiple of 128");
  text("--layout", options.layout, "NAME", "tokens: token after token, with all heads; heads: head after head");
  text("--seed", options.seed, "NUMBER", "of the random matrices");
  app.add_flag("--explain", options.explain, "say which kernel is chosen");
  app.add_flag("--list", options.list, "name the kernels that are shipped, and compute nothing");
  app.failure_message(harness::failure_in_a_line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? written(0) : kBadOptions;
  }

  try {
    return written(run(options));
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "attention: %s\n", in_words_of_options(error.what()).c_str());
    return kBadOptions;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "attention: out of host memory. Choose smaller sizes.\n");
    return kNotVerified;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attention: %s\n", error.what());
    return kNotVerified;
  }
}
