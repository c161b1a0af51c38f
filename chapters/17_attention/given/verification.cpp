#include "verification.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"

namespace stagecraft {
namespace {

using harness::AttentionBatch;
using harness::DeviceBuffer;
using Bytes = std::vector<unsigned char>;

/// Calls `use(Element{})` with the element type that a DataType names.
template <typename Use>
auto with_element(DataType type, const Use& use) {
  if (type == DataType::e4m3) return use(__nv_fp8_e4m3{});
  if (type == DataType::f16) return use(__half{});
  return use(__nv_bfloat16{});
}

/// Where the rows of a matrix are.
class Rows {
 public:
  /// @param lengths  of the sequences, one row for each; where there are pages, their keys are one sequence.
  Rows(std::vector<int> lengths, int heads, int dim, const AttentionStrides& strides, bool follow, int element_bytes)
      : lengths_(std::move(lengths)),
        heads_(heads),
        dim_(dim),
        strides_(strides),
        follow_(follow),
        element_bytes_(element_bytes) {}

  /// Bytes from the first element to the last; at least one row.
  size_t bytes() const {
    int64_t last = 0;
    for_each([&](int64_t, int64_t at) { last = std::max(last, at); });
    return (last + dim_) * element_bytes_;
  }

  /// Calls `use(index of a row in [rows][heads], element where it begins)` for each row.
  template <typename Use>
  void for_each(const Use& use) const {
    int64_t before = 0;
    for (size_t i = 0; i < lengths_.size(); ++i) {
      for (int token = 0; token < lengths_[i]; ++token) {
        const int64_t first = follow_ ? (before + token) * strides_.token
                                      : static_cast<int64_t>(i) * strides_.sequence + token * strides_.token;
        for (int head = 0; head < heads_; ++head) use((before + token) * heads_ + head, first + head * strides_.head);
      }
      before += lengths_[i];
    }
  }

  int dim() const { return dim_; }

 private:
  std::vector<int> lengths_;
  int heads_, dim_;
  AttentionStrides strides_;
  bool follow_;
  int element_bytes_;
};

/// Rounds values to their type, in place, and returns them as they are in memory, with poison in gaps.
template <typename Element>
Bytes place(std::vector<float>& values, const Rows& rows) {
  Bytes bytes(rows.bytes(), 0xff);
  rows.for_each([&](int64_t row, int64_t at) {
    for (int column = 0; column < rows.dim(); ++column) {
      float& value = values[row * rows.dim() + column];
      const auto element = static_cast<Element>(value);
      value = static_cast<float>(element);
      std::memcpy(&bytes[(at + column) * sizeof element], &element, sizeof element);
    }
  });
  return bytes;
}

/// The numbers of an output. What is not of a row must still be poison; nothing is returned where it is not.
template <typename Element>
std::vector<double> take(Bytes& bytes, const Rows& rows, size_t elements, bool& is_around_untouched) {
  std::vector<double> numbers(elements);
  rows.for_each([&](int64_t row, int64_t at) {
    for (int column = 0; column < rows.dim(); ++column) {
      Element element;
      unsigned char* const from = &bytes[(at + column) * sizeof element];
      std::memcpy(&element, from, sizeof element);
      const bool is_written =
          !std::all_of(from, from + sizeof element, [](unsigned char byte) { return byte == 0xff; });
      std::memset(from, 0xff, sizeof element);
      const double number = static_cast<float>(element);
      numbers[row * rows.dim() + column] = std::isnan(number) ? std::copysign(NAN, is_written ? 1.0 : -1.0) : number;
    }
  });
  is_around_untouched = std::ranges::all_of(bytes, [](unsigned char byte) { return byte == 0xff; });
  return numbers;
}

std::vector<int> begins_of(const std::vector<int>& lengths) {
  std::vector<int> begins{0};
  for (const int length : lengths) begins.push_back(begins.back() + length);
  return begins;
}

/// An array on the device, of at least one element.
template <typename T>
DeviceBuffer<T> on_device(std::vector<T> values, const char* name) {
  if (values.empty()) values.emplace_back();
  return DeviceBuffer<T>(values, name);
}

bool follows(const AttentionStrides& strides, int64_t rows) {
  return strides.sequence == 0 || strides.sequence == rows * strides.token;
}

}  // namespace

AttentionProblem problem_of(const AttentionBatch& batch, bool has_sinks, DataType type, AttentionLayout layout,
                            bool has_lengths) {
  const auto differ = [](const std::vector<int>& lengths) {
    return std::ranges::any_of(lengths, [&](int length) { return length != lengths[0]; });
  };
  const auto most = [](const std::vector<int>& lengths) { return *std::ranges::max_element(lengths); };
  AttentionProblem problem{.type = type,
                           .sequences = batch.batches(),
                           .queries = most(batch.query_lengths),
                           .keys = most(batch.key_lengths),
                           .heads = batch.query_heads,
                           .kv_heads = batch.kv_heads,
                           .head_dim = batch.head_dim,
                           .value_dim = batch.value_dim,
                           .scale = batch.scale,
                           .mask = {.window_left = batch.window_left, .window_right = batch.window_right},
                           .soft_cap = batch.soft_cap,
                           .variable_queries = has_lengths || differ(batch.query_lengths),
                           .variable_keys = has_lengths || differ(batch.key_lengths),
                           .sinks = has_sinks,
                           .logsumexp = true};
  if (batch.page_size > 0) {
    const int last = batch.page_table.empty() ? 0 : *std::ranges::max_element(batch.page_table);
    problem.pages = {.size = batch.page_size, .count = last + 1, .of_sequence = batch.pages_of_sequence};
  }
  const auto strides = [&](int64_t heads, int64_t dim, int64_t rows, bool has_one_length) -> AttentionStrides {
    const int64_t gap = 128 / bits_of(type);
    if (layout == AttentionLayout::gaps) return {.token = heads * (dim + gap) + gap, .head = dim + gap};
    if (layout == AttentionLayout::tokens || !has_one_length) return {};
    return {
        .token = dim, .head = std::max<int64_t>(rows, 1) * dim, .sequence = heads * std::max<int64_t>(rows, 1) * dim};
  };
  const bool queries = !problem.variable_queries, keys = !problem.variable_keys && batch.page_size == 0;
  problem.q = strides(problem.heads, problem.head_dim, problem.queries, queries);
  problem.o = strides(problem.heads, problem.value_dim, problem.queries, queries);
  problem.k = strides(problem.kv_heads, problem.head_dim, problem.keys, keys);
  problem.v = strides(problem.kv_heads, problem.value_dim, problem.keys, keys);
  return problem;
}

std::string describe(const AttentionProblem& p) {
  const auto number = [](auto value) { return std::to_string(value); };
  const auto counted = [](int64_t count, const char* one, const char* more) {
    return std::to_string(count) + (count == 1 ? one : more);
  };
  std::string text = counted(p.sequences, " sequence of ", " sequences of ") + (p.variable_queries ? "up to " : "") +
                     counted(p.queries, " query and ", " queries and ") + (p.variable_keys ? "up to " : "") +
                     counted(p.keys, " key, ", " keys, ") + counted(p.heads, " head over ", " heads over ") +
                     number(p.kv_heads) + ", " +
                     (p.type == DataType::bf16  ? "bf16 "
                      : p.type == DataType::f16 ? "f16 "
                                                : "e4m3 ") +
                     number(p.head_dim) + " and " + number(p.value_dim);
  if (p.mask.window_left < 0 && p.mask.window_right == 0) text += ", causal";
  if (p.mask.window_left >= 0 || p.mask.window_right > 0) {
    const auto side = [&](int64_t keys) { return keys < 0 ? "" : number(keys); };  // empty: as far as there are keys
    text += ", window " + side(p.mask.window_left) + ":" + side(p.mask.window_right);
  }
  if (p.soft_cap != 0) text += ", soft cap";
  if (p.sinks) text += ", sinks";
  if (p.pages.size > 0) text += ", pages of " + number(p.pages.size);
  return text;
}

AttentionVerdict verify(const AttentionCase& run) {
  const auto plan = AttentionPlan::choose(run.problem);
  if (!plan) throw std::invalid_argument(plan.error().message);
  const AttentionProblem& problem = plan->problem();
  const AttentionBatch& batch = run.data.batch;
  std::vector<float> q = run.data.q, k = run.data.k, v = run.data.v;

  // Keys in pages are those of one long sequence, in any order.
  std::vector<int> key_rows = batch.key_lengths;
  if (batch.page_size > 0) key_rows = {static_cast<int>(problem.pages.count * problem.pages.size)};
  const int bytes = bits_of(problem.type) / 8, output_bytes = bits_of(*problem.output) / 8;
  const bool queries_follow = follows(problem.q, problem.queries);
  const bool keys_follow = batch.page_size > 0 || follows(problem.k, problem.keys);
  const Rows q_rows(batch.query_lengths, batch.query_heads, batch.head_dim, problem.q, queries_follow, bytes);
  const Rows k_rows(key_rows, batch.kv_heads, batch.head_dim, problem.k, keys_follow, bytes);
  const Rows v_rows(key_rows, batch.kv_heads, batch.value_dim, problem.v, keys_follow, bytes);
  const Rows o_rows(batch.query_lengths, batch.query_heads, batch.value_dim, problem.o, queries_follow, output_bytes);
  const auto placed = with_element(problem.type, [&]<typename Element>(Element) {
    return std::array{place<Element>(q, q_rows), place<Element>(k, k_rows), place<Element>(v, v_rows)};
  });

  const auto there_q = on_device(placed[0], "Q"), there_k = on_device(placed[1], "K"),
             there_v = on_device(placed[2], "V");
  DeviceBuffer<unsigned char> there_o(o_rows.bytes() + 256, "the output");
  DeviceBuffer<float> there_logsumexp(batch.queries() * batch.query_heads + 1, "the logsumexp");
  there_o.poison();
  there_logsumexp.poison();
  const auto sinks = on_device(run.data.sinks, "the sinks");
  const auto query_begins = on_device(begins_of(batch.query_lengths), "the begins of the queries");
  const auto key_begins = on_device(begins_of(batch.key_lengths), "the begins of the keys");
  const auto key_lengths = on_device(batch.key_lengths, "the lengths of the keys");
  const auto page_table = on_device(batch.page_table, "the table of pages");
  const AttentionArguments arguments{.q = there_q.data(),
                                     .k = there_k.data(),
                                     .v = there_v.data(),
                                     .o = there_o.data(),
                                     .logsumexp = there_logsumexp.data(),
                                     .sinks = sinks.data(),
                                     .query_begins = query_begins.data(),
                                     .key_begins = key_begins.data(),
                                     .key_lengths = key_lengths.data(),
                                     .page_table = page_table.data(),
                                     .all_queries = batch.queries(),
                                     .all_keys = batch.keys()};
  const auto start = std::chrono::steady_clock::now();
  if (const auto error = plan->run(arguments)) throw std::invalid_argument(error->message);
  harness::check(cudaDeviceSynchronize(), "run the kernel");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  harness::AttentionPrecision precision = with_element(problem.type, [&]<typename Element>(Element) {
    return with_element(*problem.output,
                        [&]<typename Output>(Output) { return harness::precision_of_attention<Element, Output>(); });
  });
  if (plan->config().polynomials) precision.exponential = 0x1p-13;
  const auto reference = harness::reference_attention(batch, q, k, v, run.data.sinks, precision);
  Bytes found = there_o.to_host();
  const Bytes output_bits = found;
  bool is_around_untouched = true;
  const size_t elements = batch.queries() * batch.query_heads * batch.value_dim;
  const std::vector<double> output = with_element(*problem.output, [&]<typename Output>(Output) {
    return take<Output>(found, o_rows, elements, is_around_untouched);
  });
  std::vector<float> found_logsumexp = there_logsumexp.to_host();
  const bool is_end_untouched = std::bit_cast<uint32_t>(found_logsumexp.back()) == 0xffffffff;
  found_logsumexp.pop_back();
  std::vector<double> logsumexp;
  for (const float value : found_logsumexp) {
    const bool is_written = std::bit_cast<uint32_t>(value) != 0xffffffff;
    logsumexp.push_back(std::isnan(value) ? std::copysign(NAN, is_written ? 1.0 : -1.0) : double{value});
  }
  const auto compared = harness::compare_attention(batch, reference, output, logsumexp);
  AttentionVerdict verdict{.elements = elements,
                           .wrong = compared.wrong,
                           .worst = compared.worst,
                           .worst_excess = compared.worst_excess,
                           .seconds = seconds,
                           .output_bits = output_bits};
  if (!is_around_untouched || !is_end_untouched) {
    ++verdict.wrong;
    verdict.worst = "something was written between or after the rows of the output";
  }
  return verdict;
}

}  // namespace stagecraft
