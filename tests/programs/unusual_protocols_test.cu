// Right kernels with protocols of their own: a stage that two roles take in turns, a relay by named barriers, copies
// and sums between blocks, memory that is used twice. Nothing may be reported about them, with any seed.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cuda/ptx>
#include <vector>

#include "rows_test.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/warp.hpp"

namespace {

using namespace stagecraft;

/// One stage, two consumers: one takes the even rows and one the odd, so that each waits for one parity always, and
/// the arrival of one tells the producer for both.
__global__ void stage_taken_in_turns(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ alignas(128) uint32_t tile[kRow];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    init_barrier(&full, 1);
    init_barrier(&empty, 1);
    fence_barrier_init();
  }
  __syncthreads();
  if (warp_index() == 0) {
    if (!elect_one()) return;
    for (int row = 0; row < rows; ++row) {
      wait(&empty, (row + 1) % 2);
      expect_bytes(&full, sizeof tile);
      copy_bulk(tile, in + row * kRow, sizeof tile, &full);
    }
  } else {
    const int parity = static_cast<int>(warp_index()) - 1;
    for (int row = parity; row < rows; row += 2) {
      // The other consumer's row must be over: its parity would be this one's of a round ago.
      if (row > 0) wait(&empty, (row - 1) % 2);
      wait(&full, parity);
      const uint32_t sum = sum_of_row(tile);
      __syncwarp();
      if (lane_index() == 0) {
        out[row] = sum;
        arrive(&empty);
      }
      __syncwarp();
    }
  }
}

/// Three warpgroups hand a row round by named barriers, whose numbers are those of the receivers: one arrives, and the
/// next one waits.
__global__ void named_relay(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ uint32_t row_of[kRow];
  const uint32_t group = warp_index() / 4, thread = threadIdx.x % 128;
  constexpr int kBoth = 256;
  for (int row = 0; row < rows; ++row) {
    if (group == 0) {
      if (row > 0) asm volatile("barrier.cta.sync 3, %0;" ::"n"(kBoth) : "memory");
      if (thread < kRow) row_of[thread] = in[row * kRow + thread];
      asm volatile("barrier.cta.arrive 1, %0;" ::"n"(kBoth) : "memory");
    } else if (group == 1) {
      asm volatile("barrier.cta.sync 1, %0;" ::"n"(kBoth) : "memory");
      if (thread < kRow) row_of[thread] += row;
      asm volatile("barrier.cta.arrive 2, %0;" ::"n"(kBoth) : "memory");
    } else {
      asm volatile("barrier.cta.sync 2, %0;" ::"n"(kBoth) : "memory");
      if (thread < kWarpSize) {
        const uint32_t sum = sum_of_row(row_of);
        if (thread == 0) out[row] = sum - row * kRow;
      }
      if (row + 1 < rows) asm volatile("barrier.cta.arrive 3, %0;" ::"n"(kBoth) : "memory");
    }
  }
}

/// One lane waits for its warp, which learns from it by a shuffle that the row is there, and which row it is.
__global__ void lane_that_waits_for_all(const uint32_t* in, uint32_t* out, int rows) {
  constexpr int kStages = 2;
  __shared__ alignas(128) uint32_t tile[kStages][kRow];
  __shared__ uint64_t full[kStages], empty[kStages];
  __shared__ int number[kStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_barrier(&full[i], 1), init_barrier(&empty[i], 2);
    fence_barrier_init();
  }
  __syncthreads();
  const int turns = rows + kStages;  // the last of them say that there is no row
  if (warp_index() == 0) {
    if (!elect_one()) return;
    for (int turn = 0; turn < turns; ++turn) {
      const int stage = turn % kStages;
      wait(&empty[stage], (turn / kStages + 1) % 2);
      number[stage] = turn < rows ? turn : -1;
      if (turn >= rows) {
        arrive(&full[stage]);
        continue;
      }
      expect_bytes(&full[stage], sizeof tile[0]);
      copy_bulk(tile[stage], in + turn * kRow, sizeof tile[0], &full[stage]);
    }
  } else {
    const int parity = static_cast<int>(warp_index()) - 1;
    for (int turn = 0;; ++turn) {
      const int stage = turn % kStages;
      int row = 0;
      if (lane_index() == 0) {
        wait(&full[stage], turn / kStages % 2);
        row = number[stage];
      }
      row = __shfl_sync(kAll, row, 0);
      if (row < 0) break;
      __syncwarp();  // a shuffle orders no memory
      const uint32_t sum = sum_of_row(tile[stage]);
      __syncwarp();
      if (lane_index() == 0) {
        if (parity == row % 2) out[row] = sum;
        arrive(&empty[stage]);
      }
      __syncwarp();
    }
  }
}

/// The stages of a ring, whose last copies have been read, are where the results wait for TMA.
__global__ void ring_that_becomes_a_buffer(const uint32_t* in, uint32_t* out, int rows) {
  constexpr int kStages = 3;
  extern __shared__ __align__(128) uint32_t dynamic[];
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_barrier(&full[i], 1), init_barrier(&empty[i], kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();
  uint32_t mine[2] = {};
  if (warp_index() == 0) {
    if (elect_one()) {
      for (int row = 0; row < rows; ++row) {
        const int stage = row % kStages;
        wait(&empty[stage], (row / kStages + 1) % 2);
        expect_bytes(&full[stage], kRow * sizeof(uint32_t));
        copy_bulk(dynamic + stage * kRow, in + row * kRow, kRow * sizeof(uint32_t), &full[stage]);
      }
    }
  } else {
    for (int row = 0; row < rows; ++row) {
      const int stage = row % kStages;
      wait(&full[stage], row / kStages % 2);
      for (int i = 0; i < 2; ++i) mine[i] += dynamic[stage * kRow + lane_index() + i * kWarpSize];
      arrive(&empty[stage]);
    }
  }
  __syncthreads();  // every copy has been waited for and read
  if (warp_index() == 1) {
    for (int i = 0; i < 2; ++i) dynamic[lane_index() + i * kWarpSize] = mine[i];
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    if (elect_one()) {
      cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out, dynamic, kRow * sizeof(uint32_t));
      cuda::ptx::cp_async_bulk_commit_group();
      cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
    }
  }
}

/// Columns of tensor memory are freed and allocated again, and what is written then is what is found.
__global__ void columns_twice(const uint32_t* in, uint32_t* out) {
#ifdef __CUDA_ARCH_FEAT_SM100_ALL
  __shared__ uint32_t published;
  const TmemAllocation<32> memory{&published};
  for (int round = 0; round < 2; ++round) {
    if (warp_index() == 0) memory.allocate();
    cuda::ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    cuda::ptx::tcgen05_fence_after_thread_sync();
    const uint32_t address = memory.address() + ((warp_index() * kWarpSize) << 16);
    const uint32_t word[1] = {in[threadIdx.x] + round};
    uint32_t found[1];
    store_tmem(address + round, word);
    wait_for_tmem_stores();
    load_tmem(found, address + round);
    wait_for_tmem_loads();
    out[round * blockDim.x + threadIdx.x] = found[0];
    cuda::ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    cuda::ptx::tcgen05_fence_after_thread_sync();
    if (warp_index() == 0) memory.deallocate();
    __syncwarp();
  }
  if (warp_index() == 0) memory.release_lock();
#endif
}

__device__ uint32_t in_block(const void* pointer, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(rank));
  return address;
}

/// The first block copies rows from its shared memory into the second's, and that one's barrier counts the bytes.
__global__ void __cluster_dims__(2) copies_to_a_peer(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ alignas(128) uint32_t from[kRow], to[kRow];
  __shared__ uint64_t arrived, taken;
  if (threadIdx.x == 0) {
    init_barrier(&arrived, 1);
    init_barrier(&taken, kWarpSize);
    fence_barrier_init();
  }
  sync_cluster();
  for (int row = 0; row < rows; ++row) {
    if (block_rank() == 0) {
      wait<Scope::cluster>(&taken, (row + 1) % 2);  // so the copy before has also been read from `from`
      for (int i = lane_index(); i < kRow; i += kWarpSize) from[i] = in[row * kRow + i];
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
      __syncwarp();
      if (elect_one()) {
        asm volatile(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                in_block(to, 1)),
            "r"(shared_address(from)), "n"(sizeof from), "r"(in_block(&arrived, 1))
            : "memory");
      }
      __syncwarp();
    } else {
      if (elect_one()) expect_bytes(&arrived, sizeof to);
      wait<Scope::cluster>(&arrived, row % 2);
      const uint32_t sum = sum_of_row(to);
      if (lane_index() == 0) out[row] = sum;
      arrive_at_block(&taken, 0);  // each lane, after its reads
    }
  }
  sync_cluster();
}

/// Each row is the work of two blocks: the one that has the end leaves its part to the other, which waits for the flag.
__global__ void parts_fixed_up(const uint32_t* in, uint32_t* parts, uint32_t* flags, uint32_t* out) {
  const uint32_t row = blockIdx.x / 2, half = blockIdx.x % 2;
  const uint32_t sum = __reduce_add_sync(kAll, in[row * kRow + half * kWarpSize + lane_index()]);
  if (lane_index() != 0) return;
  if (half == 1) {
    parts[row] = sum;
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(flags + row) : "memory");
  } else {
    uint32_t flag = 0;
    while (flag == 0) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(flag) : "l"(flags + row) : "memory");
    out[row] = sum + parts[row];
  }
}

class UnusualProtocolsTest : public RowsTest {};

TEST_F(UnusualProtocolsTest, AStageTakenInTurns) {
  stage_taken_in_turns<<<1, 96>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualProtocolsTest, ANamedRelay) {
  named_relay<<<1, 384>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualProtocolsTest, ALaneThatWaitsForAll) {
  lane_that_waits_for_all<<<1, 96>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualProtocolsTest, ARingThatBecomesABuffer) {
  ring_that_becomes_a_buffer<<<1, 64, 3 * kRow * sizeof(uint32_t)>>>(in, out, kRows);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  uint32_t all = 0, expected = 0;
  for (const uint32_t sum : download(out, kRow)) all += sum;
  for (const uint32_t number : numbers) expected += number;
  EXPECT_EQ(all, expected);
}

TEST_F(UnusualProtocolsTest, ColumnsOfTensorMemoryTwice) {
  columns_twice<<<1, 128>>>(in, out);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const auto got = download(out, 256);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(got[i], numbers[i % 128] + i / 128) << i;
}

TEST_F(UnusualProtocolsTest, CopiesToAPeer) {
  copies_to_a_peer<<<2, 32>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualProtocolsTest, PartsFixedUp) {
  uint32_t* const parts = upload(std::vector<uint32_t>(2 * kRows, 0));
  parts_fixed_up<<<2 * kRows, 32>>>(in, parts, parts + kRows, out);
  expect_row_sums();
}

}  // namespace
