// How the lanes of a warp part and meet again. No instruction here asks them to meet, unless a section says so: what
// each prints is the compiler's and the chip's choice. Each section prints which lanes noted which mask of active
// lanes, or the order in which lanes came by, or the result of code that counts on lanes going in step.
#include "lane_notes.hpp"

__global__ void after_if(Notes* notes, uint32_t x) {
  if (lane() % 3 == 0) {
    NOTE(0, active());
    work(x);
  }
  NOTE(1, active());
  notes->memory[lane()] = x;
}
__global__ void after_if_else(Notes* notes, uint32_t x) {
  if (lane() & 1) {
    NOTE(0, active());
    work(x, 100);
  } else {
    NOTE(1, active());
    work(x, 3);
  }
  NOTE(2, active());
  notes->memory[lane()] = x;
}
__global__ void nested_ifs(Notes* notes, uint32_t x) {
  if (lane() < 20) {
    if (lane() & 1) {
      if (lane() > 6) {
        work(x, 9);
        NOTE(0, active());
      }
      NOTE(1, active());
    } else {
      work(x, 50);
    }
    NOTE(2, active());
  }
  NOTE(3, active());
  notes->memory[lane()] = x;
}
__global__ void trip_counts(Notes* notes, uint32_t x) {
  for (int i = 0; i <= lane() % 6; ++i) {
    work(x, 5);
    NOTE(i, active());
  }
  NOTE(6, active());
  notes->memory[lane()] = x;
}
__global__ void break_and_continue(Notes* notes, uint32_t x) {
#pragma unroll 1
  for (int i = 0; i < 6; ++i) {
    if (lane() % 4 == i) continue;
    work(x, 4);
    if (lane() % 8 == i + 2) break;
    NOTE(i, active());
  }
  NOTE(6, active());
  notes->memory[lane()] = x;
}
__global__ void two_exits_by_goto(Notes* notes, uint32_t x) {
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
#pragma unroll 1
    for (int j = 0; j < 4; ++j) {
      work(x, 3);
      if (i * 4 + j == lane() % 12) goto out;
    }
    NOTE(i, active());
  }
  work(x, 7);
  NOTE(4, active());
out:
  NOTE(5, active());
  notes->memory[lane()] = x;
}
__global__ void switch_with_fall_through(Notes* notes, uint32_t x) {
  switch (lane() % 5) {
    case 0:
      work(x, 20);
      NOTE(0, active());
      break;
    case 1:
      work(x, 3);
      NOTE(1, active());
      [[fallthrough]];
    case 2:
      work(x, 8);
      NOTE(2, active());
      break;
    case 3: return;
    default: NOTE(3, active());
  }
  NOTE(4, active());
  notes->memory[lane()] = x;
}
__global__ void early_exit(Notes* notes, uint32_t x) {
  if (lane() % 4 == 1) return;
  NOTE(0, active());
  if (lane() > 23) {
    work(x, 30);
    return;
  }
  work(x, 5);
  NOTE(1, active());
  notes->memory[lane()] = x;
}
__device__ __noinline__ uint32_t callee(Notes* notes, uint32_t x, int slot) {
  NOTE(slot, active());
  if (x % 2 == 0) return x + 1;
  work(x, 6);
  NOTE(slot + 1, active());
  return x;
}
__global__ void calls(Notes* notes, uint32_t x) {
  x += lane();
  if (lane() < 8) {
    x = callee(notes, x, 0);
  } else if (lane() < 24) {
    work(x, 12);
    x = callee(notes, x, 2);
  }
  NOTE(4, active());
  notes->memory[lane()] = x;
}
__device__ __noinline__ uint32_t first_function(Notes* notes, uint32_t x) {
  NOTE(0, active());
  work(x, 5);
  return x;
}
__device__ __noinline__ uint32_t second_function(Notes* notes, uint32_t x) {
  NOTE(0, active());
  work(x, 9);
  return x + 1;
}
__global__ void calls_through_pointers(Notes* notes, uint32_t x) {
  uint32_t (*const function)(Notes*, uint32_t) = (lane() * 5 & 4) ? first_function : second_function;
  x = function(notes, x);
  NOTE(1, active());
  notes->memory[lane()] = x;
}
__global__ void short_circuit(Notes* notes, uint32_t x) {
  volatile uint32_t* memory = notes->memory;
  if ((lane() & 1) && memory[lane()] == 0 && (lane() & 2)) {
    work(x, 10);
    NOTE(0, active());
  }
  NOTE(1, active());
  memory[32 + lane()] = x;
}
// Lanes 1 to 31 wait for a word that lane 0 stores only after them in the program's text.
__global__ void spin_with_sleep(Notes* notes, uint32_t x) {
  volatile uint32_t* flag = notes->memory;
  if (lane() != 0) {
    while (*flag == 0) __nanosleep(100);
    NOTE(0, active());
  } else {
    work(x, 200);
    *flag = 1;
  }
  NOTE(1, active());
}
__global__ void spin_without_sleep(Notes* notes, uint32_t x) {
  volatile uint32_t* flag = notes->memory;
  if (lane() >= 8) {
    while (*flag == 0) {
    }
  } else {
    work(x, 200);
    if (lane() == 3) *flag = 1;
    NOTE(0, active());
  }
  NOTE(1, active());
}
// Each lane takes a lock, one after the other.
__global__ void lock_for_each_lane(Notes* notes, uint32_t) {
  uint32_t* lock = notes->memory;
  volatile uint32_t* count = notes->memory + 1;
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      const uint32_t mine = *count;
      *count = mine + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
      NOTE(0, mine);
    }
  }
  NOTE(1, active());
}
// A shuffle by all lanes makes them meet; how long they stay together after it is open.
__global__ void shuffle_after_if(Notes* notes, uint32_t x) {
  x = lane();
  if (lane() & 4)
    work(x, 20);
  else
    x += 100;
  NOTE(0, active());
  const uint32_t got = __shfl_sync(~0u, x, lane() ^ 4);
  NOTE(1, got);
  NOTE(2, active());
}
// Ballots of the lanes that are active, in both arms, and one of all lanes after them.
__global__ void ballot_by_active_lanes(Notes* notes, uint32_t x) {
  if (lane() % 3 == 0) {
    NOTE(0, __ballot_sync(active(), lane() & 1));
    work(x, 10);
  } else {
    NOTE(0, __ballot_sync(active(), lane() & 2));
  }
  NOTE(1, __ballot_sync(~0u, lane() & 4));
  NOTE(2, active());
  notes->memory[lane()] = x;
}
// Which side goes first, and in which order its lanes are served.
__global__ void order_of_sides(Notes* notes, uint32_t x) {
  if (lane() >= 20) {
    TICKET(0);
    work(x, 5);
  } else {
    TICKET(0);
    work(x, 5);
  }
  TICKET(1);
  notes->memory[lane()] = x;
}
__global__ void order_in_a_switch(Notes* notes, uint32_t x) {
  switch (lane() % 4) {
    case 0:
      work(x, 3);
      TICKET(0);
      break;
    case 1:
      work(x, 5);
      TICKET(0);
      break;
    case 2:
      work(x, 7);
      TICKET(0);
      break;
    default: work(x, 9); TICKET(0);
  }
  TICKET(1);
  notes->memory[lane()] = x;
}
// One side waits for memory; does the other side run meanwhile?
__global__ void order_with_a_load(Notes* notes, uint32_t x) {
  volatile uint32_t* memory = notes->memory;
  if (lane() & 1) {
    x += memory[lane()];  // first a load, whose value the ticket needs
    x += memory[(x & 1) + 32];
    if (x != 77) TICKET(0);
  } else {
    work(x, 2);
    TICKET(0);
  }
  TICKET(1);
  notes->memory[lane()] = x;
}
// Code of the time before Volta: lanes go in step, memory is volatile, nothing else.
__global__ void sum_in_step(Notes* notes, uint32_t) {
  __shared__ volatile uint32_t s[64];
  const int t = lane();
  s[t] = t * t + 1;
  s[t + 32] = 1000;
  if (t < 16) {
    s[t] = s[t] + s[t + 16];
    s[t] = s[t] + s[t + 8];
    s[t] = s[t] + s[t + 4];
    s[t] = s[t] + s[t + 2];
    s[t] = s[t] + s[t + 1];
  }
  NOTE(0, s[0]);
  NOTE(1, active());
}
__global__ void sort_in_step(Notes* notes, uint32_t) {
  __shared__ volatile uint32_t s[32];
  const int t = lane();
  s[t] = t * 7919 % 32;
  for (int size = 2; size <= 32; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const int other = t ^ stride;
      if (other > t) {
        const uint32_t a = s[t], b = s[other];
        if ((a > b) == ((t & size) == 0)) {
          s[t] = b;
          s[other] = a;
        }
      }
    }
  NOTE(0, s[t]);
}
// Words of neighbours after nested ifs, in many turns: `late` counts the reads that came before the neighbour's store.
__global__ void neighbours_in_step(int turns, const int* input, int* late) {
  __shared__ volatile int s[1024];
  const int t = threadIdx.x;
  int bad = 0;
  s[t] = 0;
  __syncthreads();
  for (int turn = 1; turn <= turns; ++turn) {
    const int a = input[(t + turn) & 1023], b = input[(t * 3 + turn) & 1023];
    uint32_t c = 0;
    if (a > 500) {
      if (b > 300) work(c, 1 + (a & 3));
    }
    s[t] = turn + (c == 0xffffffff);
    if (s[t ^ 1] < turn) ++bad;
  }
  if (bad) atomicAdd(late, bad);
}
// A barrier at rest is initialised again, by thread 0, after all have passed it.
__global__ void barrier_again(Notes* notes, uint32_t) {
  __shared__ uint64_t word;
  const uint32_t barrier = static_cast<uint32_t>(__cvta_generic_to_shared(&word));
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == 0)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(blockDim.x) : "memory");
    __syncthreads();
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
    uint32_t done = 0;
    while (done == 0)
      asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                   : "=r"(done)
                   : "r"(barrier)
                   : "memory");
    __syncthreads();
  }
  NOTE(0, 3);
}

void print_neighbours(Output& output) {
  std::vector<int> input(1024);
  for (int i = 0; i < 1024; ++i) input[i] = i * 7919 % 1000;
  int *device_input, *late, host_late = 0;
  fail_on(cudaMalloc(&device_input, 4096), "cudaMalloc");
  fail_on(cudaMemcpy(device_input, input.data(), 4096, cudaMemcpyHostToDevice), "cudaMemcpy");
  fail_on(cudaMalloc(&late, 4), "cudaMalloc");
  for (const int threads : {32, 64, 256, 1024}) {
    fail_on(cudaMemset(late, 0, 4), "cudaMemset");
    neighbours_in_step<<<1, threads>>>(1000, device_input, late);
    fail_on(cudaDeviceSynchronize(), "neighbours_in_step");
    fail_on(cudaMemcpy(&host_late, late, 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
    output.line("  threads %d: late %d of %d", threads, host_late, 1000 * threads);
  }
}

int main(int argc, char** argv) {
  Output output(argc, argv);
#define GROUPS(KERNEL) \
  if (output.begin(#KERNEL)) print_groups(output, run(KERNEL, #KERNEL))
#define ORDER(KERNEL) \
  if (output.begin(#KERNEL)) print_order(output, run(KERNEL, #KERNEL), 2)
  GROUPS(after_if);
  GROUPS(after_if_else);
  GROUPS(nested_ifs);
  GROUPS(trip_counts);
  GROUPS(break_and_continue);
  GROUPS(two_exits_by_goto);
  GROUPS(switch_with_fall_through);
  GROUPS(early_exit);
  GROUPS(calls);
  GROUPS(calls_through_pointers);
  GROUPS(short_circuit);
  GROUPS(spin_with_sleep);
  GROUPS(spin_without_sleep);
  GROUPS(shuffle_after_if);
  GROUPS(ballot_by_active_lanes);
  GROUPS(sum_in_step);
  GROUPS(sort_in_step);
  GROUPS(barrier_again);
  ORDER(order_of_sides);
  ORDER(order_in_a_switch);
  ORDER(order_with_a_load);
  if (output.begin("lock_for_each_lane")) {
    const Notes notes = run(lock_for_each_lane, "lock_for_each_lane");
    output.line("  count %u", notes.memory[1]);
    print_order(output, notes, 1);
  }
  if (output.begin("neighbours_in_step")) print_neighbours(output);
  return output.finish();
}
