// Attention, forward: five roles, two tiles of 128 queries in turn, and everything between the two products in tensor
// memory and registers.
#pragma once

#include <cuda/ptx>
#include <problem.cuh>
#include <softmax.cuh>
#include <sums.cuh>

#include "stagecraft/mma.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/ptx.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/tmem_operand.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

//! [config]
/// What the kernel is compiled for.
/// @tparam TilesType      AttentionTiles.
/// @tparam HasPolynomials half of the powers are computed by polynomials.
/// @tparam IsPersistent   a block goes on to other items, the longest first; else the grid has a block for each item.
template <typename TilesType, bool HasPolynomials = false, bool IsPersistent = false>
struct AttentionConfig {
  using Tiles = TilesType;
  static constexpr bool polynomials = HasPolynomials;
  static constexpr bool persistent = IsPersistent;
  using Items = AttentionItems<kTiles, IsPersistent>;
  static constexpr int stages = 3;  ///< of keys and values
};
//! [config]

//! [roles]
/// What a warp does.
enum class AttentionRole { softmax, correct, load, multiply, store, none };

inline constexpr int kTileThreads = 128;  ///< of a role that has a thread for each query of a tile
inline constexpr int kAttentionThreads = 512;

/// The calling warp's role: two warpgroups of softmax, one for each tile, one that corrects, and one of single warps.
/// Called by a whole warp.
__device__ inline AttentionRole attention_role() {
  const uint32_t warp = warp_index();
  if (warp < 8) return AttentionRole::softmax;
  if (warp < 12) return AttentionRole::correct;
  if (warp == 12) return AttentionRole::load;
  if (warp == 13) return AttentionRole::multiply;
  return warp == 14 ? AttentionRole::store : AttentionRole::none;
}

/// Registers of a thread: 2 * 192 + 88 + 40 are the 4 * 128 that the block has at the start.
inline constexpr int kSoftmaxRegisters = 192, kCorrectRegisters = 88, kOtherRegisters = 40;
//! [roles]

/// What a block has in dynamic shared memory.
template <typename Config>
struct AttentionShared {
  using Tiles = typename Config::Tiles;
  union KeysOrValues {
    typename Tiles::Keys keys;
    typename Tiles::Values values;
  };
  typename Tiles::Queries queries[kTiles];
  KeysOrValues keys_values[Config::stages];  // in turn: keys of a block, its values, keys of the next, ...
  typename Tiles::Queries outputs[kTiles];
};

//! [pieces]
/// P goes to the multiplying role in two pieces, so that it can begin while the last powers are computed.
inline constexpr int kFirstPiece = 96, kSecondPiece = kKeys - kFirstPiece;
//! [pieces]

//! [kernel]
/// One block per multiprocessor, the 1 in its launch bounds: it has all registers and all of tensor memory.
template <typename Config>
__global__ void __launch_bounds__(kAttentionThreads, 1)
    attention(const __grid_constant__ AttentionProblem<typename Config::Tiles> problem) {
  //! [shared]
  using Tiles = typename Config::Tiles;
  using Scores = typename Tiles::Scores;
  using Probabilities = typename Tiles::Probabilities;
  using Sums = OutputTilePipeline<typename Tiles::Sums, kTiles>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<AttentionShared<Config>*>(dynamic_shared_memory);
  __shared__ float row_factors[kTiles][kQueries];
  __shared__ uint64_t queries_full[kTiles], queries_empty[kTiles];
  __shared__ uint64_t keys_values_full[Config::stages], keys_values_empty[Config::stages];
  __shared__ uint64_t scores_full[kTiles], scores_empty[kTiles][2];  // empty: a piece of P is over S
  __shared__ uint64_t factors_full[kTiles], factors_empty[kTiles];
  __shared__ typename Sums::BarrierArray sums_barriers;
  __shared__ uint64_t outputs_full[kTiles], outputs_empty[kTiles];
  __shared__ TmemHandshake handshake;

  // The rings, each as its producer and its consumer see it. All but that of keys and values have one for each tile.
  using QueriesProducer = RolePipeline<1, /*IsProducer=*/true>;
  using QueriesConsumer = RolePipeline<1, /*IsProducer=*/false>;
  using KeysValuesProducer = RolePipeline<Config::stages, /*IsProducer=*/true>;
  using KeysValuesConsumer = RolePipeline<Config::stages, /*IsProducer=*/false>;
  using ScoresProducer = RolePipeline<1, /*IsProducer=*/true, /*ProducerSubStages=*/1, /*ConsumerSubStages=*/2>;
  using ScoresConsumer = RolePipeline<1, /*IsProducer=*/false, /*ProducerSubStages=*/1, /*ConsumerSubStages=*/2>;
  using FactorsProducer = RolePipeline<1, /*IsProducer=*/true>;
  using FactorsConsumer = RolePipeline<1, /*IsProducer=*/false>;
  using OutputsProducer = RolePipeline<1, /*IsProducer=*/true>;
  using OutputsConsumer = RolePipeline<1, /*IsProducer=*/false>;

  const AttentionRole role = attention_role();
  const bool elected = elect_one();
  const uint32_t warp = warp_index();
  const AttentionShape& shape = problem.shape;

  if (role == AttentionRole::load && elected) {
    for (int tile = 0; tile < kTiles; ++tile) {
      QueriesProducer{&queries_full[tile], &queries_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/1,   // the loading lane, which announces the bytes
          /*consumer_arrive_count=*/1);  // the tensor core, by a commit
      ScoresProducer{&scores_full[tile], scores_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/1,              // the tensor core, by a commit
          /*consumer_arrive_count=*/kTileThreads);  // every thread that has put its row of P there
      FactorsProducer{&factors_full[tile], &factors_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/kTileThreads,   // every thread of the tile's softmax
          /*consumer_arrive_count=*/kTileThreads);  // every correcting thread
      OutputsProducer{&outputs_full[tile], &outputs_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/kTileThreads,  // every correcting thread
          /*consumer_arrive_count=*/1);            // the storing lane
    }
    KeysValuesProducer{keys_values_full, keys_values_empty}.init_mbars(
        /*producer_arrive_count=*/1,   // the loading lane, which announces the bytes
        /*consumer_arrive_count=*/1);  // the tensor core, by a commit
    Sums::init_barriers(sums_barriers, /*epilogue_threads=*/kTileThreads);  // every correcting thread
    handshake.init(/*epilogue_threads=*/3 * kTileThreads);  // those of the softmax, and those that correct
    fence_barrier_init();
  }
  __syncthreads();
  //! [shared]

  switch (role) {
    case AttentionRole::softmax: {
      ptx::take_registers<kSoftmaxRegisters>();
      //! [softmax]
      const EpilogueWarp tensor_memory{handshake};
      const int tile = static_cast<int>(warp) / 4;
      const int row = static_cast<int>(threadIdx.x) % kTileThreads;
      const Scores scores{tensor_memory.address() + scores_column(tile)};
      const Probabilities probabilities{tensor_memory.address() + scores_column(tile)};
      ScoresConsumer scores_ring{&scores_full[tile], scores_empty[tile]};
      FactorsProducer factors_ring{&factors_full[tile], &factors_empty[tile]};
      const auto send_factor = [&](float factor) {
        factors_ring.acquire();
        row_factors[tile][row] = factor;
        factors_ring.commit();
      };
      for (typename Config::Items items{shape}; items.exists(); items.next()) {
        const AttentionItem item = items.item();
        const int first_query = item.first_query + tile * kQueries;
        const int seen_by_all = shape.visible_keys(first_query), seen = shape.visible_keys(first_query + row);
        const int seen_by_warp = shape.visible_keys(first_query + static_cast<int>(warp % 4 + 1) * kWarpSize - 1);
        RowSoftmax softmax{problem.scale_log2};
        for (int block = 0; block < item.key_blocks; ++block) {
          float values[kKeys];  // the scores of the thread's row
          scores_ring.wait();
          cuda::ptx::tcgen05_fence_after_thread_sync();
          load_scores(values, scores, warp);
          if ((block + 1) * kKeys > seen_by_all) mask_keys(values, seen - block * kKeys);
          const float factor = softmax.raise_maximum(values);
          if (block > 0) send_factor(factor);  // now: O is corrected while this warp computes powers
          softmax.template put_powers<Config::polynomials, 0, kFirstPiece>(values, probabilities, warp,
                                                                           seen_by_warp - block * kKeys);
          wait_for_tmem_stores();  // the cells are written, before anybody hears so
          cuda::ptx::tcgen05_fence_before_thread_sync();
          scores_ring.template release_no_step<0>();  // signals: the first piece of P is over S
          softmax.template put_powers<Config::polynomials, kFirstPiece, kSecondPiece>(values, probabilities, warp,
                                                                                      seen_by_warp - block * kKeys);
          wait_for_tmem_stores();
          cuda::ptx::tcgen05_fence_before_thread_sync();
          scores_ring.template release<1>();  // signals: all of P is
        }
        send_factor(softmax.inverse_sum());
        if (problem.logsumexp != nullptr && first_query + row < shape.queries) {
          problem.logsumexp[static_cast<int64_t>(item.head) * shape.queries + first_query + row] = softmax.logsumexp();
        }
      }
      //! [softmax]
      break;
    }  // signals: this thread no longer uses tensor memory

    case AttentionRole::correct: {
      ptx::release_registers<kCorrectRegisters>();
      //! [correct]
      const EpilogueWarp tensor_memory{handshake};
      const int row = static_cast<int>(threadIdx.x) % kTileThreads;
      Sums sums{sums_barriers, tensor_memory.address() + sums_column(0, Tiles::head_dim)};
      FactorsConsumer factors_ring[kTiles] = {{&factors_full[0], &factors_empty[0]},
                                              {&factors_full[1], &factors_empty[1]}};
      OutputsProducer outputs_ring[kTiles] = {{&outputs_full[0], &outputs_empty[0]},
                                              {&outputs_full[1], &outputs_empty[1]}};
      const auto receive_factor = [&](int tile) {
        factors_ring[tile].wait();
        const float factor = row_factors[tile][row];
        factors_ring[tile].release();
        return factor;
      };
      for (typename Config::Items items{shape}; items.exists(); items.next()) {
        const int key_blocks = items.item().key_blocks;
        for (int block = 1; block < key_blocks; ++block) {
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            const float factor = receive_factor(tile);
            auto stage = sums.consumer().consume();
            rescale(stage.accumulator(), warp, factor);
          }  // signals: the next product may be added
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const float factor = receive_factor(tile);
          outputs_ring[tile].acquire();
          if (key_blocks > 0) {
            auto stage = sums.consumer().consume();
            write_row(stage.accumulator(), warp, row, factor, shared.outputs[tile]);
          } else {  // signals: the next item's first product may overwrite it
            write_zeros(row, shared.outputs[tile]);
          }
          cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // TMA reads what this thread wrote
          outputs_ring[tile].commit();
        }
      }
      //! [correct]
      break;
    }  // signals: this thread no longer uses tensor memory

    default:
      ptx::release_registers<kOtherRegisters>();  // all four warps together
      if (role == AttentionRole::load && elected) {
        //! [load]
        QueriesProducer queries_ring[kTiles] = {{&queries_full[0], &queries_empty[0]},
                                                {&queries_full[1], &queries_empty[1]}};
        KeysValuesProducer keys_values_ring{keys_values_full, keys_values_empty};
        for (typename Config::Items items{shape}; items.exists(); items.next()) {
          const AttentionItem item = items.item();
          const int key_head = key_head_of(shape, item.head);
          const auto load_queries = [&](int tile) {
            auto& ring = queries_ring[tile];
            ring.acquire();
            expect_bytes(ring.producer_mbar(), Tiles::Queries::bytes);
            copy_tile(shared.queries[tile], problem.queries, item.first_query + tile * kQueries, 0, item.head,
                      ring.producer_mbar());
            ring.step();
          };
          for (int block = 0; block < item.key_blocks; ++block) {
            if (block == 0) load_queries(0);
            keys_values_ring.acquire();
            expect_bytes(keys_values_ring.producer_mbar(), Tiles::Keys::bytes);
            copy_tile(shared.keys_values[keys_values_ring.index()].keys, problem.keys, block * kKeys, 0, key_head,
                      keys_values_ring.producer_mbar());
            keys_values_ring.step();
            if (block == 0) load_queries(1);
            keys_values_ring.acquire();
            expect_bytes(keys_values_ring.producer_mbar(), Tiles::Values::bytes);
            copy_tile(shared.keys_values[keys_values_ring.index()].values, problem.values, 0, block * kKeys, key_head,
                      keys_values_ring.producer_mbar());
            keys_values_ring.step();
          }
        }
        // The last commits still have to arrive on barriers that exist.
        for (int stage = 0; stage < Config::stages; ++stage, keys_values_ring.step()) keys_values_ring.acquire();
        for (auto& ring : queries_ring) ring.acquire();
        //! [load]
      } else if (role == AttentionRole::multiply) {
        //! [multiply]
        MmaWarp<AttentionTmem> tensor_memory{handshake};
        if (elected) {
          QueriesConsumer queries_ring[kTiles] = {{&queries_full[0], &queries_empty[0]},
                                                  {&queries_full[1], &queries_empty[1]}};
          ScoresProducer scores_ring[kTiles] = {{&scores_full[0], scores_empty[0]}, {&scores_full[1], scores_empty[1]}};
          Sums sums{sums_barriers, tensor_memory.address() + sums_column(0, Tiles::head_dim)};
          // Keys are needed before the values of the block before are used up, so each has its own position.
          KeysValuesConsumer keys_ring{keys_values_full, keys_values_empty}, values_ring = keys_ring;
          values_ring.step();
          const auto go_on = [](KeysValuesConsumer& ring) {
            commit_mma<1>(ring.consumer_mbar());  // signals: stage empty, when the tensor core has read it
            ring.step();
            ring.step();  // over the other's stage
          };
          for (typename Config::Items items{shape}; items.exists(); items.next()) {
            const int key_blocks = items.item().key_blocks;
            if (key_blocks == 0) continue;
            for (int block = 0; block <= key_blocks; ++block) {  // S of this block, and P * V of the one before
#pragma unroll
              for (int tile = 0; tile < kTiles; ++tile) {
                const Scores scores{tensor_memory.address() + scores_column(tile)};
                const Probabilities probabilities{tensor_memory.address() + scores_column(tile)};
                scores_ring[tile].template acquire<0>();  // the first piece of P is over S
                if (block > 0) {
                  auto stage = sums.producer().accumulate();  // O is corrected
                  if (tile == 0) values_ring.wait();
                  const auto& values = shared.keys_values[values_ring.index()].values;
                  multiply_columns<0, kFirstPiece>(stage.accumulator(), probabilities, values,
                                                   /*accumulate=*/block > 1);
                  scores_ring[tile].template acquire<1>();
                  cuda::ptx::tcgen05_fence_after_thread_sync();
                  multiply_columns<kFirstPiece, kSecondPiece>(stage.accumulator(), probabilities, values,
                                                              /*accumulate=*/true);
                }  // signals: O is summed up, when the MMAs are done
                if (block > 0 && tile == kTiles - 1) go_on(values_ring);
                if (block < key_blocks) {
                  if (block == 0) queries_ring[tile].wait();
                  if (tile == 0) keys_ring.wait();
                  multiply_tiles(scores, shared.queries[tile], shared.keys_values[keys_ring.index()].keys,
                                 /*accumulate=*/false);  // over P, which the MMAs before it have read
                  scores_ring[tile].commit_mma(true);
                  scores_ring[tile].step();
                }
                if (block < key_blocks && tile == kTiles - 1) go_on(keys_ring);
                if (block == key_blocks - 1) {
                  commit_mma<1>(queries_ring[tile].consumer_mbar());  // signals: other queries may be loaded
                  queries_ring[tile].step();
                }
              }
            }
          }
        }
        //! [multiply]
      } else if (role == AttentionRole::store && elected) {
        //! [store]
        OutputsConsumer outputs_ring[kTiles] = {{&outputs_full[0], &outputs_empty[0]},
                                                {&outputs_full[1], &outputs_empty[1]}};
        for (typename Config::Items items{shape}; items.exists(); items.next()) {
          const AttentionItem item = items.item();
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            outputs_ring[tile].wait();
            store_tile(problem.outputs, item.first_query + tile * kQueries, 0, item.head, shared.outputs[tile]);
            commit_stores();
            wait_until_stores_are_read();
            outputs_ring[tile].release();
          }
        }
        //! [store]
      }
      break;
  }
}
//! [kernel]

}  // namespace stagecraft
