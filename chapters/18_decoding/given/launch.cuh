// How the host starts this chapter's kernels.
#pragma once

#include <combine.cuh>
#include <decode.cuh>

#include "harness/cuda_error.hpp"
#include "stagecraft/errors.hpp"
#include "stagecraft/launch.hpp"

namespace stagecraft {

/// Throws IllegalProblem, saying what is legal, for what the kernels cannot take.
inline void require_legal_decoding(const DecodingShape& shape, int splits) {
  if (shape.sequences < 1 || shape.sequences > 65535) {
    throw IllegalProblem("sequences = %d. Legal are 1 to 65535.", shape.sequences);
  }
  if (shape.key_heads < 1 || shape.heads % shape.key_heads != 0) {
    throw IllegalProblem(
        "heads = %d with key_heads = %d. Legal are multiples of key_heads: each key head belongs to a group of equally "
        "many heads.",
        shape.heads, shape.key_heads);
  }
  const int group = shape.heads / shape.key_heads;
  if (shape.queries < 1 || packed_rows(shape) > kPackedRows) {
    throw IllegalProblem("queries = %d in groups of %d heads. A tile has room for %d rows: legal are 1 to %d queries.",
                         shape.queries, group, kPackedRows, kPackedRows / group);
  }
  if (splits < 1 || splits > kMostSplits) {
    throw IllegalProblem("splits = %d. Legal are 1 to %d.", splits, kMostSplits);
  }
}

/// Describes the cache to TMA, and the rest to the kernel.
template <typename Element>
DecodingProblem<Element> make_decoding_problem(const DecodingShape& shape, const DecodingOperands<Element>& operands,
                                               int splits) {
  require_legal_decoding(shape, splits);
  //! [maps]
  constexpr uint64_t kRowBytes = kHeadDim * sizeof(Element);  // of one token and one head
  const uint64_t token_bytes = shape.key_heads * kRowBytes;
  const PagedCacheLayout layout{.pages = static_cast<uint64_t>(shape.pages),
                                .heads = static_cast<uint64_t>(shape.key_heads),
                                .page_stride = kPageTokens * token_bytes,
                                .token_stride = token_bytes,
                                .head_stride = kRowBytes};
  constexpr float kBinaryOfNatural = 1.44269504f;  // log2(e): the kernel computes powers of 2
  return {.keys = make_paged_tile_map<KeyTile<Element>, kPageTokens>(operands.keys.elements, layout),
          .values = make_paged_tile_map<ValueTile<Element>, kPageTokens>(operands.values.elements, layout),
          .queries = operands.queries,
          .page_table = operands.page_table,
          .lengths = operands.lengths,
          .shape = shape,
          .scale_log2 = operands.scale * kBinaryOfNatural,
          .key_scales = operands.keys.scales,
          .value_scales = operands.values.scales,
          .splits = splits,
          .partial = operands.partial,
          .results = operands.results};
  //! [maps]
}

template <typename Element>
void launch_decoding(const DecodingShape& shape, const DecodingOperands<Element>& operands,
                     const DecodingOptions& options) {
  const auto problem = make_decoding_problem(shape, operands, options.splits);
  //! [launches]
  const dim3 grid(problem.splits, shape.key_heads, shape.sequences);
  harness::check(launch_kernel(decode<Element>,
                               {.grid = grid,
                                .block = kThreads,
                                .dynamic_shared_bytes = sizeof(SharedTiles<Element>),
                                .programmatic_dependent_launch = options.starts_early},
                               problem),
                 "launch decode");
  if (problem.splits == 1) return;
  const int64_t rows = int64_t{shape.sequences} * shape.queries * shape.heads;
  harness::check(launch_kernel(combine,
                               {.grid = static_cast<uint32_t>((rows + kCombineWarps - 1) / kCombineWarps),
                                .block = kCombineWarps * kWarpSize,
                                .programmatic_dependent_launch = options.starts_early},
                               CombineProblem{problem.partial, problem.results, rows, problem.splits}),
                 "launch combine");
  //! [launches]
}

}  // namespace stagecraft
