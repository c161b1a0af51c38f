// Chapter 10, a blank page, filled: the product is never stored. Each thread of the storing warps has one row of it,
// and keeps the largest element.
#include <cfloat>

#include "launch.cuh"
#include "launches.hpp"
#include "problem.cuh"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/warp_contexts.hpp"

using namespace stagecraft;

namespace {

using Element = __nv_bfloat16;
constexpr int kStages = 4;
constexpr int kAccumulators = 2;
constexpr int kThreads = (2 + kStoreWarps) * kWarpSize;
using Input = InputTilePipeline<Payload<Element, kStages>, kStages>;
using Output = OutputTilePipeline<Accumulator, kAccumulators>;

/// The larger of `largest` and what the calling thread has of its row, without columns beyond the last one of B.
/// Called by each of four whole warps in a row.
/// @param columns  that are left from the accumulator's first one on.
__device__ float larger_in_row(float largest, const Accumulator& accumulator, int columns) {
  constexpr int kColumns = 32;  // at a time, in registers
  for (int first = 0; first < kTileN; first += kColumns) {
    float sums[kColumns];
    accumulator.load(sums, warp_index(), first);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) largest = first + i < columns ? fmaxf(largest, sums[i]) : largest;
  }
  return largest;
}

}  // namespace

/// One block for each 128 rows of A, which goes through all columns of the product.
__global__ void __launch_bounds__(kThreads, 1)
    find_row_maxima(const __grid_constant__ Problem<Element> problem, float* maxima) {
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake handshake;
  Input input{input_barriers, tiles_in_shared_memory<Element, kStages>()};
  const Role role = warp_role();
  const bool elected = elect_one();
  const int k_tiles = problem.k_tiles();
  const int first_row = blockIdx.x * kTileM;

  if (role == Role::load && elected) {
    Input::init_barriers(input_barriers, /*producer_arrive_count=*/1,          // the loading lane, with the bytes
                         /*consumer_arrive_count=*/1);                         // the tensor core, by a commit
    Output::init_barriers(output_barriers, /*producer_arrive_count=*/1,        // the tensor core, by a commit
                          /*consumer_arrive_count=*/kStoreWarps * kWarpSize);  // every thread that has read it
    handshake.init(/*epilogue_threads=*/kStoreWarps * kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();

  switch (role) {
    case Role::load:
      if (elected) {
        for (int column = 0; column < problem.n; column += kTileN) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            auto stage = input.producer().acquire();
            stage.expect_bytes();
            stage.load_a(problem.a, first_row, k_tile * kTileK<Element>);
            stage.load_b(problem.b, column, k_tile * kTileK<Element>);
          }  // steps only; the bytes signal: stage full
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      MmaWarp<typename Output::Allocation> tensor_memory{handshake};
      if (elected) {
        Output output{output_barriers, tensor_memory.address()};
        for (int column = 0; column < problem.n; column += kTileN) {
          auto sums = output.producer().accumulate();
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            auto stage = input.consumer().acquire();
            multiply_tiles(sums.accumulator(), stage.tile().a, stage.tile().b, /*accumulate=*/k_tile > 0);
            stage.commit_mma();  // signals: stage empty, when the tensor core has read it
          }
        }  // signals: accumulator full, when the MMAs are done
      }
      break;
    }  // waits until no thread uses tensor memory, then deallocates

    case Role::store: {
      const EpilogueWarp tensor_memory{handshake};
      Output output{output_barriers, tensor_memory.address()};
      float largest = -FLT_MAX;
      for (int column = 0; column < problem.n; column += kTileN) {
        auto sums = output.consumer().consume();
        largest = larger_in_row(largest, sums.accumulator(), problem.n - column);
      }  // signals: accumulator empty, for this thread
      const int row = first_row + Accumulator::row_of(warp_index(), lane_index());
      if (row < problem.m) maxima[row] = largest;
      break;
    }  // signals: this thread no longer uses tensor memory
  }
}

void launch_find_row_maxima(const __nv_bfloat16* a, const __nv_bfloat16* b, float* maxima, int m, int n, int k) {
  const Problem<Element> problem = make_problem<Element>(a, b, nullptr, m, n, k);
  constexpr int kBytes = sizeof(Payload<Element, kStages>::Storage);
  harness::check(cudaFuncSetAttribute(find_row_maxima, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                 "reserve shared memory for the tiles");
  find_row_maxima<<<problem.tiles_down(), kThreads, kBytes>>>(problem, maxima);
}
