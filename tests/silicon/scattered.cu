// What accesses take whose lanes meet, or do not: atomic operations by how many words, sectors and lines they share,
// loads of random sectors by the size of what they are from, and stores by the distance of their lanes.
#include "kernel_timing.hpp"

using namespace silicon;

constexpr size_t kMiB = size_t{1} << 20;

__device__ inline uint32_t random_number(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du;
  x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ x >> 16;
}

/// Which of `words` words a lane takes: each another one, as far as there are enough, or any.
enum class Pick { kInTurn, kRandom };

/// @param stride  words from one to the next.
template <Pick How, bool Returns, bool Floats>
__global__ void __launch_bounds__(256)
    count_words(uint32_t* memory, uint32_t words, uint32_t stride, uint32_t apart, int rounds, uint32_t* sink) {
  uint32_t* const own = memory + size_t{apart} * (blockIdx.x * 8 + threadIdx.x / 32);
  const uint32_t thread = blockIdx.x * 256 + threadIdx.x;
  uint32_t sum = 0;
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
    const uint32_t pick = How == Pick::kInTurn ? thread + i : random_number(thread * 977 + i);
    uint32_t* const at = own + (pick & (words - 1)) * stride;
    if constexpr (Floats) {
      asm volatile("red.global.add.f32 [%0], %1;" ::"l"(at), "f"(1.f) : "memory");
    } else if constexpr (Returns) {
      uint32_t old;
      asm volatile("atom.global.add.u32 %0, [%1], 3;" : "=r"(old) : "l"(at) : "memory");
      sum += old;
    } else {
      asm volatile("red.global.add.u32 [%0], 3;" ::"l"(at) : "memory");
    }
  }
  if (sum == 0x12345678) *sink = sum;
}

template <Pick How, bool Returns, bool Floats = false>
void rate_of_words(const std::string& name, uint32_t words, uint32_t stride, uint32_t apart = 0) {
  const int blocks = 4 * multiprocessors(), rounds = words < 64 && apart == 0 ? 16 : 64;
  DeviceArray<uint32_t> memory(size_t{words} * stride + size_t{apart} * blocks * 8);
  DeviceArray<uint32_t> sink(1);
  std::vector<double> rates;
  for (const double ms : event_milliseconds(
           [&] {
             count_words<How, Returns, Floats>
                 <<<blocks, 256>>>(memory.data(), words, stride, apart, rounds, sink.data());
           },
           5))
    rates.push_back(double(blocks) * 256 * rounds / ms * 1e-6);
  report(name + ", " + std::to_string(words) + " words, " + std::to_string(4 * stride) + " bytes apart" +
             (apart != 0 ? ", of each warp" : ", of all warps"),
         rates, "10^9 operations a second", std::to_string(blocks) + " blocks of 256 threads");
}

BENCHMARK(atomics_by_words) {
  for (const uint32_t stride : {1, 8, 32})
    for (const uint32_t words : {1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096}) {
      rate_of_words<Pick::kInTurn, false>("red.global.add.u32, words in turn", words, stride);
      rate_of_words<Pick::kRandom, false>("red.global.add.u32, words at random", words, stride);
    }
  for (const uint32_t words : {1, 8, 32, 64, 1024}) {
    rate_of_words<Pick::kInTurn, true>("atom.global.add.u32, words in turn", words, 1);
    rate_of_words<Pick::kRandom, true>("atom.global.add.u32, words at random", words, 1);
    rate_of_words<Pick::kInTurn, false, true>("red.global.add.f32, words in turn", words, 1);
    rate_of_words<Pick::kRandom, false, true>("red.global.add.f32, words at random", words, 1);
  }
}
BENCHMARK(atomics_by_words_of_a_warp) {
  for (const uint32_t stride : {1, 8, 32})
    for (const uint32_t words : {1, 2, 4, 8, 16, 32}) {
      rate_of_words<Pick::kInTurn, false>("red.global.add.u32, words in turn", words, stride, 1024);
      rate_of_words<Pick::kRandom, false>("red.global.add.u32, words at random", words, stride, 1024);
    }
}

/// One access to a random word of a table by each thread.
enum class Access { kLoad, kAdd, kAddAndRead, kExchange, kCompareAndSwap };
template <Access Kind>
__global__ void __launch_bounds__(256) access_at_random(uint32_t* table, uint32_t words, uint32_t* out) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x, at = random_number(i) % words;
  uint32_t found = 0;
  if constexpr (Kind == Access::kLoad) found = table[at];
  if constexpr (Kind == Access::kAdd) atomicAdd(&table[at], i | 1);
  if constexpr (Kind == Access::kAddAndRead) found = atomicAdd(&table[at], i | 1);
  if constexpr (Kind == Access::kExchange) found = atomicExch(&table[at], i | 1);
  if constexpr (Kind == Access::kCompareAndSwap) found = atomicCAS(&table[at], 0, i | 1);
  if (found == 0x12345678) *out = i;
}
template <Access Kind>
void time_access(const char* name) {
  constexpr uint32_t kThreads = 512 << 10;
  DeviceArray<uint32_t> out(1);
  for (const uint32_t words : {256u << 10, 1500u << 10, 8u << 20})
    for (const bool cold : {false, true}) {
      const int sets = cold ? sets_of(size_t{words} * 4) : 1;
      auto tables = arrays<uint32_t>(sets, words);
      time(std::string(name) + " of 512 Ki threads at random in " + std::to_string(words / 1024) + " Ki words, " +
               (cold ? "in DRAM" : "in L2"),
           sets, [&](cudaStream_t stream, int set) {
             access_at_random<Kind><<<kThreads / 256, 256, 0, stream>>>(tables[set].data(), words, out.data());
           });
    }
}
BENCHMARK(random_accesses) {
  time_access<Access::kLoad>("loads");
  time_access<Access::kAdd>("additions");
  time_access<Access::kAddAndRead>("additions that return");
  time_access<Access::kExchange>("exchanges");
  time_access<Access::kCompareAndSwap>("compare-and-swaps");
}

/// Counts in shared memory, as a histogram does: one to each of `bins` bins at random.
template <bool One>
__global__ void __launch_bounds__(1024) count_in_shared(uint32_t bins, int rounds, Span* spans, uint32_t* sink) {
  __shared__ uint32_t counts[4096];
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) counts[i] = 0;
  uint32_t pick[8];
  for (int i = 0; i < 8; ++i) pick[i] = random_number(threadIdx.x * 8 + i) & (bins - 1);
  __syncthreads();
  const uint64_t start = cycles();
#pragma unroll 1
  for (int i = 0; i < rounds; i += 8) {
#pragma unroll
    for (int j = 0; j < 8; ++j) atomicAdd(&counts[pick[j]], One ? 1u : 3u);
  }
  __syncthreads();
  const uint64_t stop = cycles();
  if (threadIdx.x == 0) spans[blockIdx.x] = {start, stop};
  if (counts[0] == 0x12345678) *sink = 1;
}
template <bool One>
void rate_of_bins(const char* name) {
  DeviceArray<Span> spans(1);
  DeviceArray<uint32_t> sink(1);
  for (const int threads : {32, 256, 1024})
    for (const uint32_t bins : {1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096}) {
      constexpr int kRounds = 256;
      std::vector<double> samples;
      for (int repeat = -1; repeat < 5; ++repeat) {
        count_in_shared<One><<<1, threads>>>(bins, kRounds, spans.data(), sink.data());
        finish_kernel("count_in_shared");
        if (repeat >= 0) samples.push_back(span_cycles(spans.to_host(), 1) / kRounds / (threads / 32));
      }
      report(std::string(name) + " in shared memory, " + std::to_string(bins) + " bins at random, " +
                 std::to_string(threads) + " threads",
             samples, "cycles per warp instruction and SM", "atomicAdd without a result");
    }
}
BENCHMARK(bins_in_shared_memory) {
  rate_of_bins<true>("additions of one");
  rate_of_bins<false>("additions of three");
}

/// Additions of floats to eight lines in turn; each warp's lines are `apart` words after those of the one before.
__global__ void __launch_bounds__(1024) add_floats_in_shared(int apart, int rounds, Span* spans, float* sink) {
  __shared__ float sums[8192];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) sums[i] = 0;
  float* const at = sums + threadIdx.x / 32 * apart + lane();
  __syncthreads();
  const uint64_t start = cycles();
#pragma unroll 1
  for (int i = 0; i < rounds; i += 8) {
#pragma unroll
    for (int j = 0; j < 8; ++j) atomicAdd(at + 32 * j, 1.5f);
  }
  __syncthreads();
  const uint64_t stop = cycles();
  if (threadIdx.x == 0) spans[blockIdx.x] = {start, stop};
  if (sums[threadIdx.x] == 3.25f) *sink = 1;
}
BENCHMARK(floats_in_shared_memory) {
  DeviceArray<Span> spans(1);
  DeviceArray<float> sink(1);
  for (const int apart : {0, 32, 256})
    for (const int warps : {1, 2, 4, 8, 16, 32}) {
      if (apart * warps > 8192 - 256) continue;
      constexpr int kRounds = 256;
      std::vector<double> samples;
      for (int repeat = -1; repeat < 5; ++repeat) {
        add_floats_in_shared<<<1, 32 * warps>>>(apart, kRounds, spans.data(), sink.data());
        finish_kernel("add_floats_in_shared");
        if (repeat >= 0) samples.push_back(span_cycles(spans.to_host(), 1) / kRounds / warps);
      }
      report("float additions in shared memory, " + std::to_string(warps) + " warps, " + std::to_string(apart) +
                 " words apart",
             samples, "cycles per warp instruction and SM", "atomicAdd without a result, 8 lines in turn");
    }
}

/// Loads of one word at random, eight at a time.
__global__ void __launch_bounds__(1024)
    random_loads(const uint32_t* memory, uint32_t mask, int rounds, uint32_t* sink) {
  const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t sum = 0;
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
    uint32_t v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j)
      asm volatile("ld.global.cg.b32 %0, [%1];"
                   : "=r"(v[j])
                   : "l"(memory + (random_number(thread * 977 + i * 8 + j) & mask)));
    for (int j = 0; j < 8; ++j) sum += v[j];
  }
  if (sum == 0x12345678) *sink = sum;
}
BENCHMARK(random_sectors) {
  DeviceArray<uint32_t> sink(1);
  for (const size_t mib : {1, 4, 8, 16, 32, 64, 128, 1024}) {
    DeviceArray<uint32_t> memory(mib * kMiB / 4);
    const int blocks = 2 * multiprocessors(), rounds = 16;
    std::vector<double> rates;
    for (const double ms : event_milliseconds(
             [&] { random_loads<<<blocks, 1024>>>(memory.data(), uint32_t(mib * kMiB / 4 - 1), rounds, sink.data()); },
             7))
      rates.push_back(double(blocks) * 1024 * rounds * 8 / ms * 1e-6);
    report("loads of random sectors of " + std::to_string(mib) + " MiB", rates, "10^9 a second",
           "264 blocks of 1024 threads, 8 loads of each thread under way");
  }
}

/// Loads of shared memory of 8 and 16 bytes a lane, where several lanes want the same.
enum class Same { kNone, kModulo16, kModulo8, kModulo4, kModulo2, kHalf, kQuarter, kEighth, kSixteenth, kAll };
template <Same Which, int Width>
struct WideLoads {
  uint32_t address, sum = 0;
  __device__ WideLoads(uint32_t, uint8_t* shared) {
    const uint32_t l = lane();
    const uint32_t index = Which == Same::kNone        ? l
                           : Which == Same::kModulo16  ? l % 16
                           : Which == Same::kModulo8   ? l % 8
                           : Which == Same::kModulo4   ? l % 4
                           : Which == Same::kModulo2   ? l % 2
                           : Which == Same::kHalf      ? l / 2
                           : Which == Same::kQuarter   ? l / 4
                           : Which == Same::kEighth    ? l / 8
                           : Which == Same::kSixteenth ? l / 16
                                                       : 0;
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) reinterpret_cast<uint32_t*>(shared)[i] = i;
    address = shared_address(shared) + index * Width;
    __syncthreads();
  }
  __device__ void step(int) {
    uint32_t v[4];
    if constexpr (Width == 8)
      asm volatile("ld.volatile.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(address) : "memory");
    else
      asm volatile("ld.volatile.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "r"(address)
                   : "memory");
    sum ^= v[0];
  }
  __device__ uint32_t result() const { return sum; }
};
template <Same Which>
void rates_of_wide_loads(const char* which) {
  const std::string name = std::string(" bytes, ") + which;
  report("ld.shared 8" + name, sm_cycles_per_step<WideLoads<Which, 8>>(512, 4096, 11),
         "cycles per warp instruction and SM", "16 warps");
  report("ld.shared 16" + name, sm_cycles_per_step<WideLoads<Which, 16>>(512, 4096, 11),
         "cycles per warp instruction and SM", "16 warps");
}
BENCHMARK(wide_loads) {
  rates_of_wide_loads<Same::kNone>("each lane another");
  rates_of_wide_loads<Same::kModulo16>("lane modulo 16");
  rates_of_wide_loads<Same::kModulo8>("lane modulo 8");
  rates_of_wide_loads<Same::kModulo4>("lane modulo 4");
  rates_of_wide_loads<Same::kModulo2>("lane modulo 2");
  rates_of_wide_loads<Same::kHalf>("lane over 2");
  rates_of_wide_loads<Same::kQuarter>("lane over 4");
  rates_of_wide_loads<Same::kEighth>("lane over 8");
  rates_of_wide_loads<Same::kSixteenth>("lane over 16");
  rates_of_wide_loads<Same::kAll>("one address");
}

/// Each lane stores a word of its own line; lanes are `lane_stride` apart and the warp's next store is the next word.
__global__ void __launch_bounds__(1024)
    far_stores(uint8_t* memory, size_t lane_stride, size_t warp_stride, int rounds) {
  const size_t warp = size_t{blockIdx.x} * 32 + threadIdx.x / 32;
  uint8_t* const at = memory + warp * warp_stride + lane() * lane_stride;
#pragma unroll 4
  for (int i = 0; i < rounds; ++i) asm volatile("st.global.b32 [%0], %1;" ::"l"(at + i * 4), "r"(i) : "memory");
}
BENCHMARK(stores_by_distance) {
  const int sms = multiprocessors();
  for (const size_t stride :
       {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 16384 + 128, 16384 + 32, 12288, 20480}) {
    // The warps of a block are beside each other where lanes are far apart; the footprint is 17 MiB or a little more.
    const size_t warp_stride = stride >= 4096 ? 128 : 32 * stride;
    const size_t bytes = std::max<size_t>(sms * 32 * warp_stride, 32 * stride) + 32 * stride;
    DeviceArray<uint8_t> memory(bytes);
    std::vector<double> samples;
    for (const double ms :
         event_milliseconds([&] { far_stores<<<sms, 1024>>>(memory.data(), stride, warp_stride, 32); }, 5))
      samples.push_back(double(sms) * 32 * 32 * 32 / ms * 1e-6);
    report("stores of a word to each line, lanes " + std::to_string(stride) + " bytes apart", samples, "10^9 a second",
           "132 blocks of 1024 threads, 32 stores each; warps 128 bytes apart from 4096 on");
  }
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
