// Starts the answer's kernel, and its parts on their own.
#include <gemm.cuh>

#include "gemm_launch.cuh"
#include "launches.hpp"
#include "stagecraft/epilogue_operations.hpp"
#include "stagecraft/launch_control.hpp"

using namespace stagecraft;

namespace {

using Bf16 = __nv_bfloat16;
using Bias = Epilogue<AddPerColumn<float>>;
using TwinConfig = Config<Bf16>;

// ---- Fragments ------------------------------------------------------------------------------------------------------

/// Fills a tile with a matrix of its size. Called by one warp.
template <typename T>
__device__ void fill(T& tile, const Bf16* matrix) {
  for (int i = lane_index(); i < T::rows * T::columns; i += kWarpSize) {
    tile.at(i / T::columns, i % T::columns) = matrix[i];
  }
}

template <typename T>
__global__ void __launch_bounds__(kWarpSize) load_known(const Bf16* a, const Bf16* b, KnownFragments* found) {
  __shared__ T a_tile, b_tile;
  fill(a_tile, a);
  fill(b_tile, b);
  __syncwarp();
  for (int slice = 0; slice < kKnownSlices; ++slice) {
    Fragments<kLoadedRows, kLoadedRows> fragments{};
    fragments.load(a_tile, kFirstOfA, b_tile, kFirstOfB, slice);
    KnownFragments& to = found[slice * kWarpSize + lane_index()];
    for (int i = 0; i < kLoadedRows / 16; ++i) {
      for (int j = 0; j < 4; ++j) to.a[i][j] = fragments.a[i][j], to.b[i][j] = fragments.b[i][j];
    }
  }
}

__global__ void __launch_bounds__(kWarpSize) multiply_known(const Bf16* a, const Bf16* b, float* out, float first) {
  constexpr int kRows = 32;
  __shared__ Tile<Bf16, kRows, kKnownColumns> a_tile, b_tile;
  fill(a_tile, a);
  fill(b_tile, b);
  __syncwarp();
  WarpSums<kRows, kRows> sums;
  for (auto& rows : sums.of) {
    for (auto& eight : rows) eight[0] = eight[1] = eight[2] = eight[3] = first;
  }
  for (int slice = 0; slice < kKnownSlices; ++slice) {
    Fragments<kRows, kRows> fragments{};
    fragments.load(a_tile, 0, b_tile, 0, slice);
    multiply<Bf16>(sums, fragments);
  }
  const int lane = static_cast<int>(lane_index());
  for (int i = 0; i < kRows / 16; ++i) {
    for (int j = 0; j < kRows / 8; ++j) {
      for (int k = 0; k < 4; ++k) {
        out[(16 * i + lane / 4 + k / 2 * 8) * kRows + 8 * j + lane % 4 * 2 + k % 2] = sums.of[i][j][k];
      }
    }
  }
}

// ---- The writer -----------------------------------------------------------------------------------------------------

using KnownWriter = RegisterWriter<TwinConfig>;

__global__ void __launch_bounds__(TwinConfig::warps* kWarpSize)
    write_known(const __grid_constant__ KnownWriter::Map map, Bias bias, int m, int n, int tiles) {
  __shared__ TwinConfig::Payload::Output slices;
  const WarpPlace warp = warp_place<TwinConfig>();
  const int lane = static_cast<int>(lane_index());
  KnownWriter writer{map};
  for (int tile = 0; tile < tiles; ++tile) {
    const TilePlace place{.row = tile * TwinConfig::tile_m, .row_end = m, .column_end = n};
    KnownWriter::Sums sums;
    for (int i = 0; i < KnownWriter::Sums::rows / 16; ++i) {
      for (int j = 0; j < KnownWriter::Sums::columns / 8; ++j) {
        for (int k = 0; k < 4; ++k) {
          const int row = place.row + warp.row + 16 * i + lane / 4 + k / 2 * 8;
          const int column = warp.column + 8 * j + lane % 4 * 2 + k % 2;
          sums.of[i][j][k] = static_cast<float>((row + 3 * column) % 251);
        }
      }
    }
    writer.write(sums, slices, place, bias);
    writer.wait_until_read();
  }
}

}  // namespace

void launch_load_known(const Bf16* a, const Bf16* b, KnownFragments* found, bool plain) {
  const auto kernel = plain ? load_known<PlainTile<Bf16, kKnownRows, kKnownColumns>>
                            : load_known<Tile<Bf16, kKnownRows, kKnownColumns>>;
  kernel<<<1, kWarpSize>>>(a, b, found);
  harness::check(cudaGetLastError(), "launch load_known");
}

void launch_multiply_known(const Bf16* a, const Bf16* b, float* sums, float first) {
  multiply_known<<<1, kWarpSize>>>(a, b, sums, first);
  harness::check(cudaGetLastError(), "launch multiply_known");
}

void launch_write_known(Bf16* d, const float* bias, int m, int n, int tiles) {
  const uint64_t stride = static_cast<uint64_t>(n) * sizeof(Bf16);
  const auto map = make_batched_tile_map<KnownWriter::Slice>(d, m, n, stride, /*batches=*/1, m * stride);
  write_known<<<1, TwinConfig::warps * kWarpSize>>>(map, Bias{AddPerColumn<float>{{bias}}}, m, n, tiles);
  harness::check(cudaGetLastError(), "launch write_known");
}

void launch_gemm(Schedule schedule, const Bf16* a, const Bf16* b, const float* bias, Bf16* d, int m, int n, int k,
                 uint32_t blocks) {
  const Bias epilogue{AddPerColumn<float>{{bias}}};
  switch (schedule) {
    case Schedule::before_launch:
      return start_gemm<TwinConfig, StaticScheduler<WholeTiles<>>>(a, b, epilogue, d, m, n, k, blocks);
    case Schedule::launch_control:
      return start_gemm<TwinConfig, LaunchControlScheduler<WholeTiles<>>>(a, b, epilogue, d, m, n, k, blocks);
  }
}
