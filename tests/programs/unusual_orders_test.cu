// Right kernels that do things in another order, or by other means, than most: bytes that are announced after their
// copy, slots that are given by credit, one fence for a warp, a barrier for each lane. Nothing may be reported about
// them, with any seed.
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

/// The consumer first gives each slot by an arrival, so the producer waits for phase 0; and the bytes are announced
/// after the copy was issued, by the arrival that the phase still waits for.
__global__ void slots_by_credit(const uint32_t* in, uint32_t* out, int rows) {
  constexpr int kStages = 3;
  __shared__ alignas(128) uint32_t tile[kStages][kRow];
  __shared__ uint64_t full[kStages], credit[kStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_barrier(&full[i], 1), init_barrier(&credit[i], kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();
  if (warp_index() == 0) {
    if (!elect_one()) return;
    for (int row = 0; row < rows; ++row) {
      const int stage = row % kStages;
      wait(&credit[stage], row / kStages % 2);
      copy_bulk(tile[stage], in + row * kRow, sizeof tile[0], &full[stage]);
      expect_bytes(&full[stage], sizeof tile[0]);
    }
  } else {
    for (int stage = 0; stage < kStages; ++stage) arrive(&credit[stage]);
    for (int row = 0; row < rows; ++row) {
      const int stage = row % kStages;
      wait(&full[stage], row / kStages % 2);
      const uint32_t sum = sum_of_row(tile[stage]);
      if (lane_index() == 0) out[row] = sum;
      if (row + kStages < rows) arrive(&credit[stage]);
    }
  }
}

/// The slots are taken in an order of their own, row r in slot 3r mod 5, and both sides count the uses of each slot.
__global__ void slots_out_of_order(const uint32_t* in, uint32_t* out, int rows) {
  constexpr int kStages = 5;
  __shared__ alignas(128) uint32_t tile[kStages][kRow];
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_barrier(&full[i], 1), init_barrier(&empty[i], 1);
    fence_barrier_init();
  }
  __syncthreads();
  uint32_t uses = 0;  // bit s: the parity of slot s
  if (warp_index() == 0) {
    for (int row = 0; row < rows; ++row) {
      const int slot = 3 * row % kStages;
      if (elect_one()) {
        wait(&empty[slot], ~uses >> slot & 1);
        expect_bytes(&full[slot], sizeof tile[0]);
        copy_bulk(tile[slot], in + row * kRow, sizeof tile[0], &full[slot]);
      }
      __syncwarp();
      uses ^= 1u << slot;
    }
  } else {
    for (int row = 0; row < rows; ++row) {
      const int slot = 3 * row % kStages;
      wait(&full[slot], uses >> slot & 1);
      const uint32_t sum = sum_of_row(tile[slot]);
      __syncwarp();
      if (elect_one()) out[row] = sum, arrive(&empty[slot]);
      __syncwarp();
      uses ^= 1u << slot;
    }
  }
}

/// Each lane has a barrier and a copy of its own, and lanes meet only to add up.
__global__ void barrier_for_each_lane(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ alignas(128) uint32_t tile[kRow * 2];
  __shared__ uint64_t full[kWarpSize];
  const uint32_t lane = lane_index();
  init_barrier(&full[lane], 1);
  fence_barrier_init();
  for (int row = 0; row < rows; row += 2) {
    const int count = row + 1 < rows ? 4 : lane < 16 ? 4 : 0;  // numbers of this lane, which are of one row
    if (count != 0) {
      expect_bytes(&full[lane], 4 * sizeof(uint32_t));
      copy_bulk(tile + 4 * lane, in + row * kRow + 4 * lane, 4 * sizeof(uint32_t), &full[lane]);
      wait(&full[lane], row / 2 % 2);
    }
    uint32_t sum = 0;
    for (int i = 0; i < count; ++i) sum += tile[4 * lane + i];
    for (int distance = 8; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAll, sum, distance);
    if (lane % 16 == 0 && count != 0) out[row + lane / 16] = sum;
  }
}

/// All lanes write a row; one lane's fence, after they have met, is for all of them; and TMA stores it.
__global__ void one_fence_for_all(const uint32_t* in, uint32_t* copy, int rows) {
  __shared__ alignas(128) uint32_t row_of[2][kRow];
  for (int row = 0; row < rows; ++row) {
    uint32_t(&to)[kRow] = row_of[row % 2];
    if (lane_index() == 5) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<1>{});
    __syncwarp();
    for (int i = lane_index(); i < kRow; i += kWarpSize) to[i] = 3 * in[row * kRow + i];
    __syncwarp();
    if (lane_index() == 5) {
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
      cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, copy + row * kRow, to, sizeof to);
      cuda::ptx::cp_async_bulk_commit_group();
    }
  }
  if (lane_index() == 5) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
}

/// The first of two rings that has something is served first: the consumer asks both, and never knows which it will be.
__global__ void whichever_is_first(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ alignas(128) uint32_t tile[2][kRow];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) init_barrier(&full[i], 1), init_barrier(&empty[i], 1);
    fence_barrier_init();
  }
  __syncthreads();
  const uint32_t warp = warp_index();
  if (warp < 2) {  // a producer for each ring, of the even and of the odd rows
    if (!elect_one()) return;
    int turn = 0;
    for (int row = warp; row < rows; row += 2, ++turn) {
      wait(&empty[warp], (turn + 1) % 2);
      expect_bytes(&full[warp], sizeof tile[0]);
      copy_bulk(tile[warp], in + row * kRow, sizeof tile[0], &full[warp]);
    }
  } else {
    int next[2] = {0, 1};
    while (next[0] < rows || next[1] < rows) {
      for (int ring = 0; ring < 2; ++ring) {
        if (next[ring] >= rows) continue;
        const bool is_there = test_wait(&full[ring], next[ring] / 2 % 2);
        if (!__all_sync(kAll, is_there)) continue;
        const uint32_t sum = sum_of_row(tile[ring]);
        __syncwarp();
        if (lane_index() == 0) out[next[ring]] = sum, arrive(&empty[ring]);
        __syncwarp();
        next[ring] += 2;
      }
    }
  }
}

/// Tensor memory as a letter box: a warp leaves a row there for the warp four further on, which reaches the same lanes.
__global__ void letter_box(const uint32_t* in, uint32_t* out, int rows) {
#ifdef __CUDA_ARCH_FEAT_SM100_ALL
  __shared__ uint32_t published;
  __shared__ uint64_t posted, taken;
  const TmemAllocation<32> memory{&published};
  if (threadIdx.x == 0) {
    init_barrier(&posted, 1);
    init_barrier(&taken, kWarpSize);
    fence_barrier_init();
  }
  if (warp_index() == 2) memory.allocate(), memory.release_lock();
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const uint32_t box = memory.address();
  for (int row = 0; row < rows; ++row) {
    if (warp_index() == 0) {
      const uint32_t words[2] = {in[row * kRow + lane_index()], in[row * kRow + kWarpSize + lane_index()]};
      wait(&taken, (row + 1) % 2);
      cuda::ptx::tcgen05_fence_after_thread_sync();
      store_tmem(box, words);
      wait_for_tmem_stores();
      cuda::ptx::tcgen05_fence_before_thread_sync();
      __syncwarp();
      if (elect_one()) arrive(&posted);
      __syncwarp();
    } else if (warp_index() == 4) {
      wait(&posted, row % 2);
      cuda::ptx::tcgen05_fence_after_thread_sync();
      uint32_t words[2];
      load_tmem(words, box);
      wait_for_tmem_loads();
      cuda::ptx::tcgen05_fence_before_thread_sync();
      arrive(&taken);
      const uint32_t sum = __reduce_add_sync(kAll, words[0] + words[1]);
      if (lane_index() == 0) out[row] = sum;
    }
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (warp_index() == 2) memory.deallocate();
#endif
}

/// A ring of four blocks: each adds its quarter of a row to a sum that the block before has sent, and sends it on.
__global__ void __cluster_dims__(4) sums_passed_around(const uint32_t* in, uint32_t* out, int rows) {
  __shared__ uint32_t inbox[2];
  __shared__ uint64_t came[2], gone[2];  // gone: the next block has read what was sent it
  const uint32_t rank = block_rank(), next = (rank + 1) % 4, before = (rank + 3) % 4;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) init_barrier(&came[i], 1), init_barrier(&gone[i], 1);
    fence_barrier_init();
  }
  sync_cluster();
  for (int row = 0; row < rows; ++row) {
    const int slot = row % 2;
    const uint32_t parity = row / 2 % 2;
    uint32_t sum = lane_index() < 16 ? in[row * kRow + 16 * rank + lane_index()] : 0;
    sum = __reduce_add_sync(kAll, sum);
    if (lane_index() == 0) {
      if (rank != 0) {
        wait<Scope::cluster>(&came[slot], parity);
        sum += inbox[slot];
        arrive_at_block(&gone[slot], before);
      }
      if (rank != 3) {
        wait<Scope::cluster>(&gone[slot], parity ^ 1);
        uint32_t to;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(&inbox[slot])), "r"(next));
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(sum) : "memory");
        arrive_at_block(&came[slot], next);
      } else {
        out[row] = sum;
      }
    }
    __syncwarp();
  }
  sync_cluster();
}

/// A ring in global memory: block 0 fills slots, block 1 sums them up, and counters with release and acquire tell.
__global__ void ring_in_global_memory(const uint32_t* in, uint32_t* slots, uint32_t* counters, uint32_t* out,
                                      int rows) {
  constexpr uint32_t kSlots = 2;
  uint32_t *const filled = counters, *const freed = counters + 32;
  const auto wait_until = [](const uint32_t* counter, uint32_t least) {
    uint32_t count;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
    } while (count < least);
  };
  const auto add = [](uint32_t* counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
  };
  for (uint32_t row = 0; row < static_cast<uint32_t>(rows); ++row) {
    uint32_t* const slot = slots + row % kSlots * kRow;
    if (blockIdx.x == 0) {
      if (threadIdx.x == 0 && row >= kSlots) wait_until(freed, row - kSlots + 1);
      __syncthreads();
      slot[threadIdx.x] = in[row * kRow + threadIdx.x];
      __syncthreads();
      if (threadIdx.x == 0) add(filled);
    } else {
      if (threadIdx.x == 0) wait_until(filled, row + 1);
      __syncthreads();
      const uint32_t sum = __reduce_add_sync(kAll, slot[threadIdx.x]);
      if (lane_index() == 0) atomicAdd(out + row, sum);
      __syncthreads();
      if (threadIdx.x == 0) add(freed);
    }
  }
}

class UnusualOrdersTest : public RowsTest {};

TEST_F(UnusualOrdersTest, SlotsByCredit) {
  slots_by_credit<<<1, 64>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualOrdersTest, SlotsOutOfOrder) {
  slots_out_of_order<<<1, 64>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualOrdersTest, ABarrierForEachLane) {
  barrier_for_each_lane<<<1, 32>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualOrdersTest, OneFenceForAll) {
  uint32_t* const tripled = upload(std::vector<uint32_t>(kRows * kRow, 0));
  one_fence_for_all<<<1, 32>>>(in, tripled, kRows);
  expect_tripled(tripled);
}

TEST_F(UnusualOrdersTest, WhicheverIsFirst) {
  whichever_is_first<<<1, 96>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualOrdersTest, ALetterBoxInTensorMemory) {
  letter_box<<<1, 160>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualOrdersTest, SumsPassedAround) {
  sums_passed_around<<<4, 32>>>(in, out, kRows);
  expect_row_sums();
}

TEST_F(UnusualOrdersTest, ARingInGlobalMemory) {
  uint32_t* const slots = upload(std::vector<uint32_t>(2 * kRow, 0));
  uint32_t* const counters = upload(std::vector<uint32_t>(64, 0));
  ring_in_global_memory<<<2, kRow>>>(in, slots, counters, out, kRows);
  expect_row_sums();
}

}  // namespace
