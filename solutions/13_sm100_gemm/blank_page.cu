// Chapter 13, a blank page, filled: the epilogue reads each accumulator twice. The first time it finds the largest
// magnitude of each thread's row, the second time it divides by it and writes.
#include <epilogue_operations.hpp>
#include <problem.cuh>
#include <tile_writer.hpp>
#include <utility>

#include "harness/cuda_error.hpp"
#include "launches.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/warp_contexts.hpp"

using namespace stagecraft;

namespace {

constexpr int kTileN = 256;  // all columns of a row are in one accumulator
constexpr int kAccumulators = 2;
using Accumulator = AccumulatorOf<kTileN>;
using Payload = PayloadOf<kTileN>;
using Input = InputTilePipeline<Payload, kStages>;
using Output = OutputTilePipeline<Accumulator, kAccumulators>;
using Writer = TileWriter<Accumulator, Operand>;
using RowProblem = Problem<kTileN, Writer, Epilogue<>>;

/// What is in dynamic shared memory.
struct Shared {
  Payload::Storage tiles;
  Writer::Storage slices;
};

/// The largest magnitude in the calling thread's row of an accumulator. Columns that the product does not have are
/// zeros, which are never larger. Called by each of four whole warps in a row.
__device__ float largest_magnitude(const Accumulator& accumulator) {
  constexpr int kColumns = 32;  // at a time, in registers
  float largest = 0;
  for (int first = 0; first < kTileN; first += kColumns) {
    float sums[kColumns];
    accumulator.load(sums, warp_index(), first);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) largest = fmaxf(largest, fabsf(sums[i]));
  }
  return largest;
}

}  // namespace

/// One block for every 128 rows of A, in turns.
__global__ void __launch_bounds__(kGemmThreads, 1) normalise_rows(const __grid_constant__ RowProblem problem) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<Shared*>(dynamic_shared_memory);
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake handshake;
  Input input{input_barriers, Payload{shared.tiles}};
  const Role role = warp_role();
  const bool elected = elect_one();
  const int k_tiles = (problem.k + kTileK - 1) / kTileK;

  if (role == Role::load && elected) {
    Input::init_barriers(input_barriers, /*producer_arrive_count=*/1,    // the loading lane, with the bytes
                         /*consumer_arrive_count=*/1);                   // the tensor core, by a commit
    Output::init_barriers(output_barriers, /*producer_arrive_count=*/1,  // the tensor core, by a commit
                          /*consumer_arrive_count=*/kEpilogueThreads);   // every thread that has read it
    handshake.init(kEpilogueThreads);
    fence_barrier_init();
  }
  __syncthreads();

  switch (role) {
    case Role::load:
      if (elected) {
        for (TileOfD tile{problem.m, problem.n, kTileN}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            auto stage = input.producer().acquire();
            stage.expect_bytes();
            stage.load_a(problem.a, tile.place().row, k_tile * kTileK);
            stage.load_b(problem.b, 0, k_tile * kTileK);
          }  // steps only; the bytes signal: stage full
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      MmaWarp<typename Output::Allocation> tensor_memory{handshake};
      if (elected) {
        Output output{output_barriers, tensor_memory.address()};
        for (TileOfD tile{problem.m, problem.n, kTileN}; tile.exists(); tile.next()) {
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

    case Role::epilogue: {
      const EpilogueWarp tensor_memory{handshake};
      Output output{output_barriers, tensor_memory.address()};
      Writer writer{shared.slices, problem.d};
      for (TileOfD tile{problem.m, problem.n, kTileN}; tile.exists(); tile.next()) {
        auto sums = output.acquire_epilogue();
        const float largest = largest_magnitude(sums.accumulator());
        Epilogue divide{Multiply{largest > 0 ? 1 / largest : 0}};  // each thread by the largest of its own row
        writer.write(std::move(sums), tile.place(), divide);       // signals: accumulator empty, once loaded
      }
      writer.drain();  // TMA still reads this block's shared memory
      break;
    }  // signals: this thread no longer uses tensor memory
  }
}

void launch_normalise_rows(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* d, int m, int n, int k,
                           int blocks) {
  const RowProblem problem{.a = make_tile_map<ATile>(a, m, k),
                           .b = make_tile_map<BTile<kTileN>>(b, n, k),
                           .d = map_of_d<Writer>(d, m, n),
                           .epilogue = Epilogue<>{},
                           .m = m,
                           .n = n,
                           .k = k};
  harness::check(cudaFuncSetAttribute(normalise_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared)),
                 "reserve shared memory for the tiles and the slices");
  normalise_rows<<<min(blocks, (m + kTileM - 1) / kTileM), kGemmThreads, sizeof(Shared)>>>(problem);
}
