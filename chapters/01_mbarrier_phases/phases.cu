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
    // TODO 1: how many arrivals end a phase of this barrier?
    init_barrier(&written, /*arrive_count=*/2);
    fence_barrier_init();
  }
  __syncthreads();  // no thread touches a barrier that is not initialised yet

  if (warp_index() == 0) {
    table[lane_index()] = in[lane_index()];
    // TODO 2: say that this lane has written.
  } else {
    // TODO 3: wait until every lane of warp 0 has written.
    out[lane_index()] = table[kWarpSize - 1 - lane_index()];
  }
}

// ---- 4 and 5: a warp and TMA ----------------------------------------------------------------------------------------

/// TMA brings a row, and a warp adds it up.
__global__ void __launch_bounds__(kWarpSize) sum_row(const uint32_t* in, uint32_t* sum) {
  __shared__ alignas(128) uint32_t tile[kRow];
  __shared__ uint64_t full;

  if (threadIdx.x == 0) {
    init_barrier(&full, /*arrive_count=*/1);
    fence_barrier_init();
  }
  __syncthreads();

  if (elect_one()) {
    // TODO 4: announce the bytes of the row at `full`, then ask for the copy.
    (void)in;
  }
  __syncwarp();
  // TODO 5: all lanes wait until the row has arrived.

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

  for (int row = 0; row < rows; ++row) {
    if (warp_index() == 0) {
      if (elect_one()) {
        expect_bytes(&full, sizeof tile);
        copy_bulk(tile, in + row * kRow, sizeof tile, &full);
      }
    } else {
      // TODO 6: wait for the phase that this row's copy ends. With which parity?
      wait(&full, /*parity=*/0);
      uint32_t mine = 0;
      for (int i = lane_index(); i < kRow; i += kWarpSize) mine += tile[i];
      const uint32_t all = __reduce_add_sync(0xffffffff, mine);
      if (elect_one()) sums[row] = all;
    }
    __syncthreads();  // the tile has been read: it may be overwritten
  }
}

// ---- What the test calls --------------------------------------------------------------------------------------------

void launch_mirror(const uint32_t* in, uint32_t* out) { mirror<<<1, kThreads>>>(in, out); }

void launch_sum_row(const uint32_t* in, uint32_t* sum) { sum_row<<<1, kWarpSize>>>(in, sum); }

void launch_sum_rows(const uint32_t* in, int rows, uint32_t* sums) { sum_rows<<<1, kThreads>>>(in, rows, sums); }
