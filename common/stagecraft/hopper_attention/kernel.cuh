// Attention for Hopper: one lane loads, warpgroups of 64 queries each multiply, weigh and store.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/dependent_launch.hpp"
#include "stagecraft/hopper_attention/configuration.cuh"
#include "stagecraft/hopper_attention/softmax.cuh"
#include "stagecraft/hopper_attention/work.cuh"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/turns.hpp"
#include "stagecraft/wgmma_registers.hpp"

namespace stagecraft {

namespace attention_twin {

enum class Role : uint8_t { load, multiply };

__device__ __forceinline__ Role warp_role() { return warp_index() < 4 ? Role::load : Role::multiply; }

/// Asks for a tile of one head, from a token on. Called by one thread.
template <typename T>
__device__ __forceinline__ void load(T& to, const CUtensorMap& map, int token, int head, int sequence,
                                     MbarPtr barrier) {
#pragma unroll
  for (int box = 0; box < T::num_boxes; ++box) {
    const int32_t at[4] = {box * T::box_elements, token, head, sequence};
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global,
                                    to.storage + box * T::bytes_per_box, &map, at, barrier);
  }
}

/// Counts one arrival for a warpgroup, all of whose warps have waited for its products.
__device__ __forceinline__ void arrive_for_warpgroup(MbarPtr barrier) {
  if (threadIdx.x % kWarpgroupSize == 0) arrive(barrier);
  __syncwarp();  // together again for the next wgmma, which takes whole warps
}

/// Hides the scores of keys that a query does not see.
/// @param first_key  of the tile.
/// @param visible    keys that each of the thread's two rows sees.
template <typename Scores>
__device__ __forceinline__ void mask(Scores& scores, int first_key, const int (&visible)[2]) {
  const int own = first_key + 2 * static_cast<int>(lane_index() % 4);
#pragma unroll
  for (int i = 0; i < Scores::columns / 2; ++i) {
    if (own + i / 4 * 8 + i % 2 >= visible[i / 2 % 2]) scores.of[0][i] = -INFINITY;
  }
}

/// Stores what a warp has of the output and its logarithms, by its slabs. Called by a whole warp.
template <typename Config, typename Slabs>
__device__ __forceinline__ void store(const AttentionTwinProblem<Config>& problem, const AttentionItem<Config>& item,
                                      const RowSoftmax<Config>& softmax,
                                      const typename AttentionTwin<Config>::Output& output, Slabs& slabs, int warp) {
  using T = AttentionTwin<Config>;
  const int lane = static_cast<int>(lane_index()), first_query = item.first_query() + 16 * warp;
  float inverse[2];
  bool sees[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int query = first_query + lane / 4 + 8 * j;
    if (problem.logsumexp != nullptr && lane % 4 == 0 && query < problem.queries) {
      problem.logsumexp[static_cast<int64_t>(item.any_head()) * problem.queries + query] = softmax.logsumexp(j);
    }
    inverse[j] = softmax.inverse_sum(j);
    sees[j] = inverse[j] != 0;
  }
#pragma unroll
  for (int part = 0; part < T::kHeadDim / 64; ++part) {
    auto& slab = slabs[part % T::kSlabs];
    if (part % T::kSlabs == 0) {
      if (lane == 0) wait_until_stores_are_read();
      __syncwarp();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // 16 columns each
      uint32_t pair[4];            // of matrices: upper rows, lower rows, then those of the next 8 columns
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const float first = output.of[0][32 * part + 8 * i + 2 * m],
                    second = output.of[0][32 * part + 8 * i + 2 * m + 1];
        pair[m] = pack_pair<typename T::Element>(first * inverse[m % 2], second * inverse[m % 2]);
        if (!sees[m % 2]) pair[m] = 0;  // even if a value is infinite
      }
      ptx::store_matrices(slab.shared_address() + T::Slab::offset_of(lane % 16, 16 * i + lane / 16 * 8), pair[0],
                          pair[1], pair[2], pair[3]);
    }
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    if (lane == 0) {
      const int32_t at[4] = {64 * part, first_query, item.head(problem), item.sequence(problem)};
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared, &problem.out, at, slab.storage);
      commit_stores();
    }
  }
  __syncwarp();
}

}  // namespace attention_twin

//! [kernel]
template <typename Config>
__global__ void __launch_bounds__(AttentionTwin<Config>::kThreads, 1)
    hopper_attention(const __grid_constant__ AttentionTwinProblem<Config> problem) {
  using T = AttentionTwin<Config>;
  using Producer = RolePipeline<Config::stages, /*IsProducer=*/true>;
  using Consumer = RolePipeline<Config::stages, /*IsProducer=*/false>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<typename T::Shared*>(dynamic_shared_memory);
  const attention_twin::Role role = attention_twin::warp_role();

  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&problem.q);
    ptx::prefetch_tensor_map(&problem.k);
    ptx::prefetch_tensor_map(&problem.v);
    for (int i = 0; i < T::kConsumers; ++i) {
      init_barrier(&shared.queries_full[i], 1);
      init_barrier(&shared.queries_empty[i], 4);  // the warps whose queries they are
    }
    Producer{shared.keys_full, shared.keys_empty}.init_mbars(/*producer_arrive_count=*/1, T::kConsumers);
    Producer{shared.values_full, shared.values_empty}.init_mbars(/*producer_arrive_count=*/1, T::kConsumers);
    fence_barrier_init();
  }
  __syncthreads();

  switch (role) {
    case attention_twin::Role::load:
      ptx::release_registers<T::kLoadRegisters>();
      if (warp_index() == 0 && elect_one()) {
        wait_for_earlier_grids();  // which may have written Q, K and V
        Producer keys{shared.keys_full, shared.keys_empty}, values{shared.values_full, shared.values_empty};
        PipelineState<1> queries{/*index=*/0, /*phase=*/1};
        for (int number = static_cast<int>(blockIdx.x);;) {
          const AttentionItem<Config> item{problem, number};
          const bool exists = number < problem.items();
          const int key_head = item.key_head(problem), sequence = item.sequence(problem);
          const auto load_keys = [&](int tile) {
            keys.acquire();
            expect_bytes(keys.producer_mbar(), T::KeyTile::bytes);
            attention_twin::load(shared.keys[keys.index()], problem.k, tile * T::kKeyTile, key_head, sequence,
                                 keys.producer_mbar());
            keys.step();
          };
          const auto load_values = [&](int tile) {
            values.acquire();
            expect_bytes(values.producer_mbar(), T::ValueTile::bytes);
            attention_twin::load(shared.values[values.index()], problem.v, tile * T::kKeyTile, key_head, sequence,
                                 values.producer_mbar());
            values.step();
          };
          const int last = item.key_tiles(problem) - 1;
          if (exists) load_keys(last);
#pragma unroll 1
          for (int i = 0; i < T::kConsumers; ++i) {
            wait(&shared.queries_empty[i], queries.phase());
            shared.item[i] = number;  // visible by the arrival below
            if (!exists) {
              arrive(&shared.queries_full[i]);
              continue;
            }
            expect_bytes(&shared.queries_full[i], T::QueryTile::bytes);
            attention_twin::load(shared.queries[i], problem.q, item.first_query() + 64 * i, item.head(problem),
                                 sequence, &shared.queries_full[i]);
          }
          queries.step();
          if (!exists) break;
          number = problem.take_item();
#pragma unroll 1
          for (int tile = last; tile > 0; --tile) {
            load_keys(tile - 1);
            load_values(tile);
          }
          load_values(0);
        }
      }
      break;

    case attention_twin::Role::multiply: {
      ptx::take_registers<T::kMultiplyRegisters>();
      const int warp = static_cast<int>(warp_index()) - 4, consumer = warp / 4;  // of those that multiply
      const int lane = static_cast<int>(lane_index());
      Consumer keys{shared.keys_full, shared.keys_empty}, values{shared.values_full, shared.values_empty};
      RolePipeline<1, /*IsProducer=*/false> queries{&shared.queries_full[consumer], &shared.queries_empty[consumer]};
      const Turns<Config::takes_turns ? T::kConsumers : 1> turns{consumer};

      typename T::Scores scores;
      typename T::Output output;
      WarpgroupOperand<typename T::Element, T::kKeyTile> weights;
      RowSoftmax<Config> softmax;

      const auto multiply_keys = [&]() __attribute__((always_inline)) {
        multiply_tiles(scores, shared.queries[consumer], 0, shared.keys[keys.index()], /*accumulate=*/false);
      };
      const auto multiply_values = [&](bool accumulate) __attribute__((always_inline)) {
        multiply_registers(output, weights, shared.values[values.index()], accumulate);
      };
      const auto free = [&](auto& ring) __attribute__((always_inline)) {
        attention_twin::arrive_for_warpgroup(ring.consumer_mbar());
        ring.step();
      };
      const auto free_queries = [&]() __attribute__((always_inline)) {
        __syncwarp();
        if (lane == 0) queries.release_no_step();
        queries.step();
      };
      const auto store = [&](const AttentionItem<Config>& item) __attribute__((always_inline)) {
        attention_twin::store(problem, item, softmax, output, shared.slabs[warp], warp);
      };

      queries.wait();
      AttentionItem<Config> item{problem, shared.item[consumer]};
      int tile = item.key_tiles(problem) - 1;  // of keys: from the last, which may be masked, to the first
      // Whether the last tile is left to later warpgroups, whose queries alone see its keys. At most one tile is
      // skipped, and before the turn: in its turn, a warpgroup must not wait for what another one frees in a later
      // turn.
      bool skips = false;
      const auto skip_keys = [&](const AttentionItem<Config>& item) __attribute__((always_inline)) {
        if constexpr (Config::causal && T::kQueryTile - 64 >= T::kKeyTile) {
          const int tiles = item.key_tiles(problem);
          const int last = min(item.first_query() + 64 * consumer + 64, problem.queries) - 1;
          skips = tiles > 1 && (tiles - 1) * T::kKeyTile >= problem.visible(last);
          if (skips) {
            keys.wait();
            free(keys);
          }
        }
      };
      const auto skip_values = [&]() __attribute__((always_inline)) {
        if constexpr (Config::causal && T::kQueryTile - 64 >= T::kKeyTile) {
          if (skips) {
            --tile;
            values.wait();
            free(values);
            turns.wait();
            turns.pass();
          }
        }
      };
      const auto is_masked = [&]() __attribute__((always_inline)) {
        return (tile + 1) * T::kKeyTile > problem.visible(item.first_query() + 64 * consumer);
      };
      const auto mask = [&]() __attribute__((always_inline)) {
        const int row = item.first_query() + 16 * warp + lane / 4;  // the first of the thread's two
        attention_twin::mask(scores, tile * T::kKeyTile, {problem.visible(row), problem.visible(row + 8)});
      };
      // The weights of the first tile of an item.
      const auto begin = [&]() __attribute__((always_inline)) {
        free(keys);
        if (tile == 0) free_queries();
        softmax.begin();
        if (is_masked()) mask();
        softmax.weigh(scores, problem.scale_log2);
        weights.round(scores);
      };

      skip_keys(item);
      keys.wait();
      turns.wait();
      multiply_keys();
      turns.pass();
      scores.wait();
      skip_values();
      begin();

      for (;;) {
        bool accumulate = false;  // the first values of an item overwrite what the one before has left
        const auto step = [&](auto masks) __attribute__((always_inline)) {
          --tile;
          keys.wait();  // not in the turn, where it would keep the others from the tensor core
          turns.wait();
          multiply_keys();
          values.wait();
          multiply_values(accumulate);
          turns.pass();
          if constexpr (Config::overlaps) {
            ptx::Wgmma<typename T::Element, T::kKeyTile>::template wait<1>(scores.of[0]);
          } else {
            output.wait();
            scores.wait();
          }
          free(keys);
          if (tile == 0) free_queries();
          if constexpr (decltype(masks)::value) mask();
          const bool rescales = softmax.weigh(scores, problem.scale_log2);
          output.wait();  // before `weights` changes, from which the product reads
          free(values);
          weights.round(scores);
          if (rescales) {
#pragma unroll
            for (int i = 0; i < T::kHeadDim / 2; ++i) output.of[0][i] *= softmax.factor(i / 2 % 2);
          }
          accumulate = true;
        };
        if constexpr (Config::causal) {
          while (tile > 0 && tile * T::kKeyTile > problem.visible(item.first_query() + 64 * consumer)) {
            step(std::true_type{});
          }
        }
        while (tile > 0) step(std::false_type{});

        queries.wait();
        const int next = shared.item[consumer];
        values.wait();
        if (next < problem.items()) skip_keys(AttentionItem<Config>{problem, next});
        turns.wait();
        if (next >= problem.items()) {
          multiply_values(accumulate);
          if (!turns.is_last()) turns.pass();
          output.wait();
          softmax.end();
          store(item);
          break;
        }
        // The last output of this item, then the first scores of the next, which run while this one is stored.
        multiply_values(accumulate);
        keys.wait();
        multiply_keys();
        turns.pass();
        ptx::Wgmma<typename T::Element, T::kHeadDim>::template wait<1>(output.of[0]);
        free(values);
        softmax.end();
        store(item);
        scores.wait();
        item = AttentionItem<Config>{problem, next};
        tile = item.key_tiles(problem) - 1;
        skip_values();
        begin();
      }
      if (lane == 0) wait_until_stores_are_read();
      break;
    }
  }
}
//! [kernel]

}  // namespace stagecraft
