// What one launch computes, as the kernel gets it: where the sequences are, which keys a query sees, and the turns that
// blocks take.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/attention/types.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tile_batch.hpp"

namespace stagecraft {

/// Keys that queries see, beside those that exist. Query i of a sequence has its own key, number i + keys - queries:
/// the last query that of the last key.
struct VisibleKeys {
  int left = -1;   ///< how many before its own; -1: all
  int right = -1;  ///< how many after its own; -1: all; 0: causal

  /// The first key that a query sees.
  __host__ __device__ int first(int query, int queries, int keys) const {
    const int key = query + keys - queries - left;
    return left < 0 || key < 0 ? 0 : key < keys ? key : keys;
  }
  /// The key after the last one that it sees; 0 where it sees none of the first ones.
  __host__ __device__ int end(int query, int queries, int keys) const {
    const int key = query + keys - queries + right + 1;
    return right < 0 || key > keys ? keys : key > 0 ? key : 0;
  }
};

/// Keys from `first` on, before `end`.
struct KeyRange {
  int first, end;
};

/// The rows of one matrix for all sequences: either they follow each other, or each sequence has a matrix for each
/// head.
struct SequencePlaces {
  int rows_of_sequence = 0;   ///< rows by which the next sequence begins later; 0: each has matrices of its own
  int heads_of_sequence = 0;  ///< matrices by which the next sequence begins later; 0: they share those of the heads
};

/// A sequence, and where it is.
struct AttentionSequence {
  int queries, keys;    ///< its own
  int first_query_row;  ///< of Q and of the output
  int first_key_row;    ///< of K and V; with pages, not used
};

/// What a block computes at a time: two tiles of queries of one head.
struct AttentionItem {
  int number;                  ///< of the sequence
  AttentionSequence sequence;  ///< it
  int head;                    ///< of the queries
  int first_query;             ///< of the first tile
  int first_block;             ///< of keys, that any of the queries sees
  int key_blocks;              ///< how many; may be 0

  /// Whether all rows of a tile exist.
  __device__ __forceinline__ bool is_whole(int tile) const {
    return first_query + (tile + 1) * kTileQueries <= sequence.queries;
  }
};

/// Which keys the rows of an item see, counted from the item's first block.
class KeysOfItem {
 public:
  __device__ __forceinline__ KeysOfItem(const AttentionItem& item, const VisibleKeys& visible)
      : visible_(&visible),
        end_(item.sequence.keys - item.first_block * kBlockKeys),
        own_of_first_row_(end_ + item.first_query - item.sequence.queries) {}

  /// Those that a row sees, none where `end <= first`.
  __device__ __forceinline__ KeyRange seen(int row) const {
    const int own = own_of_first_row_ + row;
    return {visible_->left < 0 ? 0 : own - visible_->left,
            visible_->right < 0 ? end_ : min(own + visible_->right + 1, end_)};
  }
  /// Those that all rows of a tile see: its last row begins last, its first one ends first.
  __device__ __forceinline__ KeyRange seen_by_all(int tile) const {
    return {seen((tile + 1) * kTileQueries - 1).first, seen(tile * kTileQueries).end};
  }

 private:
  const VisibleKeys* visible_;
  int end_, own_of_first_row_;
};

/// The parameter of an attention kernel.
/// @tparam Types  AttentionTypes of a configuration.
template <typename Types>
struct AttentionParameters {
  BatchedTileMap<typename Types::Queries> q;  ///< the number of the head is the third index of all
  BatchedTileMap<typename Types::Keys> k;     ///< in boxes of so many rows as `piece_keys`
  BatchedTileMap<typename Types::Values> v;   ///< in boxes of so many rows as `piece_keys`
  BatchedTileMap<typename Types::Outputs> o;  ///< the output, for whole tiles
  typename Types::OutputElement* output;      ///< the same, for rows
  int64_t output_token_stride;                ///< elements from one query to the next
  int64_t output_head_stride;                 ///< elements from one head to the next
  int64_t output_batch_stride;                ///< elements from one sequence to the next; 0 where rows are counted on
  float* logsumexp;                           ///< heads x all queries; or null
  int64_t logsumexp_stride;                   ///< all queries
  const float* sinks;                         ///< one for each head; or null
  const int* query_begins;                  ///< of each sequence, and the end of the last; or null: all have `queries`
  const int* key_begins;                    ///< the same; null with pages
  const int* key_lengths;                   ///< with pages: of each sequence; or null: all have `keys`
  const int* page_table;                    ///< with pages: `pages_of_sequence` for each sequence; or null
  SequencePlaces query_places, key_places;  ///< where sequences have one length
  int sequences, heads;                     ///< how many there are
  int heads_of_group;                       ///< of queries, that share keys and values
  int queries, keys;                        ///< of a sequence, at most
  int value_dim;                            ///< elements of a row of the output
  int page_size, pages_of_sequence;         ///< keys in a page; entries of the table
  int piece_keys;                           ///< keys that a copy brings: 128, or those of a smaller page
  bool has_exact_ends;                      ///< copies of V read zeros after the last key of a sequence
  VisibleKeys visible;                      ///< which keys a query sees
  float scale_log2;                         ///< of scores, to powers of two; positive
  float inner_scale;                        ///< of scores, before a soft cap; 0: there is none
  float output_scale;                       ///< of the output

  /// Sequence number `i`.
  __device__ __forceinline__ AttentionSequence sequence(int i) const {
    AttentionSequence it{queries, keys, i * query_places.rows_of_sequence, i * key_places.rows_of_sequence};
    if (query_begins != nullptr) {
      it.first_query_row = query_begins[i];
      it.queries = query_begins[i + 1] - it.first_query_row;
    }
    if (key_begins != nullptr) {
      it.first_key_row = key_begins[i];
      it.keys = key_begins[i + 1] - it.first_key_row;
    }
    if (key_lengths != nullptr) it.keys = max(min(key_lengths[i], keys), 0);
    return it;
  }

  /// The row of K and V where a key is.
  __device__ __forceinline__ int key_row(int sequence, const AttentionSequence& its, int key) const {
    if (page_table == nullptr) return its.first_key_row + key;
    key = min(key, its.keys - 1);  // a page after the last one is not in the table: whatever is brought is not used
    return page_table[sequence * pages_of_sequence + key / page_size] * page_size + key % page_size;
  }

  /// Where a query's row of the output is.
  __device__ __forceinline__ typename Types::OutputElement* output_row(const AttentionItem& item, int query) const {
    return output + item.number * output_batch_stride + (item.sequence.first_query_row + query) * output_token_stride +
           item.head * output_head_stride;
  }

  /// Where a query's logsumexp is.
  __device__ __forceinline__ float* logsumexp_of(const AttentionItem& item, int query) const {
    const int first = query_begins != nullptr ? item.sequence.first_query_row : item.number * queries;
    return logsumexp + item.head * logsumexp_stride + first + query;
  }

  /// Whether a block has values after the last key of its sequence, and those may be any.
  __device__ __forceinline__ bool must_clear(const AttentionItem& item, int first_key) const {
    return !has_exact_ends && first_key + kBlockKeys > item.sequence.keys;
  }

  /// The matrices of a head, by their third index.
  __device__ __forceinline__ int query_matrix(int sequence, int head) const {
    return sequence * query_places.heads_of_sequence + head;
  }
  /// The same of its keys and values.
  __device__ __forceinline__ int key_matrix(int sequence, int head) const {
    return sequence * key_places.heads_of_sequence + head / heads_of_group;
  }
};

/// Where a block is in its work: item number blockIdx.x, then every gridDim.x-th, of those that have queries. The last
/// queries of all sequences come first: of a causal problem, those that see most keys. Each role goes through the items
/// independently.
template <typename Types>
class AttentionTurns {
 public:
  __device__ __forceinline__ explicit AttentionTurns(const AttentionParameters<Types>& problem)
      : problem_(&problem), number_(static_cast<int>(blockIdx.x)) {
    find();
  }

  __device__ __forceinline__ bool exists() const { return number_ < count(); }
  __device__ __forceinline__ void next() {
    number_ += static_cast<int>(gridDim.x);
    find();
  }

  /// What to compute in this turn. It is computed each time that it is asked for: a role that needs all of its
  /// registers asks again.
  __device__ __forceinline__ AttentionItem item() const {
    int number = number_;
    asm volatile("" : "+r"(number));  // to the compiler, a number that it does not know
    const int column = number % columns();
    AttentionItem item{.number = column / problem_->heads,
                       .sequence = problem_->sequence(column / problem_->heads),
                       .head = column % problem_->heads,
                       .first_query = first_query(number)};
    const auto [queries, keys, query_row, key_row] = item.sequence;
    const int last_query = min(item.first_query + kItemQueries, queries) - 1;
    item.first_block = problem_->visible.first(item.first_query, queries, keys) / kBlockKeys;
    const int end = (problem_->visible.end(last_query, queries, keys) + kBlockKeys - 1) / kBlockKeys;
    item.key_blocks = max(end - item.first_block, 0);
    return item;
  }

 private:
  __device__ __forceinline__ int columns() const { return problem_->sequences * problem_->heads; }
  __device__ __forceinline__ int down() const { return (problem_->queries + kItemQueries - 1) / kItemQueries; }
  __device__ __forceinline__ int count() const { return down() * columns(); }
  __device__ __forceinline__ int first_query(int number) const {
    return (down() - 1 - number / columns()) * kItemQueries;
  }

  /// Goes on until an item has queries.
  __device__ __forceinline__ void find() {
#pragma unroll 1
    while (exists() && first_query(number_) >= problem_->sequence(number_ % columns() / problem_->heads).queries) {
      number_ += static_cast<int>(gridDim.x);
    }
  }

  const AttentionParameters<Types>* problem_;
  int number_;
};

/// Asks for a block of keys, or of values, in pieces that are in one page each. Called by one thread.
/// @param first_key  of the block.
template <typename Types, typename T>
__device__ __forceinline__ void copy_block(T& to, const BatchedTileMap<T>& map,
                                           const AttentionParameters<Types>& problem, const AttentionItem& item,
                                           int first_key, MbarPtr barrier) {
  const int matrix = problem.key_matrix(item.number, item.head);
  for (int piece = 0; piece < kBlockKeys; piece += problem.piece_keys) {
    const int row = problem.key_row(item.number, item.sequence, first_key + piece);
#pragma unroll
    for (int box = 0; box < T::num_boxes; ++box) {
      const int32_t at[3] = {box * T::box_elements, row, matrix};
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global,
                                      to.storage + box * T::bytes_per_box + piece * swizzle_span(T::swizzle), &map.map,
                                      at, barrier);
    }
  }
}

/// Writes zeros over the values of keys from `first` on, for they may be of another sequence, or nobody's: a weight of
/// 0 times NaN would be NaN. Called by a whole warp.
template <typename Values>
__device__ __forceinline__ void clear_values(Values& values, int first, uint32_t lane) {
  constexpr uint32_t kLine = swizzle_span(Values::swizzle);  // a swizzle moves nothing out of its line
#pragma unroll
  for (int box = 0; box < Values::num_boxes; ++box) {
    for (uint32_t at = first * kLine + lane * 16; at < Values::bytes_per_box; at += 32 * 16) {
      *reinterpret_cast<uint4*>(values.storage + box * Values::bytes_per_box + at) = uint4{};
    }
  }
}

}  // namespace stagecraft
