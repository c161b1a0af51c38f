// What attention should have given: every element in double precision on the host, and how far a kernel that computes
// it in f32 from weights of few bits may be from that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/comparison.hpp"

namespace stagecraft::harness {

/// A batch of sequences, the heads of each, and which keys a query sees.
///
/// The queries of all sequences follow each other, and have `query_heads` rows each: Q is [queries][query_heads]
/// [head_dim]. The output is the same with `value_dim`; the logsumexp is [query_heads][queries]. Keys and
/// values follow each other, too, with `kv_heads` rows each; or they are in the pages of a cache.
struct AttentionBatch {
  int query_heads = 1;               ///< heads of Q and of the output
  int kv_heads = 1;                  ///< heads of K and V; query_heads / kv_heads neighbours share one
  int head_dim = 128;                ///< elements of a row of Q and K
  int value_dim = 128;               ///< elements of a row of V and of the output
  std::vector<int> query_lengths{};  ///< queries of each sequence; 0 is legal
  std::vector<int> key_lengths{};    ///< keys of each sequence; 0 is legal
  float scale = 1;                   ///< what a product of a query and a key is multiplied by
  float soft_cap = 0;                ///< makes soft_cap * tanh(logit / soft_cap) of a logit; 0: leaves it
  int window_left = -1;              ///< how many keys before its own a query sees; -1: all
  int window_right = -1;             ///< how many after its own; -1: all; 0: causal
  int page_size = 0;                 ///< keys in a page of the cache; 0: they follow each other
  std::vector<int> page_table{};     ///< the page of each `page_size` keys; each sequence has a row
  int pages_of_sequence = 0;         ///< entries in a row of the table

  /// Sequences.
  int batches() const { return static_cast<int>(query_lengths.size()); }
  /// Queries of all sequences.
  int64_t queries() const;
  /// Keys of all sequences, without those of a cache that no sequence has.
  int64_t keys() const;
  /// The row of K and V, before it is multiplied by the heads, of a key.
  /// @param before  keys of the sequences before this one.
  int64_t key_row(int batch, int64_t before, int key) const {
    if (page_size == 0) return before + key;
    return int64_t{page_table[batch * pages_of_sequence + key / page_size]} * page_size + key % page_size;
  }
  /// The first key that a query sees. The last query of a sequence is at its last key.
  int first_key(int batch, int query) const;
  /// The key after the last one that it sees; not larger than the first where it sees none.
  int end_of_keys(int batch, int query) const;
};

/// How exactly a kernel computes. The defaults are those of bf16, with the exponential of the hardware.
struct AttentionPrecision {
  double weight_rounding = 0x1p-8;    ///< `kRounding` of the type of the weights, operand A of the second product
  double weight_smallest = 0x1p-134;  ///< half of its smallest number, relative to the largest weight of a row
  double output_rounding = 0x1p-8;    ///< `kRounding` of the output's type
  double output_smallest = 0x1p-134;  ///< half of its smallest number
  double exponential = 0x1p-22;       ///< relative error of an exponential. Source: PTX ISA, "ex2.approx"
  double tangent = 0x1p-21;           ///< absolute error of a hyperbolic tangent
  int mma_k = 16;                     ///< products that one instruction adds: 32 bytes of an operand's row
  int mma_k_of_weights = 16;          ///< the same of the second product
  int key_tile = 128;                 ///< keys after which a kernel may rescale its sums
  /// The weights of a row are rounded independently of each other: they are those of random operands, not of equal
  /// keys.
  bool is_random = true;
};

/// The precision of a kernel whose operands are `Element`, and whose output is `Output`.
template <typename Element, typename Output = Element>
AttentionPrecision precision_of_attention() {
  const auto smallest = []<typename T>(T) { return std::is_same_v<T, __half> ? 0x1p-25 : 0x1p-134; };
  AttentionPrecision precision{.output_rounding = kRounding<Output>, .output_smallest = smallest(Output{})};
  if constexpr (sizeof(Element) == 1) {
    // e4m3, of 256 times the weight.
    precision.weight_rounding = 0x1p-4;
    precision.weight_smallest = 0x1p-18;
    precision.mma_k = precision.mma_k_of_weights = 32;
  } else {
    precision.weight_rounding = kRounding<Element>;
    precision.weight_smallest = smallest(Element{});
  }
  return precision;
}

/// What an element must be.
enum class AttentionKind : uint8_t {
  number,      ///< the value, up to the error
  not_number,  ///< NaN
  not_finite,  ///< NaN or an infinity
  anything,    ///< any number, infinity or NaN, as long as it was written
};

/// The output and the logsumexp of each row, and the errors that are allowed.
///
/// The weights of a row are divided by the sum of the exponentials of its visible logits, and of its head's sink where
/// there are sinks. The logsumexp is the natural logarithm of that sum.
///
/// * A query that sees no key, or whose visible logits are all -inf: the output is 0, and the logsumexp that of the
///   sink, or -inf.
/// * A visible logit, or a sink, is NaN or +inf: the whole row is NaN, and so is its logsumexp.
/// * An infinity or NaN in V makes its column NaN or infinite for all queries that see the key; and it may for other
///   queries of the sequence, because a weight of 0 times infinity is NaN. Other sequences are never affected.
struct AttentionReference {
  std::vector<double> output;              ///< as the output: [queries][query_heads][value_dim]
  std::vector<double> output_error;        ///< how far an element may be off
  std::vector<AttentionKind> output_kind;  ///< what it must be
  std::vector<double> logsumexp;           ///< [query_heads][queries]; may be -inf or NaN
  std::vector<double> logsumexp_error;     ///< how far it may be off
};

/// Computes attention on all cores of the host.
///
/// How the errors are derived. Let u be half a unit of the last place of an f32 at 1, 2^-24.
///
/// *Logits.* A product of a query and a key is summed by head_dim / mma_k instructions, each of which loses
/// 1 + (mma_k + 1) / 2 units of 2^-23 of the largest running sum (see ProductTolerance), and no running sum is larger
/// than |query| * |key|, by Cauchy and Schwarz. The logit times the scale, the maximum times the scale, and their
/// difference, are each rounded, and the scale is: 2 u of the logit and 2 u of the largest one. A soft cap adds the
/// error of its tangent and two roundings. An error of a logit is a relative error of its weight.
///
/// *Weights.* An exponential adds its own relative error. Each time that the maximum has grown, what was summed before
/// is multiplied by another exponential and rounded: as often as there are tiles of keys, at most. The sum of n weights
/// in f32 loses n u of itself.
///
/// *The second product* takes weights rounded to few bits. Each loses weight_rounding of itself, or weight_smallest of
/// the largest. Where operands are random, those errors are independent, have no preferred sign, and each is within
/// bounds b: by Hoeffding's inequality their sum exceeds 8 roots of the sum of b * b once in 10^13 times. That, or the
/// sum of all b where it is smaller, is what is allowed. The products are summed as those of the logits were.
///
/// *The output* is that divided by the sum of the weights (three roundings), and rounded to its type.
/// @param q      [queries][query_heads][head_dim], as the kernel reads them.
/// @param k      [rows][kv_heads][head_dim]: as many rows as keys, or those of all pages.
/// @param v      [rows][kv_heads][value_dim].
/// @param sinks  a logit for each head of queries; empty: none.
AttentionReference reference_attention(const AttentionBatch& batch, std::span<const float> q, std::span<const float> k,
                                       std::span<const float> v, std::span<const float> sinks,
                                       const AttentionPrecision& precision);

/// What a comparison found.
struct AttentionComparison {
  size_t wrong = 0;         ///< elements of the output, and logarithms, that are not as they must be
  double worst_excess = 0;  ///< error divided by what is allowed, of the one that exceeds it most
  std::string worst{};      ///< that one in words; empty where none is wrong
};

/// Compares every element.
/// @param output     as numbers: what `wide_all` of harness/product_mistakes.hpp makes of them, which tells elements
/// that
///                   nobody has written from NaN.
/// @param logsumexp  the same; empty: not compared.
AttentionComparison compare_attention(const AttentionBatch& batch, const AttentionReference& reference,
                                      std::span<const double> output, std::span<const double> logsumexp);

/// What a random batch may have. All numbers are inclusive.
struct AttentionLimits {
  int most_queries = 300;   ///< of a sequence
  int most_keys = 400;      ///< of a sequence
  int most_batches = 3;     ///< sequences
  int most_heads = 4;       ///< of K and V; a group has 1, 2, 3, 4 or 8 heads of queries
  bool has_windows = true;  ///< beside causal
  bool has_soft_cap = true;
  bool has_sinks = true;
  bool has_lengths = true;  ///< sequences may have different lengths, and 0
  bool has_pages = true;    ///< keys and values may be in the pages of a cache
};

/// A random batch with random operands.
struct RandomAttention {
  AttentionBatch batch{};
  std::vector<float> q{}, k{},
      v{};                     ///< uniform in [-1, 1), not yet rounded to a type; unused places of a cache are NaN
  std::vector<float> sinks{};  ///< empty: none
};

/// Draws lengths, heads, masks and operands. Lengths are often those at which kernels go wrong: 0, 1, a tile of 128,
/// one more, one less. The scale spreads the logits, by 2 or 3 in standard deviation, so that weights differ and each
/// counts.
/// @param head_dim   elements of a row of Q and K.
/// @param value_dim  elements of a row of V.
RandomAttention draw_attention(uint64_t seed, int head_dim, int value_dim, const AttentionLimits& limits = {});

/// The values in the type of a kernel's operands, and in their place what the kernel reads them as.
template <typename Element>
std::vector<Element> rounded(std::vector<float>& values) {
  std::vector<Element> elements(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    elements[i] = Element(values[i]);
    values[i] = static_cast<float>(elements[i]);
  }
  return elements;
}

/// Random operands for a batch, of which everything else has been chosen.
RandomAttention with_random_operands(AttentionBatch batch, bool has_sinks, uint64_t seed);

}  // namespace stagecraft::harness
