// How far each SM is from L2, and how far SMs that do the same thing drift apart: copies of tiles one after the other,
// as a kernel without stages makes them.
#include "async_copy.hpp"

using namespace silicon;

constexpr uint32_t kCopyBytes = 16384, kMostSteps = 512, kNoted = 16;
constexpr size_t kMemory = size_t{24} << 20;
constexpr int kSharedBytes = 200 * 1024;

struct Plan {
  int only = -1;  ///< the SM that works; -1: all
  uint32_t steps = 256, pause = 0;
  bool same = false;       ///< all SMs copy the same bytes; otherwise each its own
  uint32_t region = 1024;  ///< copies in the region that is read
};

struct Notes {
  uint64_t at[kMostSteps / kNoted];
};

/// Two copies, a wait for both, a pause: the main loop of a product without a ring. Notes the time after each 16 steps.
__global__ void __launch_bounds__(32, 1)
    walk(const uint8_t* memory, Plan plan, volatile uint64_t* start, uint32_t* arrived, Notes* notes) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t word;
  if (threadIdx.x != 0) return;
  const uint32_t place = multiprocessor(), barrier = shared_address(&word);
  mbarrier_init(barrier, 1);
  fence_barrier_init();
  if (atomicAdd(arrived, 1) + 1 == gridDim.x) *start = (nanoseconds() + 8192) & ~uint64_t{1023};
  uint64_t begin_ns;
  while ((begin_ns = *start) == 0) __nanosleep(500);
  while (nanoseconds() < begin_ns) {
  }
  if (plan.only >= 0 && plan.only != int(place)) return;
  const uint64_t begin = cycles();
  uint32_t at = plan.same ? 0 : place * 37;
#pragma unroll 1
  for (uint32_t step = 0; step < plan.steps; ++step) {
    mbarrier_expect(barrier, 2 * kCopyBytes);
    for (uint32_t half = 0; half < 2; ++half) {
      copy_bulk(shared_address(shared) + half * kCopyBytes, memory + size_t{at % plan.region} * kCopyBytes, kCopyBytes,
                barrier);
      ++at;
    }
    mbarrier_wait(barrier, step & 1);
    const uint64_t until = cycles() + plan.pause;
    while (cycles() < until) {
    }
    if (step % kNoted == kNoted - 1) notes[place].at[step / kNoted] = cycles() - begin;
  }
}

/// The mean latency of 32 dependent loads of each of many lines, from one SM.
__global__ void __launch_bounds__(32, 1) chase(const uint32_t* ring, int only, uint32_t steps, double* latency) {
  if (threadIdx.x != 0 || int(multiprocessor()) != only) return;
  uint32_t at = 0;
  for (uint32_t step = 0; step < steps; ++step)
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(ring + at) : "memory");
  const uint64_t begin = cycles_after(at);
  for (uint32_t step = 0; step < steps; ++step)
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(ring + at) : "memory");
  latency[only] = static_cast<double>(cycles_after(at) - begin) / steps;
}

struct Bench {
  DeviceArray<uint8_t> memory{kMemory};
  DeviceArray<uint64_t> start{1};
  DeviceArray<uint32_t> arrived{1};
  DeviceArray<Notes> notes{132};

  Bench() { check(cudaFuncSetAttribute(walk, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes), "attribute"); }

  std::vector<Notes> go(const Plan& plan) {
    check(cudaMemset(start.data(), 0, sizeof(uint64_t)), "cudaMemset");
    check(cudaMemset(arrived.data(), 0, sizeof(uint32_t)), "cudaMemset");
    walk<<<132, 32, kSharedBytes>>>(memory.data(), plan, start.data(), arrived.data(), notes.data());
    finish_kernel("walk");
    return notes.to_host();
  }
};

void print_all(const char* name, const std::vector<double>& values) {
  std::printf("{\"name\": \"%s, by SM\", \"values\": [", name);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.1f", i == 0 ? "" : ", ", values[i]);
  std::printf("]}\n");
}

BENCHMARK(latency_of_loads) {
  constexpr uint32_t kLines = 16384, kStride = 32 * 5;  // 10 MiB, all in one half or in both
  std::vector<uint32_t> ring(size_t{kLines} * kStride);
  for (uint32_t i = 0; i < kLines; ++i) ring[size_t{i} * kStride] = (i + 1) % kLines * kStride;
  DeviceArray<uint32_t> device(ring.size());
  device.from_host(ring);
  DeviceArray<double> latency(132);
  for (int place = 0; place < 132; ++place) {
    chase<<<132, 32>>>(device.data(), place, kLines, latency.data());
    finish_kernel("chase");
  }
  const auto all = latency.to_host();
  report("load latency, L2, mean of 16384 lines, by SM", all, "cycles", "ring of 10 MiB, second round");
  print_all("load latency, L2", all);
}

BENCHMARK(latency_of_copies) {
  Bench bench;
  bench.go({.same = true});
  std::vector<double> all;
  for (int place = 0; place < 132; ++place) {
    Plan plan{.only = place, .steps = 512, .same = true};
    bench.go(plan);
    const auto notes = bench.go(plan);
    all.push_back(static_cast<double>(notes[place].at[511 / kNoted] - notes[place].at[0]) / (512 - kNoted));
  }
  report("two copies of 16 KiB and a wait, alone, by SM", all, "cycles", "L2, region of 16 MiB");
  print_all("two copies of 16 KiB and a wait, alone", all);
}

/// How long a step takes each SM when all work, and how far they are apart after 16, 64 and 256 steps.
void all_at_once(const char* name, Plan plan) {
  Bench bench;
  bench.go(plan);
  std::vector<double> step(132), apart16, apart64, apart256;
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto notes = bench.go(plan);
    for (int place = 0; place < 132; ++place)
      step[place] += static_cast<double>(notes[place].at[255 / kNoted]) / 256 / 7;
    const auto apart = [&](uint32_t after) {
      std::vector<double> at;
      for (const Notes& note : notes) at.push_back(static_cast<double>(note.at[after / kNoted - 1]));
      std::sort(at.begin(), at.end());
      return at[118] - at[13];
    };
    apart16.push_back(apart(16)), apart64.push_back(apart(64)), apart256.push_back(apart(256));
  }
  report(std::string("cycles a step, ") + name, step, "cycles", "two copies of 16 KiB, a wait, a pause; by SM");
  report(std::string("apart after 16 steps, ") + name, apart16, "cycles", "from the 10th to the 90th of 100 SMs");
  report(std::string("apart after 64 steps, ") + name, apart64, "cycles", "from the 10th to the 90th of 100 SMs");
  report(std::string("apart after 256 steps, ") + name, apart256, "cycles", "from the 10th to the 90th of 100 SMs");
  print_all((std::string("cycles a step, ") + name).c_str(), step);
}

BENCHMARK(together_own) { all_at_once("own bytes, no pause", {}); }
BENCHMARK(together_own_pause) { all_at_once("own bytes, pause of 512", {.pause = 512}); }
BENCHMARK(together_own_long) { all_at_once("own bytes, pause of 1500", {.pause = 1500}); }
BENCHMARK(together_same) { all_at_once("the same bytes, no pause", {.same = true}); }
BENCHMARK(together_same_pause) { all_at_once("the same bytes, pause of 512", {.pause = 512, .same = true}); }
BENCHMARK(together_same_long) { all_at_once("the same bytes, pause of 1500", {.pause = 1500, .same = true}); }

int main(int argc, char** argv) { return silicon::main(argc, argv); }
