// Right kernels whose blocks and launches hand data over in an unusual way: by a lock, by words that carry value and
// state, by a barrier of their own, before the launch ahead has ended. Nothing may be reported about them, with any
// seed.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cuda/atomic>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "device_arrays.hpp"
#include "stagecraft/dependent_launch.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/warp.hpp"

namespace {

using namespace stagecraft;

constexpr uint32_t kAll = 0xffffffff;

/// A lock whose owner is who drew the number on show: what it protects is plain.
__global__ void ticket_lock(uint32_t* lock, uint32_t* sums) {
  if (threadIdx.x != 0) return;
  cuda::atomic_ref<uint32_t, cuda::thread_scope_device> next{lock[0]}, shown{lock[1]};
  const uint32_t mine = next.fetch_add(1, cuda::memory_order_relaxed);
  while (shown.load(cuda::memory_order_acquire) != mine) __nanosleep(20);
  sums[0] += blockIdx.x;
  sums[1] = sums[0] * 2;
  shown.store(mine + 1, cuda::memory_order_release);
}

/// A scan whose blocks publish state and value in one word, so that no fence is needed.
__global__ void scan_by_single_words(const uint32_t* in, unsigned long long* states, uint32_t* ticket, uint32_t* out) {
  __shared__ uint32_t place, before;
  if (threadIdx.x == 0) place = atomicAdd(ticket, 1);
  __syncthreads();
  const uint32_t mine = in[place * kWarpSize + lane_index()];
  const uint32_t sum = __reduce_add_sync(kAll, mine);
  constexpr unsigned long long kPart = 1ull << 32, kWhole = 2ull << 32;
  if (lane_index() == 0) {
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> own{states[place]};
    own.store((place == 0 ? kWhole : kPart) | sum, cuda::memory_order_relaxed);
    uint32_t all = 0;
    for (uint32_t at = place; at-- > 0;) {
      cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> other{states[at]};
      unsigned long long state;
      while ((state = other.load(cuda::memory_order_relaxed)) == 0) __nanosleep(20);
      all += static_cast<uint32_t>(state);
      if (state >= kWhole) break;
    }
    if (place != 0) own.store(kWhole | (all + sum), cuda::memory_order_relaxed);
    before = all;
  }
  __syncwarp();
  uint32_t scanned = mine;
  for (uint32_t distance = 1; distance < kWarpSize; distance *= 2) {
    const uint32_t other = __shfl_up_sync(kAll, scanned, distance);
    if (lane_index() >= distance) scanned += other;
  }
  out[place * kWarpSize + lane_index()] = before + scanned;
}

/// A barrier of the grid by hand, whose turn is told by a bit that flips.
__global__ void barrier_that_flips(uint32_t* values, uint32_t* arrived, volatile uint32_t* turn) {
  uint32_t sense = 0;
  const uint32_t me = blockIdx.x * blockDim.x + threadIdx.x, count = gridDim.x * blockDim.x;
  const auto meet = [&] {
    sense ^= 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      if (atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1) {
        __threadfence();
        *turn = sense;
      } else {
        while (*turn != sense) __nanosleep(20);
      }
      __threadfence();
    }
    __syncthreads();
  };
  for (int round = 0; round < 3; ++round) {
    const uint32_t next = values[(me + 1) % count];
    meet();
    values[me] = next;
    meet();
  }
}

/// One of a chain of launches, each of which starts before the one ahead of it has ended.
__global__ void link_of_a_chain(const uint32_t* from, uint32_t* to, uint32_t* count) {
  let_next_grid_start();
  const uint32_t me = blockIdx.x * blockDim.x + threadIdx.x;
  wait_for_earlier_grids();  // the one ahead has ended, and with it all before
  to[me] = from[me ^ 1] + 1;
  if (me == 0) *count += 1;
}

/// Where and when each block runs.
struct Whereabouts {
  uint32_t multiprocessor;
  uint32_t grid;
  unsigned long long clock;
};
__global__ void say_where(Whereabouts* blocks) {
  unsigned long long grid;
  asm volatile("mov.u64 %0, %%gridid;" : "=l"(grid));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(blocks[blockIdx.x].multiprocessor));
  blocks[blockIdx.x].grid = static_cast<uint32_t>(grid);
  blocks[blockIdx.x].clock = clock64();
}

uint64_t seed() {
  const char* const text = std::getenv("STAGECRAFT_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
}

// ---- Tests ----------------------------------------------------------------------------------------------------------

class UnusualGridsTest : public DeviceArrays {
 protected:
  static constexpr uint32_t kNumbers = 256;
  uint32_t* in = upload([] {
    std::vector<uint32_t> numbers(kNumbers);
    std::iota(numbers.begin(), numbers.end(), 1u);
    return numbers;
  }());
  uint32_t* out = upload(std::vector<uint32_t>(kNumbers, 0));
};

TEST_F(UnusualGridsTest, BlocksThatAgreeByAtomics) {
  uint32_t* const words = upload(std::vector<uint32_t>(4, 0));
  ticket_lock<<<8, 32>>>(words, out);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(download(out, 2)[1], 56u);

  auto* const states = upload(std::vector<unsigned long long>(8, 0));
  scan_by_single_words<<<8, 32>>>(in, states, words + 2, out);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(download(out, kNumbers).back(), kNumbers * (kNumbers + 1) / 2);

  uint32_t* const meeting = upload(std::vector<uint32_t>(2, 0));
  barrier_that_flips<<<4, 32>>>(in, meeting, meeting + 1);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(download(in, 1)[0], 4u);
}

TEST_F(UnusualGridsTest, AChainOfDependentLaunches) {
  uint32_t* const other = upload(std::vector<uint32_t>(128, 0));
  uint32_t* const count = upload(std::vector<uint32_t>(1, 0));
  uint32_t *from = in, *to = other;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(launch_kernel(link_of_a_chain, {.grid = 4, .block = 32, .programmatic_dependent_launch = true},
                            static_cast<const uint32_t*>(from), to, count),
              cudaSuccess);
    std::swap(from, to);
  }
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(download(in, 1)[0], 5u);
  EXPECT_EQ(download(count, 1)[0], 4u);
}

TEST_F(UnusualGridsTest, PlacesAndClocksFollowTheSeed) {
  auto* const blocks = upload(std::vector<Whereabouts>(8));
  say_where<<<8, 1>>>(blocks);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<Whereabouts> found = download(blocks, 8);
  std::set<uint32_t> used;
  for (uint32_t i = 0; i < 8; ++i) {
    used.insert(found[i].multiprocessor);
    if (seed() == 0) EXPECT_EQ(found[i].multiprocessor, i);
    EXPECT_EQ(found[i].clock < 1000, seed() == 0);
  }
  EXPECT_EQ(used.size(), 8u);
  EXPECT_EQ(found[0].multiprocessor == 0, seed() == 0);
}

TEST_F(UnusualGridsTest, ReplaysOfAGraphHaveOneGridNumberWithOddSeeds) {
  auto* const blocks = upload(std::vector<Whereabouts>(1));
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replayed = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  say_where<<<1, 1, 0, stream>>>(blocks);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replayed, graph, 0), cudaSuccess);
  std::set<uint32_t> grids;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cudaGraphLaunch(replayed, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    grids.insert(download(blocks, 1)[0].grid);
  }
  EXPECT_EQ(grids.size(), seed() % 2 == 1 ? 1u : 3u);
  ASSERT_EQ(cudaGraphExecDestroy(replayed), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(UnusualGridsTest, StreamsThatTakeTurns) {
  uint32_t* const other = upload(std::vector<uint32_t>(128, 0));
  uint32_t* const count = upload(std::vector<uint32_t>(1, 0));
  cudaStream_t streams[2];
  cudaEvent_t done[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming), cudaSuccess);
  }
  uint32_t *from = in, *to = other;
  for (int i = 0; i < 4; ++i) {
    if (i > 0) ASSERT_EQ(cudaStreamWaitEvent(streams[i % 2], done[(i + 1) % 2]), cudaSuccess);
    link_of_a_chain<<<4, 32, 0, streams[i % 2]>>>(from, to, count);
    ASSERT_EQ(cudaEventRecord(done[i % 2], streams[i % 2]), cudaSuccess);
    std::swap(from, to);
  }
  ASSERT_EQ(cudaStreamSynchronize(streams[1]), cudaSuccess);
  EXPECT_EQ(download(in, 1)[0], 5u);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(cudaEventDestroy(done[i]), cudaSuccess);
    ASSERT_EQ(cudaStreamDestroy(streams[i]), cudaSuccess);
  }
}

}  // namespace
