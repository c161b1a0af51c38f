// Attention as a host program calls it: describe the problem, let a plan choose a kernel, run it on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "stagecraft/attention/config.hpp"
#include "stagecraft/gemm/error.hpp"

namespace stagecraft {

/// What went wrong, and what is legal: as of a GEMM. Nothing was launched.
using AttentionError = GemmError;
/// What sort of thing went wrong; no_compiler and bad_workspace do not occur.
using AttentionFailure = GemmFailure;
/// A value, or the error that there is in its place.
template <typename Value>
using AttentionExpected = GemmExpected<Value>;

/// Where the rows of Q, K, V or the output are in device memory, in elements; those of a row are contiguous. 0: without
/// a gap, tokens x heads x dimension, and one sequence after the other. Strides are multiples of 16 bytes.
struct AttentionStrides {
  int64_t token = 0;  ///< from one query, or key, to the next; with pages too
  int64_t head = 0;   ///< from one head to the next
  /// From one sequence to the next: as many tokens as a sequence has, or as many heads. Not with variable lengths, nor
  /// with pages.
  int64_t sequence = 0;
};

/// Keys that a query sees. The last query of a sequence has the last key as its own, each one before it the key before.
struct AttentionMask {
  bool causal = false;        ///< none after its own
  int64_t window_left = -1;   ///< so many before its own; -1: all
  int64_t window_right = -1;  ///< so many after its own; -1: all
};

/// A cache of keys and values in pages, which sequences have in any order.
struct AttentionPages {
  int64_t size = 0;         ///< keys in a page: 16, 32, 64, or a multiple of 128; 0: there is no cache
  int64_t count = 0;        ///< pages of the cache
  int64_t of_sequence = 0;  ///< entries in a row of the table; 0: as many as `keys` need
};

/// What to compute: softmax(scale * Q * K transposed) * V, for each sequence and head.
///
/// A query that sees no key gets zeros, and a logsumexp of -inf, or that of its sink. Where a visible logit, or a sink,
/// is NaN or +inf, the query's row and its logsumexp are NaN. An infinity or NaN in V makes its column NaN or infinite
/// for all queries that see the key, and may do so for other queries of the sequence; never for other sequences.
/// Results are the same bits in each run.
struct AttentionProblem {
  DataType type = DataType::bf16;    ///< elements of Q, K and V: bf16, f16 or e4m3
  std::optional<DataType> output{};  ///< elements of the output: left out as Q, or bf16 for e4m3
  int64_t sequences = 1;             ///< each with queries and keys of its own
  int64_t queries = 1;               ///< of a sequence; with variable lengths, at most
  int64_t keys = 1;                  ///< of a sequence; with variable lengths, at most
  int64_t heads = 1;                 ///< of Q and of the output
  int64_t kv_heads = 0;              ///< of K and V, a divisor of `heads`; 0: as many
  int64_t head_dim = 128;            ///< elements of a row of Q and K
  int64_t value_dim = 0;             ///< elements of a row of V and of the output; 0: as `head_dim`, but 128 for 192
  float scale = 0;                   ///< of products of queries and keys; 0: 1 / sqrt(head_dim)
  AttentionMask mask{};              ///< which keys a query sees
  float soft_cap = 0;                ///< makes soft_cap * tanh(logit / soft_cap) of a logit; 0: leaves it
  bool variable_queries = false;     ///< `AttentionArguments::query_begins` says where sequences begin
  bool variable_keys = false;        ///< `key_begins` says so; with pages, `key_lengths` says how many keys there are
  bool sinks = false;                ///< each head has a logit that takes part in the sum, and has no value
  bool logsumexp = false;            ///< of each row is stored
  AttentionPages pages{};            ///< where K and V are in pages
  AttentionStrides q{}, k{}, v{}, o{};  ///< where the rows are
};

/// Where everything is in device memory. What the problem does not ask for is not read.
struct AttentionArguments {
  const void* q = nullptr;            ///< 16-byte aligned, as k, v and o: queries of all sequences x heads x head_dim
  const void* k = nullptr;            ///< keys of all sequences, or pages x page size, x kv_heads x head_dim
  const void* v = nullptr;            ///< the same x value_dim
  void* o = nullptr;                  ///< as q, x value_dim
  float* logsumexp = nullptr;         ///< heads x queries of all sequences: natural logarithms, a sink included
  const float* sinks = nullptr;       ///< one for each head
  const int* query_begins = nullptr;  ///< sequences + 1: the first query of each, and the end of the last one
  const int* key_begins = nullptr;    ///< sequences + 1: the same of keys
  const int* key_lengths = nullptr;   ///< with pages: keys of each sequence; above `keys` counts as `keys`
  const int* page_table = nullptr;    ///< with pages: for each sequence, the page of each page size of keys
  int64_t all_queries = 0;            ///< with variable queries: those of all sequences together
  int64_t all_keys = 0;               ///< with variable keys and without pages: those of all sequences together
  float output_scale = 1;             ///< multiplies the output, for V of e4m3
};

/// The largest number of queries or keys, of a sequence and of all together.
inline constexpr int64_t kMostTokens = int64_t{1} << 30;

struct AttentionKernel;
struct AttentionLaunch;

/// A kernel that was chosen for a problem. It can be run any number of times, on any stream, and in a graph.
class AttentionPlan {
 public:
  /// Checks the problem and chooses one of the compiled kernels for the current device.
  /// @returns the plan, or what is wrong with the problem or the device.
  static AttentionExpected<AttentionPlan> choose(const AttentionProblem& problem);

  /// What the kernel was compiled for.
  const AttentionConfig& config() const;
  /// The launch in one line: "bf16, dimensions up to 128 and 128, ...".
  std::string description() const;
  /// The problem with everything filled in that was left out.
  const AttentionProblem& problem() const;

  /// Starts the kernel on `stream`, and returns at once.
  ///
  /// What goes wrong while it runs, the next synchronising call reports.
  /// @returns nothing, or why nothing was started.
  std::optional<AttentionError> run(const AttentionArguments& arguments, cudaStream_t stream = nullptr) const;

 private:
  AttentionPlan() = default;

  std::shared_ptr<const AttentionLaunch> launch_;  // what every run has in common
  const AttentionKernel* kernel_ = nullptr;
};

/// The configuration as one line.
std::string describe(const AttentionConfig& config);

}  // namespace stagecraft
