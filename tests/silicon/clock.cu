// The clock that the power limit leaves while tensor cores and copies work on data: in bursts after a rest, in bursts
// that follow each other, and when it goes on. contention.cu has the same with one tile that is multiplied again and
// again, beside copies of zeros, and both take less power than a product of matrices does.
#include <random>

#include "async_copy.hpp"

using namespace silicon;

#define R8(i)                                                                                                 \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define R32(i) R8(i), R8(i + 8), R8(i + 16), R8(i + 24)

/// m64n256k16 of bf16, A and B in shared memory.
__device__ inline void multiply_256(float* d, uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, "
      "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, "
      "%57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, "
      "%79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, "
      "%101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, "
      "%119, %120, %121, %122, %123, %124, %125, %126, %127}, %128, %129, 1, 1, 1, 0, 0;"
      : R32(0), R32(32), R32(64), R32(96)
      : "l"(a), "l"(b)
      : "memory");
}

/// A K-major tile with 128-byte swizzle.
__device__ inline uint64_t descriptor(uint32_t address) {
  return (address >> 4 & 0x3fff) | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

constexpr int kCopyBytes = 16384, kSlots = 12, kStageBytes = 3 * kCopyBytes, kStages = 4, kMostUnderWay = 6;
constexpr int kSharedBytes = kSlots * kCopyBytes;
constexpr uint32_t kRegion = 1024;  // copies: 16 MiB, which L2 holds

struct Work {
  int products = 2;   ///< warpgroups that multiply
  int pause = 0;      ///< cycles after each group of four products of a warpgroup
  int under_way = 0;  ///< copies
  int gap = 0;        ///< cycles from copy to copy, at least
};

struct Note {
  uint64_t groups, copies, cycles, nanoseconds;
};

/// Two warpgroups multiply the four stages of shared memory in turn, and the last warp refills them from L2, both until
/// the time is over. They do not wait for each other: the sums are of no use.
__global__ void __launch_bounds__(384, 1)
    work(const uint8_t* memory, Work what, uint64_t nanoseconds_long, Note* notes, float* sink) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t words[kMostUnderWay], filled;
  __shared__ volatile uint32_t over, groups[2];
  if (threadIdx.x < 2) groups[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    over = 0;
    for (int i = 0; i < kMostUnderWay; ++i) mbarrier_init(shared_address(words + i), 1);
    mbarrier_init(shared_address(&filled), 1);
    fence_barrier_init();
    mbarrier_expect(shared_address(&filled), kSharedBytes);
    for (int i = 0; i < kSlots; ++i)
      copy_bulk(shared_address(shared) + i * kCopyBytes,
                memory + ((blockIdx.x * kSlots + i) & (kRegion - 1)) * kCopyBytes, kCopyBytes, shared_address(&filled));
  }
  __syncthreads();
  mbarrier_wait(shared_address(&filled), 0);
  const uint32_t warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (warpgroup < 2) {
    if (static_cast<int>(warpgroup) >= what.products) return;
    float d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0;
    uint32_t count = 0;
#pragma unroll 1
    for (;; ++count) {
      if (count % 16 == 0) {  // all four warps must see the same
        asm volatile("bar.sync %0, 128;" ::"r"(1 + warpgroup) : "memory");
        const bool ends = over != 0;
        int any;
        asm volatile("{.reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.popc.u32 %0, %2, 128, p;}"
                     : "=r"(any)
                     : "r"(static_cast<int>(ends)), "r"(1 + warpgroup)
                     : "memory");
        if (any != 0) break;
      }
      const uint32_t stage = shared_address(shared) + count % kStages * kStageBytes;
      const uint64_t a = descriptor(stage + warpgroup * 8192), b = descriptor(stage + 16384);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < 4; ++i) multiply_256(d, a + i * 2, b + i * 2);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (what.pause != 0) {
        const uint64_t from = cycles();
#pragma unroll 1
        while (cycles() - from < what.pause) {
        }
      }
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 128; ++i) sum += d[i];
    if (sum == 12345.678f) *sink = sum;
    if (threadIdx.x % 128 == 0) groups[warpgroup] = count;
  } else if (threadIdx.x == 256) {
    const uint64_t begin = cycles(), begin_ns = nanoseconds();
    uint64_t copies = 0, next = begin, now_ns = begin_ns;
    uint32_t index = blockIdx.x, slot = 0, stage = 0, phase = 0;
#pragma unroll 1
    while (now_ns - begin_ns < nanoseconds_long) {
      now_ns = nanoseconds();
      if (what.under_way == 0) continue;
      if (copies >= what.under_way) mbarrier_wait(shared_address(words + stage), phase ^ 1);
      while (cycles() < next) {
      }
      next = cycles() + what.gap;
      const uint32_t barrier = shared_address(words + stage);
      mbarrier_expect(barrier, kCopyBytes);
      copy_bulk(shared_address(shared) + slot * kCopyBytes, memory + uint64_t{index & (kRegion - 1)} * kCopyBytes,
                kCopyBytes, barrier);
      index += gridDim.x;
      ++copies;
      if (++slot == kSlots) slot = 0;
      if (++stage == what.under_way) stage = 0, phase ^= 1;
    }
    const Note note{0, copies, cycles() - begin, nanoseconds() - begin_ns};
    over = 1;
    for (int i = 0; i < what.under_way; ++i) {
      mbarrier_wait(shared_address(words + stage), phase ^ 1);
      if (++stage == what.under_way) stage = 0, phase ^= 1;
    }
    for (int i = 0; i < what.products; ++i)
      while (groups[i] == 0) {
      }
    notes[blockIdx.x] = {uint64_t{groups[0]} + groups[1], note.copies, note.cycles, note.nanoseconds};
  }
}

enum class Data { zeros, normal };

struct Bench {
  DeviceArray<uint8_t> memory{size_t{kRegion} * kCopyBytes};
  DeviceArray<Note> notes{132};
  DeviceArray<float> sink{1};
  struct Seen {
    std::vector<double> clock, tensor, bytes;
  };

  explicit Bench(Data data) {
    check(cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes), "attribute");
    std::vector<uint8_t> bytes(memory.size());
    if (data == Data::normal) {
      std::mt19937 random(1);
      std::normal_distribution<float> normal;
      for (size_t i = 0; i < bytes.size(); i += 2) {
        const float value = normal(random);
        std::memcpy(&bytes[i], reinterpret_cast<const uint8_t*>(&value) + 2, 2);
      }
    }
    memory.from_host(bytes);
  }

  void launch(const Work& what, double milliseconds, Seen* seen) {
    work<<<132, 384, kSharedBytes>>>(memory.data(), what, static_cast<uint64_t>(milliseconds * 1e6), notes.data(),
                                     sink.data());
    finish_kernel("work");
    if (seen == nullptr) return;
    double cycles = 0, nanoseconds = 0, groups = 0, copies = 0;
    for (const Note& note : notes.to_host()) {
      cycles += static_cast<double>(note.cycles), nanoseconds += static_cast<double>(note.nanoseconds);
      groups += static_cast<double>(note.groups), copies += static_cast<double>(note.copies);
    }
    seen->clock.push_back(cycles / nanoseconds * 1e3);
    seen->tensor.push_back(groups * 4 * 128 / cycles);
    seen->bytes.push_back(copies * kCopyBytes / cycles);
  }

  static void print(const std::string& when, const char* data, const Work& what, const Seen& seen) {
    char name[128];
    std::snprintf(name, sizeof name, ", %s, pause %d, %d copies, gap %d", data, what.pause, what.under_way, what.gap);
    report("tensor cores busy, " + when + name, seen.tensor, "of 1", "m64n256k16 by two warpgroups on changing stages");
    report("copied, " + when + name, seen.bytes, "bytes per cycle and SM", "from L2");
    report("SM clock, " + when + name, seen.clock, "MHz", "of all SMs, cycles over time within the launches");
  }
};

void rest(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

constexpr Work kWorks[] = {{2, 0, 0, 0},      {2, 0, 3, 480},  {2, 0, 4, 0},     {2, 450, 0, 0},    {2, 450, 3, 480},
                           {2, 450, 4, 0},    {2, 600, 0, 0},  {2, 600, 3, 480}, {2, 600, 4, 0},    {2, 1200, 0, 0},
                           {2, 1200, 3, 480}, {2, 1200, 4, 0}, {2, 2400, 0, 0},  {2, 2400, 3, 480}, {2, 2400, 4, 0},
                           {2, 8000, 0, 0},   {2, 8000, 4, 0}, {0, 0, 4, 0}};

void bursts(Data data, const char* name) {
  Bench bench(data);
  for (const Work& what : kWorks) {
    Bench::Seen seen;
    for (int repeat = 0; repeat < 12; ++repeat) {
      rest(20);
      bench.launch(what, 2, repeat < 3 ? nullptr : &seen);
    }
    Bench::print("bursts of 2 ms, 20 ms apart", name, what, seen);
  }
}

BENCHMARK(bursts_normal) { bursts(Data::normal, "normal data"); }
BENCHMARK(bursts_zeros) { bursts(Data::zeros, "zeros"); }

BENCHMARK(goes_on) {
  Bench bench(Data::normal);
  for (const Work& what : kWorks) {
    rest(300);
    Bench::Seen soon, late;
    for (int repeat = 0; repeat < 120; ++repeat)
      bench.launch(what, 2, repeat < 5 ? nullptr : repeat < 15 ? &soon : repeat < 75 ? nullptr : &late);
    Bench::print("bursts of 2 ms without rest, 10 to 30 ms", "normal data", what, soon);
    Bench::print("bursts of 2 ms without rest, 150 to 240 ms", "normal data", what, late);
  }
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
