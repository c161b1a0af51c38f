// Chapter 07: boxes of a matrix, brought to shared memory by TMA; and a matrix product that is made of
// them.
#include <cuda/ptx>

#include "launches.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/tile_payload.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

// ---- 1. A box -------------------------------------------------------------------------------------------------------

//! [describe]
/// Describes to TMA a row-major matrix of floats, and the box that each copy brings.
CUtensorMap describe_matrix(const float* matrix, uint64_t rows, uint64_t columns, uint32_t box_rows,
                            uint32_t box_columns) {
  const TensorMapDimension along_a_row{.extent = columns, .box = box_columns};
  const TensorMapDimension down_the_rows{.extent = rows, .stride = columns * sizeof(float), .box = box_rows};
  return make_tensor_map(matrix, {along_a_row, down_the_rows});
}
//! [describe]

//! [copy_box]
/// Asks for a copy of the box that begins at (row, column) of the map's matrix. Called by one thread.
/// @param to  a multiple of 128, in shared memory.
__device__ void copy_box(void* to, const CUtensorMap* map, int row, int column, MbarPtr barrier) {
  cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, map, {column, row}, barrier);
}
//! [copy_box]

/// One warp brings the box that begins at (row, column) of the matrix, and writes it to `out`.
__global__ void __launch_bounds__(kWarpSize)
    copy_one_box(const __grid_constant__ CUtensorMap map, int row, int column, float* out) {
  __shared__ alignas(128) float box[kBoxRows][kBoxColumns];
  __shared__ uint64_t full;

  if (elect_one()) {
    init_barrier(&full, /*arrive_count=*/1);
    fence_barrier_init();
  }
  __syncwarp();

  //! [copy]
  if (elect_one()) {
    expect_bytes(&full, sizeof box);  // all of the box, also the part outside the matrix
    copy_box(box, &map, row, column, &full);
  }
  wait(&full, /*parity=*/0);
  //! [copy]

  for (int r = 0; r < kBoxRows; ++r) out[r * kBoxColumns + lane_index()] = box[r][lane_index()];
}

// ---- 2. A swizzled tile ---------------------------------------------------------------------------------------------

/// The bytes that a lane reads at once.
struct alignas(16) Chunk {
  uint32_t words[4];
};

//! [chunk_at]
/// Chunk `chunk` of row `row` of a tile whose rows are 128 bytes long and swizzled by 128 bytes.
/// @param tile  begins at a multiple of 1024.
__device__ Chunk chunk_at(const void* tile, int row, int chunk) {
  constexpr int kChunksPerRow = 8;
  return static_cast<const Chunk*>(tile)[row * kChunksPerRow + (chunk ^ (row % kChunksPerRow))];
}
//! [chunk_at]

/// One warp brings a tile; each lane reads a row of it and writes that to `out`.
__global__ void __launch_bounds__(kWarpSize) read_rows(const __grid_constant__ CUtensorMap map, Chunk* out) {
  __shared__ alignas(1024) float tile[kTileRows][kBoxColumns];
  __shared__ uint64_t full;

  if (elect_one()) {
    init_barrier(&full, /*arrive_count=*/1);
    fence_barrier_init();
    expect_bytes(&full, sizeof tile);
    copy_box(tile, &map, /*row=*/0, /*column=*/0, &full);
  }
  __syncwarp();
  wait(&full, /*parity=*/0);

  constexpr int kChunks = sizeof tile[0] / sizeof(Chunk);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    out[lane_index() * kChunks + chunk] = chunk_at(tile, lane_index(), chunk);
  }
}

// ---- 3. Tiles of two matrices in the stages of a ring ---------------------------------------------------------------

//! [payload]
constexpr int kStages = 3;
using ATile = Tile<__nv_bfloat16, kTileM, kTileK, Swizzle::bytes_128>;
using BTile = Tile<__nv_bfloat16, kTileN, kTileK, Swizzle::bytes_128>;
using Payload = StandardTilePayload<ATile, BTile, kStages>;
//! [payload]

/// Four warps multiply, one row of the tile in each of their lanes; a fifth asks for the copies of tiles.
constexpr int kRowWarps = kTileM / kWarpSize;
constexpr int kThreads = (kRowWarps + 1) * kWarpSize;

/// What a warp does.
enum class Role { multiply, copy };

/// The calling warp's role: the last warp asks for the copies of tiles, the others multiply. Called by a whole warp.
__device__ Role warp_role() { return warp_index() == kRowWarps ? Role::copy : Role::multiply; }

/// The sum of the products of two times eight numbers.
__device__ float dot(const Chunk& a, const Chunk& b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 x = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(a.words[i]));
    const float2 y = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(b.words[i]));
    sum += x.x * y.x + x.y * y.y;
  }
  return sum;
}

/// Adds the products of a chunk of a row of A with the same chunk of every row of B.
__device__ void add_products(float (&sums)[kTileN], const Chunk& of_a, const BTile& b, int chunk) {
#pragma unroll
  for (int column = 0; column < kTileN; ++column) sums[column] += dot(of_a, chunk_at(&b, column, chunk));
}

/// One block computes a tile of C of kTileM x kTileN elements; block x goes down the rows of C, block y along its
/// columns.
__global__ void __launch_bounds__(kThreads)
    multiply(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float* c, int m,
             int n, int k) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ uint64_t barriers[2 * kStages];

  const Payload payload{reinterpret_cast<Payload::Storage&>(dynamic_shared_memory)};
  ProducerConsumerPipeline<kStages> ring{barriers};
  const int first_row = blockIdx.x * kTileM;
  const int first_column = blockIdx.y * kTileN;
  const int k_tiles = (k + kTileK - 1) / kTileK;

  if (threadIdx.x == 0) {
    ring.init_mbars(/*producer_arrive_count=*/1,                       // the copying lane, which announces the bytes
                    /*consumer_arrive_count=*/kRowWarps * kWarpSize);  // every lane that has read the tiles
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::copy:
      //! [producer]
      if (elect_one()) {
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
          auto stage = ring.acquire_producer();
          const auto [a, b] = payload.tile(stage.index());
          expect_bytes(stage.mbar(), Payload::bytes_per_tile);
          copy_tile(a, a_map, first_row, k_tile * kTileK, stage.mbar());
          copy_tile(b, b_map, first_column, k_tile * kTileK, stage.mbar());
          std::move(stage).release();  // steps only; the bytes signal: stage full
        }
      }
      //! [producer]
      break;

    case Role::multiply:
      //! [consumer]
      const int row = threadIdx.x;
      float sums[kTileN] = {};
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        auto stage = ring.acquire_consumer();
        const auto [a, b] = payload.tile(stage.index());
        for (int chunk = 0; chunk < 8; ++chunk) add_products(sums, chunk_at(&a, row, chunk), b, chunk);
        std::move(stage).release();  // signals: stage empty, for this lane; not before the last read above
      }
      //! [consumer]
      for (int column = 0; column < kTileN; ++column) {
        if (first_row + row < m && first_column + column < n) {
          c[static_cast<int64_t>(first_row + row) * n + first_column + column] = sums[column];
        }
      }
      break;
  }
}

// ---- What the test calls --------------------------------------------------------------------------------------------

void launch_copy_box(const float* matrix, int rows, int columns, int row, int column, float* out) {
  const CUtensorMap map = describe_matrix(matrix, rows, columns, kBoxRows, kBoxColumns);
  copy_one_box<<<1, kWarpSize>>>(map, row, column, out);
}

void launch_read_rows(const float* matrix, float* out) {
  const CUtensorMap map = make_matrix_map(matrix, kTileRows, kBoxColumns, kTileRows, kBoxColumns, Swizzle::bytes_128);
  read_rows<<<1, kWarpSize>>>(map, reinterpret_cast<Chunk*>(out));
}

void launch_multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n, int k) {
  //! [maps]
  const CUtensorMap a_map = make_tile_map<ATile>(a, m, k);
  const CUtensorMap b_map = make_tile_map<BTile>(b, n, k);
  //! [maps]
  constexpr int kSharedBytes = sizeof(Payload::Storage);
  cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  const dim3 tiles((m + kTileM - 1) / kTileM, (n + kTileN - 1) / kTileN);
  multiply<<<tiles, kThreads, kSharedBytes>>>(a_map, b_map, c, m, n, k);
}
