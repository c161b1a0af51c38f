// What loads and stores take when many of them are under way: latency of L2 and DRAM by the bytes in flight, stores and
// loads that touch parts of sectors or many lines, and what L1 answers.
#include "silicon.hpp"

using namespace silicon;

constexpr size_t kMiB = size_t{1} << 20;

/// Each warp loads piece after piece of its own, the next only when the last has come: so `blocks * warps` requests are
/// under way. Memory holds zeros.
template <int Words>
__global__ void __launch_bounds__(1024)
    one_load_each(const uint32_t* memory, size_t mask, size_t first, int rounds, Span* spans, uint32_t* sink) {
  const size_t warps = size_t{gridDim.x} * (blockDim.x / 32);
  size_t piece = first + size_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  uint32_t value = 0;
  const uint64_t start = cycles();
#pragma unroll 1
  for (int i = 0; i < rounds; ++i, piece += warps) {
    const uint32_t* from = memory + ((piece * 32 + lane()) * Words & mask) + value;
    if constexpr (Words == 1) {
      asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    } else {
      uint32_t y, z, w;
      asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(value), "=r"(y), "=r"(z), "=r"(w)
                   : "l"(from)
                   : "memory");
    }
  }
  const uint64_t stop = cycles_after(value);
  if (threadIdx.x == 0) spans[blockIdx.x] = {start, stop};
  if (value == 0x12345678) *sink = value;
}

template <int Words>
void latency_under_load(const char* where, size_t bytes, bool from_l2) {
  const int sms = multiprocessors();
  DeviceArray<uint32_t> memory(bytes / 4);
  DeviceArray<Span> spans(2 * sms);
  DeviceArray<uint32_t> sink(1);
  for (const int warps : {1, 2, 4, 8, 16, 24, 32, 48, 64}) {
    const int blocks = warps > 32 ? 2 * sms : sms, threads = 32 * (warps > 32 ? warps / 2 : warps);
    const size_t round = size_t{128} * Words * sms * warps;
    const int rounds = static_cast<int>(std::min<size_t>(512, from_l2 ? 512 : bytes / round));
    std::vector<double> samples, rates;
    for (int repeat = -1; repeat < 5; ++repeat) {
      // From DRAM, each launch goes on where the one before has stopped.
      const size_t first = from_l2 ? 0 : size_t(repeat + 1) * rounds * sms * warps;
      one_load_each<Words><<<blocks, threads>>>(memory.data(), bytes / 4 - 1, first, rounds, spans.data(), sink.data());
      finish_kernel("one_load_each");
      if (repeat < 0) continue;
      double sum = 0;
      const auto all = spans.to_host();
      for (int block = 0; block < blocks; ++block) sum += static_cast<double>(all[block].stop - all[block].start);
      samples.push_back(sum / blocks / rounds);
      rates.push_back(128. * Words * warps / samples.back());
    }
    const std::string name = std::string("load latency under load, ") + where + ", " + std::to_string(warps) +
                             " warps an SM, one load of " + std::to_string(128 * Words) + " bytes each";
    report(name, samples, "cycles",
           "mean over all blocks; each load waits for the one before, a few cycles of code included");
    report(name + ", rate", rates, "bytes per cycle and SM", "from the latency");
  }
}
BENCHMARK(latency_of_l2_under_load) {
  latency_under_load<1>("L2", 16 * kMiB, true);
  latency_under_load<4>("L2", 16 * kMiB, true);
}
BENCHMARK(latency_of_dram_under_load) {
  latency_under_load<1>("DRAM", 1024 * kMiB, false);
  latency_under_load<4>("DRAM", 4096 * kMiB, false);
}

enum class Do { kStore, kLoad, kLoadL1 };

/// A warp's lanes are `stride` bytes apart; instructions follow each other without a wait.
template <Do What, int Words>
__global__ void __launch_bounds__(1024) strided(uint8_t* memory, size_t lane_stride, size_t warp_stride, size_t mask,
                                                int rounds, Span* spans, uint32_t* sink) {
  const size_t warps = size_t{gridDim.x} * (blockDim.x / 32);
  size_t piece = size_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  const bool own = What == Do::kLoadL1;  // the same lines for all warps, that L1 keeps
  uint32_t sum = 0;
  __syncthreads();
  const uint64_t start = cycles();
#pragma unroll 4
  for (int i = 0; i < rounds; ++i, piece += warps) {
    uint8_t* at = memory + (((own ? size_t(i & 7) : piece) * warp_stride & mask) + lane() * lane_stride);
    if constexpr (What == Do::kStore) {
      if constexpr (Words == 1) asm volatile("st.global.b32 [%0], %1;" ::"l"(at), "r"(i) : "memory");
      if constexpr (Words == 2) asm volatile("st.global.v2.b32 [%0], {%1, %1};" ::"l"(at), "r"(i) : "memory");
      if constexpr (Words == 4) asm volatile("st.global.v4.b32 [%0], {%1, %1, %1, %1};" ::"l"(at), "r"(i) : "memory");
    } else {
      uint32_t v[4] = {};
      if constexpr (What == Do::kLoad && Words == 1)
        asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(v[0]) : "l"(at) : "memory");
      if constexpr (What == Do::kLoad && Words == 4)
        asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                     : "l"(at)
                     : "memory");
      if constexpr (What == Do::kLoadL1 && Words == 1)
        asm volatile("ld.global.ca.b32 %0, [%1];" : "=r"(v[0]) : "l"(at) : "memory");
      if constexpr (What == Do::kLoadL1 && Words == 4)
        asm volatile("ld.global.ca.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                     : "l"(at)
                     : "memory");
      sum += v[0] ^ v[1] ^ v[2] ^ v[3];
    }
  }
  __syncthreads();
  const uint64_t stop = cycles_after(sum);
  if (threadIdx.x == 0) spans[blockIdx.x] = {start, stop};
  if (sum == 0x12345678) *sink = sum;
}

template <Do What, int Words>
void rate_of_strides(const char* what, int blocks, size_t footprint, int rounds) {
  // 16 KiB apart is a column of a matrix: all lanes in different lines, as are warps next to each other.
  for (const size_t stride : {4, 8, 16, 32, 64, 128, 16384}) {
    if (stride < 4 * Words) continue;
    const bool column = stride == 16384;
    if (column && What == Do::kLoadL1) continue;
    const size_t warp_stride = column ? 4 * Words : 32 * stride;
    DeviceArray<uint8_t> memory(footprint + 32 * stride);
    DeviceArray<Span> spans(blocks);
    DeviceArray<uint32_t> sink(1);
    const size_t mask = column ? 16383 : footprint - 1;
    std::vector<double> samples;
    for (int repeat = -1; repeat < 5; ++repeat) {
      strided<What, Words>
          <<<blocks, 1024>>>(memory.data(), stride, warp_stride, mask, rounds, spans.data(), sink.data());
      finish_kernel("strided");
      if (repeat < 0) continue;
      double sum = 0;
      for (const Span& span : spans.to_host()) sum += static_cast<double>(span.stop - span.start);
      samples.push_back(sum / blocks / rounds / 32);
    }
    report(std::string(what) + " of " + std::to_string(4 * Words) + " bytes a lane, lanes " + std::to_string(stride) +
               " bytes apart, " + std::to_string(blocks) + (blocks == 1 ? " SM" : " SMs"),
           samples, "cycles per warp instruction and SM", "32 warps an SM, no wait between instructions");
  }
}
BENCHMARK(strided_stores) {
  for (const int blocks : {1, multiprocessors()}) {
    rate_of_strides<Do::kStore, 1>("stores into L2", blocks, 16 * kMiB, 64);
    rate_of_strides<Do::kStore, 2>("stores into L2", blocks, 16 * kMiB, 64);
    rate_of_strides<Do::kStore, 4>("stores into L2", blocks, 16 * kMiB, 64);
  }
}
BENCHMARK(strided_loads) {
  for (const int blocks : {1, multiprocessors()}) {
    rate_of_strides<Do::kLoad, 1>("loads from L2", blocks, 16 * kMiB, 64);
    rate_of_strides<Do::kLoad, 4>("loads from L2", blocks, 16 * kMiB, 64);
  }
}
BENCHMARK(strided_loads_of_l1) {
  rate_of_strides<Do::kLoadL1, 1>("loads from L1", 1, 32768, 256);
  rate_of_strides<Do::kLoadL1, 4>("loads from L1", 1, 32768, 256);
}

/// As a naive transposition writes: each warp a column of `Words` words, neighbouring warps of the same block beside
/// it.
__global__ void __launch_bounds__(256) columns(float* out, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 32 + threadIdx.x / 32;
  for (int row = 0; row < 32; row += 8) out[size_t(x) * n + y + row] = 1.f;
}
BENCHMARK(columns_written) {
  const int n = 4096;
  DeviceArray<float> out(size_t{n} * n);
  std::vector<double> rates;
  for (const double ms : event_milliseconds([&] { columns<<<dim3(n / 32, n / 32), 256>>>(out.data(), n); }, 7))
    rates.push_back(ms * 1e3);
  report("4096 x 4096 floats written by columns of 32", rates, "us", "the stores of a naive transposition alone");
}

/// `setmaxnreg` and what a warp's first turn of a long body costs are in other programs; here is a copy with one load a
/// thread by the number of threads that an SM holds, limited by shared memory.
__global__ void __launch_bounds__(256) copy_words(const float* in, float* out) {
  const size_t i = size_t{blockIdx.x} * 256 + threadIdx.x;
  out[i] = in[i];
}
BENCHMARK(copies_by_occupancy) {
  const size_t bytes = 256 * kMiB;
  DeviceArray<float> in(bytes / 4), out(bytes / 4);
  check(cudaFuncSetAttribute(copy_words, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10), "attribute");
  for (const int blocks : {1, 2, 4, 6, 8}) {
    const int shared = blocks == 8 ? 0 : (220 / blocks - 2) << 10;
    std::vector<double> rates;
    for (const double ms : event_milliseconds(
             [&] { copy_words<<<bytes / 1024, 256, std::min(shared, 200 << 10)>>>(in.data(), out.data()); }, 5))
      rates.push_back(2. * bytes / ms * 1e-6);
    report("copy of 256 MiB by float, " + std::to_string(blocks) + " blocks of 256 threads an SM", rates, "GB/s",
           "blocks an SM limited by shared memory; bytes read and written");
  }
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
