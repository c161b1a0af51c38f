// How fast straight code runs that is longer than the instruction caches: a loop over N independent FFMA of 16 bytes
// each, for one and more warps on one SM and on all. All warps of an SM start together and run the same code.
#include "silicon.hpp"

using namespace silicon;

/// N instructions, a power of two, on eight accumulators in turn, so that none waits for the one before it.
template <int N>
__device__ __forceinline__ void straight(float (&sums)[8], float by) {
  if constexpr (N > 8) {
    straight<N / 2>(sums, by);
    straight<N - N / 2>(sums, by);
  } else {
    for (int i = 0; i < 8; ++i) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(sums[i]) : "f"(by));
  }
}

struct Passes {
  uint64_t first, later;  ///< cycles of the first pass, and of all later ones together
};

template <int N>
__global__ void __launch_bounds__(1024) run(Passes* passes, float* sink, int turns, float by) {
  float sums[8] = {};
  uint64_t begin = 0, second = 0;
  __syncthreads();
  begin = cycles();
#pragma unroll 1
  for (int turn = 0; turn <= turns; ++turn) {
    straight<N>(sums, by);
    if (turn == 0) second = cycles();
  }
  const uint64_t end = cycles();
  float sum = 0;
  for (const float value : sums) sum += value;
  if (sum == 12345.678f) *sink = sum;
  if (lane() == 0) passes[blockIdx.x * 32 + threadIdx.x / 32] = {second - begin, end - second};
}

/// Cycles that an instruction takes a sub-partition, whose warps share them: the longest warp of each SM counts.
template <int N>
void measure(int blocks, int warps) {
  DeviceArray<Passes> passes(size_t(blocks) * 32);
  DeviceArray<float> sink(1);
  const int turns = std::max(2, 65536 / N);
  std::vector<double> first, later;
  for (int repeat = 0; repeat < 5; ++repeat) {
    run<N><<<blocks, warps * 32>>>(passes.data(), sink.data(), turns, 0.5f);
    finish_kernel("run");
    const auto all = passes.to_host();
    const double issued = N * std::max(1.0, warps / 4.0);
    for (int block = 0; block < blocks; ++block) {
      uint64_t longest_first = 0, longest_later = 0;
      for (int warp = 0; warp < warps; ++warp) {
        longest_first = std::max(longest_first, all[block * 32 + warp].first);
        longest_later = std::max(longest_later, all[block * 32 + warp].later);
      }
      first.push_back(static_cast<double>(longest_first) / issued);
      later.push_back(static_cast<double>(longest_later) / turns / issued);
    }
  }
  char name[128];
  std::snprintf(name, sizeof name, "straight code, %d instructions, %d warps, %d SMs", N, warps, blocks);
  report(std::string(name) + ", first pass", first, "cycles of a sub-partition", "N FFMA; 5 launches");
  report(name, later, "cycles of a sub-partition", "N FFMA in a loop");
}

template <int N>
void measure_all() {
  for (const int blocks : {1, multiprocessors()})
    for (const int warps : {1, 4, 8, 16, 32}) measure<N>(blocks, warps);
}

BENCHMARK(code_0512) { measure_all<512>(); }
BENCHMARK(code_1024) { measure_all<1024>(); }
BENCHMARK(code_2048) { measure_all<2048>(); }
BENCHMARK(code_4096) { measure_all<4096>(); }
BENCHMARK(code_8192) { measure_all<8192>(); }
BENCHMARK(code_16384) { measure_all<16384>(); }
BENCHMARK(code_32768) { measure_all<32768>(); }

int main(int argc, char** argv) { return silicon::main(argc, argv); }
