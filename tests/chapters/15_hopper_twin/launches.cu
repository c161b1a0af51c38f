// Starts the answer's kernel, and its parts on their own.
#include <gemm.cuh>

#include "gemm_launch.cuh"
#include "launches.hpp"
#include "stagecraft/epilogue_operations.hpp"
#include "stagecraft/tile_copy.hpp"

using namespace stagecraft;

namespace {

using Bf16 = __nv_bfloat16;
using Bias = Epilogue<AddPerColumn<float>>;

// ---- multiply_tiles -------------------------------------------------------------------------------------------------

using Operand = Tile<Bf16, 64, 64>;

__global__ void __launch_bounds__(kWarpgroupThreads)
    multiply_known(const __grid_constant__ TileMap<Operand> a, const __grid_constant__ TileMap<Operand> b, float* out,
                   int times) {
  __shared__ alignas(1024) Operand a_tile, b_tile;
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    init_barrier(&full, 1);
    fence_barrier_init();
    expect_bytes(&full, 2 * Operand::bytes);
    copy_tile(a_tile, a, 0, 0, &full);
    copy_tile(b_tile, b, 0, 0, &full);
  }
  __syncthreads();
  wait(&full, 0);

  WarpgroupSums<Bf16, 64, 64> sums;
  for (float& sum : sums.of[0]) sum = static_cast<float>(threadIdx.x);
  for (int i = 0; i < times; ++i) multiply_tiles(sums, a_tile, 0, b_tile, /*accumulate=*/i > 0);
  sums.wait();

  for (int i = 0; i < 32; ++i) {
    const int row = static_cast<int>(warp_index()) * 16 + static_cast<int>(lane_index()) / 4 + i / 2 % 2 * 8;
    out[row * 64 + i / 4 * 8 + static_cast<int>(lane_index()) % 4 * 2 + i % 2] = sums.of[0][i];
  }
}

// ---- The writer -----------------------------------------------------------------------------------------------------

using KnownWriter = RegisterWriter<WarpgroupSums<Bf16, 64, 128>>;

__global__ void __launch_bounds__(2 * kWarpgroupThreads)
    write_known(const __grid_constant__ KnownWriter::Map map, Bias bias, int m, int n, int tiles) {
  __shared__ alignas(1024) KnownWriter::Storage slices[2];
  const int warpgroup = static_cast<int>(warp_index()) / 4, lane = static_cast<int>(lane_index());
  KnownWriter writer{slices[warpgroup], map};
  for (int tile = 0; tile < tiles; ++tile) {
    const int first_row = tile * 128 + warpgroup * 64;
    KnownWriter::Sums sums;
    for (int i = 0; i < 64; ++i) {
      const int row = first_row + static_cast<int>(warp_index()) % 4 * 16 + lane / 4 + i / 2 % 2 * 8;
      sums.of[0][i] = static_cast<float>((row + 3 * (i / 4 * 8 + lane % 4 * 2 + i % 2)) % 251);
    }
    writer.write(sums, TilePlace{.row = first_row, .row_end = m, .column_end = n}, bias);
  }
  writer.drain();
}

}  // namespace

void launch_multiply_known(const Bf16* a, const Bf16* b, float* sums, int times) {
  multiply_known<<<1, kWarpgroupThreads>>>(make_tile_map<Operand>(a, 64, 64), make_tile_map<Operand>(b, 64, 64), sums,
                                           times);
  harness::check(cudaGetLastError(), "launch multiply_known");
}

void launch_write_known(Bf16* d, const float* bias, int m, int n, int tiles) {
  write_known<<<1, 2 * kWarpgroupThreads>>>(map_of_d<KnownWriter>(d, m, n), Bias{AddPerColumn<float>{{bias}}}, m, n,
                                            tiles);
  harness::check(cudaGetLastError(), "launch write_known");
}

void launch_gemm(TwinKernel kernel, const Bf16* a, const Bf16* b, const float* bias, Bf16* d, int m, int n, int k,
                 int clusters) {
  const Bias epilogue{AddPerColumn<float>{{bias}}};
  switch (kernel) {
    case TwinKernel::cooperative:
      return start_gemm<Config<Consumers::cooperative, 128>>(a, b, epilogue, d, m, n, k, clusters);
    case TwinKernel::ping_pong:
      return start_gemm<Config<Consumers::ping_pong, 128>>(a, b, epilogue, d, m, n, k, clusters);
    case TwinKernel::cluster:
      return start_gemm<Config<Consumers::cooperative, 128, ClusterShape<2, 1>>>(a, b, epilogue, d, m, n, k, clusters);
  }
}
