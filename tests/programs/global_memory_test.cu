// What STAGECRAFT_CHECKS=global finds in global memory, and what it must not find: each pattern by which threads,
// blocks, launches and streams hand over data, and the same with one mistake.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cuda/atomic>
#include <functional>
#include <string>
#include <vector>

namespace {

namespace cg = cooperative_groups;

constexpr int kThreads = 64, kBlocks = 4, kWords = kThreads * kBlocks;

// ---- The instructions by which flags are set and read --------------------------------------------------------------

__device__ void store_release_gpu(unsigned* flag, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
__device__ void store_release_cta(unsigned* flag, unsigned value) {
  asm volatile("st.release.cta.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
__device__ unsigned load_acquire_gpu(const unsigned* flag) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ unsigned load_acquire_cta(const unsigned* flag) {
  unsigned value;
  asm volatile("ld.acquire.cta.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ unsigned load_relaxed_gpu(const unsigned* flag) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- Block 0 hands its words to the other blocks by a flag
// ------------------------------------------------------------

enum class Flag {
  release_acquire,       // right
  volatile_with_fences,  // right
  atomics_with_fences,   // right
  atomic_ref,            // right
  release_cta,
  acquire_cta,
  no_release_fence,
  no_acquire_fence,
  block_fence,
  atomic_ref_of_block,
  no_barrier_after,
};

template <Flag kFlag>
__global__ void hand_over(unsigned* words, unsigned* flag, unsigned* out) {
  if (blockIdx.x == 0) {
    words[threadIdx.x] = threadIdx.x * 3;
    __syncthreads();
    if (threadIdx.x != 0) return;
    if constexpr (kFlag == Flag::release_acquire || kFlag == Flag::acquire_cta || kFlag == Flag::no_barrier_after ||
                  kFlag == Flag::no_acquire_fence) {
      store_release_gpu(flag, 1);
    } else if constexpr (kFlag == Flag::release_cta) {
      store_release_cta(flag, 1);
    } else if constexpr (kFlag == Flag::volatile_with_fences) {
      __threadfence();
      *static_cast<volatile unsigned*>(flag) = 1;
    } else if constexpr (kFlag == Flag::atomics_with_fences) {
      __threadfence();
      atomicExch(flag, 1);
    } else if constexpr (kFlag == Flag::block_fence) {
      __threadfence_block();
      atomicExch(flag, 1);
    } else if constexpr (kFlag == Flag::no_release_fence) {
      atomicExch(flag, 1);
    } else if constexpr (kFlag == Flag::atomic_ref) {
      cuda::atomic_ref<unsigned, cuda::thread_scope_device>(*flag).store(1, cuda::memory_order_release);
    } else {
      cuda::atomic_ref<unsigned, cuda::thread_scope_block>(*flag).store(1, cuda::memory_order_release);
    }
    return;
  }
  if (threadIdx.x == 0) {
    if constexpr (kFlag == Flag::release_acquire || kFlag == Flag::release_cta || kFlag == Flag::no_barrier_after) {
      while (load_acquire_gpu(flag) == 0) {
      }
    } else if constexpr (kFlag == Flag::acquire_cta) {
      while (load_acquire_cta(flag) == 0) {
      }
    } else if constexpr (kFlag == Flag::no_acquire_fence) {
      while (load_relaxed_gpu(flag) == 0) {
      }
    } else if constexpr (kFlag == Flag::volatile_with_fences) {
      while (*static_cast<volatile unsigned*>(flag) == 0) {
      }
      __threadfence();
    } else if constexpr (kFlag == Flag::atomic_ref) {
      while (cuda::atomic_ref<unsigned, cuda::thread_scope_device>(*flag).load(cuda::memory_order_acquire) == 0) {
      }
    } else if constexpr (kFlag == Flag::atomic_ref_of_block) {
      while (cuda::atomic_ref<unsigned, cuda::thread_scope_block>(*flag).load(cuda::memory_order_acquire) == 0) {
      }
    } else {
      while (atomicAdd(flag, 0) == 0) {
      }
      __threadfence();
    }
  }
  if constexpr (kFlag != Flag::no_barrier_after) __syncthreads();
  out[blockIdx.x * kThreads + threadIdx.x] = words[threadIdx.x ^ 1];
}

// ---- The last block adds up what all have written (the sample threadFenceReduction)
// -----------------------------------

enum class Last { right, no_fence, fence_of_block };

template <Last kLast>
__global__ void last_block_adds(const float* in, float* partial, unsigned* counter, float* sum) {
  __shared__ bool is_last;
  float mine = in[blockIdx.x * kThreads + threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_down_sync(~0u, mine, offset);
  __shared__ float of_warps[kThreads / 32];
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = of_warps[0] + of_warps[1];
    if (kLast == Last::right) __threadfence();
    if (kLast == Last::fence_of_block) __threadfence_block();
    is_last = atomicInc(counter, gridDim.x) == gridDim.x - 1;
    if (kLast == Last::right && is_last) __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  if (threadIdx.x == 0) {
    float all = 0;
    for (unsigned block = 0; block < gridDim.x; ++block) all += partial[block];
    *sum = all;
    *counter = 0;  // for the next launch
  }
}

// ---- All threads of all blocks add to few places, and the last block looks at them

enum class Count { after_all, after_own };

template <Count kCount>
__global__ void last_block_reads_bins(const unsigned* in, unsigned* bins, unsigned* counter, unsigned* out) {
  __shared__ bool is_last;
  atomicAdd(&bins[in[blockIdx.x * kThreads + threadIdx.x] % 8], 1);
  if (kCount == Count::after_all) __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(counter, 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (is_last && threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
}

/// Nothing orders the zero of the first block before what the others add.
__global__ void zeroes_a_counter_that_all_add_to(unsigned* counter) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) *counter = 0;
  atomicAdd(counter, 1);
}

/// Who has seen the last ticket knows that all others are drawn, though no fence says so.
__global__ void draws_tickets(unsigned* tickets, unsigned* out) {
  __shared__ unsigned ticket;
  if (threadIdx.x == 0) ticket = atomicAdd(tickets, 1);
  __syncthreads();
  if (threadIdx.x == 0) out[ticket] = blockIdx.x;
  if (ticket == gridDim.x - 1 && threadIdx.x == 32) *tickets = 0;
}

// ---- Barriers of a grid
// -----------------------------------------------------------------------------------------------

template <bool kIsOfGrid>
__global__ void neighbours_by_grid_sync(unsigned* words, unsigned* out) {
  const cg::grid_group grid = cg::this_grid();
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  for (unsigned round = 0; round < 3; ++round) {
    words[i] = i + round;
    if (kIsOfGrid) grid.sync();
    __syncthreads();
    out[i] = words[(i + kThreads) % kWords];
    if (kIsOfGrid) grid.sync();
    __syncthreads();
  }
}

/// A barrier of the grid made by hand, whose last arrival begins the next round.
template <bool kFences>
__global__ void neighbours_by_own_barrier(unsigned* words, unsigned* arrived, unsigned* round_of_all, unsigned* out) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  for (unsigned round = 1; round <= 3; ++round) {
    words[round % 2 * kWords + i] = i + round;
    __syncthreads();
    if (threadIdx.x == 0) {
      if (kFences) __threadfence();
      if (atomicAdd(arrived, 1) == gridDim.x - 1) {
        *static_cast<volatile unsigned*>(arrived) = 0;
        __threadfence();
        atomicAdd(round_of_all, 1);
      }
      while (*static_cast<volatile unsigned*>(round_of_all) < round) {
      }
      __threadfence();
    }
    __syncthreads();
    out[i] = words[round % 2 * kWords + (i + kThreads) % kWords];
  }
}

// ---- A scan in one pass, whose blocks look back at those before them
// --------------------------------------------------

template <bool kFences>
__global__ void scan_with_look_back(const unsigned* in, unsigned* sums, unsigned* status, unsigned* ticket,
                                    unsigned* out) {
  __shared__ unsigned block, before;
  if (threadIdx.x == 0) block = atomicAdd(ticket, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned own = 0;
    for (int i = 0; i < kThreads; ++i) own += in[block * kThreads + i];
    sums[2 * block] = own;
    if (kFences) __threadfence();
    atomicExch(&status[block], 1u);
    before = 0;
    for (int other = static_cast<int>(block) - 1; other >= 0; --other) {
      unsigned state;
      while ((state = *static_cast<volatile unsigned*>(&status[other])) == 0) {
      }
      __threadfence();
      before += sums[2 * other + (state == 2 ? 1 : 0)];
      if (state == 2) break;
    }
    sums[2 * block + 1] = before + own;
    if (kFences) __threadfence();
    atomicExch(&status[block], 2u);
  }
  __syncthreads();
  unsigned sum = before;
  for (unsigned i = 0; i <= threadIdx.x; ++i) sum += in[block * kThreads + i];
  out[block * kThreads + threadIdx.x] = sum;
}

// ---- Counters
// ---------------------------------------------------------------------------------------------------------

__global__ void count_atomically(unsigned* count) { atomicAdd(&count[threadIdx.x % 3], 1u); }
__global__ void count_by_threads(unsigned* count) { *count += 1; }
__global__ void count_by_blocks(unsigned* count) {
  if (threadIdx.x == 0) *count += 1;
}
__global__ void count_by_one_thread(unsigned* count) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *count += 1;
}
__global__ void look_at_counter(unsigned* count, unsigned* out) {
  atomicAdd(count, 1u);
  out[blockIdx.x * kThreads + threadIdx.x] = *count;
}

template <bool kFences>
__global__ void count_under_lock(unsigned* lock, unsigned* count) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(lock, 0u, 1u) != 0) {
  }
  __threadfence();
  *count += 1;
  if (kFences) __threadfence();
  atomicExch(lock, 0u);
}

// ---- In a block, a warp, a cluster
// ------------------------------------------------------------------------------------

template <bool kSyncs>
__global__ void swap_in_block(unsigned* words, unsigned* out) {
  const unsigned base = blockIdx.x * kThreads;
  words[base + threadIdx.x] = threadIdx.x;
  if (kSyncs) __syncthreads();
  out[base + threadIdx.x] = words[base + kThreads - 1 - threadIdx.x];
}
template <bool kSyncs>
__global__ void swap_in_warp(unsigned* words, unsigned* out) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  words[i] = i;
  if (kSyncs) __syncwarp();
  out[i] = words[i ^ 1];
}
template <bool kSyncs>
__global__ void __cluster_dims__(2) swap_in_cluster(unsigned* words, unsigned* out) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  words[i] = i;
  if (kSyncs) cg::this_cluster().sync();
  out[i] = words[i ^ kThreads];
}

// ---- Own places
// -------------------------------------------------------------------------------------------------------

/// All blocks write every fourth byte and half word; no two the same.
__global__ void write_side_by_side(uint8_t* bytes, uint16_t* halves, float4* vectors) {
  for (int i = 0; i < 8; ++i) bytes[(i * kThreads + threadIdx.x) * kBlocks + blockIdx.x] = 1;
  halves[threadIdx.x * kBlocks + blockIdx.x] = 2;
  vectors[threadIdx.x * kBlocks + blockIdx.x] = float4{1, 2, 3, 4};
  const float* const mine = reinterpret_cast<const float*>(&vectors[threadIdx.x * kBlocks + blockIdx.x]);
  halves[threadIdx.x * kBlocks + blockIdx.x] = static_cast<uint16_t>(mine[1]);
}
__global__ void write_one_byte_too_far(uint8_t* bytes) {
  bytes[threadIdx.x * kBlocks + blockIdx.x] = 1;
  if (threadIdx.x == 5) bytes[threadIdx.x * kBlocks + (blockIdx.x + 1) % kBlocks] = static_cast<uint8_t>(blockIdx.x);
}
/// Blocks take tiles of work from a counter.
__global__ void take_tiles(unsigned* next, unsigned* tiles) {
  __shared__ unsigned tile;
  for (;;) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1u);
    __syncthreads();
    if (tile >= 16) return;
    tiles[tile * kThreads + threadIdx.x] += 1;
    __syncthreads();
  }
}
__global__ void shift_in_place(unsigned* words) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  const unsigned value = words[(i + 1) % kWords];
  words[i] = value;
}

// ---- Launches
// ---------------------------------------------------------------------------------------------------------

__global__ void fill(unsigned* words, unsigned value) { words[blockIdx.x * kThreads + threadIdx.x] = value; }
__global__ void fill_slowly(unsigned* words, unsigned value) { words[blockIdx.x * kThreads + threadIdx.x] = value; }
__global__ void copy_words(const unsigned* words, unsigned* out) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  out[i] = words[kWords - 1 - i];
}
__global__ void copy_words_too(const unsigned* words, unsigned* out) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  out[i] = words[kWords - 1 - i];
}

/// Comes between two grids of a chain, and does not need the first.
template <bool kWaits>
__global__ void write_elsewhere(unsigned* to) {
  cudaTriggerProgrammaticLaunchCompletion();
  to[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  if (kWaits) cudaGridDependencySynchronize();
}

enum class Wait { right, by_one_thread, none, too_late };

template <Wait kWait>
__global__ void copy_after_dependencies(const unsigned* words, unsigned* out) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  unsigned early = 0;
  if (kWait == Wait::too_late) early = words[i];
  if (kWait == Wait::right || kWait == Wait::too_late) cudaGridDependencySynchronize();
  if (kWait == Wait::by_one_thread) {
    if (threadIdx.x == 0) cudaGridDependencySynchronize();
    __syncthreads();
  }
  out[i] = words[kWords - 1 - i] + early;
}
__global__ void fill_and_trigger(unsigned* words, unsigned value) {
  cudaTriggerProgrammaticLaunchCompletion();
  words[blockIdx.x * kThreads + threadIdx.x] = value;
}

// ---- Bulk copies
// ------------------------------------------------------------------------------------------------------

/// Stores 256 bytes of shared memory to global memory by TMA.
template <bool kReadOnly>
__device__ void bulk_store(unsigned* to, const unsigned* tile) {
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(to), "r"(shared_address(tile))
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  if (kReadOnly) {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  } else {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
__device__ void bulk_load(unsigned* tile, const unsigned* from, uint64_t* barrier) {
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(
                     shared_address(tile)),
                 "l"(from), "r"(shared_address(barrier))
                 : "memory");
  }
  __syncthreads();
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared.b64 done, [%0], 0;\n@!done bra again;\n}" ::"r"(
          shared_address(barrier))
      : "memory");
}

template <bool kReadOnly>
__global__ void store_in_bulk(unsigned* words, unsigned* flag, unsigned* out) {
  __shared__ alignas(128) unsigned tile[kThreads];
  if (blockIdx.x == 0) {
    tile[threadIdx.x] = threadIdx.x;
    bulk_store<kReadOnly>(words, tile);
    if (threadIdx.x == 0) store_release_gpu(flag, 1);
    return;
  }
  if (threadIdx.x == 0) {
    while (load_acquire_gpu(flag) == 0) {
    }
    // Late enough to find the new value.
    for (int i = 0; i < 3000; ++i) asm volatile("" ::: "memory");
  }
  __syncthreads();
  out[threadIdx.x] = words[threadIdx.x ^ 1];
}
__global__ void store_in_bulk_and_end(unsigned* words) {
  __shared__ alignas(128) unsigned tile[kThreads];
  tile[threadIdx.x] = threadIdx.x;
  bulk_store<true>(words + blockIdx.x * kThreads, tile);
}

enum class Fence { of_writer, of_reader, none };

template <Fence kFence>
__global__ void load_in_bulk(unsigned* words, unsigned* flag, unsigned* out) {
  __shared__ alignas(128) unsigned tile[kThreads];
  __shared__ alignas(8) uint64_t barrier;
  if (blockIdx.x == 0) {
    words[threadIdx.x] = threadIdx.x;
    if (kFence == Fence::of_writer) fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) store_release_gpu(flag, 1);
    return;
  }
  if (threadIdx.x == 0) {
    while (load_acquire_gpu(flag) == 0) {
    }
    if (kFence == Fence::of_reader) fence_proxy_async();
  }
  bulk_load(tile, words, &barrier);
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}
/// Loads in bulk what the launch before has written.
__global__ void load_in_bulk_at_once(const unsigned* words, unsigned* out) {
  __shared__ alignas(128) unsigned tile[kThreads];
  __shared__ alignas(8) uint64_t barrier;
  bulk_load(tile, words, &barrier);
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}
__global__ void load_in_bulk_after_dependencies(const unsigned* words, unsigned* out) {
  __shared__ alignas(128) unsigned tile[kThreads];
  __shared__ alignas(8) uint64_t barrier;
  cudaGridDependencySynchronize();
  bulk_load(tile, words, &barrier);
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

// ---- The tests
// --------------------------------------------------------------------------------------------------------

class GlobalMemory : public testing::Test {
 protected:
  void SetUp() override {
    words = zeros(16 * kWords);
    out = zeros(16 * kWords);
    flags = zeros(64);
    EXPECT_EQ(cudaDeviceSynchronize(),
              cudaSuccess);  // cudaMemset returns at once, and other streams do not wait for it
  }
  void TearDown() override {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (void* pointer : taken_) EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  }
  unsigned* fresh(size_t count) {
    void* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, count * sizeof(unsigned)), cudaSuccess);
    taken_.push_back(pointer);
    return static_cast<unsigned*>(pointer);
  }
  unsigned* zeros(size_t count) {
    unsigned* const pointer = fresh(count);
    EXPECT_EQ(cudaMemset(pointer, 0, count * sizeof(unsigned)), cudaSuccess);
    return pointer;
  }
  static std::string said(const std::function<void()>& program) {
    testing::internal::CaptureStderr();
    program();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return testing::internal::GetCapturedStderr();
  }
  static void expect_silence(const std::function<void()>& program) { EXPECT_EQ(said(program), ""); }
  static void expect_report(const std::function<void()>& program, const std::vector<std::string>& words_of_it) {
    const std::string report = said(program);
    for (const std::string& each : words_of_it)
      EXPECT_NE(report.find(each), std::string::npos) << each << "\n" << report;
  }
  static void launch_overlapping(const void* kernel, void** arguments, int blocks = kBlocks) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(kThreads);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    EXPECT_EQ(cudaLaunchKernelExC(&config, kernel, arguments), cudaSuccess);
  }
  template <typename... Arguments>
  static void launch_overlapping(void (*kernel)(Arguments...), int blocks, Arguments... arguments) {
    void* pointers[] = {&arguments...};
    launch_overlapping(reinterpret_cast<const void*>(kernel), pointers, blocks);
  }
  static void launch_cooperative(const void* kernel, void** arguments) {
    EXPECT_EQ(cudaLaunchCooperativeKernel(kernel, dim3(kBlocks), dim3(kThreads), arguments, 0, nullptr), cudaSuccess);
  }
  static cudaStream_t stream() {
    cudaStream_t made = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), cudaSuccess);
    return made;
  }

  unsigned* words = nullptr;
  unsigned* out = nullptr;
  unsigned* flags = nullptr;

 private:
  std::vector<void*> taken_;
};

#define HAND_OVER(flag) hand_over<Flag::flag><<<kBlocks, kThreads>>>(words, flags, out)

TEST_F(GlobalMemory, IsSilentOnHandOversByFlags) {
  expect_silence([&] { HAND_OVER(release_acquire); });
  expect_silence([&] { cudaMemset(flags, 0, 4), HAND_OVER(volatile_with_fences); });
  expect_silence([&] { cudaMemset(flags, 0, 4), HAND_OVER(atomics_with_fences); });
  expect_silence([&] { cudaMemset(flags, 0, 4), HAND_OVER(atomic_ref); });
}
TEST_F(GlobalMemory, NamesAReleaseOfTooNarrowAScope) {
  expect_report([&] { HAND_OVER(release_cta); },
                {"race: reads bytes 0 to 3 of cudaMalloc", "writes it at global_memory_test.cu:",
                 "the release at global_memory_test.cu:", "has scope .cta, which orders nothing for block (1,0,0)",
                 "the scope of the device"});
}
TEST_F(GlobalMemory, NamesAnAtomicOfTheBlocksScope) {
  expect_report([&] { HAND_OVER(atomic_ref_of_block); }, {"race: reads", "scope .cta, which orders nothing for block"});
}
TEST_F(GlobalMemory, NamesAnAcquireOfTooNarrowAScope) {
  expect_report([&] { HAND_OVER(acquire_cta); },
                {"race: reads", "the acquire at global_memory_test.cu", "has scope .cta"});
}
TEST_F(GlobalMemory, NamesAFenceOfTheBlock) {
  expect_report([&] { HAND_OVER(block_fence); }, {"race: reads", "has scope .cta, which orders nothing for"});
}
TEST_F(GlobalMemory, FindsAMissingReleaseFence) {
  expect_report([&] { HAND_OVER(no_release_fence); },
                {"race: reads", "has read what is written at global_memory_test.cu:",
                 "is relaxed, and no fence is before it", "a __threadfence() before global_memory_test.cu:"});
}
TEST_F(GlobalMemory, FindsAMissingAcquireFence) {
  expect_report([&] { HAND_OVER(no_acquire_fence); }, {"race: reads", "nothing orders the two"});
}
TEST_F(GlobalMemory, FindsAMissingBarrierAfterTheAcquire) {
  expect_report(
      [&] { HAND_OVER(no_barrier_after); },
      {"race: reads", "block (1,0,0) warp 0 [lane 0] has read the flag at global_memory_test.cu:", "no __sync"});
}

TEST_F(GlobalMemory, IsSilentWhereTheLastBlockAdds) {
  auto* const in = reinterpret_cast<float*>(words);
  auto* const sums = reinterpret_cast<float*>(out);
  expect_silence([&] {
    last_block_adds<Last::right><<<kBlocks, kThreads>>>(in, sums, flags, sums + 64);
    last_block_adds<Last::right><<<kBlocks, kThreads>>>(in, sums, flags, sums + 64);
  });
}
TEST_F(GlobalMemory, FindsALastBlockWithoutFences) {
  auto* const in = reinterpret_cast<float*>(words);
  auto* const sums = reinterpret_cast<float*>(out);
  expect_report([&] { last_block_adds<Last::no_fence><<<kBlocks, kThreads>>>(in, sums, flags, sums + 64); },
                {"race: reads",
                 "this thread's read of the flag at global_memory_test.cu:", "is relaxed, and no fence is before it"});
}
TEST_F(GlobalMemory, NamesTheScopeOfALastBlocksFence) {
  auto* const in = reinterpret_cast<float*>(words);
  auto* const sums = reinterpret_cast<float*>(out);
  expect_report([&] { last_block_adds<Last::fence_of_block><<<kBlocks, kThreads>>>(in, sums, flags, sums + 64); },
                {"race: reads", "has scope .cta"});
}

TEST_F(GlobalMemory, HoldsAReadAgainstEachAtomicAndNotTheLastAlone) {
  expect_silence([&] { last_block_reads_bins<Count::after_all><<<kBlocks, kThreads>>>(words, out, flags, out + 64); });
  expect_report(
      [&] { last_block_reads_bins<Count::after_own><<<kBlocks, kThreads>>>(words, out, flags + 1, out + 64); },
      {"race: reads", "writes it at global_memory_test.cu:"});
}
TEST_F(GlobalMemory, HoldsAnAtomicAgainstAPlainWriteBehindAnother) {
  expect_report([&] { zeroes_a_counter_that_all_add_to<<<kBlocks, kThreads>>>(flags); },
                {"race: writes", "block (0,0,0) warp 0 [lane 0] writes it"});
}
TEST_F(GlobalMemory, IsSilentOnAResetAfterTheLastTicket) {
  expect_silence([&] {
    draws_tickets<<<kBlocks, kThreads>>>(flags, out);
    draws_tickets<<<kBlocks, kThreads>>>(flags, out);
  });
}

TEST_F(GlobalMemory, IsSilentOnBarriersOfTheGrid) {
  void* arguments[] = {&words, &out};
  expect_silence([&] { launch_cooperative(reinterpret_cast<const void*>(neighbours_by_grid_sync<true>), arguments); });
  expect_silence([&] { neighbours_by_own_barrier<true><<<kBlocks, kThreads>>>(words, flags, flags + 1, out); });
}
TEST_F(GlobalMemory, FindsAMissingBarrierOfTheGrid) {
  void* arguments[] = {&words, &out};
  expect_report([&] { launch_cooperative(reinterpret_cast<const void*>(neighbours_by_grid_sync<false>), arguments); },
                {"race: "});
}
TEST_F(GlobalMemory, FindsABarrierOfTheGridWithoutFences) {
  expect_report([&] { neighbours_by_own_barrier<false><<<kBlocks, kThreads>>>(words, flags, flags + 1, out); },
                {"race: reads"});
}

TEST_F(GlobalMemory, IsSilentOnAScanThatLooksBack) {
  expect_silence(
      [&] { scan_with_look_back<true><<<kBlocks, kThreads>>>(words, out, flags, flags + 32, out + kWords); });
}
TEST_F(GlobalMemory, FindsAScanThatLooksBackWithoutFences) {
  expect_report([&] { scan_with_look_back<false><<<kBlocks, kThreads>>>(words, out, flags, flags + 32, out + kWords); },
                {"race: reads"});
}

TEST_F(GlobalMemory, IsSilentOnCountersThatAreAtomicOrOfOneThread) {
  expect_silence([&] { count_atomically<<<kBlocks, kThreads>>>(flags); });
  expect_silence([&] { count_by_one_thread<<<kBlocks, kThreads>>>(flags); });
  expect_silence([&] { count_under_lock<true><<<kBlocks, kThreads>>>(flags + 8, flags + 9); });
}
TEST_F(GlobalMemory, NamesACountThatIsNotAtomic) {
  expect_report([&] { count_by_threads<<<1, 32>>>(flags); },
                {"race: writes bytes 0 to 3 of", "reads a value, changes it and writes it back", "use atomicAdd"});
}
TEST_F(GlobalMemory, NamesACountOfBlocksThatIsNotAtomic) {
  expect_report([&] { count_by_blocks<<<kBlocks, kThreads>>>(flags); }, {"race: ", "use atomicAdd"});
}
TEST_F(GlobalMemory, FindsAPlainReadOfACounter) {
  expect_report([&] { look_at_counter<<<kBlocks, kThreads>>>(flags, out); }, {"race: "});
}
TEST_F(GlobalMemory, FindsALockThatIsReleasedWithoutAFence) {
  expect_report([&] { count_under_lock<false><<<kBlocks, kThreads>>>(flags + 8, flags + 9); }, {"race: "});
}

TEST_F(GlobalMemory, IsSilentOnBarriersOfBlocksWarpsAndClusters) {
  expect_silence([&] { swap_in_block<true><<<kBlocks, kThreads>>>(words, out); });
  expect_silence([&] { swap_in_warp<true><<<kBlocks, kThreads>>>(words, out); });
  expect_silence([&] { swap_in_cluster<true><<<kBlocks, kThreads>>>(words, out); });
}
TEST_F(GlobalMemory, FindsAMissingBarrierOfABlock) {
  expect_report([&] { swap_in_block<false><<<kBlocks, kThreads>>>(words, out); }, {"race: ", "__syncthreads()"});
}
TEST_F(GlobalMemory, FindsAMissingBarrierOfAWarp) {
  expect_report([&] { swap_in_warp<false><<<kBlocks, kThreads>>>(words, out); }, {"race: ", "__syncwarp()"});
}
TEST_F(GlobalMemory, FindsAMissingBarrierOfACluster) {
  expect_report([&] { swap_in_cluster<false><<<kBlocks, kThreads>>>(words, out); }, {"race: "});
}

TEST_F(GlobalMemory, IsSilentOnPlacesOfEachThread) {
  expect_silence([&] {
    write_side_by_side<<<kBlocks, kThreads>>>(reinterpret_cast<uint8_t*>(words), reinterpret_cast<uint16_t*>(out),
                                              reinterpret_cast<float4*>(out + 8 * kWords));
  });
  expect_silence([&] { take_tiles<<<kBlocks, kThreads>>>(flags, words); });
}
TEST_F(GlobalMemory, FindsAByteOfAnotherBlock) {
  expect_report([&] { write_one_byte_too_far<<<kBlocks, kThreads>>>(reinterpret_cast<uint8_t*>(words)); },
                {"race: writes byte"});
}
TEST_F(GlobalMemory, FindsAWriteOfWhatOthersStillRead) {
  expect_report([&] { shift_in_place<<<kBlocks, kThreads>>>(words); }, {"race: writes", "reads it at"});
}

TEST_F(GlobalMemory, IsSilentOnLaunchesOfOneStream) {
  expect_silence([&] {
    fill<<<kBlocks, kThreads>>>(words, 1);
    copy_words<<<kBlocks, kThreads>>>(words, out);
    fill<<<kBlocks, kThreads>>>(words, 2);
  });
}
TEST_F(GlobalMemory, FindsTwoStreamsWithoutAnEvent) {
  const cudaStream_t one = stream(), other = stream();
  expect_report(
      [&] {
        fill_slowly<<<kBlocks, kThreads, 0, one>>>(words, 1);
        copy_words_too<<<kBlocks, kThreads, 0, other>>>(words, out);
      },
      {"race: reads", "kernel ", "fill_slowly", "no event or wait of the host is between them", "cudaStreamWaitEvent"});
}
TEST_F(GlobalMemory, IsSilentOnStreamsThatWaitForAnEvent) {
  const cudaStream_t one = stream(), other = stream();
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  expect_silence([&] {
    fill<<<kBlocks, kThreads, 0, one>>>(words, 1);
    cudaEventRecord(event, one);
    cudaStreamWaitEvent(other, event, 0);
    copy_words<<<kBlocks, kThreads, 0, other>>>(words, out);
    cudaEventRecord(event, other);
    cudaEventSynchronize(event);
    fill<<<kBlocks, kThreads, 0, one>>>(words, 2);
  });
}
TEST_F(GlobalMemory, FindsAnEventThatIsRecordedTooEarly) {
  const cudaStream_t one = stream(), other = stream();
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  expect_report(
      [&] {
        cudaEventRecord(event, one);
        fill<<<kBlocks, kThreads, 0, one>>>(words, 1);
        cudaStreamWaitEvent(other, event, 0);
        copy_words<<<kBlocks, kThreads, 0, other>>>(words, out);
      },
      {"race: reads", "no event or wait of the host"});
}
TEST_F(GlobalMemory, IsSilentOnCopiesAfterAWaitOfTheHost) {
  const cudaStream_t one = stream();
  std::vector<unsigned> host(kWords);
  expect_silence([&] {
    fill<<<kBlocks, kThreads, 0, one>>>(words, 1);
    cudaStreamSynchronize(one);
    cudaMemcpy(host.data(), words, kWords * 4, cudaMemcpyDeviceToHost);
    fill<<<kBlocks, kThreads>>>(words, 2);  // the legacy stream waits for itself
    cudaMemcpy(host.data(), words, kWords * 4, cudaMemcpyDeviceToHost);
    fill<<<kBlocks, kThreads, 0, one>>>(words, 3);
    cudaMemcpyAsync(host.data(), words, kWords * 4, cudaMemcpyDeviceToHost, one);
    cudaDeviceSynchronize();
    cudaMemset(words, 0, 4);
  });
}
TEST_F(GlobalMemory, FindsACopyOfTheLegacyStreamThatWaitsForNothing) {
  const cudaStream_t one = stream();
  std::vector<unsigned> host(kWords);
  expect_report(
      [&] {
        fill<<<kBlocks, kThreads, 0, one>>>(words, 1);
        cudaMemcpy(host.data(), words, kWords * 4, cudaMemcpyDeviceToHost);
      },
      {"race: a cudaMemcpy reads byte 0 of cudaMalloc", "fill", "cudaStreamSynchronize"});
}
TEST_F(GlobalMemory, FindsAFillThatOvertakesAKernel) {
  const cudaStream_t one = stream(), other = stream();
  expect_report(
      [&] {
        copy_words<<<kBlocks, kThreads, 0, one>>>(words, out);
        cudaMemsetAsync(words, 0, kWords * 4, other);
      },
      {"race: a cudaMemset writes byte 0 of cudaMalloc", "copy_words"});
}
TEST_F(GlobalMemory, IsSilentOnAGraphThatJoins) {
  const cudaStream_t one = stream(), other = stream();
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  expect_silence([&] {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t made = nullptr;
    cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
    fill<<<kBlocks, kThreads, 0, one>>>(words, 1);
    cudaEventRecord(event, one);
    cudaStreamWaitEvent(other, event, 0);
    copy_words<<<kBlocks, kThreads, 0, other>>>(words, out);
    cudaEventRecord(event, other);
    cudaStreamWaitEvent(one, event, 0);
    cudaStreamEndCapture(one, &graph);
    cudaGraphInstantiate(&made, graph, 0);
    cudaGraphLaunch(made, one);
    cudaGraphLaunch(made, one);
    cudaStreamSynchronize(one);
  });
}

TEST_F(GlobalMemory, IsSilentOnDependentLaunchesThatWait) {
  expect_silence([&] {
    fill_and_trigger<<<kBlocks, kThreads>>>(words, 1);
    launch_overlapping(copy_after_dependencies<Wait::right>, kBlocks, static_cast<const unsigned*>(words), out);
    launch_overlapping(copy_after_dependencies<Wait::by_one_thread>, kBlocks, static_cast<const unsigned*>(words), out);
  });
}
TEST_F(GlobalMemory, FindsADependentLaunchThatDoesNotWait) {
  expect_report(
      [&] {
        fill_and_trigger<<<kBlocks, kThreads>>>(words, 1);
        launch_overlapping(copy_after_dependencies<Wait::none>, kBlocks, static_cast<const unsigned*>(words), out);
      },
      {"race: reads", "this launch may begin before", "griddepcontrol.wait"});
}
TEST_F(GlobalMemory, FindsADependentLaunchThatReadsBeforeItWaits) {
  expect_report(
      [&] {
        fill_and_trigger<<<kBlocks, kThreads>>>(words, 1);
        launch_overlapping(copy_after_dependencies<Wait::too_late>, kBlocks, static_cast<const unsigned*>(words), out);
      },
      {"race: reads", "griddepcontrol.wait"});
}
TEST_F(GlobalMemory, FindsAChainOfLaunchesThatOneWithoutAWaitBreaks) {
  unsigned* const elsewhere = zeros(2 * kWords);
  const unsigned* const read = words;
  const auto begin = [&](void (*middle)(unsigned*)) {
    fill_and_trigger<<<kBlocks, kThreads>>>(words, 1);
    launch_overlapping(middle, kBlocks, elsewhere);
  };
  const std::vector<std::string> report = {"race: reads", "kernel fill_and_trigger",
                                           "this launch comes after kernel write_elsewhere<false>",
                                           "execute griddepcontrol.wait"};
  const auto read_early = [&] { launch_overlapping(copy_after_dependencies<Wait::right>, kBlocks, read, out); };
  const auto read_in_order = [&] { copy_words<<<kBlocks, kThreads>>>(words, out); };
  for (const std::function<void()>& end : {std::function<void()>(read_early), std::function<void()>(read_in_order)}) {
    expect_silence([&] {
      begin(write_elsewhere<true>);
      end();
    });
    expect_report(
        [&] {
          begin(write_elsewhere<false>);
          end();
        },
        report);
  }
  expect_report(  // a link further on
      [&] {
        begin(write_elsewhere<false>);
        launch_overlapping(write_elsewhere<true>, kBlocks, elsewhere + kWords);
        launch_overlapping(copy_after_dependencies<Wait::by_one_thread>, kBlocks, read, out);
      },
      report);
  expect_silence([&] {  // the host waits for all
    begin(write_elsewhere<false>);
    cudaDeviceSynchronize();
    read_early();
  });
  expect_silence([&] {  // so does a copy
    begin(write_elsewhere<false>);
    cudaMemcpyAsync(elsewhere, elsewhere + kThreads, sizeof(unsigned), cudaMemcpyDeviceToDevice);
    read_early();
  });
}
TEST_F(GlobalMemory, ToleratesACopyAfterDependenciesWithoutAProxyFence) {
  expect_report(
      [&] {
        fill_and_trigger<<<kBlocks, kThreads>>>(words, 1);
        launch_overlapping(load_in_bulk_after_dependencies, 1, static_cast<const unsigned*>(words), out);
      },
      {"missing proxy fence", "griddepcontrol.wait", "CUTLASS"});
}

TEST_F(GlobalMemory, IsSilentOnBulkStoresThatAreWaitedForOrEndWithTheKernel) {
  expect_silence([&] { store_in_bulk<false><<<2, kThreads>>>(words, flags, out); });
  expect_silence([&] {
    store_in_bulk_and_end<<<kBlocks, kThreads>>>(words);
    copy_words<<<kBlocks, kThreads>>>(words, out);
    load_in_bulk_at_once<<<1, kThreads>>>(words, out);
  });
}
TEST_F(GlobalMemory, FindsABulkStoreOfWhichOnlyTheReadingWasAwaited) {
  expect_report([&] { store_in_bulk<true><<<2, kThreads>>>(words, flags, out); }, {"wait_group", ".read"});
}
TEST_F(GlobalMemory, IsSilentOnBulkLoadsAfterAProxyFence) {
  expect_silence([&] { load_in_bulk<Fence::of_writer><<<2, kThreads>>>(words, flags, out); });
  cudaMemset(flags, 0, 4);
  expect_silence([&] { load_in_bulk<Fence::of_reader><<<2, kThreads>>>(words, flags, out); });
}
TEST_F(GlobalMemory, FindsABulkLoadWithoutAProxyFence) {
  expect_report([&] { load_in_bulk<Fence::none><<<2, kThreads>>>(words, flags, out); },
                {"missing proxy fence", "fence.proxy.async"});
}

TEST_F(GlobalMemory, FindsAReadOfWhatNothingWrote) {
  unsigned* const never = fresh(kWords);
  expect_report([&] { copy_words<<<kBlocks, kThreads>>>(never, out); },
                {"uninitialised read", "which nothing has written", "cudaMemset"});
}
TEST_F(GlobalMemory, IsSilentOnReadsOfWhatACopyOrAKernelWrote) {
  unsigned* const copied = fresh(kWords);
  unsigned* const computed = fresh(kWords);
  const std::vector<unsigned> host(kWords, 1);
  expect_silence([&] {
    cudaMemcpy(copied, host.data(), kWords * 4, cudaMemcpyHostToDevice);
    copy_words<<<kBlocks, kThreads>>>(copied, computed);
    copy_words<<<kBlocks, kThreads>>>(computed, out);
  });
}

/// The environment is read with the first call of CUDA.
const int prepare = [] {
  setenv("STAGECRAFT_CHECKS", "global", 1);
  setenv("STAGECRAFT_FINDINGS", "report", 1);
  setenv("STAGECRAFT_EXIT_STATUS", "program", 1);
  return 0;
}();

}  // namespace
