// Step 1: one role. Four warps load, multiply, compute and store one after another, and S goes through global memory:
// all of a row is known before the first power is computed.
#pragma once

#include <cstdint>
#include <cuda/ptx>
#include <problem.cuh>
#include <softmax.cuh>
#include <sums.cuh>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tmem_operand.hpp"

namespace stagecraft {

/// Threads of a block: one for each query.
inline constexpr int kOneRoleThreads = kQueries;

/// What a block has in dynamic shared memory.
template <typename Tiles>
struct OneRoleShared {
  typename Tiles::Queries queries;
  typename Tiles::Keys keys;
  typename Tiles::Values values;
  typename Tiles::Queries outputs;
};

/// Floats of the workspace: S of all heads, in whole blocks.
__host__ __device__ inline int64_t workspace_row(const AttentionShape& shape) {
  return static_cast<int64_t>((shape.keys + kKeys - 1) / kKeys) * kKeys;
}
inline int64_t workspace_floats(const AttentionShape& shape) {
  return workspace_row(shape) * shape.heads * AttentionItems<1, false>::items_of_head(shape) * kQueries;
}

/// A barrier of the block that orders what its threads and the tensor core do in tensor memory, too.
__device__ inline void sync_tensor_memory() {
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
}

//! [kernel]
/// @param workspace  `workspace_floats(problem.shape)`, for S.
template <typename Tiles>
__global__ void __launch_bounds__(kOneRoleThreads, 1)
    attention_one_role(const __grid_constant__ AttentionProblem<Tiles> problem, float* workspace) {
  using Items = AttentionItems</*TilesOfItem=*/1, /*LongestFirst=*/false>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<OneRoleShared<Tiles>*>(dynamic_shared_memory);
  __shared__ uint64_t copied, multiplied;
  __shared__ uint32_t tensor_memory_address;
  const TmemAllocation<256> tensor_memory{&tensor_memory_address};
  const AttentionShape& shape = problem.shape;
  const uint32_t warp = warp_index();
  const int row = static_cast<int>(threadIdx.x);
  const bool elected = warp == 0 && elect_one();  // copies and multiplies for all

  if (elected) {
    init_barrier(&copied, /*arrive_count=*/1);      // the elected lane, which announces the bytes
    init_barrier(&multiplied, /*arrive_count=*/1);  // the tensor core, by a commit
    fence_barrier_init();
  }
  __syncwarp();
  if (warp == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  sync_tensor_memory();
  const typename Tiles::Scores scores{tensor_memory.address()};
  const typename Tiles::Probabilities probabilities{tensor_memory.address()};  // over S
  const typename Tiles::Sums sums{tensor_memory.address() + kKeys};

  uint32_t phase = 0;  // of both barriers
  for (Items items{shape}; items.exists(); items.next()) {
    const AttentionItem item = items.item();
    const int key_head = key_head_of(shape, item.head);
    const int seen = shape.visible_keys(item.first_query + row);
    float* const row_of_s = workspace + ((static_cast<int64_t>(item.head) * Items::items_of_head(shape) * kQueries) +
                                         item.first_query + row) *
                                            workspace_row(shape);
    RowSoftmax softmax{problem.scale_log2};

    for (int block = 0; block < item.key_blocks; ++block) {  // S, and the maximum of each row
      if (elected) {
        expect_bytes(&copied, Tiles::Keys::bytes + (block == 0 ? Tiles::Queries::bytes : 0));
        if (block == 0) copy_tile(shared.queries, problem.queries, item.first_query, 0, item.head, &copied);
        copy_tile(shared.keys, problem.keys, block * kKeys, 0, key_head, &copied);
        wait(&copied, phase);
        multiply_tiles(scores, shared.queries, shared.keys, /*accumulate=*/false);
        commit_mma<1>(&multiplied);
        wait(&multiplied, phase);
      }
      phase ^= 1;
      sync_tensor_memory();  // S is there
      float values[kKeys];
      load_scores(values, scores, warp);
      mask_keys(values, seen - block * kKeys);
      softmax.raise_maximum(values, /*threshold=*/0);
#pragma unroll
      for (int key = 0; key < kKeys; key += 4) {
        *reinterpret_cast<float4*>(row_of_s + block * kKeys + key) =
            float4{values[key], values[key + 1], values[key + 2], values[key + 3]};
      }
      sync_tensor_memory();  // all have read it: it may be overwritten
    }

    for (int block = 0; block < item.key_blocks; ++block) {  // P, and O
      float values[kKeys];
#pragma unroll
      for (int key = 0; key < kKeys; key += 4) {
        *reinterpret_cast<float4*>(values + key) = *reinterpret_cast<const float4*>(row_of_s + block * kKeys + key);
      }
      softmax.template put_powers</*Polynomials=*/false, 0, kKeys>(values, probabilities, warp, kKeys);
      wait_for_tmem_stores();
      sync_tensor_memory();  // P is there
      if (elected) {
        expect_bytes(&copied, Tiles::Values::bytes);
        copy_tile(shared.values, problem.values, 0, block * kKeys, key_head, &copied);
        wait(&copied, phase);
        multiply_tiles(sums, probabilities, shared.values, /*accumulate=*/block > 0);
        commit_mma<1>(&multiplied);
        wait(&multiplied, phase);
      }
      phase ^= 1;
      sync_tensor_memory();  // P has been read; the last time, O is there
    }

    if (item.key_blocks > 0) {
      write_row(sums, warp, row, softmax.inverse_sum(), shared.outputs);
    } else {
      write_zeros(row, shared.outputs);
    }
    if (problem.logsumexp != nullptr && item.first_query + row < shape.queries) {
      problem.logsumexp[static_cast<int64_t>(item.head) * shape.queries + item.first_query + row] = softmax.logsumexp();
    }
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // TMA reads what this thread wrote
    sync_tensor_memory();
    if (elected) {
      store_tile(problem.outputs, item.first_query, 0, item.head, shared.outputs);
      commit_stores();
      wait_until_stores_are_read();
    }
    __syncthreads();  // the tile may be overwritten
  }
  if (warp == 0) tensor_memory.deallocate();
}
//! [kernel]

}  // namespace stagecraft
