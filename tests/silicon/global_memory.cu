// Global memory: latency of L1, L2 and DRAM, bandwidth of the whole chip, atomics, fences, and a hand-over between SMs.
#include <numeric>
#include <random>

#include "silicon.hpp"

using namespace silicon;

constexpr int kLine = 128;

/// Follows `steps` pointers, first once without the clock if `warm`.
template <bool ThroughL1>
__global__ void chase(const uint64_t* first, int steps, int warm_steps, Span* span, uint64_t* sink) {
  uint64_t pointer = reinterpret_cast<uint64_t>(first);
  const auto follow = [&] {
    if constexpr (ThroughL1)
      asm volatile("ld.global.ca.b64 %0, [%0];" : "+l"(pointer)::"memory");
    else
      asm volatile("ld.global.cg.b64 %0, [%0];" : "+l"(pointer)::"memory");
  };
#pragma unroll 1
  for (int i = 0; i < warm_steps; ++i) follow();
  const uint64_t start = cycles_after(static_cast<uint32_t>(pointer));
#pragma unroll 8
  for (int i = 0; i < steps; ++i) follow();
  const uint64_t stop = cycles_after(static_cast<uint32_t>(pointer));
  *span = {start, stop};
  *sink = pointer;
}

/// A ring of pointers in random order through `bytes` of memory, `stride` apart.
std::vector<uint64_t> ring(uint64_t base, size_t bytes, size_t stride, uint32_t seed) {
  const size_t count = bytes / stride;
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<uint64_t> words(bytes / 8);
  for (size_t i = 0; i < count; ++i) words[order[i] * stride / 8] = base + order[(i + 1) % count] * stride;
  return words;
}

std::string size_text(size_t bytes) {
  if (bytes >= 1 << 20) return std::to_string(bytes >> 20) + " MiB";
  if (bytes >= 1024) return std::to_string(bytes >> 10) + " KiB";
  return std::to_string(bytes) + " bytes";
}

/// Latency of a chase through `bytes`. The ring is walked once before, or everything else is written to L2 in between.
template <bool ThroughL1>
std::vector<double> chase_latency(size_t bytes, size_t stride, int repeats, bool warm = true) {
  DeviceArray<uint64_t> memory(bytes / 8);
  DeviceArray<uint8_t> flush(warm ? 1 : size_t{512} << 20);
  DeviceArray<Span> span(1);
  DeviceArray<uint64_t> sink(1);
  memory.from_host(ring(reinterpret_cast<uint64_t>(memory.data()), bytes, stride, 1));
  const int count = static_cast<int>(bytes / stride);
  const int steps = std::min(count, 4096);
  std::vector<double> samples;
  for (int i = 0; i < repeats; ++i) {
    if (!warm) check(cudaMemset(flush.data(), i, flush.size()), "cudaMemset");
    chase<ThroughL1><<<1, 1>>>(memory.data(), steps, warm ? count : 0, span.data(), sink.data());
    finish_kernel("chase");
    samples.push_back(span_cycles(span.to_host(), 1) / steps);
  }
  return samples;
}

BENCHMARK(latency_of_l1) {
  for (const size_t kib : {4, 16, 64, 128, 192, 224, 256})
    report("load latency, L1, " + size_text(kib << 10), chase_latency<true>(kib << 10, kLine, 11), "cycles",
           "one thread follows a random ring of lines, once around before the clock; ld.global.ca");
}
BENCHMARK(latency_by_size) {
  for (const size_t mib : {1, 4, 16, 24, 28, 32, 40, 48, 56, 64, 96, 128})
    report("load latency, ring of " + size_text(mib << 20), chase_latency<false>(mib << 20, kLine, 3), "cycles",
           "one thread follows a random ring of lines, once around before the clock; ld.global.cg");
}
BENCHMARK(latency_of_dram) {
  for (const size_t mib : {2, 16, 64, 256, 1024})
    report("load latency, DRAM, " + size_text(mib << 20),
           chase_latency<false>(mib << 20, std::max<size_t>(kLine, (mib << 20) / 8192), 7, false), "cycles",
           "one thread follows a random ring of at most 8192 places in so much memory, after 512 MiB were written "
           "elsewhere; "
           "misses of the TLB included");
}

/// Latency of each of `count` lines, from every multiprocessor in turn; each line is loaded once before, so it is in
/// L2.
__global__ void line_latencies(const uint8_t* memory, int count, int stride, uint32_t* latencies, uint32_t* of_sm,
                               int wanted_block) {
  if (static_cast<int>(blockIdx.x) != wanted_block) return;
  for (int i = 0; i < count; ++i) {
    uint32_t best = ~0u;
#pragma unroll 1
    for (int again = 0; again < 4; ++again) {
      const uint64_t pointer = reinterpret_cast<uint64_t>(memory + static_cast<size_t>(i) * stride);
      uint32_t value;
      const uint64_t start = cycles();
      asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(pointer) : "memory");
      const uint64_t stop = cycles_after(value);
      if (again > 0) best = min(best, static_cast<uint32_t>(stop - start));
    }
    latencies[i] = best;
  }
  *of_sm = multiprocessor();
}

BENCHMARK(l2_partitions) {
  const int count = 2048, stride = 4096;
  DeviceArray<uint8_t> memory(static_cast<size_t>(count) * stride);
  DeviceArray<uint32_t> latencies(count), sm(1);
  const int blocks = multiprocessors();
  std::vector<std::vector<uint32_t>> by_block;
  for (int block = 0; block < blocks; block += 4) {
    line_latencies<<<blocks, 1>>>(memory.data(), count, stride, latencies.data(), sm.data(), block);
    finish_kernel("line_latencies");
    by_block.push_back(latencies.to_host());
    std::vector<double> samples(by_block.back().begin(), by_block.back().end());
    std::sort(samples.begin(), samples.end());
    const auto at = [&](double part) { return samples[static_cast<size_t>(part * (count - 1))]; };
    char how[256];
    std::snprintf(how, sizeof how,
                  "least of 3 for each of 2048 lines 4 KiB apart; percentiles 1, 25, 50, 75, 99: %g %g %g %g %g",
                  at(.01), at(.25), at(.5), at(.75), at(.99));
    report("load latency, L2 by line, from SM " + std::to_string(sm.to_host()[0]), samples, "cycles", how);
  }
  // Lines that are near to one SM are far from another, if there are two partitions: the correlation says so.
  const auto correlation = [&](const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
    double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < count; ++i) mean_a += a[i] / double(count), mean_b += b[i] / double(count);
    for (int i = 0; i < count; ++i) {
      ab += (a[i] - mean_a) * (b[i] - mean_b);
      aa += (a[i] - mean_a) * (a[i] - mean_a);
      bb += (b[i] - mean_b) * (b[i] - mean_b);
    }
    return ab / std::sqrt(aa * bb);
  };
  std::vector<double> correlations;
  for (const auto& other : by_block) correlations.push_back(correlation(by_block[0], other));
  std::string list;
  for (double value : correlations) list += std::to_string(value).substr(0, 5) + " ";
  report("correlation of L2 latencies by line with those of the first SM", correlations, "1",
         "by SM, in the order of the lines above: " + list);
}

// ---- Bandwidth
// --------------------------------------------------------------------------------------------------------

enum class Direction { kRead, kWrite, kCopy };

/// Each block takes pieces of 16 KiB in turn, `rounds` times over the whole.
template <Direction Kind>
__global__ void __launch_bounds__(256) stream(uint4* to, const uint4* from, size_t count, int rounds, uint32_t* sink) {
  uint4 sum{};
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = blockIdx.x * size_t{1024} + threadIdx.x; i + 768 < count; i += gridDim.x * size_t{1024}) {
      uint4 v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if constexpr (Kind == Direction::kWrite)
          v[j] = {threadIdx.x, 1, 2, 3};
        else
          asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w)
                       : "l"(from + i + j * 256)
                       : "memory");
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if constexpr (Kind == Direction::kRead)
          sum.x ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
        else
          to[i + j * 256] = v[j];
      }
    }
  }
  if (sum.x == 0x12345678) *sink = sum.x;
}

template <Direction Kind>
void bandwidth(const char* name, size_t bytes, int blocks, int rounds, double published) {
  DeviceArray<uint4> from(bytes / 16), to(Kind == Direction::kRead ? 1 : bytes / 16);
  DeviceArray<uint32_t> sink(1);
  // Random bits: equal data would let a chip that compresses look faster.
  std::vector<uint4> host(bytes / 16 > (1 << 22) ? 1 << 22 : bytes / 16);
  std::mt19937 random(1);
  for (uint4& v : host)
    v = {static_cast<uint32_t>(random()), static_cast<uint32_t>(random()), 7, static_cast<uint32_t>(random())};
  for (size_t done = 0; done < bytes / 16; done += host.size())
    check(cudaMemcpy(from.data() + done, host.data(), std::min(host.size(), bytes / 16 - done) * 16,
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  const auto times = event_milliseconds(
      [&] { stream<Kind><<<blocks, 256>>>(to.data(), from.data(), bytes / 16, rounds, sink.data()); }, 11);
  std::vector<double> rates;
  for (double ms : times) rates.push_back((Kind == Direction::kCopy ? 2. : 1.) * bytes * rounds / ms * 1e-6);
  report(std::string(name) + ", " + size_text(bytes) + ", " + std::to_string(blocks) + " blocks", rates, "GB/s",
         "blocks of 256 threads, 64 bytes a thread in flight, " + std::to_string(rounds) +
             " rounds; a copy counts bytes read and written",
         published);
}
BENCHMARK(bandwidth_of_dram) {
  const int sms = multiprocessors();
  for (const int blocks : {sms, 4 * sms, 8 * sms}) {
    bandwidth<Direction::kRead>("DRAM read", size_t{4} << 30, blocks, 1, 4800);
    bandwidth<Direction::kWrite>("DRAM write", size_t{4} << 30, blocks, 1, 4800);
    bandwidth<Direction::kCopy>("DRAM copy", size_t{2} << 30, blocks, 1, 4800);
  }
}
BENCHMARK(bandwidth_of_l2) {
  const int sms = multiprocessors();
  for (const size_t mib : {2, 8, 16, 24, 32, 48}) {
    bandwidth<Direction::kRead>("L2 read", mib << 20, 8 * sms, 100, 0);
    bandwidth<Direction::kWrite>("L2 write", mib << 20, 8 * sms, 100, 0);
    bandwidth<Direction::kCopy>("L2 copy", mib << 20, 8 * sms, 100, 0);
  }
}
BENCHMARK(bandwidth_of_few_multiprocessors) {
  for (const int blocks : {1, 2, 4, 8, 16, 32, 64}) bandwidth<Direction::kRead>("L2 read", 8 << 20, blocks, 4, 0);
  for (const int blocks : {1, 4, 16, 32, 64, 96})
    bandwidth<Direction::kRead>("DRAM read", size_t{1} << 30, blocks, 1, 0);
}

/// Loads that hit L1: cycles per warp instruction of 16 bytes a lane.
template <int Width>
struct L1Loads {
  const uint8_t* address;
  uint32_t sum = 0;
  __device__ L1Loads(uint32_t, uint8_t*) {
    static __device__ uint4 data[2048];
    address = reinterpret_cast<const uint8_t*>(data) + threadIdx.x * Width;
  }
  __device__ void step(int i) {
    uint32_t v[4] = {};
    const uint8_t* from = address + i * 128;  // another address each time, or ptxas would load once
    if constexpr (Width == 4) asm volatile("ld.global.ca.b32 %0, [%1];" : "=r"(v[0]) : "l"(from) : "memory");
    if constexpr (Width == 16)
      asm volatile("ld.global.ca.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "l"(from)
                   : "memory");
    sum ^= v[0] ^ v[1] ^ v[2] ^ v[3];
  }
  __device__ uint32_t result() { return sum; }
};
BENCHMARK(rate_of_l1) {
  report("ld.global 4 bytes rate, L1 hit", sm_cycles_per_step<L1Loads<4>, 4, 12>(512),
         "cycles per warp instruction and SM", "16 warps", 1);
  report("ld.global 16 bytes rate, L1 hit", sm_cycles_per_step<L1Loads<16>, 4, 12>(512),
         "cycles per warp instruction and SM", "16 warps; published is 128 bytes a cycle", 4);
}

// ---- Atomics, fences, hand-over
// ---------------------------------------------------------------------------------------

enum class Atomic { kAtomAdd, kAtomAddF32, kAtomCas, kRedAdd, kRedAddF32, kRedAddV4F32 };

template <Atomic Kind>
__device__ void apply(void* address, uint32_t& value) {
  if constexpr (Kind == Atomic::kAtomAdd)
    asm volatile("atom.global.add.u32 %0, [%1], %0;" : "+r"(value) : "l"(address) : "memory");
  if constexpr (Kind == Atomic::kAtomAddF32)
    asm volatile("{.reg .f32 f; mov.b32 f, %0; atom.global.add.f32 f, [%1], f; mov.b32 %0, f;}"
                 : "+r"(value)
                 : "l"(address)
                 : "memory");
  if constexpr (Kind == Atomic::kAtomCas)
    asm volatile("atom.global.cas.b32 %0, [%1], %0, 7;" : "+r"(value) : "l"(address) : "memory");
  if constexpr (Kind == Atomic::kRedAdd)
    asm volatile("red.global.add.u32 [%1], %0;" : "+r"(value) : "l"(address) : "memory");
  if constexpr (Kind == Atomic::kRedAddF32)
    asm volatile("red.global.add.f32 [%1], %0;" : "+f"(*reinterpret_cast<float*>(&value)) : "l"(address) : "memory");
  if constexpr (Kind == Atomic::kRedAddV4F32)
    asm volatile("red.global.add.v4.f32 [%1], {%0, %0, %0, %0};"
                 : "+f"(*reinterpret_cast<float*>(&value))
                 : "l"(address)
                 : "memory");
}
/// @param stride  distance of the threads' words in bytes; 0 is one word for all.
template <Atomic Kind>
__global__ void atomic_loop(uint8_t* memory, size_t stride, int rounds, Span* spans, uint32_t* sink) {
  uint8_t* address = memory + (blockIdx.x * size_t{blockDim.x} + threadIdx.x) * stride;
  uint32_t value = 1;
  apply<Kind>(address, value);
  const uint64_t start = cycles_after(value);
#pragma unroll 4
  for (int i = 0; i < rounds; ++i) apply<Kind>(address, value);
  const uint64_t stop = cycles_after(value);
  if (threadIdx.x == 0) spans[blockIdx.x] = {start, stop};
  if (value == 0x12345678) *sink = value;
}
template <Atomic Kind>
void atomic(const std::string& name, int width) {
  const int sms = multiprocessors(), threads = 256;
  DeviceArray<uint8_t> memory(size_t{4} * sms * threads * 32);
  DeviceArray<Span> spans(4 * sms);
  DeviceArray<uint32_t> sink(1);
  const bool returns = Kind == Atomic::kAtomAdd || Kind == Atomic::kAtomAddF32 || Kind == Atomic::kAtomCas;
  if (returns)
    for (const int lanes : {1, 32}) {
      std::vector<double> samples;
      for (int i = 0; i < 11; ++i) {
        atomic_loop<Kind><<<1, lanes>>>(memory.data(), 0, 256, spans.data(), sink.data());
        finish_kernel("atomic_loop");
        samples.push_back(span_cycles(spans.to_host(), 1) / 256);
      }
      report(name + " latency, " + std::to_string(lanes) + " lanes at one word", samples, "cycles", "chain, one warp");
    }
  const auto rate = [&](const char* where, size_t stride, int blocks, int rounds) {
    const auto times = event_milliseconds(
        [&] { atomic_loop<Kind><<<blocks, threads>>>(memory.data(), stride, rounds, spans.data(), sink.data()); }, 7);
    std::vector<double> rates;
    for (double ms : times) rates.push_back(double(blocks) * threads * rounds / ms * 1e-6);
    report(name + " rate, " + where, rates, "10^9 operations a second",
           std::to_string(blocks) + " blocks of 256 threads");
  };
  rate("one word for all threads", 0, 4 * sms, 64);
  rate("a word for each thread", width, 4 * sms, 512);
  rate("a sector for each thread", 32, 4 * sms, 64);
  rate("a word for each thread, one SM", width, 1, 512);
}
BENCHMARK(atomics) {
  atomic<Atomic::kAtomAdd>("atom.global.add.u32", 4);
  atomic<Atomic::kAtomAddF32>("atom.global.add.f32", 4);
  atomic<Atomic::kAtomCas>("atom.global.cas.b32", 4);
  atomic<Atomic::kRedAdd>("red.global.add.u32", 4);
  atomic<Atomic::kRedAddF32>("red.global.add.f32", 4);
  atomic<Atomic::kRedAddV4F32>("red.global.add.v4.f32", 16);
}

// A store to global memory and a fence, in a chain: the fence waits until the store is where its scope sees it.
#define FENCE(NAME, TEXT)                                                                             \
  struct NAME {                                                                                       \
    uint32_t value;                                                                                   \
    uint32_t* address;                                                                                \
    __device__ NAME(uint32_t seed, uint8_t*) : value(seed) {                                          \
      static __device__ uint32_t word[1024];                                                          \
      address = word + threadIdx.x;                                                                   \
    }                                                                                                 \
    __device__ void step(int) {                                                                       \
      asm volatile("st.volatile.global.b32 [%1], %0; " TEXT : "+r"(value) : "l"(address) : "memory"); \
    }                                                                                                 \
    __device__ uint32_t result() { return value; }                                                    \
  };
FENCE(FenceNone, "")
FENCE(FenceCta, "fence.acq_rel.cta;")
FENCE(FenceCluster, "fence.acq_rel.cluster;")
FENCE(FenceGpu, "fence.acq_rel.gpu;")
FENCE(FenceGpuSc, "fence.sc.gpu;")
FENCE(FenceSys, "fence.acq_rel.sys;")
FENCE(FenceProxy, "fence.proxy.async;")
BENCHMARK(fences) {
  report("st.global", cycles_per_step<FenceNone, 8, 24>(32), "cycles", "one warp, a word for each lane, no fence");
  report("st.global and fence.acq_rel.cta", cycles_per_step<FenceCta, 8, 24>(32), "cycles", "one warp");
  report("st.global and fence.acq_rel.cluster", cycles_per_step<FenceCluster, 8, 24>(32), "cycles", "one warp");
  report("st.global and fence.acq_rel.gpu", cycles_per_step<FenceGpu, 8, 24>(32), "cycles", "one warp");
  report("st.global and fence.sc.gpu", cycles_per_step<FenceGpuSc, 8, 24>(32), "cycles", "one warp");
  report("st.global and fence.acq_rel.sys", cycles_per_step<FenceSys, 8, 24>(32), "cycles", "one warp");
  report("st.global and fence.proxy.async", cycles_per_step<FenceProxy, 8, 24>(32), "cycles", "one warp");
}

/// Two blocks hand a number back and forth by a release store and an acquire load.
__global__ void ping_pong(uint32_t* flags, int partner, int rounds, Span* span) {
  if (blockIdx.x != 0 && static_cast<int>(blockIdx.x) != partner) return;
  const bool first = blockIdx.x == 0;
  uint32_t *mine = flags + (first ? 0 : 64), *other = flags + (first ? 64 : 0);
  uint64_t start = 0;
  for (int i = 1; i <= rounds; ++i) {
    if (i == 2) start = cycles();
    uint32_t seen;
    if (first) asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(mine), "r"(i) : "memory");
    do asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(other) : "memory");
    while (seen < static_cast<uint32_t>(i));
    if (!first) asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(mine), "r"(i) : "memory");
  }
  if (first) *span = {start, cycles()};
}
BENCHMARK(hand_over) {
  DeviceArray<uint32_t> flags(128);
  DeviceArray<Span> span(1);
  const int rounds = 201;
  for (const int partner : {1, 2, 17, 66, 131}) {
    std::vector<double> samples;
    for (int i = 0; i < 11; ++i) {
      check(cudaMemset(flags.data(), 0, 512), "cudaMemset");
      ping_pong<<<multiprocessors(), 1>>>(flags.data(), partner, rounds, span.data());
      finish_kernel("ping_pong");
      samples.push_back(span_cycles(span.to_host(), 1) / (rounds - 1) / 2);
    }
    report("hand-over to block " + std::to_string(partner) + " through global memory", samples, "cycles",
           "half a round trip of st.release.gpu and ld.acquire.gpu");
  }
}

/// cp.async of 16 bytes a lane, from issue to cp.async.wait_all.
__global__ void cp_async_latency(const uint8_t* memory, int lines, Span* spans) {
  __shared__ uint4 tile[32];
  for (int i = 0; i < lines; ++i) {
    const uint64_t start = cycles();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.wait_all;" ::"r"(shared_address(tile + lane())),
                 "l"(memory + i * 4096 + lane() * 16)
                 : "memory");
    const uint64_t stop = cycles();
    if (lane() == 0) spans[i] = {start, stop};
  }
}
BENCHMARK(cp_async) {
  const int lines = 256;
  DeviceArray<uint8_t> memory(lines * 4096), flush(size_t{256} << 20);
  DeviceArray<Span> spans(lines);
  for (const bool warm : {true, false}) {
    std::vector<double> samples;
    for (int i = 0; i < 5; ++i) {
      if (!warm) check(cudaMemset(flush.data(), i, flush.size()), "cudaMemset");
      cp_async_latency<<<1, 32>>>(memory.data(), lines, spans.data());
      finish_kernel("cp_async_latency");
      if (i > 0)
        for (const Span& span : spans.to_host()) samples.push_back(double(span.stop - span.start));
    }
    report(std::string("cp.async latency, ") + (warm ? "L2" : "DRAM"), samples, "cycles",
           "512 bytes by one warp, from issue to wait_all");
  }
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
