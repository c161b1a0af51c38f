// Decoding as the host calls it: a few queries of each sequence against its keys and values in a paged cache.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace stagecraft {

inline constexpr int kHeadDim = 128;    ///< elements of a query, of a key and of a value
inline constexpr int kPageTokens = 64;  ///< tokens of a page
inline constexpr int kPackedRows = 16;  ///< queries that share a key head: the heads of its group, times the queries
inline constexpr int kMostSplits = 32;  ///< a lane of `combine` has one

/// How much there is of everything.
struct DecodingShape {
  int sequences;    ///< in the batch
  int queries;      ///< of each sequence: its last tokens. Query i sees all keys but the last `queries - 1 - i`
  int heads;        ///< of the queries
  int key_heads;    ///< of the keys and values; head h uses key head h / (heads / key_heads)
  int pages;        ///< of the cache
  int table_pages;  ///< entries in each sequence's row of the page table
};

/// A cache in device memory: `[page][token][key head][element]`, 16-byte aligned, and a scale for each key head, or
/// null.
template <typename Element>
struct CacheOperand {
  const Element* elements;
  const float* scales;
};

/// Where the splits put what they have: normalised outputs, and logsumexps to the base 2. A split without keys has the
/// logsumexp -infinity, and writes no output.
struct PartialResults {
  float* outputs;     ///< [sequence][query][head][split][element]
  float* logsumexps;  ///< [sequence][query][head][split]
};

/// What decoding gives. A query that sees no key has the output 0 and the logsumexp -infinity.
struct DecodingResults {
  __nv_bfloat16* outputs;  ///< [sequence][query][head][element]
  float* logsumexps;       ///< [sequence][query][head], natural logarithm; may be null
};

/// What decoding reads and writes, all in device memory.
template <typename Element>
struct DecodingOperands {
  const Element* queries;              ///< [sequence][query][head][element]
  CacheOperand<Element> keys, values;  ///< tokens that no sequence has may hold anything
  const int* page_table;               ///< [sequence][table_pages]: pages of the cache, in the order of the tokens
  const int* lengths;                  ///< keys of each sequence, 0 or more
  float scale;                         ///< of the scores: 1 / sqrt(kHeadDim), times the scale of the queries
  PartialResults partial;              ///< for more than one split
  DecodingResults results;             ///< what decoding gives
};

/// How `launch_decoding` starts its grids.
struct DecodingOptions {
  int splits = 1;             ///< of each sequence's keys, 1 to kMostSplits; with more than one, `combine` follows
  bool starts_early = false;  ///< both grids may start before what is ahead of them in the stream has ended
};

/// Starts decoding on the current device, in the default stream.
/// @tparam Element  __nv_bfloat16 or __nv_fp8_e4m3.
/// @throws IllegalProblem saying what is legal, TensorMapError for a misaligned address, harness::CudaError when
///         a launch fails.
template <typename Element>
void launch_decoding(const DecodingShape& shape, const DecodingOperands<Element>& operands,
                     const DecodingOptions& options);

}  // namespace stagecraft
