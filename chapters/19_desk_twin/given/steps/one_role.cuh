// Steps 1 to 3: no roles. Every warp multiplies, and a lane of one of them asks for the copies in between. A block
// computes one tile of D.
#pragma once

#include <cstdint>
#include <fragments.hpp>
#include <problem.cuh>
#include <register_writer.hpp>

#include "stagecraft/input_tile_pipeline.hpp"

namespace stagecraft {

//! [kernel]
template <typename Config, typename Operations>
__global__ void __launch_bounds__(Config::warps* kWarpSize, 1)
    gemm_one_role(const __grid_constant__ Problem<Config, Operations> problem) {
  using Payload = typename Config::Payload;
  using Input = InputTilePipeline<Payload, Config::stages>;
  using Element = typename Config::Element;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ typename Input::BarrierArray input_barriers;
  Input input{input_barriers, Payload{*reinterpret_cast<typename Payload::Storage*>(dynamic_shared_memory)}};
  const bool is_copying = warp_index() == 0 && elect_one();
  const WarpPlace warp = warp_place<Config>();
  const TilePlace tile = problem.place(problem.tiles.work(blockIdx.x, 0, 0));
  const int k_tiles = problem.k_tiles();

  if (is_copying) {
    Input::init_barriers(input_barriers,
                         /*producer_arrive_count=*/1,               // the copying lane, which announces the bytes
                         /*consumer_arrive_count=*/Config::warps);  // a lane of each warp, for all of it
    fence_barrier_init();
  }
  __syncthreads();

  const auto copy = [&](int k_tile) {
    if (!is_copying || k_tile >= k_tiles) return;
    auto stage = input.producer().acquire();  // waits for all warps, unless the stage is new
    stage.expect_bytes();
    stage.load_a(problem.a, tile.row, k_tile * Config::tile_k);
    stage.load_b(problem.b, tile.column, k_tile * Config::tile_k);
  };
  for (int k_tile = 0; k_tile < Config::stages - 1; ++k_tile) copy(k_tile);

  WarpSums<Config::warp_m, Config::warp_n> sums{};
  Fragments<Config::warp_m, Config::warp_n> fragments[Config::register_stages];
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    copy(k_tile + Config::stages - 1);  // into the stage of the k-tile before
    __syncwarp();                       // together again for ldmatrix and mma, which take whole warps
    auto stage = input.consumer().acquire();
#pragma unroll
    for (int slice = 0; slice < Config::slices; ++slice) {
      fragments[slice % Config::register_stages].load(stage.tile().a, warp.row, stage.tile().b, warp.column, slice);
      if (slice == Config::slices - 1) arrive_for_warp(stage.mbar());  // all of the stage is in registers
      if constexpr (Config::register_stages == 1) {
        multiply<Element>(sums, fragments[0]);
      } else if (k_tile > 0 || slice > 0) {  // the slice before, while this one comes
        multiply<Element>(sums, fragments[(slice + 1) % 2]);
      }
    }
  }
  if constexpr (Config::register_stages == 2) multiply<Element>(sums, fragments[1]);

  __syncthreads();  // nobody reads the tiles of A and B any longer: D leaves through their memory
  RegisterWriter<Config> writer{problem.d};
  Operations epilogue = problem.epilogue;
  writer.write(sums, input.tile(0).output, tile, epilogue);
  writer.wait_until_read();  // TMA still reads this block's shared memory
}
//! [kernel]

}  // namespace stagecraft
