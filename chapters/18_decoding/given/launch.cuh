// How the host starts this chapter's kernels.
#pragma once

#include <combine.cuh>
#include <decode.cuh>
#include <stdexcept>
#include <string>

#include "harness/cuda_error.hpp"
#include "stagecraft/launch.hpp"

namespace stagecraft {

/// Throws std::invalid_argument, saying what is legal, for what the kernels cannot take.
inline void require_legal_decoding(const DecodingShape& shape, int splits) {
  const auto require = [](bool legal, const std::string& message) {
    if (!legal) throw std::invalid_argument(message);
  };
  require(shape.sequences >= 1 && shape.sequences <= 65535,
          "sequences = " + std::to_string(shape.sequences) + ". Legal are 1 to 65535.");
  require(shape.key_heads >= 1 && shape.heads % shape.key_heads == 0,
          "heads = " + std::to_string(shape.heads) + " with key_heads = " + std::to_string(shape.key_heads) +
              ". Legal are multiples of key_heads: each key head belongs to a group of equally many heads.");
  require(shape.queries >= 1 && packed_rows(shape) <= kPackedRows,
          "queries = " + std::to_string(shape.queries) + " in groups of " +
              std::to_string(shape.heads / shape.key_heads) + " heads. A tile has room for " +
              std::to_string(kPackedRows) + " rows: legal are 1 to " +
              std::to_string(kPackedRows / (shape.heads / shape.key_heads)) + " queries.");
  require(splits >= 1 && splits <= kMostSplits,
          "splits = " + std::to_string(splits) + ". Legal are 1 to " + std::to_string(kMostSplits) + ".");
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
