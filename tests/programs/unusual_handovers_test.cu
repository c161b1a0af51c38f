// Right kernels that hand data over in an unusual way: a warp to itself, by a barrier whose count shrinks, through a
// queue in another block. Nothing may be reported about them, with any seed.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <numeric>
#include <vector>

#include "rows_test.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

namespace {

using namespace stagecraft;

// ---- One warp, one barrier ------------------------------------------------------------------------------------------

/// A warp copies ahead for itself: it knows that it has read a stage, so there is no empty barrier.
__global__ void copies_for_itself(const uint32_t* in, uint32_t* out, int rows) {
  constexpr int kStages = 3;
  __shared__ alignas(128) uint32_t tile[kStages][kRow];
  __shared__ uint64_t full[kStages];
  const auto copy = [&](int row) {
    const int stage = row % kStages;
    expect_bytes(&full[stage], sizeof tile[0]);
    copy_bulk(tile[stage], in + row * kRow, sizeof tile[0], &full[stage]);
  };
  if (lane_index() == 0) {
    for (uint64_t& barrier : full) init_barrier(&barrier, 1);
    fence_barrier_init();
    for (int row = 0; row < kStages - 1; ++row) copy(row);
  }
  __syncwarp();
  for (int row = 0; row < rows; ++row) {
    if (lane_index() == 0 && row + kStages - 1 < rows) copy(row + kStages - 1);  // into what was read a turn ago
    wait(&full[row % kStages], row / kStages % 2);
    const uint32_t sum = sum_of_row(tile[row % kStages]);
    if (lane_index() == 0) out[row] = sum;
    __syncwarp();  // all have read it: the next copy may go there
  }
}

/// One barrier of all threads is, phase by phase, "written" and "read"; who waits asks for the phase of its own token.
__global__ void phases_of_two_meanings(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ uint32_t tile[kRow];
  __shared__ uint64_t step;
  if (threadIdx.x == 0) init_barrier(&step, kRow);
  __syncthreads();
  for (int row = 0; row < rows; ++row) {
    tile[threadIdx.x] = in[row * kRow + threadIdx.x];
    const uint64_t written = cuda::ptx::mbarrier_arrive(&step);
    while (!cuda::ptx::mbarrier_try_wait(&step, written)) {
    }
    uint32_t sum = 0;
    if (warp_index() == row % 2u) sum = sum_of_row(tile);
    const uint64_t read = cuda::ptx::mbarrier_arrive(&step);  // the other warp has nothing to do before
    if (warp_index() == row % 2u && lane_index() == 0) out[row] = sum;
    while (!cuda::ptx::mbarrier_try_wait(&step, read)) {
    }
  }
}

/// Each round a thread fewer takes part: it drops out of the barrier's count, and the others go on without it.
__global__ void threads_that_drop_out(const uint32_t* in, uint32_t* out, int rows) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ uint32_t parts[kWarpSize];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier met;
  const uint32_t me = lane_index();
  if (warp_index() == 0 && me == 0) init(&met, kWarpSize + 1);  // a warp, and a thread of the other one
  __syncthreads();
  if (warp_index() == 1) {
    if (me != 0) return;
    for (int row = 0; row < rows; ++row) {
      met.arrive_and_wait();  // the parts are there
      uint32_t sum = 0;
      for (uint32_t i = row; i < kWarpSize; ++i) sum += parts[i];
      out[row] = sum;
      met.arrive_and_wait();  // they have been read
    }
    return;
  }
  for (int row = 0; row < rows; ++row) {
    parts[me] = in[row * kRow + me];
    met.arrive_and_wait();
    if (static_cast<int>(me) == row) {
      met.arrive_and_drop();
      return;
    }
    met.arrive_and_wait();
  }
}

// ---- Pipelines of libcu++ -------------------------------------------------------------------------------------------

/// cp.async in groups, each thread for all: two ahead of the one that is added.
__global__ void groups_of_cp_async(const uint32_t* in, uint32_t* out, int rows) {
  constexpr int kStages = 3;
  __shared__ uint32_t tile[kStages][kRow];
  const auto copy = [&](int row) {
    if (row < rows) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(&tile[row % kStages][threadIdx.x])),
                   "l"(in + row * kRow + threadIdx.x)
                   : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");  // an empty one at the end, to count as before
  };
  copy(0);
  copy(1);
  for (int row = 0; row < rows; ++row) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();  // this row is there for all, and the one before has been read by all
    copy(row + 2);
    if (warp_index() == row % 2u) {
      const uint32_t sum = sum_of_row(tile[row % kStages]);
      if (lane_index() == 0) out[row] = sum;
    }
  }
}

/// The same by cuda::pipeline, with roles: one warp copies, the other adds.
__global__ void pipeline_with_roles(const uint32_t* in, uint32_t* out, int rows) {
  constexpr int kStages = 2;
  using Roles = cuda::pipeline_role;
  const auto block = cooperative_groups::this_thread_block();
  __shared__ uint32_t tile[kStages][kRow];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  const Roles role = warp_index() == 0 ? Roles::producer : Roles::consumer;
  auto pipeline = cuda::make_pipeline(block, &state, role);
  for (int row = 0; row < rows; ++row) {
    uint32_t* const to = tile[row % kStages];
    if (role == Roles::producer) {
      pipeline.producer_acquire();
      for (int i = lane_index(); i < kRow; i += kWarpSize) {
        cuda::memcpy_async(to + i, in + row * kRow + i, sizeof *to, pipeline);
      }
      pipeline.producer_commit();
    } else {
      pipeline.consumer_wait();
      const uint32_t sum = sum_of_row(to);
      if (lane_index() == 0) out[row] = sum;
      pipeline.consumer_release();
    }
  }
}

/// Copies of a whole group of threads, whose end a cuda::barrier tells.
__global__ void group_that_copies(const uint32_t* in, uint32_t* out, int rows) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  const auto block = cooperative_groups::this_thread_block();
  __shared__ alignas(16) uint32_t tile[2][kRow];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier there[2];
  if (threadIdx.x < 2) init(&there[threadIdx.x], blockDim.x);
  __syncthreads();
  constexpr auto kBytes = cuda::aligned_size_t<16>(sizeof tile[0]);
  cuda::memcpy_async(block, tile[0], in, kBytes, there[0]);
  for (int row = 0; row < rows; ++row) {
    if (row + 1 < rows)
      cuda::memcpy_async(block, tile[(row + 1) % 2], in + (row + 1) * kRow, kBytes, there[(row + 1) % 2]);
    there[row % 2].arrive_and_wait();
    if (warp_index() == 0) {
      const uint32_t sum = sum_of_row(tile[row % 2]);
      if (lane_index() == 0) out[row] = sum;
    }
    block.sync();
  }
}

// ---- Clusters -------------------------------------------------------------------------------------------------------

__device__ uint32_t in_block(const void* pointer, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(rank));
  return address;
}

/// A queue of two rows in the second block, which the first fills by st.async; each store counts its bytes there.
__global__ void __cluster_dims__(2) queue_in_the_other_block(const uint32_t* in, uint32_t* out, int rows) {
  constexpr int kPlaces = 2;
  __shared__ alignas(16) uint32_t queue[kPlaces][kRow];
  __shared__ uint64_t full[kPlaces], empty[kPlaces];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kPlaces; ++i) init_barrier(&full[i], 1), init_barrier(&empty[i], 1);
    fence_barrier_init();
  }
  sync_cluster();
  for (int row = 0; row < rows; ++row) {
    const int place = row % kPlaces;
    const uint32_t round = row / kPlaces % 2;
    if (block_rank() == 0) {
      wait<Scope::cluster>(&empty[place], round ^ 1);
      for (int i = lane_index(); i < kRow; i += kWarpSize) {
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                         in_block(&queue[place][i], 1)),
                     "r"(in[row * kRow + i]), "r"(in_block(&full[place], 1))
                     : "memory");
      }
    } else {
      if (lane_index() == 0) expect_bytes(&full[place], sizeof queue[0]);
      wait<Scope::cluster>(&full[place], round);
      const uint32_t sum = sum_of_row(queue[place]);
      __syncwarp();
      if (lane_index() == 0) {
        out[row] = sum;
        arrive_at_block(&empty[place], 0);
      }
    }
  }
  sync_cluster();
}

/// Three blocks; row i goes to all of them but block i % 3, which brings it.
__global__ void __cluster_dims__(3) masks_that_change(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ alignas(128) uint32_t tile[kRow];
  __shared__ uint64_t full, empty;
  const uint32_t rank = block_rank();
  if (threadIdx.x == 0) {
    init_barrier(&full, 1);
    init_barrier(&empty, 2);
    fence_barrier_init();
  }
  sync_cluster();
  uint32_t received = 0, sent = 0;
  for (int row = 0; row < rows; ++row) {
    const uint32_t sender = row % 3;
    if (rank != sender && lane_index() == 0) {
      expect_bytes(&full, sizeof tile);
      arrive_at_block(&empty, sender);  // the tile may be filled: it was read before, by all lanes
    }
    __syncwarp();
    if (rank == sender) {
      if (lane_index() == 0) {
        wait<Scope::cluster>(&empty, sent++ % 2);
        copy_bulk_to_blocks(tile, in + row * kRow, sizeof tile, &full, 0b111 & ~(1 << rank));
      }
    } else {
      wait<Scope::cluster>(&full, received++ % 2);
      const uint32_t sum = sum_of_row(tile);
      if (lane_index() == 0) atomicAdd(&out[row], sum);
      __syncwarp();
    }
  }
  sync_cluster();
}

// ---- Reductions by TMA ----------------------------------------------------------------------------------

/// Each block adds its row to the result, in place.
__global__ void rows_that_add_up(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(128) uint32_t row[kRow];
  for (int i = lane_index(); i < kRow; i += kWarpSize) row[i] = in[blockIdx.x * kRow + i];
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  __syncwarp();
  if (lane_index() == 0) {
    cuda::ptx::cp_reduce_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, cuda::ptx::op_add, out, row,
                                    sizeof row);
    cuda::ptx::cp_async_bulk_commit_group();
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
  }
}

/// The blocks of a cluster add their rows in the shared memory of the first, which is told by the bytes.
__global__ void __cluster_dims__(4) rows_that_add_up_in_a_block(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(128) uint32_t row[kRow], sum[kRow];
  __shared__ uint64_t added;
  for (int i = lane_index(); i < kRow; i += kWarpSize) {
    row[i] = in[blockIdx.x * kRow + i];
    sum[i] = 0;
  }
  if (lane_index() == 0) {
    init_barrier(&added, 1);
    fence_barrier_init();
    if (block_rank() == 0) expect_bytes(&added, 4 * sizeof row);
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  sync_cluster();
  if (lane_index() == 0) {
    asm volatile(
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%0], [%1], %2, "
        "[%3];" ::"r"(in_block(sum, 0)),
        "r"(shared_address(row)), "n"(sizeof row), "r"(in_block(&added, 0))
        : "memory");
  }
  __syncwarp();
  if (block_rank() == 0) {
    wait<Scope::cluster>(&added, 0);
    for (int i = lane_index(); i < kRow; i += kWarpSize) out[i] = sum[i];
  }
  sync_cluster();
}

/// The warp that has copied a row into a stage also stores what the other one has made of it there.
__global__ void loader_that_stores(const uint32_t* in, uint32_t* out, int rows) {
  constexpr int kStages = 2;
  __shared__ alignas(128) uint32_t tile[kStages][kRow];
  __shared__ uint64_t full[kStages], made[kStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_barrier(&full[i], 1), init_barrier(&made[i], kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();
  if (warp_index() == 0) {
    if (!elect_one()) return;
    for (int row = 0; row < rows + kStages; ++row) {
      const int stage = row % kStages;
      if (row >= kStages) {
        wait(&made[stage], (row / kStages - 1) % 2);
        cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out + (row - kStages) * kRow,
                                 tile[stage], sizeof tile[0]);
        cuda::ptx::cp_async_bulk_commit_group();
      }
      if (row >= rows) continue;
      cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
      expect_bytes(&full[stage], sizeof tile[0]);
      copy_bulk(tile[stage], in + row * kRow, sizeof tile[0], &full[stage]);
    }
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
  } else {
    for (int row = 0; row < rows; ++row) {
      const int stage = row % kStages;
      wait(&full[stage], row / kStages % 2);
      for (int i = lane_index(); i < kRow; i += kWarpSize) tile[stage][i] *= 3;
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
      arrive(&made[stage]);
    }
  }
}

// ---- Tests ----------------------------------------------------------------------------------------------------------

class UnusualHandoversTest : public RowsTest {};

TEST_F(UnusualHandoversTest, AWarpThatCopiesForItself) {
  copies_for_itself<<<1, 32>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualHandoversTest, OneBarrierOfTwoMeanings) {
  phases_of_two_meanings<<<1, kRow>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualHandoversTest, ThreadsThatDropOut) {
  threads_that_drop_out<<<1, 64>>>(in, out, kRows);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const auto got = download(out, kRows);
  for (int row = 0; row < kRows; ++row) {
    const auto first = numbers.begin() + row * kRow;
    EXPECT_EQ(got[row], std::accumulate(first + row, first + kWarpSize, 0u)) << row;
  }
}

TEST_F(UnusualHandoversTest, PipelinesOfLibcu) {
  groups_of_cp_async<<<1, kRow>>>(in, out, kRows);
  expect_row_sums();
  pipeline_with_roles<<<1, 64>>>(in, out, kRows);
  expect_row_sums();
  group_that_copies<<<1, kRow>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualHandoversTest, Clusters) {
  queue_in_the_other_block<<<2, 32>>>(in, out, kRows);
  expect_row_sums();
  ASSERT_EQ(cudaMemset(out, 0, kRows * sizeof(uint32_t)), cudaSuccess);
  masks_that_change<<<3, 32>>>(in, out, kRows);
  expect_row_sums(1, /*factor=*/2);
}

TEST_F(UnusualHandoversTest, ReductionsByTheCopyEngine) {
  rows_that_add_up<<<4, 32>>>(in, out);
  rows_that_add_up_in_a_block<<<4, 32>>>(in, out + kRow);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const auto got = download(out, 2 * kRow);
  for (int i = 0; i < kRow; ++i) {
    const uint32_t sum = numbers[i] + numbers[kRow + i] + numbers[2 * kRow + i] + numbers[3 * kRow + i];
    EXPECT_EQ(got[i], sum) << i;
    EXPECT_EQ(got[kRow + i], sum) << i;
  }
}

TEST_F(UnusualHandoversTest, ALoaderThatStores) {
  uint32_t* const tripled = upload(std::vector<uint32_t>(kRows * kRow, 0));
  loader_that_stores<<<1, 64>>>(in, tripled, kRows);
  expect_tripled(tripled);
}

}  // namespace
