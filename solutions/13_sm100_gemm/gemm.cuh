// D = epilogue(A * B transposed): chapter 10's kernel, whose four storing warps become an epilogue that computes and
// stores at the same time.
#pragma once

#include <epilogue_operations.hpp>
#include <problem.cuh>
#include <tile_writer.hpp>

#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

//! [accumulators]
/// Accumulators that take turns: as many as fit in tensor memory, of which an allocation is a power of two of columns;
/// but no more than 4, of which an epilogue that is as fast as the MMAs never uses more than 2.
/// @param columns  of tensor memory, that one takes.
__host__ __device__ constexpr int accumulators_that_fit(int columns) {
  const int fit = kTmemColumns / columns;
  return fit < 4 ? fit : 4;
}
//! [accumulators]

//! [quantising epilogue]
/// D in e4m3, whose largest number is 448: GELU, then the largest magnitude, by which the next scale is chosen, then
/// this scale; and then TileWriter rounds, and what is still too large saturates.
inline auto quantising_epilogue(float* maximum, float scale) {
  return Epilogue{Gelu{}, AbsoluteMaximum{maximum}, Multiply{scale}};
}
//! [quantising epilogue]

//! [kernel]
/// One block per multiprocessor, the 1 in its launch bounds, because its shared memory leaves no room for a second.
/// Without it, ptxas saves registers for more blocks, and spills.
/// @tparam Writer  a TileWriter: which accumulator, which type of D.
template <int TileN, typename Writer, typename Operations>
__global__ void __launch_bounds__(kGemmThreads, 1)
    gemm(const __grid_constant__ Problem<TileN, Writer, Operations> problem) {
  //! [shared]
  using Accumulator = AccumulatorOf<TileN>;
  using Payload = PayloadOf<TileN>;
  using Input = InputTilePipeline<Payload, kStages>;
  using Output = OutputTilePipeline<Accumulator, accumulators_that_fit(Accumulator::tmem_columns)>;
  struct Shared {
    typename Payload::Storage tiles;
    typename Writer::Storage slices;
  };
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
    Input::init_barriers(input_barriers,
                         /*producer_arrive_count=*/1,   // the loading lane, which announces the bytes
                         /*consumer_arrive_count=*/1);  // the tensor core, by a commit
    Output::init_barriers(output_barriers,
                          /*producer_arrive_count=*/1,                  // the tensor core, by a commit
                          /*consumer_arrive_count=*/kEpilogueThreads);  // every thread that has read it
    handshake.init(kEpilogueThreads);
    fence_barrier_init();
  }
  __syncthreads();
  //! [shared]

  switch (role) {
    case Role::load:
      if (elected) {
        for (TileOfD tile{problem.m, problem.n, TileN}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            auto stage = input.producer().acquire();
            stage.expect_bytes();
            stage.load_a(problem.a, tile.place().row, k_tile * kTileK);
            stage.load_b(problem.b, tile.place().column, k_tile * kTileK);
          }  // steps only; the bytes signal: stage full
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      MmaWarp<typename Output::Allocation> tensor_memory{handshake};
      if (elected) {
        Output output{output_barriers, tensor_memory.address()};
        for (TileOfD tile{problem.m, problem.n, TileN}; tile.exists(); tile.next()) {
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
      //! [epilogue]
      const EpilogueWarp tensor_memory{handshake};
      Output output{output_barriers, tensor_memory.address()};
      Writer writer{shared.slices, problem.d};
      Operations epilogue = problem.epilogue;
      for (TileOfD tile{problem.m, problem.n, TileN}; tile.exists(); tile.next()) {
        writer.write(output.acquire_epilogue(), tile.place(), epilogue);  // signals: accumulator empty, once loaded
      }
      writer.drain();  // TMA still reads this block's shared memory
      //! [epilogue]
      break;
    }  // signals: this thread no longer uses tensor memory
  }
}
//! [kernel]

}  // namespace stagecraft
