// Which block computes what, and in which order.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "stagecraft/hopper_attention/configuration.cuh"

namespace stagecraft {

/// What the kernel is started with.
template <typename Config>
struct AttentionTwinProblem {
  CUtensorMap q, k, v, out;  ///< dimensions: element of a row, token, head, sequence
  float* logsumexp;          ///< [sequences][heads][queries]; or nullptr
  int queries, keys;         ///< of each sequence
  int heads;                 ///< of queries
  int group;                 ///< of them that share a head of keys and values
  int all_heads;             ///< of all sequences
  int section;               ///< heads that are gone through together, so that L2 holds their keys and values
  uint32_t* taken;           ///< items that blocks have taken besides their first; 0 before and after a launch
  float scale_log2;          ///< what a product of a query and a key is multiplied by, times log2(e)

  __host__ __device__ int query_tiles() const {
    return (queries + AttentionTwin<Config>::kQueryTile - 1) / AttentionTwin<Config>::kQueryTile;
  }
  __host__ __device__ int items() const { return all_heads * query_tiles(); }

  /// The next item of a block, after its first, which has its number. Called by one thread of each block until there is
  /// none: the last call of all leaves the count as it was found.
  __device__ __forceinline__ int take_item() const {
    const uint32_t before = atomicAdd(taken, 1);
    if (before == static_cast<uint32_t>(items()) - 1) *taken = 0;
    return static_cast<int>(before + gridDim.x);
  }

  /// Keys that a query sees, from the first on.
  __host__ __device__ int visible(int query) const {
    if (!Config::causal) return keys;
    const int own = query + keys - queries + 1;
    return own < 0 ? 0 : own < keys ? own : keys;
  }
};

/// A tile of queries of one head, by its number.
///
/// Items are in sections of heads; in a section, all heads of a tile of queries come before the next tile. With causal
/// masks the longest tiles come first, so that the last ones, which fill the gaps, are short.
template <typename Config>
class AttentionItem {
  using T = AttentionTwin<Config>;

 public:
  using Problem = AttentionTwinProblem<Config>;

  __device__ __forceinline__ AttentionItem(const Problem& problem, int number) {
    const int tiles = problem.query_tiles(), of_section = tiles * problem.section;
    const int first_head = number / of_section * problem.section, rest = number % of_section;
    const int heads = max(1, min(problem.section, problem.all_heads - first_head));
    head_ = first_head + rest % heads;
    query_ = (Config::causal ? tiles - 1 - rest / heads : rest / heads) * T::kQueryTile;
  }

  /// The first query, counted in its sequence.
  __device__ __forceinline__ int first_query() const { return query_; }
  /// The head of queries, counted in its sequence.
  __device__ __forceinline__ int head(const Problem& problem) const { return head_ % problem.heads; }
  /// The head of keys and values that it shares with its group.
  __device__ __forceinline__ int key_head(const Problem& problem) const { return head(problem) / problem.group; }
  /// The number of the sequence.
  __device__ __forceinline__ int sequence(const Problem& problem) const { return head_ / problem.heads; }
  /// The head of queries, counted among those of all sequences.
  __device__ __forceinline__ int any_head() const { return head_; }

  /// Tiles of keys that its queries see; at least one, so that there is always something to wait for.
  __device__ __forceinline__ int key_tiles(const Problem& problem) const {
    const int last = min(query_ + T::kQueryTile, problem.queries) - 1;
    return max(1, (problem.visible(last) + T::kKeyTile - 1) / T::kKeyTile);
  }

 private:
  int query_, head_;
};

}  // namespace stagecraft
