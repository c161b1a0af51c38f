// Chapter 17, a blank page, filled: products of tokens and words go to tensor memory, and two warpgroups keep the
// maximum and the sum of each row, as the softmax of attention does.
#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <cuda/ptx>
#include <problem.cuh>

#include "harness/cuda_error.hpp"
#include "normalisers.hpp"
#include "stagecraft/attention/exponential.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/warp_contexts.hpp"

using namespace stagecraft;

namespace {

using Tiles = AttentionTiles<__nv_bfloat16, kStateDim>;
constexpr int kWordStages = 4;                   // of shared memory: 128 words each
constexpr int kLogitStages = 2;                  // of tensor memory, for each tile: 2 * 2 * 128 are all columns
constexpr int kTileThreads = 128;                // of a tile: one for each token
constexpr int kLoadWarp = 8, kMultiplyWarp = 9;  // warps 0 to 7 have the rows
constexpr int kThreads = 10 * kWarpSize;
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

struct NormaliserProblem {
  BatchedTileMap<Tiles::Queries> states;
  BatchedTileMap<Tiles::Keys> words;
  float* normalisers;
  int tokens, count;

  __device__ int blocks() const { return (count + kKeys - 1) / kKeys; }  // of words
};

/// What is in dynamic shared memory.
struct Shared {
  Tiles::Queries states[kTiles];
  Tiles::Keys words[kWordStages];
};

struct Barriers {
  uint64_t states;
  uint64_t words_full[kWordStages], words_empty[kWordStages];
  uint64_t logits_full[kTiles][kLogitStages], logits_empty[kTiles][kLogitStages];
  TmemHandshake<> handshake;
};

template <bool IsProducer>
using Words = RolePipeline<kWordStages, IsProducer>;
template <bool IsProducer>
using Logits = RolePipeline<kLogitStages, IsProducer>;

__device__ Tiles::Scores logits_at(uint32_t tmem, int tile, uint32_t stage) {
  return Tiles::Scores{tmem + (tile * kLogitStages + stage) * kKeys};
}

/// One row, in the registers of its thread: everything is relative to `maximum`.
struct Row {
  float maximum = -INFINITY, sum = 0;

  __device__ void add(float (&logits)[kKeys], int first_word, int count) {
    if (first_word + kKeys > count) {
#pragma unroll
      for (int i = 0; i < kKeys; ++i) {
        if (first_word + i >= count) logits[i] = -INFINITY;  // no word: the copy brought zeros
      }
    }
    float largest[4] = {maximum, maximum, maximum, maximum}, sums[4] = {};  // four, so that none waits for the last one
#pragma unroll
    for (int i = 0; i < kKeys; ++i) largest[i % 4] = fmaxf(largest[i % 4], logits[i]);
    const float next = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
    const float offset = -next * kLog2E;
#pragma unroll
    for (int i = 0; i < kKeys; i += 4) {  // two by each unit
      const float2 p = exp2_by_polynomial({fmaf(logits[i], kLog2E, offset), fmaf(logits[i + 1], kLog2E, offset)});
      sums[0] += p.x;
      sums[1] += p.y;
      sums[2] += exp2_by_unit(fmaf(logits[i + 2], kLog2E, offset));
      sums[3] += exp2_by_unit(fmaf(logits[i + 3], kLog2E, offset));
    }
    // In the first block 0 * 2^-inf, which is 0.
    sum = sum * exp2_by_unit(fmaf(maximum, kLog2E, offset)) + (sums[0] + sums[1]) + (sums[2] + sums[3]);
    maximum = next;
  }
  __device__ float logarithm() const { return maximum + log2f(sum) * kLn2; }
};

}  // namespace

/// One block for every 256 tokens.
__global__ void __launch_bounds__(kThreads, 1) find_normalisers(const __grid_constant__ NormaliserProblem problem) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<Shared*>(dynamic_shared_memory);
  __shared__ Barriers barriers;
  const int warp = static_cast<int>(warp_index());
  const bool elected = elect_one();
  const int first_token = static_cast<int>(blockIdx.x) * kTiles * kQueries;

  if (warp == kLoadWarp && elected) {
    init_barrier(&barriers.states, 1);  // the loading lane, with the bytes of both tiles
    Words<true>{barriers.words_full, barriers.words_empty}.init_mbars(
        /*producer_arrive_count=*/1,   // the loading lane, with the bytes
        /*consumer_arrive_count=*/1);  // the tensor core, by a commit
    for (int tile = 0; tile < kTiles; ++tile) {
      Logits<true>{barriers.logits_full[tile], barriers.logits_empty[tile]}.init_mbars(
          /*producer_arrive_count=*/1,              // the tensor core, by a commit
          /*consumer_arrive_count=*/kTileThreads);  // every thread that has loaded its row
    }
    barriers.handshake.init(kTiles * kTileThreads);
    fence_barrier_init();
  }
  __syncthreads();

  if (warp == kLoadWarp) {
    if (elected) {
      expect_bytes(&barriers.states, sizeof shared.states);
      for (int tile = 0; tile < kTiles; ++tile) {
        copy_tile(shared.states[tile], problem.states, first_token + tile * kQueries, 0, 0, &barriers.states);
      }
      Words<true> words{barriers.words_full, barriers.words_empty};
      for (int block = 0; block < problem.blocks(); ++block) {
        words.acquire();
        expect_bytes(words.producer_mbar(), sizeof shared.words[0]);
        copy_tile(shared.words[words.index()], problem.words, block * kKeys, 0, 0, words.producer_mbar());
        words.step();
      }
      for (int stage = 0; stage < kWordStages; ++stage) {
        words.acquire();  // no commit is on its way to a barrier of this block any more
        words.step();
      }
    }
  } else if (warp == kMultiplyWarp) {
    MmaWarp<AttentionTmem> tensor_memory{barriers.handshake};
    if (elected) {
      wait(&barriers.states, 0);
      Words<false> words{barriers.words_full, barriers.words_empty};
      Logits<true> logits[kTiles] = {{barriers.logits_full[0], barriers.logits_empty[0]},
                                     {barriers.logits_full[1], barriers.logits_empty[1]}};
      for (int block = 0; block < problem.blocks(); ++block) {
        words.wait();
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          logits[tile].acquire();
          cuda::ptx::tcgen05_fence_after_thread_sync();
          multiply_tiles(logits_at(tensor_memory.address(), tile, logits[tile].index()), shared.states[tile],
                         shared.words[words.index()], /*accumulate=*/false);
          logits[tile].commit_mma(true);  // signals: logits complete
          logits[tile].step();
        }
        commit_mma(words.consumer_mbar());  // signals: words read, for both tiles
        words.step();
      }
    }
  } else {
    const int tile = warp / 4;
    const int token = first_token + static_cast<int>(threadIdx.x);
    EpilogueWarp<> tensor_memory{barriers.handshake};
    Logits<false> logits{barriers.logits_full[tile], barriers.logits_empty[tile]};
    Row row;
    for (int block = 0; block < problem.blocks(); ++block) {
      logits.wait();
      cuda::ptx::tcgen05_fence_after_thread_sync();
      float values[kKeys];
      logits_at(tensor_memory.address(), tile, logits.index()).load(values, warp, 0);
      cuda::ptx::tcgen05_fence_before_thread_sync();
      logits.release();  // as soon as the row is in registers
      row.add(values, block * kKeys, problem.count);
    }
    if (token < problem.tokens) problem.normalisers[token] = row.logarithm();
  }
}

void launch_normalisers(const __nv_bfloat16* states, const __nv_bfloat16* words, float* normalisers, int tokens,
                        int count) {
  constexpr uint64_t kStride = kStateDim * sizeof *states;
  const NormaliserProblem problem{
      .states = make_batched_tile_map<Tiles::Queries>(states, tokens, kStateDim, kStride, 1, tokens * kStride),
      .words = make_batched_tile_map<Tiles::Keys>(words, count, kStateDim, kStride, 1, count * kStride),
      .normalisers = normalisers,
      .tokens = tokens,
      .count = count};
  harness::check(cudaFuncSetAttribute(find_normalisers, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared)),
                 "reserve shared memory for the tiles");
  find_normalisers<<<(tokens + kTiles * kQueries - 1) / (kTiles * kQueries), kThreads, sizeof(Shared)>>>(problem);
}
