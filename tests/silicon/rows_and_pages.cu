// What everyday kernels ask of memory beyond what the others measure: rows that a thread reads or writes word by word,
// pages, and what a launch writes that L2 keeps.
#include "kernel_timing.hpp"

using namespace silicon;

constexpr size_t kMiB = size_t{1} << 20, kPage = 2 * kMiB;

// ---- Rows of threads
// -------------------------------------------------------------------------------------------------

enum class Row { kLoad, kLoadOneByOne, kStore, kAddToOwn, kCopy };

/// Each thread goes through a row of its own, word by word.
template <Row What>
__global__ void __launch_bounds__(1024)
    walk_rows(uint8_t* memory, uint8_t* other, size_t pitch, int words, Span* spans, uint32_t* sink) {
  const size_t row = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  uint8_t *at = memory + row * pitch, *to = other + row * pitch;
  uint32_t sum = 0, value = 0;
  __syncthreads();
  const uint64_t start = cycles();
#pragma unroll 4
  for (int i = 0; i < words; ++i, at += 4, to += 4) {
    if constexpr (What == Row::kLoad) {
      asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(at));
      sum ^= value;
    } else if constexpr (What == Row::kLoadOneByOne) {
      asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(at + value));
    } else if constexpr (What == Row::kStore) {
      asm volatile("st.global.b32 [%0], %1;" ::"l"(to), "r"(0) : "memory");
    } else if constexpr (What == Row::kAddToOwn) {
      asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
      asm volatile("st.global.b32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
    } else {
      asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
      asm volatile("st.global.b32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
    }
  }
  sum ^= value;
  __syncthreads();
  const uint64_t stop = cycles_after(sum);
  if (threadIdx.x == 0) spans[blockIdx.x] = {start, stop};
  if (sum == 0x12345678) *sink = sum;
}

template <Row What>
void time_rows(const char* what) {
  DeviceArray<uint32_t> sink(1);
  DeviceArray<uint8_t> much(128 * kMiB);
  for (const size_t pitch : {128, 3072, 4096, 201028})
    for (const int blocks : {1, 32, 128})
      for (const int warps : {1, 8, 32}) {
        const size_t rows = size_t(blocks) * warps * 32;
        const int words = static_cast<int>(std::min<size_t>(pitch / 4, 512));
        if (blocks == 128 && warps == 32 && pitch > 4096) continue;
        DeviceArray<uint8_t> memory(rows * pitch + 4096), other(rows * pitch + 4096);
        DeviceArray<Span> spans(blocks);
        for (const bool cold : {false, true}) {
          if (cold && blocks == 1) continue;
          if (!cold && rows * words * 4 > 24 * kMiB) continue;
          std::vector<double> samples;
          for (int repeat = -1; repeat < 3; ++repeat) {
            if (cold) check(cudaMemset(much.data(), repeat, much.size()), "cudaMemset");
            walk_rows<What>
                <<<blocks, warps * 32>>>(memory.data(), other.data(), pitch, words, spans.data(), sink.data());
            finish_kernel("walk_rows");
            double sum = 0;
            for (const Span& span : spans.to_host()) sum += static_cast<double>(span.stop - span.start);
            if (repeat >= 0) samples.push_back(sum / blocks / words);
          }
          report(std::string("rows of threads, ") + what + ", " + std::to_string(pitch) + " bytes apart, " +
                     std::to_string(blocks) + " SMs of " + std::to_string(warps) + " warps, " +
                     (cold ? "in DRAM" : "in L2"),
                 samples, "cycles a word", "mean of the blocks; a warp's load or store is of 32 rows");
        }
      }
}
BENCHMARK(rows_loaded) { time_rows<Row::kLoad>("loaded"); }
BENCHMARK(rows_loaded_one_by_one) { time_rows<Row::kLoadOneByOne>("loaded one by one"); }
BENCHMARK(rows_stored) { time_rows<Row::kStore>("stored"); }
BENCHMARK(rows_changed) { time_rows<Row::kAddToOwn>("loaded and stored"); }
BENCHMARK(rows_copied) { time_rows<Row::kCopy>("copied"); }

// ---- Rows of warps
// ---------------------------------------------------------------------------------------------------

/// Each warp goes through a row of its own, `AtOnce` loads before their sums, and may write what it reads.
template <int AtOnce, bool Writes>
__global__ void __launch_bounds__(256) rows_of_warps(const float* in, float* out, size_t pitch, int rounds) {
  const size_t row = size_t{blockIdx.x} * 8 + threadIdx.x / 32;
  const float* from = in + row * pitch + lane();
  float* to = out + row * pitch + lane();
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < rounds; ++i, from += 32 * AtOnce, to += 32 * AtOnce) {
    float each[AtOnce];
#pragma unroll
    for (int j = 0; j < AtOnce; ++j) each[j] = from[32 * j];
#pragma unroll
    for (int j = 0; j < AtOnce; ++j) {
      sum += each[j];
      if constexpr (Writes) to[32 * j] = sum;
    }
  }
  if (sum == 12345) *out = sum;
}
template <int AtOnce, bool Writes>
void time_rows_of_warps() {
  constexpr int kWords = 4096;
  for (const size_t pitch : {4096, 32000, 50257}) {
    const size_t rows = 132 * 4 * 8;
    auto in = arrays<float>(2, rows * pitch), out = arrays<float>(2, Writes ? rows * pitch : 32);
    time(std::string("4224 rows of ") + std::to_string(kWords) + " of " + std::to_string(pitch) + ", a warp each, " +
             std::to_string(AtOnce) + " loads at once" + (Writes ? ", written" : ""),
         2, [&](cudaStream_t stream, int set) {
           rows_of_warps<AtOnce, Writes>
               <<<132 * 4, 256, 0, stream>>>(in[set].data(), out[set].data(), pitch, kWords / 32 / AtOnce);
         });
  }
}
BENCHMARK(warps_rows_1) { time_rows_of_warps<1, false>(); }
BENCHMARK(warps_rows_4) { time_rows_of_warps<4, false>(); }
BENCHMARK(warps_rows_1_written) { time_rows_of_warps<1, true>(); }
BENCHMARK(warps_rows_4_written) { time_rows_of_warps<4, true>(); }

/// Sums of two rows of each thread's own, word by word: a store after each two loads.
template <typename T>
__global__ void __launch_bounds__(256) add_rows(const T* a, const T* b, T* out, int words) {
  const size_t row = size_t{blockIdx.x} * 256 + threadIdx.x;
  for (int i = 0; i < words; ++i) {
    T x, y;
    if constexpr (sizeof(T) == 4) {
      asm volatile("ld.global.b32 %0, [%1];" : "=r"(x) : "l"(a + row * words + i) : "memory");
      asm volatile("ld.global.b32 %0, [%1];" : "=r"(y) : "l"(b + row * words + i) : "memory");
      asm volatile("st.global.b32 [%0], %1;" ::"l"(out + row * words + i), "r"(T(x + y)) : "memory");
    } else {
      asm volatile("ld.global.b16 %0, [%1];" : "=h"(x) : "l"(a + row * words + i) : "memory");
      asm volatile("ld.global.b16 %0, [%1];" : "=h"(y) : "l"(b + row * words + i) : "memory");
      asm volatile("st.global.b16 [%0], %1;" ::"l"(out + row * words + i), "h"(T(x + y)) : "memory");
    }
  }
}
template <typename T>
void time_added_rows(const char* name, int words, int blocks) {
  const size_t count = size_t{256} * words * blocks;
  const int sets = sets_of(3 * sizeof(T) * count);
  auto a = arrays<T>(sets, count), b = arrays<T>(sets, count), out = arrays<T>(sets, count);
  time(std::string("sums of rows of threads, ") + std::to_string(words) + " " + name + ", " + std::to_string(blocks) +
           " blocks of 256",
       sets, [&](cudaStream_t stream, int set) {
         add_rows<T><<<blocks, 256, 0, stream>>>(a[set].data(), b[set].data(), out[set].data(), words);
       });
}
BENCHMARK(rows_added) {
  for (const int blocks : {1, 32}) {
    time_added_rows<uint32_t>("words", 768, blocks);
    time_added_rows<uint16_t>("halves", 768, blocks);
    time_added_rows<uint16_t>("halves", 1536, blocks);
  }
}

// ---- Pages
// -----------------------------------------------------------------------------------------------------------

/// The place of the n-th line: one in each piece of `stride` bytes, spread over the lines of it.
__host__ __device__ inline size_t place_of(size_t n, size_t stride) { return n * stride + n * 33 * 128 % stride; }

__global__ void make_chain(uint8_t* memory, size_t lines, size_t stride) {
  const size_t n = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  // An order in which neighbours do not follow each other; `lines` is a power of two.
  if (n < lines) *reinterpret_cast<size_t*>(memory + place_of(n, stride)) = place_of((n * 5 + 1) % lines, stride);
}
__global__ void follow(const uint8_t* memory, size_t steps, Span* span, size_t* sink) {
  size_t at = 0;
  uint64_t start = 0;
  for (int pass = 0; pass < 2; ++pass) {
    start = cycles();
#pragma unroll 1
    for (size_t i = 0; i < steps; ++i)
      asm volatile("ld.global.cg.b64 %0, [%1];" : "=l"(at) : "l"(memory + at) : "memory");
  }
  span[0] = {start, cycles_after(static_cast<uint32_t>(at))};
  if (at == 1) *sink = at;
}
BENCHMARK(latency_by_pages) {
  DeviceArray<uint8_t> memory(size_t{32} << 30);
  DeviceArray<Span> span(1);
  DeviceArray<size_t> sink(1);
  for (const size_t stride : {size_t{128} << 10, size_t{512} << 10, kPage, 4 * kPage, 16 * kPage})
    for (size_t lines = 4; lines <= 16384 && lines * stride <= memory.size(); lines *= 2) {
      make_chain<<<(lines + 255) / 256, 256>>>(memory.data(), lines, stride);
      std::vector<double> samples;
      for (int repeat = 0; repeat < 3; ++repeat) {
        const size_t steps = std::max<size_t>(lines, 256);
        follow<<<1, 1>>>(memory.data(), steps, span.data(), sink.data());
        finish_kernel("follow");
        const Span found = span.to_host()[0];
        samples.push_back(static_cast<double>(found.stop - found.start) / steps);
      }
      report("load latency, L2, " + std::to_string(lines) + " lines " + std::to_string(stride >> 10) + " KiB apart",
             samples, "cycles", "a chain that was gone through before");
    }
}

/// Words of lines that L2 has, in so many pages.
enum class Spread { kLanes, kWarps, kOwn };
__device__ inline uint32_t random_number(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du;
  x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ x >> 16;
}
template <Spread How>
__global__ void __launch_bounds__(256) gather(const uint8_t* memory, uint32_t pages, int rounds, uint32_t* sink) {
  const uint32_t thread = blockIdx.x * 256 + threadIdx.x;
  uint32_t sum = 0;
#pragma unroll 4
  for (int i = 0; i < rounds; ++i) {
    const uint32_t r = random_number(thread + i * 0x1000193u);
    uint32_t page;  // each has 64 Ki lines over `pages` of them that are asked for
    if constexpr (How == Spread::kLanes) page = r % pages;
    if constexpr (How == Spread::kWarps) page = random_number(thread / 32 + i * 0x1000193u) % pages;
    if constexpr (How == Spread::kOwn) page = (multiprocessor() + 132 * (r % max(pages / 132, 1u))) % pages;
    const uint32_t lines = max((64u << 10) / pages, 1u), line = page * 37 + (r >> 12) % lines;
    sum += __ldcg(reinterpret_cast<const uint32_t*>(memory + size_t{page} * (2 << 20) + line % (16 << 10) * 128));
  }
  if (sum == 0x12345678) *sink = sum;
}
template <Spread How>
void time_gather(const char* what) {
  DeviceArray<uint8_t> memory(size_t{16} << 30);
  DeviceArray<uint32_t> sink(1);
  constexpr int kRounds = 16;
  for (const int blocks_each : {1, 8})
    for (uint32_t pages = 4; pages <= 8192; pages *= 2) {
      const int blocks = multiprocessors() * blocks_each;
      std::vector<double> rates;
      for (const double ms :
           event_milliseconds([&] { gather<How><<<blocks, 256>>>(memory.data(), pages, kRounds, sink.data()); }, 5))
        rates.push_back(ms * 1e6 / kRounds);
      report(std::string("words of ") + std::to_string(pages) + " pages at random, " + what + ", " +
                 std::to_string(blocks_each) + " blocks of 256 an SM",
             rates, "ns a load of all", "16 loads each; events around the launch");
    }
}
BENCHMARK(rate_by_pages_of_few) {
  DeviceArray<uint8_t> memory(size_t{4} << 30);
  DeviceArray<uint32_t> sink(1);
  for (const int blocks : {1, 8, 32})
    for (const uint32_t pages : {64, 2048}) {
      std::vector<double> times;
      for (const double ms : event_milliseconds(
               [&] { gather<Spread::kLanes><<<blocks, 256>>>(memory.data(), pages, 1024, sink.data()); }, 5))
        times.push_back(ms * 1e6 / 1024);
      report("words of " + std::to_string(pages) + " pages at random, each lane, " + std::to_string(blocks) +
                 " SMs of 8 warps",
             times, "ns a load of all", "1024 loads each; events around the launch");
    }
}
BENCHMARK(rate_by_pages) {
  time_gather<Spread::kLanes>("each lane");
  time_gather<Spread::kWarps>("each warp");
  time_gather<Spread::kOwn>("each lane, each SM its own");
}

/// The first loads of pages: a lane of each of `warps` warps asks for `each` pages, one after the other.
__global__ void touch(const uint8_t* memory, int lanes, size_t apart, int each, size_t each_apart, Span* spans,
                      uint32_t* sink) {
  uint32_t value = 0;
  const uint64_t start = cycles();
  if (threadIdx.x < lanes) {
    const size_t n = size_t{blockIdx.x} * lanes + threadIdx.x;
    for (int i = 0; i < each; ++i) {
      const uint8_t* const at = memory + n * apart + i * each_apart + (n * 33 + i) * 128 % (1 << 20) + value;
      asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    }
  }
  __syncwarp();
  const uint64_t stop = cycles_after(value);
  if (threadIdx.x == 0) spans[blockIdx.x] = {start, stop};
  if (value == 0x12345678) *sink = value;
}
__global__ void touch_all(const uint8_t* memory, size_t pages, uint32_t* sink) {
  const size_t n = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n < pages &&
      __ldcg(reinterpret_cast<const uint32_t*>(memory + n * kPage + n * 129 * 32 % (1 << 20))) == 0x12345678)
    *sink = 1;
}
/// For Nsight Compute, whose first pass finds no translations: one launch of each.
BENCHMARK(first_loads_of_pages_once) {
  DeviceArray<uint8_t> memory(size_t{16} << 30);
  DeviceArray<uint32_t> sink(1);
  DeviceArray<Span> spans(132);
  for (const int blocks : {1, 32, 132})
    for (const int lanes : {1, 4, 32})
      for (const size_t apart : {size_t{128}, size_t{128} << 10, kPage, 8 * kPage, 32 * kPage}) {
        if (apart * blocks * lanes > memory.size() - 64 * kMiB) continue;
        touch<<<blocks, 32>>>(memory.data(), lanes, apart, 1, 0, spans.data(), sink.data());
        finish_kernel("touch");
      }
}
/// The same, of pages that no launch has asked for: by how far they are apart.
BENCHMARK(first_loads_of_fresh_pages_once) {
  DeviceArray<uint8_t> memory(size_t{96} << 30);
  DeviceArray<uint32_t> sink(1);
  DeviceArray<Span> spans(128);
  const uint8_t* at = memory.data();
  for (const size_t apart : {size_t{200} << 10, kPage, 2 * kPage, 4 * kPage, 8 * kPage})
    for (const int blocks : {2, 8, 32, 64}) {
      if (at + apart * blocks * 32 > memory.data() + memory.size()) continue;
      touch<<<blocks, 32>>>(at, 32, apart, 1, 0, spans.data(), sink.data());
      finish_kernel("touch");
      at += apart * blocks * 32;
    }
}
BENCHMARK(first_loads_of_pages) {
  DeviceArray<uint8_t> memory(size_t{4} << 30), much(size_t{64} << 30);
  DeviceArray<uint32_t> sink(1);
  for (const bool known : {false, true})
    for (const int blocks : {1, 8, 32, 132})
      for (const int lanes : {1, 2, 4, 8, 16, 32})
        for (const size_t apart : {size_t{0}, size_t{128} << 10, kPage}) {
          if (apart * blocks * lanes > memory.size() - 64 * kMiB) continue;
          DeviceArray<Span> spans(blocks);
          std::vector<double> mean, most;
          for (int repeat = 0; repeat < 5; ++repeat) {
            // Pages of others, and then all of L2: lines are not known, pages perhaps.
            if (!known) touch_all<<<128, 256>>>(much.data(), much.size() / kPage, sink.data());
            check(cudaMemset(much.data(), 0, 128 * kMiB), "cudaMemset");
            touch<<<blocks, 32>>>(memory.data(), lanes, apart, 1, 0, spans.data(), sink.data());
            finish_kernel("touch");
            double sum = 0, longest = 0;
            for (const Span& span : spans.to_host()) {
              sum += static_cast<double>(span.stop - span.start);
              longest = std::max(longest, static_cast<double>(span.stop - span.start));
            }
            mean.push_back(sum / blocks), most.push_back(longest);
          }
          const std::string name = std::string("first loads, ") + std::to_string(blocks) + " SMs, " +
                                   std::to_string(lanes) + " lanes " + std::to_string(apart >> 10) + " KiB apart, " +
                                   (known ? "pages as the launch before" : "32,768 other pages between");
          report(name + ", mean", mean, "cycles", "of blocks; lines are in DRAM");
          report(name + ", longest", most, "cycles", "the same");
        }
}

// ---- What is written
// -------------------------------------------------------------------------------------------------

/// Reads `Reads` arrays and writes `Writes`, one piece a thread.
template <typename T, int Reads, int Writes>
__global__ void __launch_bounds__(256) stream(const T* in, T* out, size_t pieces) {
  const size_t i = size_t{blockIdx.x} * 256 + threadIdx.x;
  T value{}, sum{};
#pragma unroll
  for (int r = 0; r < Reads; ++r) {
    value = in[r * pieces + i];
    if constexpr (sizeof(T) == 16) sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
    if constexpr (sizeof(T) == 4) sum += value;
  }
  if constexpr (Writes == 0) {
    if (*reinterpret_cast<const uint32_t*>(&sum) == 0x12345678) out[0] = sum;
  }
#pragma unroll
  for (int w = 0; w < Writes; ++w) out[w * pieces + i] = sum;
}
template <typename T, int Reads, int Writes>
void time_stream(size_t mib) {
  const size_t pieces = mib * kMiB / sizeof(T), all = mib * kMiB * (Reads + Writes);
  const int sets = sets_of(all);
  const auto in = arrays<T>(sets, pieces * std::max(Reads, 1)), out = arrays<T>(sets, pieces * std::max(Writes, 1));
  time("stream of " + std::to_string(Reads) + " arrays into " + std::to_string(Writes) + ", " + std::to_string(mib) +
           " MiB each, by " + std::to_string(sizeof(T)) + " bytes",
       sets, [&](cudaStream_t stream_, int set) {
         stream<T, Reads, Writes><<<pieces / 256, 256, 0, stream_>>>(in[set].data(), out[set].data(), pieces);
       });
}
BENCHMARK(streams) {
  for (const size_t mib : {4, 16, 24, 32, 64, 128}) time_stream<float4, 1, 0>(mib);
  for (const size_t mib : {4, 16, 24, 32, 64, 128}) time_stream<float4, 0, 1>(mib);
  for (const size_t mib : {4, 16, 24, 32, 64, 128}) time_stream<float4, 1, 1>(mib);
  for (const size_t mib : {4, 24, 64}) time_stream<float, 1, 1>(mib);
  for (const size_t mib : {4, 24}) time_stream<float, 1, 0>(mib);
  for (const size_t mib : {4, 24, 64}) time_stream<float4, 2, 1>(mib);
  for (const size_t mib : {4, 16}) time_stream<float4, 4, 3>(mib);
  for (const size_t mib : {4, 16}) time_stream<float, 4, 3>(mib);
}

// ---- What a launch takes that does nothing
// ---------------------------------------------------------------------------

__global__ void __launch_bounds__(256) nothing(uint32_t* to, bool ever) {
  if (ever) to[threadIdx.x] = 1;
}
__global__ void __launch_bounds__(256) one_word(uint32_t* to) { to[blockIdx.x * 256 + threadIdx.x] = 1; }
__global__ void __launch_bounds__(256) one_load(const uint32_t* from, uint32_t* to) {
  if (from[blockIdx.x * 256 + threadIdx.x] == 12345) *to = 1;
}
BENCHMARK(empties) {
  DeviceArray<uint32_t> to(size_t{32768} * 256);
  for (const int blocks : {1, 132, 1056, 4096, 32768}) {
    const std::string what = ", " + std::to_string(blocks) + " blocks of 256";
    time("nothing" + what, 1, [&](cudaStream_t at, int) { nothing<<<blocks, 256, 0, at>>>(to.data(), false); });
    time("a word each" + what, 1, [&](cudaStream_t at, int) { one_word<<<blocks, 256, 0, at>>>(to.data()); });
    time("a load each" + what, 1,
         [&](cudaStream_t at, int) { one_load<<<blocks, 256, 0, at>>>(to.data(), to.data()); });
  }
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
