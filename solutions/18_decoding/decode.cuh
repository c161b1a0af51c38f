// A few queries against a long cache: one warp brings pages of keys and values, one warp multiplies, and four warps
// compute the softmax and add up the outputs. A block goes through a piece of the keys of one sequence, for one key
// head.
#pragma once

#include <problem.cuh>
#include <softmax.cuh>

#include "stagecraft/dependent_launch.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

//! [page]
/// The page of the cache that fills part `part` of tile number `tile` of a sequence, or `shape.pages`, which the cache
/// does not have, where the sequence has ended.
template <typename Element>
__device__ __forceinline__ int page_of(const DecodingProblem<Element>& problem, const Work& work, int tile, int part) {
  const int page = tile * kTilePages + part;
  if (page * kPageTokens >= work.length) return problem.shape.pages;
  return problem.page_table[int64_t{work.sequence} * problem.shape.table_pages + page];
}
//! [page]

//! [packing]
/// The query that row `row` of a group's tile is: the heads of the group are side by side, for one query after another.
__host__ __device__ inline PackedQuery packed_query(const DecodingShape& shape, int key_head, int row) {
  const int group = shape.heads / shape.key_heads;
  return {row / group, key_head * group + row % group};
}

/// How many of the sequence's keys the query of row `row` sees: those up to its own token.
__host__ __device__ inline int visible_keys(const DecodingShape& shape, int key_head, int row, int length) {
  return length - (shape.queries - 1 - packed_query(shape, key_head, row).query);
}
//! [packing]

/// Copies the queries of the group to the tile, and writes zeros to the rows that are left. Called by all threads of
/// softmax; then the tensor core may read them.
template <typename Element>
__device__ __forceinline__ void pack_queries(const DecodingProblem<Element>& problem, const Work& work, int thread,
                                             QueryTile<Element>& tile) {
  constexpr int kChunk = 16 / sizeof(Element), kChunks = kHeadDim / kChunk;  // of 16 bytes
  for (int i = thread; i < kPackedRows * kChunks; i += kSoftmaxThreads) {
    const int row = i / kChunks, column = i % kChunks * kChunk;
    uint4 chunk = {};
    if (row < packed_rows(problem.shape)) {
      const PackedQuery packed = packed_query(problem.shape, work.key_head, row);
      const int64_t from = result_row(problem.shape, work.sequence, packed) * kHeadDim + column;
      chunk = *reinterpret_cast<const uint4*>(problem.queries + from);
    }
    *reinterpret_cast<uint4*>(&tile.at(row, column)) = chunk;
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
}

//! [softmax]
/// The softmax of the packed queries so far: each thread has one key of each tile, and all queries.
template <typename Element>
struct OnlineSoftmax {
  /// Weights are up to 2 to this power. e4m3 has normal numbers from 2^-6 to 448: the range is shifted up to 256.
  static constexpr float kShift = sizeof(Element) == 1 ? 8 : 0;

  float maximum[kPackedRows];   ///< of the scores of all threads, to the base 2
  float sum[kPackedRows] = {};  ///< of the weights of this thread's keys

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (float& row : maximum) row = -INFINITY;
  }

  /// Turns the scores of the thread's next key into weights, and gives the factors that make what was computed from
  /// earlier ones relative to the same maximum.
  __device__ __forceinline__ void add(float (&scores)[kPackedRows], float (&factors)[kPackedRows],
                                      ExchangedRows& exchanged) {
    float largest[kPackedRows];
#pragma unroll
    for (int row = 0; row < kPackedRows; ++row) largest[row] = scores[row];
    largest_of_keys(largest, exchanged);
#pragma unroll
    for (int row = 0; row < kPackedRows; ++row) {
      const float now = fmaxf(maximum[row], largest[row]);
      const float used = now == -INFINITY ? 0 : now;  // no key is visible yet: infinity minus infinity has no value
      factors[row] = exp2_by_unit(maximum[row] - used);
      scores[row] = exp2_by_unit(scores[row] - used + kShift);
      sum[row] = sum[row] * factors[row] + scores[row];
      maximum[row] = now;
    }
  }
};
//! [softmax]

/// What a row's sum of weights makes of its output and of its logsumexp.
template <typename Element>
__device__ __forceinline__ float logsumexp_of(float maximum, float sum) {
  return sum == 0 ? -INFINITY : maximum + __log2f(sum) - OnlineSoftmax<Element>::kShift;
}

/// Stores the results of the group: the thread has element `element` of each row's output.
template <typename Element>
__device__ __forceinline__ void store_results(const DecodingProblem<Element>& problem, const Work& work, int element,
                                              const float (&output)[kPackedRows], const float (&maximum)[kPackedRows],
                                              const float (&sum)[kPackedRows]) {
  const float scale = problem.value_scales == nullptr ? 1 : problem.value_scales[work.key_head];
#pragma unroll
  for (int row = 0; row < kPackedRows; ++row) {
    if (row >= packed_rows(problem.shape)) break;
    const int64_t to = result_row(problem.shape, work.sequence, packed_query(problem.shape, work.key_head, row));
    const float value = sum[row] == 0 ? 0 : output[row] * __fdividef(scale, sum[row]);
    const float logsumexp = logsumexp_of<Element>(maximum[row], sum[row]);
    if (problem.splits == 1) {
      problem.results.outputs[to * kHeadDim + element] = __float2bfloat16_rn(value);
      if (element == row && problem.results.logsumexps != nullptr) {
        problem.results.logsumexps[to] = logsumexp * kNaturalOfBinary;
      }
    } else {
      const int64_t part = to * problem.splits + work.split;
      if (work.tiles > 0) problem.partial.outputs[part * kHeadDim + element] = value;
      if (element == row) problem.partial.logsumexps[part] = logsumexp;
    }
  }
}

//! [kernel]
template <typename Element>
__global__ void __launch_bounds__(kThreads) decode(const __grid_constant__ DecodingProblem<Element> problem) {
  //! [shared]
  using Keys = InputTilePipeline<CacheTiles<KeyTile<Element>, kStages>, kStages>;
  using Values = InputTilePipeline<CacheTiles<ValueTile<Element>, kStages>, kStages>;
  using Scores = OutputTilePipeline<TmemTensor<kTileKeys, kPackedRows>, kTilesInTurn>;
  using Sums = OutputTilePipeline<TmemTensor<kHeadDim, kPackedRows>, kTilesInTurn>;
  using Allocation = TmemAllocation<Scores::tmem_columns + Sums::tmem_columns>;
  __shared__ typename Keys::BarrierArray key_barriers;
  __shared__ typename Values::BarrierArray value_barriers;
  __shared__ typename Scores::BarrierArray score_barriers;
  __shared__ typename Sums::BarrierArray sum_barriers;
  __shared__ uint64_t queries_full[1], queries_empty[1];
  __shared__ uint64_t weights_full[kTilesInTurn], weights_empty[kTilesInTurn];
  __shared__ TmemHandshake handshake;
  __shared__ ExchangedRows exchanged[2];
  auto& shared = tiles_in_shared_memory<Element>();
  const Role role = warp_role();
  const bool elected = elect_one();

  if (role == Role::load && elected) {
    Keys::init_barriers(key_barriers);                       // full: the loading lane and the bytes; empty: a commit
    Values::init_barriers(value_barriers);                   // the same
    Scores::init_barriers(score_barriers, kSoftmaxThreads);  // full: a commit; empty: all that have read it
    Sums::init_barriers(sum_barriers, kSoftmaxThreads);      // the same
    RolePipeline<1>{queries_full, queries_empty}.init_mbars(
        /*producer_arrive_count=*/kSoftmaxThreads,  // every thread that has packed queries
        /*consumer_arrive_count=*/1);               // nobody: a block packs once
    RolePipeline<kTilesInTurn>{weights_full, weights_empty}.init_mbars(
        /*producer_arrive_count=*/kSoftmaxThreads,  // every thread that has written a key's weights
        /*consumer_arrive_count=*/1);               // the tensor core, by a commit
    handshake.init(/*epilogue_threads=*/kSoftmaxThreads);
    fence_barrier_init();
  }
  __syncthreads();
  wait_for_earlier_grids();  // what they write may be read, and what they read may be written, from here on
  const Work work = work_of_block(problem);
  //! [shared]

  //! [roles]
  switch (role) {
    case Role::load:
      if (elected) {
        Keys keys{key_barriers, CacheTiles<KeyTile<Element>, kStages>{shared.keys}};
        Values values{value_barriers, CacheTiles<ValueTile<Element>, kStages>{shared.values}};
        const auto load = [&](auto& ring, const auto& map, int tile) {
          auto stage = ring.producer().acquire();
          stage.expect_bytes();
          for (int part = 0; part < kTilePages; ++part) {
            const int page = page_of(problem, work, tile, part);
            copy_page(stage.tile().tile, map, page, work.key_head, part, stage.mbar());
          }
        };  // steps only; the bytes signal: stage full
        for (int tile = work.first_tile; tile < work.first_tile + work.tiles; ++tile) {
          load(keys, problem.keys, tile);
          load(values, problem.values, tile);
        }
        let_next_grid_start();
        keys.producer().drain();
        values.producer().drain();
      }
      break;

    case Role::multiply: {
      MmaWarp<Allocation> tensor_memory{handshake};
      if (elected) {
        Keys keys{key_barriers, CacheTiles<KeyTile<Element>, kStages>{shared.keys}};
        Values values{value_barriers, CacheTiles<ValueTile<Element>, kStages>{shared.values}};
        Scores scores{score_barriers, tensor_memory.address()};
        Sums sums{sum_barriers, tmem_offset(tensor_memory.address(), 0, Scores::tmem_columns)};
        RolePipeline<kTilesInTurn, /*IsProducer=*/false> weights{weights_full, weights_empty};
        RolePipeline<1, /*IsProducer=*/false>{queries_full, queries_empty}.wait();
        const auto multiply_keys = [&] {
          auto stage = keys.consumer().acquire();
          auto tile_scores = scores.producer().accumulate();
          multiply_tiles(tile_scores.accumulator(), stage.tile().tile, shared.queries, /*accumulate=*/false);
          stage.commit_mma();  // signals: keys empty, when the tensor core has read them
        };                     // signals: scores full
        if (work.tiles > 0) multiply_keys();
        for (int tile = 0; tile < work.tiles; ++tile) {
          if (tile + 1 < work.tiles) multiply_keys();  // while softmax computes the weights of this tile
          auto stage = values.consumer().acquire();
          auto tile_sums = sums.producer().accumulate();
          weights.wait();
          multiply_tiles(tile_sums.accumulator(), stage.tile().tile, shared.weights[weights.index()],
                         /*accumulate=*/false);
          commit_mma(weights.consumer_mbar());  // signals: weights empty
          weights.step();
          stage.commit_mma();  // signals: values empty
        }                      // signals: sums full
      }
      break;
    }  // waits until no thread uses tensor memory, then deallocates

    case Role::softmax: {
      const uint32_t warp = warp_index();
      const int own = Scores::Accumulator::row_of(warp, lane_index());  // key of a tile, and element of the output
      pack_queries(problem, work, own, shared.queries);
      RolePipeline<1>{queries_full, queries_empty}.commit();

      const EpilogueWarp tensor_memory{handshake};
      Values values{value_barriers, CacheTiles<ValueTile<Element>, kStages>{shared.values}};
      Scores scores{score_barriers, tensor_memory.address()};
      Sums sums{sum_barriers, tmem_offset(tensor_memory.address(), 0, Scores::tmem_columns)};
      RolePipeline<kTilesInTurn> weights{weights_full, weights_empty};
      OnlineSoftmax<Element> softmax;
      float output[kPackedRows] = {};  // of element `own`, relative to softmax.maximum
      const auto add_sums = [&] {
        float of_tile[kPackedRows];
        auto stage = sums.consumer().consume();
        stage.accumulator().load(of_tile, warp, 0);
#pragma unroll
        for (int row = 0; row < kPackedRows; ++row) output[row] += of_tile[row];
      };  // signals: sums empty, for this thread
      const float scale = problem.scale_log2 * (problem.key_scales == nullptr ? 1 : problem.key_scales[work.key_head]);

      for (int tile = 0; tile < work.tiles; ++tile) {
        const int key = (work.first_tile + tile) * kTileKeys + own;
        float row_weights[kPackedRows], factors[kPackedRows];
        {
          auto stage = scores.consumer().consume();
          stage.accumulator().load(row_weights, warp, 0);
        }  // signals: scores empty, for this thread
        const bool all_visible = (work.first_tile + tile + 1) * kTileKeys <= work.length - (problem.shape.queries - 1);
#pragma unroll
        for (int row = 0; row < kPackedRows; ++row) {
          const bool visible = all_visible || key < visible_keys(problem.shape, work.key_head, row, work.length);
          row_weights[row] = visible ? row_weights[row] * scale : -INFINITY;
        }
        softmax.add(row_weights, factors, exchanged[tile % 2]);
        weights.acquire();
        write_weights<Element>(shared.weights[weights.index()], own, row_weights);
        if (key >= work.length) {  // the cache may hold anything there, and 0 times NaN is not 0
          values.wait_producer_if_needed(false);
          clear_value<Element>(values.tile(values.consumer_stage()).tile, own);
        }
        cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // the tensor core reads what threads wrote
        weights.commit();
        values.consumer_step();
        if (tile > 0) add_sums();  // of the tile before, while this one is multiplied
#pragma unroll
        for (int row = 0; row < kPackedRows; ++row) output[row] *= factors[row];
      }
      if (work.tiles > 0) add_sums();
      sum_of_keys(softmax.sum, exchanged[work.tiles % 2]);
      store_results(problem, work, own, output, softmax.maximum, softmax.sum);
      break;
    }  // signals: this thread no longer uses tensor memory
  }
  //! [roles]
}
//! [kernel]

}  // namespace stagecraft
