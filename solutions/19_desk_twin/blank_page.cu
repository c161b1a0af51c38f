// Chapter 19, a blank page, filled: both operands are rows of the same matrix, and a block goes through the tiles of
// the lower triangle row by row. Each block copies for itself, without roles.
#include <fragments.hpp>
#include <problem.cuh>
#include <register_writer.hpp>

#include "harness/cuda_error.hpp"
#include "launches.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/launch.hpp"

using namespace stagecraft;

namespace {

using Triangle = Config<__nv_bfloat16>;
using Payload = Triangle::Payload;
using Input = InputTilePipeline<Payload, Triangle::stages>;

/// The tiles of A have as many rows as those of B, so one map is enough.
struct TriangleProblem {
  TileMap<Triangle::ATile> a;
  BatchedTileMap<Triangle::OutputSlice> d;
  int m, k;
};

/// Goes through the tiles of the lower triangle: row r has r + 1.
class TriangleTile {
 public:
  __device__ explicit TriangleTile(int rows) : rows_(rows) { skip(static_cast<int>(blockIdx.x)); }
  __device__ bool exists() const { return row_ < rows_; }
  __device__ void next() { skip(static_cast<int>(gridDim.x)); }
  __device__ int row() const { return row_ * Triangle::tile_m; }
  __device__ int column() const { return column_ * Triangle::tile_n; }

 private:
  __device__ void skip(int tiles) {
    for (column_ += tiles; column_ > row_; ++row_) column_ -= row_ + 1;
  }
  int rows_, row_ = 0, column_ = 0;
};

__global__ void __launch_bounds__(Triangle::warps* kWarpSize, 1)
    lower_triangle(const __grid_constant__ TriangleProblem problem) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ Input::BarrierArray input_barriers;
  Input input{input_barriers, Payload{*reinterpret_cast<Payload::Storage*>(dynamic_shared_memory)}};
  const bool is_copying = warp_index() == 0 && elect_one();
  const WarpPlace warp = warp_place<Triangle>();
  const int rows = (problem.m + Triangle::tile_m - 1) / Triangle::tile_m;
  const int k_tiles = (problem.k + Triangle::tile_k - 1) / Triangle::tile_k;
  RegisterWriter<Triangle> writer{problem.d};
  Epilogue<> none;

  if (is_copying) {
    Input::init_barriers(input_barriers,
                         /*producer_arrive_count=*/1,                 // the copying lane, which announces the bytes
                         /*consumer_arrive_count=*/Triangle::warps);  // a lane of each warp, for all of it
    fence_barrier_init();
  }
  __syncthreads();

  for (TriangleTile tile{rows}; tile.exists(); tile.next()) {
    const auto copy = [&](int k_tile) {
      if (!is_copying || k_tile >= k_tiles) return;
      auto stage = input.producer().acquire();
      stage.expect_bytes();
      stage.load_a(problem.a, tile.row(), k_tile * Triangle::tile_k);
      stage.load_b(problem.a, tile.column(), k_tile * Triangle::tile_k);
    };
    for (int k_tile = 0; k_tile < Triangle::stages - 1; ++k_tile) copy(k_tile);
    WarpSums<Triangle::warp_m, Triangle::warp_n> sums{};
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      copy(k_tile + Triangle::stages - 1);
      __syncwarp();
      auto stage = input.consumer().acquire();
#pragma unroll
      for (int slice = 0; slice < Triangle::slices; ++slice) {
        Fragments<Triangle::warp_m, Triangle::warp_n> fragments;
        fragments.load(stage.tile().a, warp.row, stage.tile().b, warp.column, slice);
        multiply<__nv_bfloat16>(sums, fragments);
      }
      arrive_for_warp(stage.mbar());
    }
    __syncthreads();  // nobody reads tiles of A: D leaves through their memory
    writer.write(sums, input.tile(0).output,
                 {.row = tile.row(), .column = tile.column(), .row_end = problem.m, .column_end = problem.m}, none);
    writer.wait_until_read();
    __syncthreads();  // TMA has read all slices: tiles may be copied there
  }
}

}  // namespace

void launch_lower_triangle(const __nv_bfloat16* a, __nv_bfloat16* d, int m, int k, int blocks) {
  const uint64_t stride = static_cast<uint64_t>(m) * sizeof(__nv_bfloat16);
  const TriangleProblem problem{
      .a = make_tile_map<Triangle::ATile>(a, m, k),
      .d = make_batched_tile_map<Triangle::OutputSlice>(d, m, m, stride, /*batches=*/1, m * stride),
      .m = m,
      .k = k};
  const int rows = (m + Triangle::tile_m - 1) / Triangle::tile_m;
  harness::check(launch_kernel(lower_triangle,
                               {.grid = static_cast<unsigned>(min(blocks, rows * (rows + 1) / 2)),
                                .block = Triangle::warps * kWarpSize,
                                .dynamic_shared_bytes = sizeof(Payload::Storage)},
                               problem),
                 "launch lower_triangle");
}
