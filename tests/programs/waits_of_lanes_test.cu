// Lanes of one warp that wait for each other in loops: chains, locks with back-off, queues, turns. All of them end on a
// chip with independent thread scheduling, whatever the order of the text, and so they must here with each seed.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cuda/semaphore>
#include <vector>

namespace {

constexpr int kWords = 128;

__device__ int lane() { return threadIdx.x % 32; }

/// Runs one warp of a kernel on words that begin as zeros, and returns them.
std::vector<uint32_t> words_of(void (*kernel)(uint32_t*)) {
  uint32_t* words = nullptr;
  EXPECT_EQ(cudaMalloc(&words, kWords * sizeof(uint32_t)), cudaSuccess);
  EXPECT_EQ(cudaMemset(words, 0, kWords * sizeof(uint32_t)), cudaSuccess);
  kernel<<<1, 32>>>(words);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<uint32_t> result(kWords);
  EXPECT_EQ(cudaMemcpy(result.data(), words, kWords * sizeof(uint32_t), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(cudaFree(words), cudaSuccess);
  return result;
}

// ---- Each lane waits for its neighbour -----------------------------------------------------------------------------

template <bool Sleeps>
__device__ __forceinline__ uint32_t wait_for(const volatile uint32_t* flag) {
  uint32_t value;
  while ((value = *flag) == 0) {
    if (Sleeps) __nanosleep(50);
  }
  return value;
}
__device__ __noinline__ uint32_t wait_in_a_function(const volatile uint32_t* flag) { return wait_for<true>(flag); }

__global__ void chain_from_below(uint32_t* words) {
  volatile uint32_t* flags = words;
  flags[lane()] = (lane() == 0 ? 0 : wait_for<false>(flags + lane() - 1)) + 1;
}
__global__ void chain_from_above(uint32_t* words) {
  volatile uint32_t* flags = words;
  flags[31 - lane()] = (lane() == 31 ? 0 : wait_for<true>(flags + 30 - lane())) + 1;
}
__global__ void chain_through_calls(uint32_t* words) {
  volatile uint32_t* flags = words;
  flags[31 - lane()] = (lane() == 31 ? 0 : wait_in_a_function(flags + 30 - lane())) + 1;
}
TEST(WaitsOfLanesTest, AChainOfLanesEndsFromEitherSide) {
  for (const auto kernel : {chain_from_below, chain_from_above, chain_through_calls}) {
    const std::vector<uint32_t> words = words_of(kernel);
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(words[i], i + 1);
  }
}

/// Halves of what is left wait for each other, and lanes leave the loop when their sum is taken.
template <bool Sleeps>
__global__ void tree_sum(uint32_t* words) {
  volatile uint32_t* sums = words + 32;
  uint32_t sum = lane() + 1;
  for (int distance = 1; distance < 32; distance *= 2) {
    if (lane() % (2 * distance) != 0) {
      sums[lane()] = sum;
      break;
    }
    sum += wait_for<Sleeps>(sums + lane() + distance);
  }
  __syncwarp();
  if (lane() == 0) words[0] = sum;
}
TEST(WaitsOfLanesTest, ATreeOfWaitsAddsUp) {
  EXPECT_EQ(words_of(tree_sum<false>)[0], 32u * 33 / 2);
  EXPECT_EQ(words_of(tree_sum<true>)[0], 32u * 33 / 2);
}

// ---- Locks ---------------------------------------------------------------------------------------------------------

__device__ void count_one(uint32_t* words) {
  volatile uint32_t* count = words + 8;
  *count = *count + 1;
  __threadfence();
}
__global__ void two_locks_with_back_off(uint32_t* words) {
  for (int round = 0; round < 3; ++round) {
    unsigned wait = 4;
    while (atomicCAS(words, 0, 1) != 0) {
      __nanosleep(wait);
      if (wait < 1024) wait *= 2;
    }
    while (atomicCAS(words + 1, 0, 1) != 0) {
    }
    count_one(words);
    atomicExch(words + 1, 0);
    atomicExch(words, 0);
  }
}
/// Takes two of four locks in ascending order; releases the first when the second is taken.
__global__ void try_both_locks(uint32_t* words) {
  const int first = lane() % 3, second = first + 1 + lane() % (3 - first);
  bool done = false;
  while (!done) {
    if (atomicCAS(words + first, 0, 1) != 0) continue;
    if (atomicCAS(words + second, 0, 1) == 0) {
      atomicAdd(words + 8, 3);
      done = true;
      atomicExch(words + second, 0);
    }
    __threadfence();
    atomicExch(words + first, 0);
  }
}
__global__ void tickets(uint32_t* words) {
  volatile uint32_t* now_served = words + 1;
  for (int round = 0; round < 3; ++round) {
    const uint32_t mine = atomicAdd(words, 1);
    while (*now_served != mine) __nanosleep(10 * (mine - *now_served));
    count_one(words);
    *now_served = mine + 1;
  }
}
__global__ void binary_semaphore(uint32_t* words) {
  using Semaphore = cuda::binary_semaphore<cuda::thread_scope_block>;
  __shared__ alignas(Semaphore) unsigned char bytes[sizeof(Semaphore)];
  auto* semaphore = reinterpret_cast<Semaphore*>(bytes);
  if (lane() == 0) new (semaphore) Semaphore(1);
  __syncwarp();
  for (int round = 0; round < 3; ++round) {
    semaphore->acquire();
    count_one(words);
    semaphore->release();
  }
}
TEST(WaitsOfLanesTest, EachLaneGetsTheLockThreeTimes) {
  for (const auto kernel : {two_locks_with_back_off, try_both_locks, tickets, binary_semaphore}) {
    EXPECT_EQ(words_of(kernel)[8], 96u);
  }
}

// ---- Turns and queues ----------------------------------------------------------------------------------------------

/// Two lanes hand a queue of four words over. Which side comes first in the text differs.
template <int Producer, bool Sleeps>
__global__ void queue(uint32_t* words) {
  volatile uint32_t *filled = words, *freed = words + 1, *slots = words + 16;
  const auto pause = [] {
    if (Sleeps) __nanosleep(30);
  };
  if (lane() == Producer) {
    for (uint32_t i = 0; i < 40; ++i) {
      while (*filled - *freed >= 4) pause();
      slots[*filled % 4] = i;
      __threadfence();
      *filled = *filled + 1;
    }
  } else if (lane() == 5) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 40; ++i) {
      while (*filled == *freed) pause();
      sum = sum * 3 + slots[*freed % 4];
      __threadfence();
      *freed = *freed + 1;
    }
    words[2] = sum;
  }
}
TEST(WaitsOfLanesTest, TwoLanesHandAQueueOver) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 40; ++i) sum = sum * 3 + i;
  for (const auto kernel : {queue<0, false>, queue<0, true>, queue<31, false>, queue<31, true>}) {
    EXPECT_EQ(words_of(kernel)[2], sum);
  }
}

template <bool Sleeps>
__global__ void turns_of_all(uint32_t* words) {
  volatile uint32_t* turn = words;
  for (int round = 0; round < 4; ++round) {
    while (*turn % 32 != lane()) {
      if (Sleeps) __nanosleep(8);
    }
    *turn = *turn + 1;
  }
}
TEST(WaitsOfLanesTest, AllLanesTakeTurns) {
  EXPECT_EQ(words_of(turns_of_all<false>)[0], 128u);
  EXPECT_EQ(words_of(turns_of_all<true>)[0], 128u);
}

}  // namespace
