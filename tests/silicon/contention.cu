// What wgmma and copies into shared memory take from each other, what L2 gives where several multiprocessors read the
// same bytes, and the clock that the power limit leaves to a chip
// whose tensor cores work for a part of the time.
#include "async_copy.hpp"

using namespace silicon;

/// The multiprocessor's clock and the time, both since something of their own.
struct Sample {
  uint64_t cycles, nanoseconds;
};
constexpr int kSamples = 1024;
constexpr uint64_t kSampleEvery = 50'000;  // ns

constexpr int kTile = 49152, kCopyBytes = 16384, kStages = 6;

/// `products` warpgroups multiply what is in the first 48 KiB in groups of 4, and pause for `pause` cycles after each
/// group, `groups` times; the last warp keeps `stages` copies under way to the rest until they are done, or without
/// products for 400,000 cycles. `counts` gets the copies, and the cycles that all took; `samples`, if any, the clock of
/// the first block's multiprocessor as time goes on.
__global__ void __launch_bounds__(384, 1)
    compete(const uint8_t* memory, const uint32_t* random, uint32_t region, int products, int pause, int stages,
            int groups, uint64_t* counts, float* sink, Sample* samples) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t words[kStages];
  __shared__ volatile uint32_t done[2];
  if (threadIdx.x < 2) done[threadIdx.x] = static_cast<int>(threadIdx.x) >= products;
  for (int i = threadIdx.x; i < kTile / 4; i += blockDim.x) reinterpret_cast<uint32_t*>(shared)[i] = random[i];
  if (threadIdx.x == 0)
    for (int i = 0; i < stages; ++i) mbarrier_init(shared_address(words + i), 1);
  fence_barrier_init();
  __syncthreads();
  const uint32_t warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const uint64_t begin = cycles();
  uint64_t count = 0;
  if (warpgroup < 2) {
    float d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0;
    const uint64_t a = descriptor(shared_address(shared) + warpgroup * 8192);
    const uint64_t b = descriptor(shared_address(shared) + 16384);
    if (static_cast<int>(warpgroup) < products) {
#pragma unroll 1
      for (int group = 0; group < groups; ++group) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 4; ++i) multiply_256(d, a + i * 2, b + i * 2);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (pause != 0) {
          const uint64_t from = cycles();
#pragma unroll 1
          while (cycles() - from < pause) {
          }
        }
      }
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 128; ++i) sum += d[i];
    if (sum == 12345.678f) *sink = sum;
    __syncwarp();
    if (threadIdx.x % 128 == 0) done[warpgroup] = 1;
  } else if (threadIdx.x == 256) {
    uint32_t index = blockIdx.x;
    const auto issue = [&](int stage) {
      const uint32_t barrier = shared_address(words + stage);
      mbarrier_expect(barrier, kCopyBytes);
      copy_bulk(shared_address(shared) + kTile + stage * kCopyBytes,
                memory + uint64_t{index & (region - 1)} * kCopyBytes, kCopyBytes, barrier);
      index += gridDim.x;
    };
    for (int i = 0; i < stages; ++i) issue(i);
    int stage = 0;
    uint32_t phase = 0;
    uint64_t next = 0;
    Sample* sample = blockIdx.x == 0 ? samples : nullptr;
#pragma unroll 1
    while (products == 0 ? cycles() - begin < 400'000 : done[0] + done[1] != 2) {
      if (sample != nullptr) {
        if (const uint64_t now = nanoseconds(); now >= next && sample < samples + kSamples) {
          *sample++ = {cycles(), now};
          next = now + kSampleEvery;
        }
      }
      if (stages == 0) continue;
      mbarrier_wait(shared_address(words + stage), phase);
      issue(stage);
      ++count;
      if (++stage == stages) stage = 0, phase ^= 1;
    }
    counts[blockIdx.x * 2] = count;
    counts[blockIdx.x * 2 + 1] = cycles() - begin;
    for (int i = 0; i < stages; ++i) {
      mbarrier_wait(shared_address(words + stage), phase);
      if (++stage == stages) stage = 0, phase ^= 1;
    }
  }
}

constexpr uint32_t kRegion = 1024;  // copies: 16 MiB, which L2 holds
constexpr int kSharedBytes = kTile + kStages * kCopyBytes;

struct Run {
  DeviceArray<uint8_t> memory{size_t{kRegion} * kCopyBytes};
  DeviceArray<uint32_t> random{kTile / 4};
  DeviceArray<uint64_t> counts{132 * 2};
  DeviceArray<float> sink{1};
  Run() {
    std::vector<uint32_t> words(random.size());
    uint32_t state = 1;
    for (uint32_t& word : words) {
      word = 0;
      for (int byte = 0; byte < 4; ++byte) {
        state = state * 1664525 + 1013904223;
        word |= (state >> 24) << byte * 8;
      }
      word = (word & 0x80ff80ff) | 0x3f003f00;
    }
    random.from_host(words);
    check(cudaFuncSetAttribute(compete, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
          "cudaFuncSetAttribute");
  }
  void launch(int blocks, int products, int pause, int stages, int groups, Sample* samples = nullptr) {
    compete<<<blocks, 384, kSharedBytes>>>(memory.data(), random.data(), kRegion, products, pause, stages, groups,
                                           counts.data(), sink.data(), samples);
  }
};

BENCHMARK(copies_beside_wgmma) {
  Run run;
  const int groups = 800;
  for (const int products : {0, 1, 2}) {
    for (const int stages : {0, 1, 2, 3, 4, 6}) {
      if (products == 0 && stages == 0) continue;
      std::vector<double> rates, bytes;
      for (int repeat = 0; repeat < 12; ++repeat) {
        run.launch(1, products, 0, stages, groups);
        finish_kernel("compete");
        const auto counts = run.counts.to_host();
        if (repeat == 0) continue;
        const auto span = static_cast<double>(counts[1]);
        rates.push_back(products * groups * 4 * 128 / span);
        bytes.push_back(static_cast<double>(counts[0]) * kCopyBytes / span);
      }
      const std::string name = std::to_string(products) + " warpgroups of wgmma m64n256k16, " + std::to_string(stages) +
                               " copies of 16 KiB under way, one SM";
      if (products != 0)
        report("tensor core busy, " + name, rates, "of 1", "groups of 4 products; 128 cycles each count as busy");
      if (stages != 0) report("copied, " + name, bytes, "bytes per cycle", "from L2");
    }
  }
}

/// All multiprocessors copy 16 KiB at a time from L2; `group` blocks with neighbouring numbers copy the same bytes, and
/// begin each copy when their own place for it is free. Rounds of the group's blocks are not kept in step.
__global__ void __launch_bounds__(32, 1)
    share(const uint8_t* memory, uint32_t region, uint32_t group, int count, Span* spans) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t words[kStages];
  if (threadIdx.x != 0) return;
  for (int i = 0; i < kStages; ++i) mbarrier_init(shared_address(words + i), 1);
  fence_barrier_init();
  uint32_t index = blockIdx.x / group;
  const uint32_t step = (gridDim.x + group - 1) / group;
  const auto issue = [&](int stage) {
    const uint32_t barrier = shared_address(words + stage);
    mbarrier_expect(barrier, kCopyBytes);
    copy_bulk(shared_address(shared) + stage * kCopyBytes, memory + uint64_t{index & (region - 1)} * kCopyBytes,
              kCopyBytes, barrier);
    index += step;
  };
  const uint64_t start = cycles();
  for (int i = 0; i < kStages; ++i) issue(i);
  int stage = 0;
  uint32_t phase = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared_address(words + stage), phase);
    if (i + kStages < count) issue(stage);
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
  spans[blockIdx.x] = {start, cycles()};
}

BENCHMARK(copies_of_the_same_bytes) {
  Run run;
  DeviceArray<Span> spans(132);
  check(cudaFuncSetAttribute(share, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024), "cudaFuncSetAttribute");
  const int count = 2000;
  for (const int cluster : {1, 2, 4}) {
    for (const uint32_t group : {1, 2, 3, 4, 6, 11, 12, 33, 132}) {
      std::vector<double> rates;
      cudaLaunchAttribute attribute{};
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
      cudaLaunchConfig_t config{};
      config.gridDim = 132;
      config.blockDim = 32;
      config.dynamicSmemBytes = 200 * 1024;
      config.attrs = &attribute;
      config.numAttrs = 1;
      const auto times = event_milliseconds(
          [&] {
            cudaLaunchKernelEx(&config, share, static_cast<const uint8_t*>(run.memory.data()), kRegion, group, count,
                               spans.data());
          },
          11);
      for (double ms : times) rates.push_back(132. * count * kCopyBytes / ms * 1e-6);
      report("copies of 16 KiB, clusters of " + std::to_string(cluster) + ", the same bytes for each " +
                 std::to_string(group) + " blocks, whole chip",
             rates, "GB/s", "from L2, 6 copies under way in each block");
    }
  }
}

BENCHMARK(clock_by_work) {
  Run run;
  for (const int stages : {0, 4}) {
    for (const int pause : {0, 100, 300, 600, 1200, 2400, 5000, 20000}) {
      std::vector<double> busy, clocks;
      const auto begin = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(350)) {
        const int groups = 4'000'000 / (1100 + pause);
        const auto times = event_milliseconds([&] { run.launch(132, 2, pause, stages, groups); }, 3);
        if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(150)) continue;
        const auto counts = run.counts.to_host();
        clocks.push_back(static_cast<double>(counts[1]) / times.back() * 1e-3);
        busy.push_back(2. * groups * 4 * 128 / static_cast<double>(counts[1]));
      }
      const std::string name =
          "pause of " + std::to_string(pause) + " cycles, " + std::to_string(stages) + " copies under way, all SMs";
      report("tensor core busy, " + name, busy, "of 1", "2 warpgroups, groups of 4 products and a pause");
      report("SM clock, " + name, clocks, "MHz", "cycles over the time of a launch, after 150 ms of the same");
    }
  }
}

/// The clock in MHz between two times, in ms after the first sample.
double clock_between(const std::vector<Sample>& samples, double from, double to) {
  const Sample *first = nullptr, *last = nullptr;
  for (const Sample& each : samples) {
    if (each.nanoseconds == 0) break;
    const double at = static_cast<double>(each.nanoseconds - samples[0].nanoseconds) * 1e-6;
    if (at >= from && first == nullptr) first = &each;
    if (at <= to) last = &each;
  }
  if (first == nullptr || last <= first) return NAN;
  return static_cast<double>(last->cycles - first->cycles) * 1e3 /
         static_cast<double>(last->nanoseconds - first->nanoseconds);
}

struct Work {
  int pause, stages;
};
constexpr Work kWorks[] = {{0, 0}, {0, 4}, {600, 4}, {2400, 0}, {20000, 0}};

std::string describe(const Work& work) {
  return "pause of " + std::to_string(work.pause) + " cycles, " + std::to_string(work.stages) +
         " copies under way, all SMs";
}

/// Launches work for about `milliseconds` after a rest and returns the samples.
std::vector<Sample> sampled(Run& run, const Work& work, double milliseconds, int rest) {
  DeviceArray<Sample> samples(kSamples);
  std::this_thread::sleep_for(std::chrono::milliseconds(rest));
  run.launch(132, 2, work.pause, work.stages, static_cast<int>(milliseconds * 1.8e6 / (1100 + work.pause)),
             samples.data());
  finish_kernel("compete");
  return samples.to_host();
}

BENCHMARK(clock_after_a_rest) {
  Run run;
  constexpr double kTimes[] = {0, 0.25, 0.5, 1, 2, 3, 5, 8, 12, 20, 30};
  for (const Work& work : kWorks) {
    std::vector<double> clocks[std::size(kTimes) - 1];
    for (int repeat = 0; repeat < 6; ++repeat) {
      const auto samples = sampled(run, work, 35, 300);
      for (size_t i = 0; repeat > 0 && i + 1 < std::size(kTimes); ++i)
        clocks[i].push_back(clock_between(samples, kTimes[i], kTimes[i + 1]));
    }
    for (size_t i = 0; i + 1 < std::size(kTimes); ++i) {
      char when[64];
      std::snprintf(when, sizeof when, "%g to %g ms after a rest, ", kTimes[i], kTimes[i + 1]);
      report("SM clock, " + std::string(when) + describe(work), clocks[i], "MHz", "one launch, after 300 ms of rest");
    }
  }
}

BENCHMARK(clock_of_bursts) {
  Run run;
  for (const Work& work : kWorks) {
    for (const auto& [milliseconds, rest] : {std::pair{0.25, 5}, std::pair{2., 20}, std::pair{12., 20}}) {
      std::vector<double> clocks;
      for (int repeat = 0; repeat < 24; ++repeat) {
        const auto samples = sampled(run, work, milliseconds, rest);
        if (repeat >= 12) clocks.push_back(clock_between(samples, 0, 100));
      }
      char when[64];
      std::snprintf(when, sizeof when, "bursts of %g ms, %d ms apart, ", milliseconds, rest);
      report("SM clock, " + std::string(when) + describe(work), clocks, "MHz", "the 13th to the 24th burst");
    }
  }
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
