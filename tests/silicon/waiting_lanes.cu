// Which lanes of a warp wait at the end of an `if` or of a loop for those that are still in it: for long work, for
// lanes that spin or sleep, for the owner of a lock. Each section prints which lanes noted which mask of active lanes.
#include <cooperative_groups.h>

#include "lane_notes.hpp"

namespace cg = cooperative_groups;

// Warp 1 sets the flag after a long time, and ends.
__device__ void set_flag_late(Notes* notes, uint32_t x) {
  if (threadIdx.x != 32) return;
  work(x, 200000);
  *const_cast<volatile uint32_t*>(notes->memory) = 1 + (x == 5);
}
#define OTHER_WARP() \
  if (threadIdx.x >= 32) return set_flag_late(notes, x);
__global__ void long_side(Notes* notes, uint32_t x) {
  if (lane() < 4) {
    work(x, 100000);
    NOTE(0, active());
  }
  NOTE(1, active());
  notes->memory[lane()] = x;
}
__global__ void long_side_of_volatile_reads(Notes* notes, uint32_t x) {
  volatile uint32_t* m = notes->memory + 32;
  if (lane() < 4) {
#pragma unroll 1
    for (int i = 0; i < 3000; ++i) x += m[x & 31];
    NOTE(0, active());
  }
  NOTE(1, active());
  notes->memory[lane()] = x;
}
__global__ void long_side_of_atomics(Notes* notes, uint32_t x) {
  if (lane() < 4) {
#pragma unroll 1
    for (int i = 0; i < 3000; ++i) x += atomicAdd(notes->memory + 32 + (x & 31), 1);
    NOTE(0, active());
  }
  NOTE(1, active());
  notes->memory[lane()] = x;
}
__global__ void long_side_chosen_by_reads(Notes* notes, uint32_t x) {  // a volatile value decides a branch, not the end
  volatile uint32_t* m = notes->memory + 32;
  if (lane() < 4) {
#pragma unroll 1
    for (int i = 0; i < 3000; ++i) {
      if (m[x & 31] == 0) {
        x = x * 7 + 1;
        m[x & 15] = 0;
      }
    }
    NOTE(0, active());
  }
  NOTE(1, active());
  notes->memory[lane()] = x;
}
__global__ void waits_for_other_warp(Notes* notes, uint32_t x) {
  OTHER_WARP()
  volatile uint32_t* flag = notes->memory;
  if (lane() >= 8) {
    while (*flag == 0) {
    }
    NOTE(0, active());
  }
  NOTE(1, active());
}
__global__ void counts_while_waiting(Notes* notes, uint32_t x) {
  OTHER_WARP()
  volatile uint32_t* flag = notes->memory;
  uint32_t n = 0;
  if (lane() >= 8) {
    while (*flag == 0 && n < 100000000) ++n;
    NOTE(0, active());
  }
  NOTE(1, active());
  notes->memory[1] = n;
}
__global__ void sleeps_until_other_warp(Notes* notes, uint32_t x) {
  OTHER_WARP()
  volatile uint32_t* flag = notes->memory;
  if (lane() >= 8) {
    while (*flag == 0) __nanosleep(100);
    NOTE(0, active());
  }
  NOTE(1, active());
}
__global__ void sleeps_fixed_times(Notes* notes, uint32_t x) {
  if (lane() >= 8) {
#pragma unroll 1
    for (int i = 0; i < 5; ++i) __nanosleep(1000);
    NOTE(0, active());
  }
  NOTE(1, active());
}
__global__ void fences_until_other_warp(Notes* notes, uint32_t x) {
  OTHER_WARP()
  uint32_t* flag = notes->memory;
  int n = 0;
  if (lane() >= 8) {
    while (*flag == 0 && ++n < 1000000) __threadfence();
    NOTE(0, active());
  }
  NOTE(1, active());
}
__global__ void fences_until_other_side(Notes* notes, uint32_t x) {
  uint32_t* flag = notes->memory;
  int n = 0;
  if (lane() >= 8) {
    while (*flag == 0 && ++n < 100000) __threadfence();
    NOTE(0, n == 100000 ? 0xdeadu : active());
  } else {
    work(x, 300);
    if (lane() == 3) *const_cast<volatile uint32_t*>(flag) = 1 + (x == 5);
    NOTE(0, active());
  }
  NOTE(1, active());
}
__global__ void fences_until_past_join(Notes* notes, uint32_t x) {  // the flag is set after the join
  uint32_t* flag = notes->memory;
  int n = 0;
  if (lane() >= 8) {
    while (*flag == 0 && ++n < 100000) __threadfence();
    NOTE(0, n == 100000 ? 0xdeadu : active());
  }
  if (lane() == 3) *const_cast<volatile uint32_t*>(flag) = 1;
  NOTE(1, active());
}
__global__ void spins_until_past_join(Notes* notes, uint32_t x) {
  volatile uint32_t* flag = notes->memory;
  int n = 0;
  if (lane() >= 8) {
    while (*flag == 0 && ++n < 10000000) {
    }
    NOTE(0, n == 10000000 ? 0xdeadu : active());
  }
  if (lane() == 3) *flag = 1;
  NOTE(1, active());
}
__global__ void sleeps_until_past_join(Notes* notes, uint32_t x) {
  volatile uint32_t* flag = notes->memory;
  int n = 0;
  if (lane() >= 8) {
    while (*flag == 0 && ++n < 10000) __nanosleep(100);
    NOTE(0, n == 10000 ? 0xdeadu : active());
  }
  if (lane() == 3) *flag = 1;
  NOTE(1, active());
}
__global__ void waits_for_the_clock(Notes* notes, uint32_t x) {
  if (lane() >= 8) {
    const long long t = clock64();
    while (clock64() - t < 20000) {
    }
    NOTE(0, active());
  }
  NOTE(1, active());
}
__global__ void mutex_spin(Notes* notes, uint32_t) {
  uint32_t* lock = notes->memory;
  volatile uint32_t* count = notes->memory + 1;
  int n = 0;
  while (atomicCAS(lock, 0, 1) != 0)
    if (++n == 1000000) {
      NOTE(0, 0xdead);
      return;
    }
  __threadfence();
  const uint32_t mine = *count;
  *count = mine + 1;
  __threadfence();
  atomicExch(lock, 0);
  NOTE(0, mine);
}
__global__ void mutex_with_sleep(Notes* notes, uint32_t) {
  uint32_t* lock = notes->memory;
  volatile uint32_t* count = notes->memory + 1;
  int n = 0;
  unsigned ns = 8;
  while (atomicCAS(lock, 0, 1) != 0) {
    __nanosleep(ns);
    if (ns < 256) ns *= 2;
    if (++n == 20000) {
      NOTE(0, 0xdead);
      return;
    }
  }
  __threadfence();
  const uint32_t mine = *count;
  *count = mine + 1;
  __threadfence();
  atomicExch(lock, 0);
  NOTE(0, mine);
}
__global__ void lock_then_break(Notes* notes, uint32_t) {
  uint32_t* lock = notes->memory;
  volatile uint32_t* count = notes->memory + 1;
  for (int n = 0; n < 1000000; ++n) {
    if (atomicCAS(lock, 0, 1) == 0) {
      const uint32_t mine = *count;
      *count = mine + 1;
      __threadfence();
      atomicExch(lock, 0);
      NOTE(0, mine);
      break;
    }
  }
  NOTE(1, active());
}
__global__ void lock_of_tiles(Notes* notes, uint32_t) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  uint32_t* lock = notes->memory;
  volatile uint32_t* count = notes->memory + 1;
  bool got;
  int n = 0;
  do {
    uint32_t old = 0;
    if (tile.thread_rank() == 0) old = atomicCAS(lock, 0, 1);
    got = tile.shfl(old, 0) == 0;
  } while (!got && ++n < 1000000);
  uint32_t mine = *count;
  tile.sync();
  if (tile.thread_rank() == 0) {
    *count = mine + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
  tile.sync();
  NOTE(0, got ? mine : 0xdead);
}
// A warp sorts 64 words in plain shared memory; only the compiler is told that the others write.
__global__ void sort_by_fences(const uint32_t* input, uint32_t* output, uint32_t* wrong, int rounds) {
  __shared__ uint32_t all[32][64];
  uint32_t* s = all[threadIdx.x / 32];
  const int t = lane();
  for (int round = 0; round < rounds; ++round) {
    const uint32_t* in = input + ((threadIdx.x / 32 + round) & 31) * 64;
    s[t] = in[t];
    s[t + 32] = in[t + 32];
    for (int size = 2; size <= 64; size *= 2)
      for (int stride = size / 2; stride > 0; stride /= 2) {
        const int i = 2 * t - (t & (stride - 1));
        asm volatile("" ::: "memory");
        const uint32_t a = s[i], b = s[i + stride];
        if ((a > b) == ((i & size) == 0)) {
          s[i] = b;
          s[i + stride] = a;
        }
        asm volatile("" ::: "memory");
      }
    if (t && s[2 * t - 1] > s[2 * t]) atomicAdd(wrong, 1);
    if (s[2 * t] > s[2 * t + 1]) atomicAdd(wrong, 1);
    asm volatile("" ::: "memory");
  }
  output[threadIdx.x] = s[t];
}
void print_sorts(Output& output) {
  std::vector<uint32_t> input(2048);
  uint32_t random = 12345;
  for (uint32_t& word : input) word = (random = random * 1664525 + 1013904223) >> 8;
  uint32_t *device_input, *sorted, *wrong, host_wrong = 0;
  fail_on(cudaMalloc(&device_input, 8192), "cudaMalloc");
  fail_on(cudaMalloc(&sorted, 4096), "cudaMalloc");
  fail_on(cudaMalloc(&wrong, 4), "cudaMalloc");
  fail_on(cudaMemcpy(device_input, input.data(), 8192, cudaMemcpyHostToDevice), "cudaMemcpy");
  for (const int threads : {32, 128, 1024}) {
    fail_on(cudaMemset(wrong, 0, 4), "cudaMemset");
    sort_by_fences<<<1, threads>>>(device_input, sorted, wrong, 32);
    fail_on(cudaDeviceSynchronize(), "sort_by_fences");
    fail_on(cudaMemcpy(&host_wrong, wrong, 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
    output.line("  threads %d: %u out of order", threads, host_wrong);
  }
}

int main(int argc, char** argv) {
  Output output(argc, argv);
#define GROUPS(KERNEL, THREADS) \
  if (output.begin(#KERNEL)) print_groups(output, run(KERNEL, #KERNEL, THREADS))
  GROUPS(long_side, 32);
  GROUPS(long_side_of_volatile_reads, 32);
  GROUPS(long_side_of_atomics, 32);
  GROUPS(long_side_chosen_by_reads, 32);
  GROUPS(waits_for_other_warp, 64);
  GROUPS(counts_while_waiting, 64);
  GROUPS(sleeps_until_other_warp, 64);
  GROUPS(sleeps_fixed_times, 32);
  GROUPS(fences_until_other_warp, 64);
  GROUPS(fences_until_other_side, 32);
  GROUPS(fences_until_past_join, 32);
  GROUPS(spins_until_past_join, 32);
  GROUPS(sleeps_until_past_join, 32);
  GROUPS(waits_for_the_clock, 32);
  if (output.begin("sort_by_fences")) print_sorts(output);
#define LOCK(KERNEL)                            \
  if (output.begin(#KERNEL)) {                  \
    const Notes notes = run(KERNEL, #KERNEL);   \
    output.line("  count %u", notes.memory[1]); \
    print_groups(output, notes);                \
  }
  LOCK(mutex_spin);
  LOCK(mutex_with_sleep);
  LOCK(lock_then_break);
  LOCK(lock_of_tiles);
  return output.finish();
}
