// Right kernels that do things in an unusual way. Nothing may be reported about them, with any seed.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/ptx>
#include <vector>

#include "rows_test.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

namespace {

using namespace stagecraft;

// ---- Rings ----------------------------------------------------------------------------------------------------------

/// One elected lane waits for its warp, the others learn of it by a __syncwarp().
template <int Stages>
__global__ void ring_of_elected_waits(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ alignas(128) uint32_t tile[Stages][kRow];
  __shared__ uint64_t full[Stages], empty[Stages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < Stages; ++i) init_barrier(&full[i], 1), init_barrier(&empty[i], 1);
    fence_barrier_init();
  }
  __syncthreads();
  for (int row = 0; row < rows; ++row) {
    const int stage = row % Stages;
    const uint32_t round = row / Stages % 2;
    if (warp_index() == 0) {
      if (elect_one()) {
        while (!try_wait(&empty[stage], round ^ 1)) __nanosleep(20);
        expect_bytes(&full[stage], sizeof tile[0]);
        copy_bulk(tile[stage], in + row * kRow, sizeof tile[0], &full[stage]);
      }
    } else {
      if (lane_index() == 7) wait(&full[stage], round);
      __syncwarp();
      const uint32_t sum = sum_of_row(tile[stage]);
      __syncwarp();
      if (lane_index() == 3) {
        out[row] = sum;
        arrive(&empty[stage]);
      }
    }
  }
}

/// The two warps copy and add in turns: who added a row copies the next.
__global__ void roles_that_swap(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ alignas(128) uint32_t tile[2][kRow];
  __shared__ uint64_t full[2];
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : full) init_barrier(&barrier, 1);
    fence_barrier_init();
  }
  __syncthreads();
  for (int row = 0; row < rows; ++row) {
    const int stage = row % 2;
    if (static_cast<int>(warp_index()) == stage && elect_one()) {
      expect_bytes(&full[stage], sizeof tile[0]);
      copy_bulk(tile[stage], in + row * kRow, sizeof tile[0], &full[stage]);
    }
    if (static_cast<int>(warp_index()) != stage) {
      uint32_t delay = 8;
      while (!test_wait(&full[stage], row / 2 % 2)) __nanosleep(delay = delay < 256 ? 2 * delay : delay);
      const uint32_t sum = sum_of_row(tile[stage]);
      if (lane_index() == 0) out[row] = sum;
    }
    __syncthreads();
  }
}

/// Named barriers in place of mbarriers: the writer only arrives at one, and waits at the other.
__global__ void ring_of_named_barriers(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ uint32_t tile[2][kRow];
  for (int row = 0; row < rows; ++row) {
    const int stage = row % 2, full = 1 + stage, empty = 3 + stage;
    if (warp_index() == 0) {
      if (row >= 2) asm volatile("barrier.sync %0, 64;" ::"r"(empty) : "memory");
      for (int i = lane_index(); i < kRow; i += kWarpSize) tile[stage][i] = in[row * kRow + i];
      asm volatile("barrier.arrive %0, 64;" ::"r"(full) : "memory");
    } else {
      asm volatile("barrier.sync %0, 64;" ::"r"(full) : "memory");
      const uint32_t sum = sum_of_row(tile[stage]);
      if (lane_index() == 0) out[row] = sum;
      if (row + 2 < rows) asm volatile("barrier.arrive %0, 64;" ::"r"(empty) : "memory");
    }
  }
}

/// cp.async, whose ends arrive at an mbarrier: each counts as the arrival of its thread.
__global__ void copies_that_arrive(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ uint32_t tile[kRow];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) init_barrier(&full, kWarpSize);
  __syncthreads();
  for (int row = 0; row < rows; ++row) {
    for (int i = lane_index(); i < kRow; i += kWarpSize) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(&tile[i])), "l"(in + row * kRow + i)
                   : "memory");
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full)) : "memory");
    wait(&full, row % 2);
    const uint32_t sum = sum_of_row(tile);
    __syncwarp();
    if (lane_index() == 0) out[row] = sum;
  }
}

__global__ void barriers_of_libcu(const uint32_t* in, uint32_t* out, int rows) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ uint32_t tile[kRow];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier written, read;
  if (threadIdx.x == 0) {
    init(&written, 64);
    init(&read, 64);
  }
  __syncthreads();
  for (int row = 0; row < rows; ++row) {
    tile[threadIdx.x] = in[row * kRow + threadIdx.x];
    written.wait(written.arrive());
    if (warp_index() == 1) {
      const uint32_t sum = sum_of_row(tile);
      if (lane_index() == 0) out[row] = sum;
    }
    read.arrive_and_wait();
  }
}

// ---- Shared memory --------------------------------------------------------------------------------------------------

/// A sum by lanes of which some find nothing to read, and a block whose last warp is not full.
__global__ void sum_of_a_partial_block(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t sums[kWarpSize];
  const uint32_t lanes = blockDim.x - threadIdx.x / kWarpSize * kWarpSize;
  const uint32_t mask = lanes >= kWarpSize ? kAll : (1u << lanes) - 1;
  uint32_t sum = in[threadIdx.x];
  for (uint32_t distance = 16; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_down_sync(mask, sum, distance);
    if (threadIdx.x % kWarpSize + distance < lanes) sum += other;
  }
  if (threadIdx.x % kWarpSize == 0) sums[threadIdx.x / kWarpSize] = sum;
  __syncthreads();
  if (threadIdx.x < kWarpSize) {
    const uint32_t warps = (blockDim.x + kWarpSize - 1) / kWarpSize;
    const uint32_t mine = sums[threadIdx.x];  // the last lanes do not use what they read
    const uint32_t all = __reduce_add_sync(kAll, threadIdx.x < warps ? mine : 0);
    if (threadIdx.x == 0) *out = all;
  }
}

/// Lanes leave early; those that stay name all of the warp, as they may.
__global__ void lanes_that_leave(const uint32_t* in, uint32_t* out) {
  if (threadIdx.x >= 20) return;
  const uint32_t sum = __reduce_add_sync(kAll, in[threadIdx.x]);
  __syncwarp();
  if (threadIdx.x == 0) *out = sum;
}

/// The same bytes hold a table, then a barrier, then a table again.
__global__ void bytes_of_many_uses(const uint32_t* in, uint32_t* out) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto* table = reinterpret_cast<uint32_t*>(bytes);
  auto* barrier = reinterpret_cast<uint64_t*>(bytes);
  table[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  const uint32_t mirrored = table[blockDim.x - 1 - threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) init_barrier(barrier, blockDim.x);
  __syncthreads();
  arrive(barrier);
  wait(barrier, 0);
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
  __syncthreads();
  table[threadIdx.x] = mirrored;
  __syncthreads();
  out[threadIdx.x] = table[threadIdx.x ^ 1];
}

/// A flag in shared memory that one warp sets and the other polls.
__global__ void flag_in_shared_memory(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t value, flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  cuda::atomic_ref<uint32_t, cuda::thread_scope_block> ready(flag);
  if (threadIdx.x == kWarpSize) {
    value = in[5];
    ready.store(1, cuda::memory_order_release);
  } else if (threadIdx.x == 0) {
    while (ready.load(cuda::memory_order_acquire) == 0) __nanosleep(10);
    *out = value;
  }
}

// ---- Clusters -------------------------------------------------------------------------------------------------------

/// Each of four blocks brings a quarter of the row to all four.
__global__ void __cluster_dims__(4) multicast_of_four(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ alignas(128) uint32_t tile[kRow];
  __shared__ uint64_t full, empty;
  const uint32_t rank = block_rank();
  if (threadIdx.x == 0) {
    init_barrier(&full, 1);
    init_barrier(&empty, 4);
    fence_barrier_init();
  }
  sync_cluster();
  for (int row = 0; row < rows; ++row) {
    if (threadIdx.x == 0) {
      wait<Scope::cluster>(&empty, row % 2 ^ 1);
      expect_bytes(&full, sizeof tile);
      copy_bulk_to_blocks(tile + rank * 16, in + row * kRow + rank * 16, 64, &full, 0b1111);
    }
    __syncwarp();
    wait<Scope::cluster>(&full, row % 2);
    const uint32_t sum = sum_of_row(tile);
    __syncwarp();
    if (lane_index() < 4) arrive_at_block(&empty, lane_index());
    if (lane_index() == 0) out[rank * rows + row] = sum;
  }
  sync_cluster();
}

/// Each block writes into its neighbour's shared memory, and says so at a barrier there.
__global__ void __cluster_dims__(2) stores_into_the_neighbour(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t table[kWarpSize];
  __shared__ uint64_t written;
  if (threadIdx.x == 0) {
    init_barrier(&written, kWarpSize);
    fence_barrier_init();
  }
  sync_cluster();
  const uint32_t other = block_rank() ^ 1;
  auto* there = static_cast<uint32_t*>(__cluster_map_shared_rank(table, other));
  there[threadIdx.x] = in[blockIdx.x * kWarpSize + threadIdx.x];
  arrive_at_block(&written, other);
  wait<Scope::cluster>(&written, 0);
  out[blockIdx.x * kWarpSize + threadIdx.x] = table[kWarpSize - 1 - threadIdx.x];
  sync_cluster();
}

// ---- Grids ----------------------------------------------------------------------------------------------------------

__global__ void last_block_adds(const uint32_t* in, uint32_t* parts, uint32_t* done, uint32_t* out) {
  __shared__ bool is_last;
  const uint32_t sum = __reduce_add_sync(kAll, in[blockIdx.x * kWarpSize + threadIdx.x]);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicAdd(done, 1) == gridDim.x - 1;
    __threadfence();  // this thread has read the count; the barrier hands on to others what it acquires so
  }
  __syncthreads();
  if (!is_last) return;
  const uint32_t part = threadIdx.x < gridDim.x ? parts[threadIdx.x] : 0;
  const uint32_t all = __reduce_add_sync(kAll, part);
  if (threadIdx.x == 0) *out = all;
}

__global__ void grid_in_step(uint32_t* values) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  const uint32_t me = blockIdx.x * blockDim.x + threadIdx.x, count = gridDim.x * blockDim.x;
  for (int round = 0; round < 3; ++round) {
    const uint32_t next = values[(me + 1) % count];
    grid.sync();
    values[me] = next;
    grid.sync();
  }
}

// ---- Stores by TMA --------------------------------------------------------------------------------------

/// Two buffers; before one is filled again, the store from it has been read.
__global__ void staged_stores(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ alignas(128) uint32_t buffers[2][kRow];
  for (int row = 0; row < rows; ++row) {
    uint32_t* const buffer = buffers[row % 2];
    if (lane_index() == 0) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<1>{});
    __syncwarp();
    for (int i = lane_index(); i < kRow; i += kWarpSize) buffer[i] = 3 * in[row * kRow + i];
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    if (lane_index() == 0) {
      cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out + row * kRow, buffer,
                               sizeof buffers[0]);
      cuda::ptx::cp_async_bulk_commit_group();
    }
  }
  if (lane_index() == 0) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
}

// ---- Tests ----------------------------------------------------------------------------------------------------------

class UnusualKernelsTest : public RowsTest {};

TEST_F(UnusualKernelsTest, RingsOfAnyDepthWithElectedWaits) {
  for (auto* kernel : {ring_of_elected_waits<1>, ring_of_elected_waits<2>, ring_of_elected_waits<3>,
                       ring_of_elected_waits<5>, ring_of_elected_waits<7>}) {
    kernel<<<1, 64>>>(in, out, kRows);
    expect_row_sums();
  }
}

TEST_F(UnusualKernelsTest, RolesThatSwap) {
  roles_that_swap<<<1, 64>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualKernelsTest, NamedBarriers) {
  ring_of_named_barriers<<<1, 64>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualKernelsTest, CopiesThatArrive) {
  copies_that_arrive<<<1, 32>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualKernelsTest, BarriersOfLibcu) {
  barriers_of_libcu<<<1, 64>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualKernelsTest, PartialBlocksAndLanesThatLeave) {
  for (const int threads : {7, 32, 48, 100}) {
    sum_of_a_partial_block<<<1, threads>>>(in, out);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(download(out, 1)[0], threads * (threads + 1) / 2u);
  }
  lanes_that_leave<<<1, 32>>>(in, out);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(download(out, 1)[0], 210u);
}

TEST_F(UnusualKernelsTest, BytesOfManyUsesAndFlags) {
  bytes_of_many_uses<<<1, 64, 64 * sizeof(uint32_t)>>>(in, out);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(download(out, 1)[0], 63u);
  flag_in_shared_memory<<<1, 64>>>(in, out);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(download(out, 1)[0], 6u);
}

TEST_F(UnusualKernelsTest, Clusters) {
  multicast_of_four<<<4, 32>>>(in, out, kRows);
  expect_row_sums(4);
  stores_into_the_neighbour<<<2, 32>>>(in, out);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(download(out, 64)[0], 64u);
  EXPECT_EQ(download(out, 64)[63], 1u);
}

TEST_F(UnusualKernelsTest, Grids) {
  auto* const parts = upload(std::vector<uint32_t>(16, 0));
  auto* const done = upload(std::vector<uint32_t>(1, 0));
  last_block_adds<<<16, 32>>>(in, parts, done, out);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(download(out, 1)[0], 512u * 513 / 2);
  void* arguments[] = {&in};
  ASSERT_EQ(cudaLaunchCooperativeKernel(grid_in_step, dim3(4), dim3(32), arguments, 0, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(download(in, 1)[0], 4u);
}

TEST_F(UnusualKernelsTest, StagedStores) {
  uint32_t* const tripled = upload(std::vector<uint32_t>(kRows * kRow, 0));
  staged_stores<<<1, 32>>>(in, tripled, kRows);
  expect_tripled(tripled);
}

}  // namespace
