// Chapter 05: the three scopes. produce() and consume() in one block; consume_explicit() in a cluster, where a stage is
// free only when every block of the cluster says so.
#include "launches.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

/// What a warp does.
enum class Role { produce, consume };

/// The calling warp's role: warp 0 produces, warp 1 consumes. Called by a whole warp.
__device__ Role warp_role() { return warp_index() == 0 ? Role::produce : Role::consume; }

/// The sum of a row in shared memory, in every lane. Called by a whole warp; all its reads are over when it returns.
__device__ float sum_of_row(const float* row) {
  float sum = 0;
  for (int i = lane_index(); i < kRow; i += kWarpSize) sum += row[i];
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  return sum;
}

// ---- 1 and 2. produce() and consume() -------------------------------------------------------------------------------

/// One block: a lane copies the rows of `in` into a ring, a warp adds up those that begin with a number >= 0.
__global__ void __launch_bounds__(2 * kWarpSize) sum_positive_rows(const float* in, float* sums, int rows) {
  __shared__ alignas(128) float tile[kStages][kRow];
  __shared__ uint64_t barriers[2 * kStages];
  ProducerConsumerPipeline<kStages> ring{barriers};

  if (threadIdx.x == 0) {
    ring.init_mbars(/*producer_arrive_count=*/1, /*consumer_arrive_count=*/kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::produce:
      if (elect_one()) {
        for (int row = 0; row < rows; ++row) {
          ring.produce([&](auto& stage) {
            expect_bytes(stage.mbar(), sizeof tile[0]);
            copy_bulk(tile[stage.index()], in + row * kRow, sizeof tile[0], stage.mbar());
          });  // steps only; the bytes signal: stage full
        }
      }
      break;

    case Role::consume:
      for (int row = 0; row < rows; ++row) {
        float sum = 0;
        {
          auto stage = ring.consume();
          if (tile[stage.index()][0] < 0) {
            if (lane_index() == 0) sums[row] = 0;
            continue;
          }
          sum = sum_of_row(tile[stage.index()]);
        }  // signals: stage empty, for this lane
        if (lane_index() == 0) sums[row] = sum;
      }
      break;
  }
}

// ---- 3. consume_explicit() in a cluster -----------------------------------------------------------------------------

//! [copy_slices]
/// Brings this block's slice of each row to all blocks of the cluster. Called by one lane of each block.
__device__ void copy_slices(ProducerConsumerPipeline<kStages>& ring, float (*tile)[kRow], const float* in, int rows) {
  constexpr int kSlice = kRow / kClusterSize;
  const int first = kSlice * block_rank();
  constexpr uint16_t kAllBlocks = (1 << kClusterSize) - 1;
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.produce<Scope::cluster>();  // free in *all* blocks: the copy writes into each of them
    expect_bytes(stage.mbar(), sizeof tile[0]);
    copy_bulk_to_blocks(tile[stage.index()] + first, in + row * kRow + first, kSlice * sizeof(float), stage.mbar(),
                        kAllBlocks);
  }  // steps only; the slices of all blocks signal: stage full
}
//! [copy_slices]

/// A cluster: each block copies its slice of every row to all blocks, and each block adds up all the rows.
__global__ void __cluster_dims__(kClusterSize) __launch_bounds__(2 * kWarpSize)
    sum_rows_in_cluster(const float* in, float* sums, int rows) {
  __shared__ alignas(128) float tile[kStages][kRow];
  __shared__ uint64_t barriers[2 * kStages];
  ProducerConsumerPipeline<kStages> ring{barriers};

  if (threadIdx.x == 0) {
    ring.init_mbars(/*producer_arrive_count=*/1,              // this block's copying lane, which announces a whole row
                    /*consumer_arrive_count=*/kClusterSize);  // one lane of the adding warp of each block
    fence_barrier_init();
  }
  sync_cluster();  // no block may copy into another, or arrive there, before its barriers are ready

  switch (warp_role()) {
    case Role::produce:
      if (elect_one()) copy_slices(ring, tile, in, rows);
      break;

    case Role::consume:
      for (int row = 0; row < rows; ++row) {
        auto stage = ring.consume_explicit();
        const float sum = sum_of_row(tile[stage.index()]);
        __syncwarp();  // all lanes have read, before some arrive for them
        if (lane_index() < kClusterSize) arrive_at_block(stage.mbar(), lane_index());
        if (lane_index() == 0) sums[block_rank() * rows + row] = sum;
      }  // steps only; a lane of each block signals: stage empty
      break;
  }
  sync_cluster();  // a block stays until the last arrival from another block has been made
}

// ---- What the test calls --------------------------------------------------------------------------------------------

void launch_sum_positive_rows(const float* in, float* sums, int rows) {
  sum_positive_rows<<<1, 2 * kWarpSize>>>(in, sums, rows);
}

void launch_sum_rows_in_cluster(const float* in, float* sums, int rows) {
  sum_rows_in_cluster<<<kClusterSize, 2 * kWarpSize>>>(in, sums, rows);
}
