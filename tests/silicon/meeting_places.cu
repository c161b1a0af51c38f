// Lanes that execute the same .sync operation in different places of the program: on both sides of a branch, in
// different loops, or in a function that is called from two places. PTX lets each wait until all members of the mask
// have executed "the same" operation, which says nothing about where. Each section prints what the lanes got. There is
// none with __reduce_add_sync() on both sides, because it hangs on an H200 (nvcc 13.0).
#include "lane_notes.hpp"

__global__ void shuffle_on_both_sides(Notes* notes, uint32_t x) {
  const uint32_t value = lane() * 3 + x;
  if (lane() % 4 < 2) {
    work(x, 20);
    NOTE(0, __shfl_xor_sync(~0u, value, 2) + 1000);
  } else {
    work(x, 3);
    NOTE(0, __shfl_xor_sync(~0u, value + 100, 2) * 2);
  }
  NOTE(1, active());
  notes->memory[lane()] = x;
}
// The lanes on one side read from the others, which read from each other.
__global__ void shuffle_with_other_distances(Notes* notes, uint32_t x) {
  if (lane() < 8) {
    work(x, 9);
    NOTE(0, __shfl_sync(~0u, lane() + 50, 31 - lane()));
  } else {
    NOTE(0, __shfl_sync(~0u, lane() + 100, lane() ^ 8));
    work(x, 30);
  }
  notes->memory[lane()] = x;
}
__global__ void ballot_on_both_sides(Notes* notes, uint32_t x) {
  if (lane() & 1) {
    work(x, 20);
    NOTE(0, __ballot_sync(~0u, lane() % 3 == 0));
  } else {
    NOTE(0, ~__ballot_sync(~0u, lane() % 5 != 0));
    work(x, 5);
  }
  NOTE(1, __ballot_sync(~0u, lane() & 4));
  notes->memory[lane()] = x;
}
__global__ void match_on_both_sides(Notes* notes, uint32_t x) {
  if (lane() < 20) {
    work(x, 20);
    NOTE(0, __match_any_sync(~0u, lane() % 3));
  } else {
    NOTE(0, __match_any_sync(~0u, lane() & 1) + 1);
    work(x, 5);
  }
  notes->memory[lane()] = x;
}
__global__ void elect_on_both_sides(Notes* notes, uint32_t x) {
  uint32_t elected, chosen;
#define ELECT()                                                                       \
  asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; selp.u32 %1, 1, 0, p; }" \
               : "=r"(elected), "=r"(chosen)::"memory")
  if (lane() >= 5) {
    work(x, 20);
    ELECT();
    NOTE(0, elected * 2 + chosen);
  } else {
    ELECT();
    NOTE(0, elected * 2 + chosen + 100);
    work(x, 5);
  }
  notes->memory[lane()] = x;
}
// Each side reads what the other stored before __syncwarp().
__global__ void syncwarp_on_both_sides(Notes* notes, uint32_t x) {
  __shared__ uint32_t words[32];
  if (lane() < 12) {
    work(x, 100);
    words[lane()] = lane() + 1;
    __syncwarp();
    NOTE(0, words[31 - lane()]);
  } else {
    words[lane()] = lane() + 100;
    __syncwarp();
    work(x, 5);
    NOTE(0, words[31 - lane()]);
  }
  notes->memory[lane()] = x;
}
// One side goes through a loop, the other through three instructions, and a third of the lanes has left.
__global__ void syncwarp_in_a_loop_and_in_line(Notes* notes, uint32_t x) {
  __shared__ volatile uint32_t words[32];
  if (lane() % 3 == 2) return;
  constexpr uint32_t members = 0xdb6db6db;
  words[lane()] = 0;
  __syncwarp(members);
  if (lane() % 3 == 0) {
#pragma unroll 1
    for (int i = 0; i < 3; ++i) {
      words[lane()] = words[lane()] + 10 * i + 1;
      work(x, 30);
      __syncwarp(members);
      NOTE(i, words[(lane() + 1) % 32]);
      __syncwarp(members);
    }
  } else {
    words[lane()] = 5;
    __syncwarp(members);
    NOTE(0, words[lane() - 1]);
    __syncwarp(members);
    words[lane()] = 6;
    work(x, 40);
    __syncwarp(members);
    NOTE(1, words[lane() - 1]);
    __syncwarp(members);
    words[lane()] = 7;
    __syncwarp(members);
    NOTE(2, words[lane() - 1]);
    __syncwarp(members);
    work(x, 3);
  }
  notes->memory[lane()] = x;
}
__device__ __noinline__ uint32_t exchange(uint32_t value, uint32_t x) {
  work(x, 4);
  return __shfl_xor_sync(~0u, value, 1) + (x == 3);
}
__global__ void shuffle_in_a_function(Notes* notes, uint32_t x) {
  if (lane() & 1) {
    work(x, 20);
    NOTE(0, exchange(lane() + 7, x) + 1000);
  } else {
    NOTE(0, exchange(lane() * 2, x));
    work(x, 5);
  }
  NOTE(1, active());
}
__global__ void syncwarp_at_different_turns(Notes* notes, uint32_t x) {
#pragma unroll 1
  for (int i = 0; i < 8; ++i) {
    if ((lane() + i) % 4 == 0) {
      work(x, 5 + lane());
      NOTE(i, __ballot_sync(~0u, lane() & 1));
    } else if ((lane() + i) % 4 == 1) {
      NOTE(i, __ballot_sync(~0u, lane() & 2) + 1);
      work(x, 3);
    } else {
      work(x, 9);
      NOTE(i, __ballot_sync(~0u, lane() & 4) + 2);
    }
  }
  notes->memory[lane()] = x;
}

int main(int argc, char** argv) {
  Output output(argc, argv);
#define GROUPS(KERNEL) \
  if (output.begin(#KERNEL)) print_groups(output, run(KERNEL, #KERNEL))
  GROUPS(shuffle_on_both_sides);
  GROUPS(shuffle_with_other_distances);
  GROUPS(ballot_on_both_sides);
  GROUPS(match_on_both_sides);
  GROUPS(elect_on_both_sides);
  GROUPS(syncwarp_on_both_sides);
  GROUPS(syncwarp_in_a_loop_and_in_line);
  GROUPS(shuffle_in_a_function);
  GROUPS(syncwarp_at_different_turns);
  return output.finish();
}
