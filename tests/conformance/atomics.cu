// Atomic operations on shared and global memory: the values that they return where every thread has a word of its own,
// and the sums that remain where all threads share a few words and the order does not matter.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <functional>

#include "report.hpp"

using namespace stagecraft::conformance;

constexpr int kThreads = 256;

#define ATOMIC(NAME, TYPE, EXPRESSION)                          \
  struct NAME {                                                 \
    using T = TYPE;                                             \
    static constexpr const char* name = #NAME;                  \
    static __device__ T apply(T* p, T v) { return EXPRESSION; } \
  };
using ulong64 = unsigned long long;
ATOMIC(add_u32, unsigned, atomicAdd(p, v))
ATOMIC(sub_u32, unsigned, atomicSub(p, v))
ATOMIC(exchange_u32, unsigned, atomicExch(p, v))
ATOMIC(min_u32, unsigned, atomicMin(p, v))
ATOMIC(max_u32, unsigned, atomicMax(p, v))
ATOMIC(min_s32, int, atomicMin(p, v))
ATOMIC(max_s32, int, atomicMax(p, v))
ATOMIC(inc_u32, unsigned, atomicInc(p, v))
ATOMIC(dec_u32, unsigned, atomicDec(p, v))
ATOMIC(and_u32, unsigned, atomicAnd(p, v))
ATOMIC(or_u32, unsigned, atomicOr(p, v))
ATOMIC(xor_u32, unsigned, atomicXor(p, v))
ATOMIC(compare_and_swap_u32, unsigned, atomicCAS(p, v & 0xfffffff8, ~v))
ATOMIC(add_u64, ulong64, atomicAdd(p, v))
ATOMIC(exchange_u64, ulong64, atomicExch(p, v))
ATOMIC(min_u64, ulong64, atomicMin(p, v))
ATOMIC(max_s64, long long, atomicMax(p, v))
ATOMIC(and_u64, ulong64, atomicAnd(p, v))
ATOMIC(xor_u64, ulong64, atomicXor(p, v))
ATOMIC(compare_and_swap_u64, ulong64, atomicCAS(p, v & ~7ull, ~v))
ATOMIC(compare_and_swap_u16, unsigned short,
       atomicCAS(p, static_cast<unsigned short>(v & 0xfff8), static_cast<unsigned short>(~v)))
ATOMIC(add_block_u32, unsigned, atomicAdd_block(p, v))
ATOMIC(add_system_u32, unsigned, atomicAdd_system(p, v))

template <typename Op, bool Shared>
__global__ void own_word(const typename Op::T* start, const typename Op::T* values, typename Op::T* old,
                         typename Op::T* left) {
  using T = typename Op::T;
  __shared__ T words[kThreads];
  const int i = threadIdx.x;
  T* word = Shared ? &words[i] : &left[i];
  *word = start[i];
  old[i] = Op::apply(word, values[i]);
  if (Shared) left[i] = *word;
}

/// Floating-point additions; one thread each, so that the order is fixed.
template <typename T, bool Shared>
__global__ void add_floats(const T* start, const T* values, T* old, T* left) {
  __shared__ T words[kThreads];
  const int i = threadIdx.x;
  T* word = Shared ? &words[i] : &left[i];
  *word = start[i];
  old[i] = atomicAdd(word, values[i]);
  if (Shared) left[i] = *word;
}

/// Subnormals by a generic address, of shared and of global memory.
__global__ void add_generic(const float* start, const float* values, float* left) {
  __shared__ float words[kThreads];
  const int i = threadIdx.x;
  float* const word = i % 2 == 0 ? &words[i] : &left[i];
  *word = start[i];
  asm volatile("red.add.f32 [%0], %1;" ::"l"(word), "f"(values[i]) : "memory");
  __syncthreads();
  if (i % 2 == 0) left[i] = *word;
}

/// All threads on eight words, with operations that commute; the results are unused, so the compiler emits `red`.
template <bool Shared>
__global__ void contended(const unsigned* values, unsigned* left) {
  __shared__ unsigned words[8];
  unsigned* counters = Shared ? words : left + 8 * blockIdx.x;
  if (threadIdx.x < 8) counters[threadIdx.x] = threadIdx.x;
  __syncthreads();
  const unsigned value = values[threadIdx.x];
  atomicAdd(&counters[0], value);
  atomicMin(&counters[1], value);
  atomicMax(&counters[2], value);
  atomicAnd(&counters[3], value | 0xf);
  atomicOr(&counters[4], value & 0xf0f0);
  atomicXor(&counters[5], value);
  atomicInc(&counters[6], 100);
  // A lock-free maximum of the low bits, by compare and swap. The first look is volatile: a plain read beside others'
  // atomics would be a race.
  unsigned seen = *static_cast<volatile unsigned*>(&counters[7]);
  for (unsigned wanted; (wanted = max(seen, value % 5000)) != seen;) {
    const unsigned found = atomicCAS(&counters[7], seen, wanted);
    if (found == seen) break;
    seen = found;
  }
  __syncthreads();
  if (Shared && threadIdx.x < 8) left[8 * blockIdx.x + threadIdx.x] = words[threadIdx.x];
}

/// Every thread takes a ticket. Which thread gets which one is chance; that all are taken is not.
__global__ void tickets(unsigned* counter, unsigned* taken) {
  const unsigned ticket = atomicAdd(counter, 1);
  taken[ticket] += 1;
}

template <typename T>
std::vector<T> random_words(Random random) {
  std::vector<T> words;
  for (int i = 0; i < kThreads; ++i) {
    const uint64_t bits = random.bits();
    words.push_back(static_cast<T>(i % 4 == 0 ? bits % 16 : bits));
  }
  return words;
}

template <typename Op>
void run_own_word(Report& report) {
  using T = typename Op::T;
  std::vector<T> start = random_words<T>(Random(report.seed()));
  std::vector<T> values = random_words<T>(Random(report.seed() + 77));
  for (int i = 0; i < kThreads; i += 3) values[i] = start[i];  // so that comparisons succeed too
  for (int i = 0; i < kThreads; i += 6) start[i] &= static_cast<T>(~7);
  const DeviceBuffer<T> device_start(start, "the start"), device_values(values, "the values");
  DeviceBuffer<T> old(kThreads, "the old values"), left(kThreads, "the new values");
  for (const bool shared : {false, true}) {
    const auto kernel = shared ? own_word<Op, true> : own_word<Op, false>;
    kernel<<<1, kThreads>>>(device_start.data(), device_values.data(), old.data(), left.data());
    finish_kernel(Op::name);
    const std::string where = shared ? " in shared memory" : " in global memory";
    report.section(Op::name + where + ", returned", old.to_host());
    report.section(Op::name + where + ", left", left.to_host());
  }
}

template <typename T>
void run_floats(Report& report, const std::string& name, const std::function<T(float)>& from_float) {
  Random random(report.seed());
  std::vector<T> start, values;
  for (int i = 0; i < kThreads; ++i) {
    start.push_back(from_float(random.uniform() * (i % 3 == 0 ? 1e-4f : 10.0f)));
    values.push_back(from_float(random.uniform()));
  }
  const DeviceBuffer<T> device_start(start, "the start"), device_values(values, "the values");
  DeviceBuffer<T> old(kThreads, "the old values"), left(kThreads, "the new values");
  for (const bool shared : {false, true}) {
    const auto kernel = shared ? add_floats<T, true> : add_floats<T, false>;
    kernel<<<1, kThreads>>>(device_start.data(), device_values.data(), old.data(), left.data());
    finish_kernel(name);
    report.section(name + (shared ? " in shared memory" : " in global memory"), left.to_host());
  }
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    run_own_word<add_u32>(report);
    run_own_word<sub_u32>(report);
    run_own_word<exchange_u32>(report);
    run_own_word<min_u32>(report);
    run_own_word<max_u32>(report);
    run_own_word<min_s32>(report);
    run_own_word<max_s32>(report);
    run_own_word<inc_u32>(report);
    run_own_word<dec_u32>(report);
    run_own_word<and_u32>(report);
    run_own_word<or_u32>(report);
    run_own_word<xor_u32>(report);
    run_own_word<compare_and_swap_u32>(report);
    run_own_word<add_u64>(report);
    run_own_word<exchange_u64>(report);
    run_own_word<min_u64>(report);
    run_own_word<max_s64>(report);
    run_own_word<and_u64>(report);
    run_own_word<xor_u64>(report);
    run_own_word<compare_and_swap_u64>(report);
    run_own_word<compare_and_swap_u16>(report);
    run_own_word<add_block_u32>(report);
    run_own_word<add_system_u32>(report);

    run_floats<float>(report, "float added", [](float value) { return value; });
    run_floats<double>(report, "double added", [](float value) { return value * 1.1; });
    run_floats<__half>(report, "half added", [](float value) { return __float2half(value); });
    run_floats<__nv_bfloat16>(report, "bfloat16 added", [](float value) { return __float2bfloat16(value); });
    run_floats<__half2>(report, "half2 added", [](float value) { return __floats2half2_rn(value, 1 - value); });
    run_floats<__nv_bfloat162>(report, "bfloat162 added",
                               [](float value) { return __floats2bfloat162_rn(value, 1 - value); });

    std::vector<float> small, smaller;
    Random random(report.seed());
    for (int i = 0; i < kThreads; ++i) {
      small.push_back(random.uniform() * 0x1p-126f);
      smaller.push_back(random.uniform() * 0x1p-127f);
    }
    const DeviceBuffer<float> start(small, "the start"), added(smaller, "what is added");
    DeviceBuffer<float> sums(kThreads, "the sums");
    add_generic<<<1, kThreads>>>(start.data(), added.data(), sums.data());
    finish_kernel("add_generic");
    report.section("subnormals added by generic addresses", sums.to_host());

    const DeviceBuffer<unsigned> values(random_words<unsigned>(Random(report.seed())), "the values");
    DeviceBuffer<unsigned> left(8 * 3, "the counters");
    contended<false><<<3, kThreads>>>(values.data(), left.data());
    finish_kernel("contended");
    report.section("contended in global memory", left.to_host());
    contended<true><<<3, kThreads>>>(values.data(), left.data());
    finish_kernel("contended");
    report.section("contended in shared memory", left.to_host());

    DeviceBuffer<unsigned> counter(std::vector<unsigned>(1), "the counter");
    DeviceBuffer<unsigned> taken(std::vector<unsigned>(5 * kThreads), "the tickets");
    tickets<<<5, kThreads>>>(counter.data(), taken.data());
    finish_kernel("tickets");
    report.section("tickets", taken.to_host());
  });
}
