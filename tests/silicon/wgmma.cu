// wgmma m64nNk16 (bf16) and m64nNk32 (e4m3), summed in fp32: latency and rate by N, A from shared memory or registers.
#include "silicon.hpp"

using namespace silicon;

// The number of accumulator registers is N / 2, and the instruction names each, so macros list them. The operands
// before them are: 0 and 1 the descriptors of A and B, 2 to 5 A's registers.
#define L4 "%6, %7, %8, %9"
#define L8 L4 ", %10, %11, %12, %13"
#define L16 L8 ", %14, %15, %16, %17, %18, %19, %20, %21"
#define L32 L16 ", %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37"
#define L64                                                                                                         \
  L32 ", %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, " \
      "%59, "                                                                                                       \
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69"
#define L128                                                                                                         \
  L64 ", %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, "  \
      "%91, "                                                                                                        \
      "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "   \
      "%111, "                                                                                                       \
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127, %128, %129, " \
      "%130, %131, %132, %133"
#define O4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define O8(i) O4(i), O4(i + 4)
#define O16(i) O8(i), O8(i + 8)
#define O32(i) O16(i), O16(i + 16)
#define O64(i) O32(i), O32(i + 32)
#define O128(i) O64(i), O64(i + 64)

enum class Type { kBf16, kE4m3 };
enum class From { kShared, kRegisters };

struct Operands {
  uint64_t a, b;
  uint32_t fragment[4];
};

template <int N, Type T, From A>
struct Wgmma;
#define FORM(N, COUNT, TYPE, FROM, SHAPE, OPERAND, REST)                                                      \
  template <>                                                                                                 \
  struct Wgmma<N, Type::TYPE, From::FROM> {                                                                   \
    static __device__ void apply(float* d, uint64_t a, uint64_t b, uint32_t (&r)[4]) {                        \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N SHAPE " {" L##COUNT "}, " OPERAND ", %1, " REST ";" \
                   : "+l"(a), "+l"(b), "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]), O##COUNT(0)            \
                   :                                                                                          \
                   : "memory");                                                                               \
    }                                                                                                         \
  };
#define FORMS(N, COUNT)                                                                    \
  FORM(N, COUNT, kBf16, kShared, "k16.f32.bf16.bf16", "%0", "1, 1, 1, 0, 0")               \
  FORM(N, COUNT, kBf16, kRegisters, "k16.f32.bf16.bf16", "{%2, %3, %4, %5}", "1, 1, 1, 0") \
  FORM(N, COUNT, kE4m3, kShared, "k32.f32.e4m3.e4m3", "%0", "1, 1, 1")                     \
  FORM(N, COUNT, kE4m3, kRegisters, "k32.f32.e4m3.e4m3", "{%2, %3, %4, %5}", "1, 1, 1")
FORMS(8, 4)
FORMS(16, 8)
FORMS(32, 16)
FORMS(64, 32)
FORMS(128, 64)
FORMS(256, 128)

/// A K-major tile with 128-byte swizzle.
__device__ inline uint64_t descriptor(uint32_t address) {
  return (address >> 4 & 0x3fff) | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

/// Each round issues `Chain` instructions on one accumulator as one group and waits for it. A tile of 64 rows of 128
/// bytes for each warpgroup, one of N rows for B, that all share.
template <int N, Type T, From A, int Chain>
__global__ void __launch_bounds__(256, 1) multiply(Span* spans, float* sink, const uint32_t* random, int rounds) {
  extern __shared__ __align__(1024) uint8_t shared[];
  for (int i = threadIdx.x; i < 49152 / 4; i += blockDim.x) reinterpret_cast<uint32_t*>(shared)[i] = random[i];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  float d[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) d[i] = 0;
  uint32_t fragment[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) fragment[i] = random[threadIdx.x * 4 + i];
  const uint32_t warpgroup =
      __shfl_sync(~0u, threadIdx.x / 128, 0);  // uniform, so that ptxas keeps it in a uniform register
  const uint64_t a = descriptor(shared_address(shared) + warpgroup * 8192);
  const uint64_t b = descriptor(shared_address(shared) + 16384);
  uint64_t start = 0, stop = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    __syncthreads();
    start = cycles();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < Chain; ++i) Wgmma<N, T, A>::apply(d, a + i % 4 * 2, b + i % 4 * 2, fragment);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    stop = cycles();
  }
  if (lane() == 0) spans[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = {start, stop};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) sum += d[i];
  if (sum == 12345.678f) *sink = sum;
}

/// Random bf16 values near 1, or random e4m3 codes without NaN.
std::vector<uint32_t> random_words(Type type) {
  std::vector<uint32_t> words(16384);
  uint32_t state = 1;
  for (uint32_t& word : words) {
    word = 0;
    for (int byte = 0; byte < 4; ++byte) {
      state = state * 1664525 + 1013904223;
      word |= (state >> 24) << byte * 8;
    }
    word = type == Type::kBf16 ? (word & 0x80ff80ff) | 0x3f003f00 : word & 0xb7b7b7b7;
  }
  return words;
}

struct Buffers {
  DeviceArray<Span> spans{132 * 8 + 64};
  DeviceArray<float> sink{1};
  DeviceArray<uint32_t> random{16384};
};

template <int N, Type T, From A, int Chain>
std::vector<double> round_cycles(Buffers& buffers, int warpgroups, int repeats) {
  const int rounds = 16;
  check(cudaFuncSetAttribute(multiply<N, T, A, Chain>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536),
        "cudaFuncSetAttribute");
  std::vector<double> samples;
  for (int i = -1; i < repeats; ++i) {
    multiply<N, T, A, Chain>
        <<<1, warpgroups * 128, 65536>>>(buffers.spans.data(), buffers.sink.data(), buffers.random.data(), rounds);
    finish_kernel("wgmma");
    if (i >= 0) samples.push_back(span_cycles(buffers.spans.to_host(), warpgroups * 4) / rounds);
  }
  return samples;
}

template <int N, Type T, From A>
void measure() {
  Buffers buffers;
  buffers.random.from_host(random_words(T));
  const std::string name = std::string("wgmma m64n") + std::to_string(N) +
                           (T == Type::kBf16 ? "k16 bf16" : "k32 e4m3") +
                           (A == From::kShared ? ", A in shared memory" : ", A in registers");
  // Dense rates of one SM: 2048 multiply-adds a cycle in 16-bit types, 4096 in 8-bit ones (989 TFLOP/s of 132 SMs).
  const double published = N / 2.;
  for (const int warpgroups : {1, 2}) {
    const std::string how = std::to_string(warpgroups) + (warpgroups == 1 ? " warpgroup" : " warpgroups");
    const auto one = round_cycles<N, T, A, 1>(buffers, warpgroups, 21);
    const auto few = round_cycles<N, T, A, 8>(buffers, warpgroups, 21);
    const auto many = round_cycles<N, T, A, 40>(buffers, warpgroups, 21);
    report(name + ", latency, " + how, one, "cycles", "fence, one instruction, commit, wait");
    report(name + ", group of 8, " + how, few, "cycles", "fence, 8 instructions on one accumulator, commit, wait");
    std::vector<double> rate;
    for (size_t i = 0; i < few.size(); ++i) rate.push_back((many[i] - few[i]) / 32 / warpgroups);
    report(name + ", rate, " + how, rate, "cycles per instruction and SM",
           "groups of 40 less groups of 8; published is 2048 (8-bit: 4096) multiply-adds a cycle and SM", published);
  }
}
#define MEASURE(N)                                                               \
  BENCHMARK(bf16_shared_##N) { measure<N, Type::kBf16, From::kShared>(); }       \
  BENCHMARK(bf16_registers_##N) { measure<N, Type::kBf16, From::kRegisters>(); } \
  BENCHMARK(e4m3_shared_##N) { measure<N, Type::kE4m3, From::kShared>(); }       \
  BENCHMARK(e4m3_registers_##N) { measure<N, Type::kE4m3, From::kRegisters>(); }
MEASURE(8)
MEASURE(16)
MEASURE(32)
MEASURE(64)
MEASURE(128)
MEASURE(256)

/// All multiprocessors for some milliseconds: the rate that the power limit leaves, and the clock during it.
template <Type T>
void sustained(const char* name) {
  Buffers buffers;
  buffers.random.from_host(random_words(T));
  const int blocks = multiprocessors(), rounds = 4000;
  const auto kernel = multiply<256, T, From::kShared, 40>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536), "cudaFuncSetAttribute");
  std::vector<double> rates, clocks;
  const auto times = event_milliseconds(
      [&] { kernel<<<blocks, 256, 65536>>>(buffers.spans.data(), buffers.sink.data(), buffers.random.data(), rounds); },
      21);
  const double k = T == Type::kBf16 ? 16 : 32, operations = 2. * 2 * 64 * 256 * k * 40 * rounds * 2 * blocks;
  for (double ms : times) rates.push_back(operations / ms * 1e-9);
  const auto spans = buffers.spans.to_host();
  for (double ms : times) clocks.push_back(2 * double(spans[0].stop - spans[0].start) / ms * 1e-3);
  report(std::string(name) + ", all SMs", rates, "TFLOP/s",
         "m64n256, two warpgroups a block, one block an SM, random data", T == Type::kBf16 ? 989 : 1979);
  report(std::string(name) + ", SM clock during it", clocks, "MHz",
         "cycles of the last launch over each launch's time");
}
BENCHMARK(sustained_bf16) { sustained<Type::kBf16>("wgmma bf16"); }
BENCHMARK(sustained_e4m3) { sustained<Type::kE4m3>("wgmma e4m3"); }

int main(int argc, char** argv) { return silicon::main(argc, argv); }
