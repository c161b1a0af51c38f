// The complete attention, forward, on the tensor cores of an SM100, as the story of its roles: two tiles of 128 queries
// in turn, and everything between the two products in tensor memory and registers. What is compiled in is in
// AttentionConfig; what a launch decides is in AttentionParameters.
#pragma once

#include <cuda/ptx>

#include "stagecraft/attention/problem.hpp"
#include "stagecraft/attention/row_softmax.hpp"
#include "stagecraft/attention/row_sums.hpp"
#include "stagecraft/attention/types.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/tmem_operand.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

/// What a warp does.
enum class AttentionWarp { softmax, correct, load, multiply, store, clear };

inline constexpr int kRowThreads = 128;  ///< of a role that has a thread for each query of a tile

/// The calling warp's role: two warpgroups of softmax, one for each tile, one that corrects, and one of single warps.
/// Called by a whole warp.
__device__ inline AttentionWarp role_in_attention() {
  const uint32_t warp = warp_index();
  if (warp < 8) return AttentionWarp::softmax;
  if (warp < 12) return AttentionWarp::correct;
  if (warp == 12) return AttentionWarp::load;
  if (warp == 13) return AttentionWarp::multiply;
  return warp == 14 ? AttentionWarp::store : AttentionWarp::clear;
}

/// Registers of a thread: 2 * 184 + 88 + 56 are the 4 * 128 that the block has at the start.
inline constexpr int kRegistersOfSoftmax = 184, kRegistersOfCorrect = 88, kRegistersOfOthers = 56;

/// P goes to the multiplying role in two pieces, so that it can begin while the last powers are computed.
inline constexpr int kFirstPowers = 96, kLastPowers = kBlockKeys - kFirstPowers;

//! [kernel]
/// Attention. One block per multiprocessor, the 1 in its launch bounds: it has all registers and all of tensor memory.
/// @tparam Types  AttentionTypes of a configuration.
template <typename Types>
__global__ void __launch_bounds__(kAttentionBlock, 1)
    attention_kernel(const __grid_constant__ AttentionParameters<Types> problem) {
  //! [shared]
  using Scores = typename Types::Scores;
  using Powers = typename Types::Powers;
  using Sums = typename Types::SumsPipeline;
  using OutputElement = typename Types::OutputElement;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<typename Types::Shared*>(dynamic_shared_memory);
  __shared__ float row_factors[kItemQueries];
  __shared__ uint64_t queries_full[kQueryTiles], queries_empty[kQueryTiles];
  __shared__ uint64_t keys_values_full[Types::stages], keys_values_empty[Types::stages];
  __shared__ uint64_t landed_full[1], landed_empty[1];
  __shared__ uint64_t scores_full[kQueryTiles], scores_empty[kQueryTiles][2];  // empty: a piece of P is over S
  __shared__ uint64_t factors_full[kQueryTiles], factors_empty[kQueryTiles];
  __shared__ typename Sums::BarrierArray sums_barriers;
  __shared__ uint64_t outputs_full[Types::output_stages], outputs_empty[Types::output_stages];
  __shared__ TmemHandshake handshake;

  // The rings, each as its producer and its consumer see it. Those of queries, scores and factors are one for each
  // tile.
  using QueriesProducer = RolePipeline<1, /*IsProducer=*/true>;
  using QueriesConsumer = RolePipeline<1, /*IsProducer=*/false>;
  using KeysValuesProducer = RolePipeline<Types::stages, /*IsProducer=*/true>;
  using KeysValuesConsumer = RolePipeline<Types::stages, /*IsProducer=*/false>;
  using LandedProducer = RolePipeline<1, /*IsProducer=*/true>;
  using LandedConsumer = RolePipeline<1, /*IsProducer=*/false>;
  using ScoresProducer = RolePipeline<1, /*IsProducer=*/true, /*ProducerSubStages=*/1, /*ConsumerSubStages=*/2>;
  using ScoresConsumer = RolePipeline<1, /*IsProducer=*/false, /*ProducerSubStages=*/1, /*ConsumerSubStages=*/2>;
  using FactorsProducer = RolePipeline<1, /*IsProducer=*/true>;
  using FactorsConsumer = RolePipeline<1, /*IsProducer=*/false>;
  using OutputsProducer = RolePipeline<Types::output_stages, /*IsProducer=*/true>;
  using OutputsConsumer = RolePipeline<Types::output_stages, /*IsProducer=*/false>;

  const AttentionWarp role = role_in_attention();
  const bool elected = elect_one();
  const uint32_t warp = warp_index();

  if (role == AttentionWarp::load && elected) {
    for (int tile = 0; tile < kQueryTiles; ++tile) {
      QueriesProducer{&queries_full[tile], &queries_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/1,   // the loading lane, which announces the bytes
          /*consumer_arrive_count=*/1);  // the tensor core, by a commit
      ScoresProducer{&scores_full[tile], scores_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/1,             // the tensor core, by a commit
          /*consumer_arrive_count=*/kRowThreads);  // every thread that has put its row of P there
      FactorsProducer{&factors_full[tile], &factors_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/kRowThreads,   // every thread of the tile's softmax
          /*consumer_arrive_count=*/kRowThreads);  // every correcting thread
    }
    KeysValuesProducer{keys_values_full, keys_values_empty}.init_mbars(
        /*producer_arrive_count=*/1,   // the loading lane, which announces the bytes, or the warp that clears
        /*consumer_arrive_count=*/1);  // the tensor core, by a commit
    LandedProducer{landed_full, landed_empty}.init_mbars(
        /*producer_arrive_count=*/1,   // the loading lane, which announces the bytes
        /*consumer_arrive_count=*/1);  // a lane of the warp that clears
    OutputsProducer{outputs_full, outputs_empty}.init_mbars(
        /*producer_arrive_count=*/kRowThreads,                             // every correcting thread
        /*consumer_arrive_count=*/1);                                      // the storing lane
    Sums::init_barriers(sums_barriers, /*epilogue_threads=*/kRowThreads);  // every correcting thread
    handshake.init(/*epilogue_threads=*/3 * kRowThreads);  // those of the softmax, and those that correct
    fence_barrier_init();
  }
  __syncthreads();
  //! [shared]

  switch (role) {
    case AttentionWarp::softmax: {
      ptx::take_registers<kRegistersOfSoftmax>();
      //! [softmax]
      const EpilogueWarp tensor_memory{handshake};
      const int tile = static_cast<int>(warp) / 4;
      const int row = static_cast<int>(threadIdx.x);  // of the item's
      const Scores scores{tensor_memory.address() + column_of_scores(tile)};
      const Powers powers{tensor_memory.address() + column_of_scores(tile)};
      ScoresConsumer scores_ring{&scores_full[tile], scores_empty[tile]};
      FactorsProducer factors_ring{&factors_full[tile], &factors_empty[tile]};
      const auto send_factor = [&](float factor) {
        factors_ring.acquire();
        row_factors[row] = factor;
        factors_ring.commit();
      };
      for (AttentionTurns<Types> turn{problem}; turn.exists(); turn.next()) {
        const AttentionItem item = turn.item();
        const int key_blocks = item.key_blocks;
        const KeysOfItem keys{item, problem.visible};
        constexpr float kLog2E = 0x1.715476p0f;
        SinkSoftmax<typename Types::Element> softmax{
            problem.scale_log2, problem.sinks == nullptr ? -INFINITY : kLog2E * problem.sinks[item.head]};
        for (int block = 0; block < key_blocks; ++block) {
          const int first = block * kBlockKeys;
          float values[kBlockKeys];  // the thread's row of scores
          scores_ring.wait();
          cuda::ptx::tcgen05_fence_after_thread_sync();
          load_row(values, scores, warp);
          if (problem.inner_scale != 0) {
#pragma unroll
            for (float& value : values) value = tanh_by_exponential(problem.inner_scale * value);
          }
          const auto [first_of_all, end_of_all] = keys.seen_by_all(tile);
          if (first < first_of_all || first + kBlockKeys > end_of_all) {
            const auto [first_key, end_key] = keys.seen(row);
            keep_keys(values, first_key - first, end_key - first);
          }
          const float factor = softmax.raise_maximum(values);
          if (block > 0) send_factor(factor);  // now: O is corrected while this warp computes powers
          softmax.template put_powers<Types::config.polynomials, 0, kFirstPowers>(values, powers, warp);
          wait_for_tmem_stores();  // the cells are written, before anybody hears so
          cuda::ptx::tcgen05_fence_before_thread_sync();
          scores_ring.template release_no_step<0>();  // signals: the first piece of P is over S
          softmax.template put_powers<Types::config.polynomials, kFirstPowers, kLastPowers>(values, powers, warp);
          wait_for_tmem_stores();
          cuda::ptx::tcgen05_fence_before_thread_sync();
          scores_ring.template release<1>();  // signals: all of P is
        }
        send_factor(softmax.inverse_sum());
        if (problem.logsumexp != nullptr) {
          const AttentionItem again = turn.item();  // in no register meanwhile
          const int query = again.first_query + row;
          if (query < again.sequence.queries) *problem.logsumexp_of(again, query) = softmax.logsumexp();
        }
      }
      //! [softmax]
      break;
    }  // signals: this thread no longer uses tensor memory

    case AttentionWarp::correct: {
      ptx::release_registers<kRegistersOfCorrect>();
      //! [correct]
      const EpilogueWarp tensor_memory{handshake};
      const int row = static_cast<int>(threadIdx.x) % kRowThreads;
      Sums sums{sums_barriers, tensor_memory.address() + kColumnOfSums};
      FactorsConsumer factors_ring[kQueryTiles] = {{&factors_full[0], &factors_empty[0]},
                                                   {&factors_full[1], &factors_empty[1]}};
      OutputsProducer outputs_ring{outputs_full, outputs_empty};
      const auto receive_factor = [&](int tile) {
        factors_ring[tile].wait();
        const float factor = row_factors[tile * kTileQueries + row];
        factors_ring[tile].release();
        return factor;
      };
      // Writes a row of the output, by write(column, uint4).
      const auto write_row = [&](bool has_sums, float factor, const auto& write) {
        if (has_sums) {
          auto stage = sums.consumer().consume();
          write_sums<OutputElement>(stage.accumulator(), warp, factor, write);
        } else {  // signals: the next item's first product may overwrite it
          for (int column = 0; column < Types::config.value_dim; column += 128 / element_bits<OutputElement>) {
            write(column, uint4{});
          }
        }
      };
      for (AttentionTurns<Types> turn{problem}; turn.exists(); turn.next()) {
        const AttentionItem item = turn.item();
        for (int block = 1; block < item.key_blocks; ++block) {
#pragma unroll
          for (int tile = 0; tile < kQueryTiles; ++tile) {
            const float factor = receive_factor(tile);
            auto stage = sums.consumer().consume();
            rescale(stage.accumulator(), warp, factor);
          }  // signals: the next product may be added
        }
#pragma unroll
        for (int tile = 0; tile < kQueryTiles; ++tile) {
          const float factor = receive_factor(tile) * problem.output_scale;
          if (item.is_whole(tile)) {
            outputs_ring.acquire();
            auto& output = shared.outputs[outputs_ring.index()];
            write_row(item.key_blocks > 0, factor, [&](int column, const uint4& words) {
              *reinterpret_cast<uint4*>(output.storage + Types::Outputs::offset_of(row, column)) = words;
            });
            cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // TMA reads what this thread wrote
            outputs_ring.commit();
          } else {  // the tile's other rows may be those of the next sequence
            const int query = item.first_query + tile * kTileQueries + row;
            OutputElement* const to = problem.output_row(item, query);
            write_row(item.key_blocks > 0, factor, [&](int column, const uint4& words) {
              if (query < item.sequence.queries && column < problem.value_dim) {
                *reinterpret_cast<uint4*>(to + column) = words;
              }
            });
          }
        }
      }
      //! [correct]
      break;
    }  // signals: this thread no longer uses tensor memory

    default:
      ptx::release_registers<kRegistersOfOthers>();  // all four warps together
      if (role == AttentionWarp::load && elected) {
        //! [load]
        QueriesProducer queries_ring[kQueryTiles] = {{&queries_full[0], &queries_empty[0]},
                                                     {&queries_full[1], &queries_empty[1]}};
        KeysValuesProducer keys_values_ring{keys_values_full, keys_values_empty};
        LandedProducer landed_ring{landed_full, landed_empty};
        for (AttentionTurns<Types> turn{problem}; turn.exists(); turn.next()) {
          const AttentionItem item = turn.item();
          const auto load_queries = [&](int tile) {
            auto& ring = queries_ring[tile];
            ring.acquire();
            expect_bytes(ring.producer_mbar(), Types::Queries::bytes);
            copy_tile(shared.queries[tile], problem.q,
                      item.sequence.first_query_row + item.first_query + tile * kTileQueries, 0,
                      problem.query_matrix(item.number, item.head), ring.producer_mbar());
            ring.step();
          };
          for (int block = 0; block < item.key_blocks; ++block) {
            const int first_key = (item.first_block + block) * kBlockKeys;
            if (block == 0) load_queries(0);
            keys_values_ring.acquire();
            expect_bytes(keys_values_ring.producer_mbar(), Types::Keys::bytes);
            copy_block(shared.keys_values[keys_values_ring.index()].keys, problem.k, problem, item, first_key,
                       keys_values_ring.producer_mbar());
            keys_values_ring.step();
            if (block == 0) load_queries(1);
            keys_values_ring.acquire();
            MbarPtr full = keys_values_ring.producer_mbar();
            const bool clears = problem.must_clear(item, first_key);
            if (clears) {  // the warp that clears hears of it, and signals: stage full
              landed_ring.acquire();
              full = landed_ring.producer_mbar();
              landed_ring.step();
            }
            expect_bytes(full, Types::Values::bytes);
            copy_block(shared.keys_values[keys_values_ring.index()].values, problem.v, problem, item, first_key, full);
            keys_values_ring.step();
          }
        }
        // The last commits still have to arrive on barriers that exist.
        for (int stage = 0; stage < Types::stages; ++stage, keys_values_ring.step()) keys_values_ring.acquire();
        for (auto& ring : queries_ring) ring.acquire();
        //! [load]
      } else if (role == AttentionWarp::clear) {
        //! [clear]
        KeysValuesProducer keys_values_ring{keys_values_full, keys_values_empty};
        LandedConsumer landed_ring{landed_full, landed_empty};
        for (AttentionTurns<Types> turn{problem}; turn.exists(); turn.next()) {
          const AttentionItem item = turn.item();
          for (int block = 0; block < item.key_blocks; ++block) {
            keys_values_ring.step();  // over the keys
            const int first_key = (item.first_block + block) * kBlockKeys;
            if (problem.must_clear(item, first_key)) {
              landed_ring.wait();
              clear_values(shared.keys_values[keys_values_ring.index()].values, item.sequence.keys - first_key,
                           lane_index());
              cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // the tensor core reads what this thread wrote
              __syncwarp();
              if (elected) {
                arrive(keys_values_ring.producer_mbar());  // signals: stage full
                landed_ring.release_no_step();
              }
              landed_ring.step();
            }
            keys_values_ring.step();
          }
        }
        //! [clear]
      } else if (role == AttentionWarp::multiply) {
        //! [multiply]
        MmaWarp<AttentionColumns> tensor_memory{handshake};
        if (elected) {
          QueriesConsumer queries_ring[kQueryTiles] = {{&queries_full[0], &queries_empty[0]},
                                                       {&queries_full[1], &queries_empty[1]}};
          ScoresProducer scores_ring[kQueryTiles] = {{&scores_full[0], scores_empty[0]},
                                                     {&scores_full[1], scores_empty[1]}};
          Sums sums{sums_barriers, tensor_memory.address() + kColumnOfSums};
          // Keys are needed before the values of the block before are used up, so each has its own position.
          KeysValuesConsumer keys_ring{keys_values_full, keys_values_empty}, values_ring = keys_ring;
          values_ring.step();
          const auto go_on = [](KeysValuesConsumer& ring) {
            commit_mma<1>(ring.consumer_mbar());  // signals: stage empty, when the tensor core has read it
            ring.step();
            ring.step();  // over the other's stage
          };
          for (AttentionTurns<Types> turn{problem}; turn.exists(); turn.next()) {
            const int key_blocks = turn.item().key_blocks;
            if (key_blocks == 0) continue;
            for (int block = 0; block <= key_blocks; ++block) {  // S of this block, and P * V of the one before
#pragma unroll
              for (int tile = 0; tile < kQueryTiles; ++tile) {
                const Scores scores{tensor_memory.address() + column_of_scores(tile)};
                const Powers powers{tensor_memory.address() + column_of_scores(tile)};
                scores_ring[tile].template acquire<0>();  // the first piece of P is over S
                if (block > 0) {
                  auto stage = sums.producer().accumulate();  // O is corrected
                  if (tile == 0) values_ring.wait();
                  const auto& values = shared.keys_values[values_ring.index()].values;
                  multiply_columns<0, kFirstPowers>(stage.accumulator(), powers, values, /*accumulate=*/block > 1);
                  scores_ring[tile].template acquire<1>();
                  cuda::ptx::tcgen05_fence_after_thread_sync();
                  multiply_columns<kFirstPowers, kLastPowers>(stage.accumulator(), powers, values,
                                                              /*accumulate=*/true);
                }  // signals: O is summed up, when the MMAs are done
                if (block > 0 && tile == kQueryTiles - 1) go_on(values_ring);
                if (block < key_blocks) {
                  if (block == 0) queries_ring[tile].wait();
                  if (tile == 0) keys_ring.wait();
                  multiply_tiles(scores, shared.queries[tile], shared.keys_values[keys_ring.index()].keys,
                                 /*accumulate=*/false);  // over P, which the MMAs before it have read
                  scores_ring[tile].commit_mma(true);
                  scores_ring[tile].step();
                }
                if (block < key_blocks && tile == kQueryTiles - 1) go_on(keys_ring);
                if (block == key_blocks - 1) {
                  commit_mma<1>(queries_ring[tile].consumer_mbar());  // signals: other queries may be loaded
                  queries_ring[tile].step();
                }
              }
            }
          }
        }
        //! [multiply]
      } else if (role == AttentionWarp::store && elected) {
        //! [store]
        OutputsConsumer outputs_ring{outputs_full, outputs_empty};
        for (AttentionTurns<Types> turn{problem}; turn.exists(); turn.next()) {
          const AttentionItem item = turn.item();
#pragma unroll
          for (int tile = 0; tile < kQueryTiles; ++tile) {
            if (!item.is_whole(tile)) continue;  // its threads have written it
            outputs_ring.wait();
            store_tile(problem.o, item.sequence.first_query_row + item.first_query + tile * kTileQueries, 0,
                       problem.query_matrix(item.number, item.head), shared.outputs[outputs_ring.index()]);
            commit_stores();
            wait_until_stores_are_read();
            outputs_ring.release();
          }
        }
        //! [store]
      }
      break;
  }
}
//! [kernel]

}  // namespace stagecraft
