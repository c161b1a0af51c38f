// Chapter 01: one mbarrier. Two warps meet at it, then TMA and a warp, then again and again.
#include "launches.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

constexpr int kThreads = 2 * kWarpSize;

// ---- 1 to 3: two warps and one phase --------------------------------------------------------------------------------

/// Warp 0 writes a table, warp 1 reads it backwards.
__global__ void __launch_bounds__(kThreads) mirror(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t table[kWarpSize];
  __shared__ uint64_t written;  // completes its phase 0 when every lane of warp 0 has written

  if (threadIdx.x == 0) {
    init_barrier(&written, /*arrive_count=*/kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();

  //! [mirror]
  if (warp_index() == 0) {
    table[lane_index()] = in[lane_index()];
    arrive(&written);
  } else {
    wait(&written, /*parity=*/0);
    out[lane_index()] = table[kWarpSize - 1 - lane_index()];
  }
  //! [mirror]
}

// ---- 4 and 5: a warp and TMA ----------------------------------------------------------------------------------------

/// TMA brings a row, and a warp adds it up.
__global__ void __launch_bounds__(kWarpSize) sum_row(const uint32_t* in, uint32_t* sum) {
  __shared__ alignas(128) uint32_t tile[kRow];
  //! [init]
  __shared__ uint64_t full;

  if (threadIdx.x == 0) {
    init_barrier(&full, /*arrive_count=*/1);
    fence_barrier_init();
  }
  __syncthreads();  // no thread touches a barrier that is not initialised yet
  //! [init]

  //! [copy]
  if (elect_one()) {
    expect_bytes(&full, sizeof tile);
    copy_bulk(tile, in, sizeof tile, &full);
  }
  __syncwarp();
  wait(&full, /*parity=*/0);
  //! [copy]

  uint32_t mine = 0;
  for (int i = lane_index(); i < kRow; i += kWarpSize) mine += tile[i];
  const uint32_t all = __reduce_add_sync(0xffffffff, mine);
  if (elect_one()) *sum = all;
}

// ---- 6: the same barrier, again and again ---------------------------------------------------------------------------

/// Warp 0 asks for a copy of one row after the other into the same tile, warp 1 adds them up.
__global__ void __launch_bounds__(kThreads) sum_rows(const uint32_t* in, int rows, uint32_t* sums) {
  __shared__ alignas(128) uint32_t tile[kRow];
  __shared__ uint64_t full;

  if (threadIdx.x == 0) {
    init_barrier(&full, /*arrive_count=*/1);
    fence_barrier_init();
  }
  __syncthreads();

  //! [rows]
  for (int row = 0; row < rows; ++row) {
    if (warp_index() == 0) {
      if (elect_one()) {
        expect_bytes(&full, sizeof tile);
        copy_bulk(tile, in + row * kRow, sizeof tile, &full);
      }
    } else {
      wait(&full, /*parity=*/row % 2);
      uint32_t mine = 0;
      for (int i = lane_index(); i < kRow; i += kWarpSize) mine += tile[i];
      const uint32_t all = __reduce_add_sync(0xffffffff, mine);
      if (elect_one()) sums[row] = all;
    }
    __syncthreads();  // the tile has been read: it may be overwritten
  }
  //! [rows]
}

// ---- What the test calls --------------------------------------------------------------------------------------------

void launch_mirror(const uint32_t* in, uint32_t* out) { mirror<<<1, kThreads>>>(in, out); }

void launch_sum_row(const uint32_t* in, uint32_t* sum) { sum_row<<<1, kWarpSize>>>(in, sum); }

void launch_sum_rows(const uint32_t* in, int rows, uint32_t* sums) { sum_rows<<<1, kThreads>>>(in, rows, sums); }
