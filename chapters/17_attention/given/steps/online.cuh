// Steps 2 and 3: the softmax is online, so that S stays in tensor memory. A warp loads, a warp multiplies, and a
// warpgroup for each tile of queries computes its softmax, corrects its sums and stores them. With two tiles in turn,
// the exponentials of one hide behind the products of the other.
#pragma once

#include <cstdint>
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

/// Threads of a block: a warpgroup for each tile, then one with the loading warp, the multiplying one, and two idle
/// ones.
template <int InHand>
inline constexpr int kOnlineThreads = (InHand + 1) * kQueries;
/// Registers of a thread with two tiles in hand: 2 * 232 + 40 are the 3 * 168 that the block has at the start. With
/// one, there are enough for all.
inline constexpr int kOnlineSoftmaxRegisters = 232, kOnlineOtherRegisters = 40;
/// Stages of keys and values.
inline constexpr int kOnlineStages = 3;

/// What a block has in dynamic shared memory.
template <typename Tiles, int InHand>
struct OnlineShared {
  union KeysOrValues {
    typename Tiles::Keys keys;
    typename Tiles::Values values;
  };
  typename Tiles::Queries queries[InHand];
  KeysOrValues keys_values[kOnlineStages];  // in turn: keys of a block, its values, keys of the next, ...
  typename Tiles::Queries outputs[InHand];
};

//! [kernel]
/// @tparam InHand  tiles of queries that a block has in hand: 1, which is step 2, or 2, which is step 3.
template <typename Tiles, int InHand>
__global__ void __launch_bounds__(kOnlineThreads<InHand>, 1)
    attention_online(const __grid_constant__ AttentionProblem<Tiles> problem) {
  //! [shared]
  static_assert(InHand == 1 || InHand == 2, "attention_online: tensor memory has room for S and O of two tiles");
  using Items = AttentionItems<InHand, /*LongestFirst=*/false>;
  using Scores = typename Tiles::Scores;
  using Probabilities = typename Tiles::Probabilities;
  using Sums = OutputTilePipeline<typename Tiles::Sums, 1>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<OnlineShared<Tiles, InHand>*>(dynamic_shared_memory);
  __shared__ uint64_t queries_full[InHand], queries_empty[InHand];
  __shared__ uint64_t keys_values_full[kOnlineStages], keys_values_empty[kOnlineStages];
  __shared__ uint64_t scores_full[InHand], scores_empty[InHand];  // empty: P is over S
  __shared__ typename Sums::BarrierArray sums_barriers[InHand];
  __shared__ uint64_t outputs_full[InHand], outputs_empty[InHand];
  __shared__ TmemHandshake handshake;
  using Producer = RolePipeline<1, /*IsProducer=*/true>;
  using Consumer = RolePipeline<1, /*IsProducer=*/false>;
  using KeysValuesProducer = RolePipeline<kOnlineStages, /*IsProducer=*/true>;
  using KeysValuesConsumer = RolePipeline<kOnlineStages, /*IsProducer=*/false>;

  const AttentionShape& shape = problem.shape;
  const uint32_t warp = warp_index();
  const bool elected = elect_one();
  const bool loads = warp == 4 * InHand, multiplies = warp == 4 * InHand + 1;
  if (loads && elected) {
    for (int tile = 0; tile < InHand; ++tile) {
      Producer{&queries_full[tile], &queries_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/1,   // the loading lane, which announces the bytes
          /*consumer_arrive_count=*/1);  // the tensor core, by a commit
      Producer{&scores_full[tile], &scores_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/1,          // the tensor core, by a commit
          /*consumer_arrive_count=*/kQueries);  // every thread that has put its row of P there
      Sums::init_barriers(sums_barriers[tile], /*epilogue_threads=*/kQueries);
      Producer{&outputs_full[tile], &outputs_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/kQueries,  // every thread that has written its row
          /*consumer_arrive_count=*/1);        // the one of them that stores the tile
    }
    KeysValuesProducer{keys_values_full, keys_values_empty}.init_mbars(/*producer_arrive_count=*/1,
                                                                       /*consumer_arrive_count=*/1);
    handshake.init(/*epilogue_threads=*/InHand * kQueries);
    fence_barrier_init();
  }
  __syncthreads();
  //! [shared]

  if (warp >= 4 * InHand) {
    if constexpr (InHand > 1) ptx::release_registers<kOnlineOtherRegisters>();  // all four warps together
    //! [load]
    if (loads && elected) {
      KeysValuesProducer keys_values_ring{keys_values_full, keys_values_empty};
      Producer queries_ring[2] = {{queries_full, queries_empty}, {queries_full + 1, queries_empty + 1}};
      for (Items items{shape}; items.exists(); items.next()) {
        const AttentionItem item = items.item();
        const int key_head = key_head_of(shape, item.head);
        for (int block = 0; block < item.key_blocks; ++block) {
          for (int tile = 0; block == 0 && tile < InHand; ++tile) {
            auto& ring = queries_ring[tile];
            ring.acquire();
            expect_bytes(ring.producer_mbar(), Tiles::Queries::bytes);
            copy_tile(shared.queries[tile], problem.queries, item.first_query + tile * kQueries, 0, item.head,
                      ring.producer_mbar());
            ring.step();
          }
          keys_values_ring.acquire();
          expect_bytes(keys_values_ring.producer_mbar(), Tiles::Keys::bytes);
          copy_tile(shared.keys_values[keys_values_ring.index()].keys, problem.keys, block * kKeys, 0, key_head,
                    keys_values_ring.producer_mbar());
          keys_values_ring.step();
          keys_values_ring.acquire();
          expect_bytes(keys_values_ring.producer_mbar(), Tiles::Values::bytes);
          copy_tile(shared.keys_values[keys_values_ring.index()].values, problem.values, 0, block * kKeys, key_head,
                    keys_values_ring.producer_mbar());
          keys_values_ring.step();
        }
      }
      // The last commits still have to arrive on barriers that exist.
      for (int stage = 0; stage < kOnlineStages; ++stage, keys_values_ring.step()) keys_values_ring.acquire();
      for (int tile = 0; tile < InHand; ++tile) queries_ring[tile].acquire();
    }
    //! [load]
    //! [multiply]
    if (multiplies) {
      MmaWarp<AttentionTmem> tensor_memory{handshake};
      if (elected) {
        Consumer queries_ring[2] = {{queries_full, queries_empty}, {queries_full + 1, queries_empty + 1}};
        Producer scores_ring[2] = {{scores_full, scores_empty}, {scores_full + 1, scores_empty + 1}};
        KeysValuesConsumer keys_ring{keys_values_full, keys_values_empty}, values_ring = keys_ring;
        values_ring.step();  // each has its own position: keys are needed before the values ahead of them are used up
        const auto go_on = [](KeysValuesConsumer& ring) {
          commit_mma<1>(ring.consumer_mbar());  // signals: stage empty, when the tensor core has read it
          ring.step();
          ring.step();  // over the other's stage
        };
        Sums sums[2] = {
            {sums_barriers[0], tensor_memory.address() + sums_column(0, Tiles::head_dim)},
            {sums_barriers[InHand - 1], tensor_memory.address() + sums_column(InHand - 1, Tiles::head_dim)}};
        for (Items items{shape}; items.exists(); items.next()) {
          const int key_blocks = items.item().key_blocks;
          for (int block = 0; key_blocks > 0 && block <= key_blocks; ++block) {  // S, and P * V of the block before
#pragma unroll
            for (int tile = 0; tile < InHand; ++tile) {
              const Scores scores{tensor_memory.address() + scores_column(tile)};
              const Probabilities probabilities{tensor_memory.address() + scores_column(tile)};
              scores_ring[tile].acquire();  // P is over S
              if (block > 0) {
                auto stage = sums[tile].producer().accumulate();  // O is corrected
                if (tile == 0) values_ring.wait();
                multiply_tiles(stage.accumulator(), probabilities, shared.keys_values[values_ring.index()].values,
                               /*accumulate=*/block > 1);
              }  // signals: O is summed up, when the MMAs are done
              if (block > 0 && tile == InHand - 1) go_on(values_ring);
              if (block < key_blocks) {
                if (block == 0) queries_ring[tile].wait();
                if (tile == 0) keys_ring.wait();
                multiply_tiles(scores, shared.queries[tile], shared.keys_values[keys_ring.index()].keys,
                               /*accumulate=*/false);  // over P, which the MMAs before it have read
                scores_ring[tile].commit_mma(true);
                scores_ring[tile].step();
                if (tile == InHand - 1) go_on(keys_ring);
              }
              if (block == key_blocks - 1) {
                commit_mma<1>(queries_ring[tile].consumer_mbar());  // signals: other queries may be loaded
                queries_ring[tile].step();
              }
            }
          }
        }
      }
    }
    //! [multiply]
  } else {
    if constexpr (InHand > 1) ptx::take_registers<kOnlineSoftmaxRegisters>();
    //! [softmax]
    const EpilogueWarp tensor_memory{handshake};
    const int tile = static_cast<int>(warp) / 4;
    const int row = static_cast<int>(threadIdx.x) % kQueries;
    const Scores scores{tensor_memory.address() + scores_column(tile)};
    const Probabilities probabilities{tensor_memory.address() + scores_column(tile)};
    Consumer scores_ring{&scores_full[tile], &scores_empty[tile]};
    Sums sums{sums_barriers[tile], tensor_memory.address() + sums_column(tile, Tiles::head_dim)};
    Producer written_rows{&outputs_full[tile], &outputs_empty[tile]};
    Consumer stored_tile{&outputs_full[tile], &outputs_empty[tile]};
    const bool stores = warp % 4 == 0 && elected;
    for (Items items{shape}; items.exists(); items.next()) {
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
        const float factor = softmax.raise_maximum(values, /*threshold=*/0);
        if (block > 0) {
          auto stage = sums.consumer().consume();
          rescale(stage.accumulator(), warp, factor);
        }  // signals: the next product may be added
        softmax.template put_powers</*Polynomials=*/false, 0, kKeys>(values, probabilities, warp,
                                                                     seen_by_warp - block * kKeys);
        wait_for_tmem_stores();  // the cells are written, before anybody hears so
        cuda::ptx::tcgen05_fence_before_thread_sync();
        scores_ring.release();  // signals: P is over S
      }
      written_rows.acquire();
      if (item.key_blocks > 0) {
        auto stage = sums.consumer().consume();
        write_row(stage.accumulator(), warp, row, softmax.inverse_sum(), shared.outputs[tile]);
      } else {  // signals: the next item's first product may overwrite it
        write_zeros(row, shared.outputs[tile]);
      }
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // TMA reads what this thread wrote
      written_rows.commit();
      if (problem.logsumexp != nullptr && first_query + row < shape.queries) {
        problem.logsumexp[static_cast<int64_t>(item.head) * shape.queries + first_query + row] = softmax.logsumexp();
      }
      if (stores) {
        stored_tile.wait();
        store_tile(problem.outputs, first_query, 0, item.head, shared.outputs[tile]);
        commit_stores();
        wait_until_stores_are_read();
        stored_tile.release();
      }
      __syncwarp();
    }
    //! [softmax]
  }
}
//! [kernel]

}  // namespace stagecraft
