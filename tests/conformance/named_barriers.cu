// Named barriers of a block: synchronising some warps, arriving without waiting, and votes over all threads.
#include "report.hpp"

using namespace stagecraft::conformance;

constexpr int kWarps = 6;
constexpr int kThreads = kWarps * 32;

/// Warps pair up on one barrier each, then in triples on another; each reads what the others wrote before.
__global__ void pairs_and_triples(uint32_t* out) {
  __shared__ uint32_t values[kThreads];
  const int warp = threadIdx.x / 32;
  uint32_t value = threadIdx.x * 2654435761u;
  for (int round = 0; round < 5; ++round) {
    values[threadIdx.x] = value;
    asm volatile("barrier.sync %0, 64;" ::"r"(1 + warp / 2) : "memory");
    value += values[threadIdx.x ^ 32] * 3;
    asm volatile("barrier.sync %0, 64;" ::"r"(1 + warp / 2) : "memory");
    values[threadIdx.x] = value;
    asm volatile("bar.sync %0, 96;" ::"r"(8 + warp / 3) : "memory");
    value ^= values[(warp / 3 * 3 + (warp + 1) % 3) * 32 + (threadIdx.x + round) % 32];
    __syncthreads();
  }
  out[threadIdx.x] = value;
}

/// Warps 0 to 2 produce and do not wait; warps 3 to 5 consume. Two barriers take turns with two buffers.
__global__ void arrive_and_sync(uint32_t* out) {
  __shared__ uint32_t buffer[2][kThreads / 2];
  const int half = kThreads / 2;
  const bool produces = threadIdx.x < half;
  const int i = threadIdx.x % half;
  uint32_t sum = 0;
  for (int round = 0; round < 7; ++round) {
    const int slot = round % 2;
    if (produces) {
      if (round >= 2) asm volatile("bar.sync %0, %1;" ::"r"(3 + slot), "r"(kThreads) : "memory");
      buffer[slot][i] = i * 17 + round;
      asm volatile("bar.arrive %0, %1;" ::"r"(1 + slot), "r"(kThreads) : "memory");
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(1 + slot), "r"(kThreads) : "memory");
      sum = sum * 5 + buffer[slot][(i + 40) % half];
      if (round + 2 < 7) asm volatile("bar.arrive %0, %1;" ::"r"(3 + slot), "r"(kThreads) : "memory");
    }
  }
  out[threadIdx.x] = sum;
}

__global__ void votes(const uint32_t* in, uint32_t* out) {
  const uint32_t value = in[threadIdx.x];
  uint32_t result = __syncthreads_count(value % 3 == 0);
  result = result * 2 + (__syncthreads_and(value > 10) != 0);
  result = result * 2 + (__syncthreads_or(value == 12345) != 0);
  uint32_t count;
  asm volatile("{\n\t.reg .pred p;\n\tsetp.lt.u32 p, %1, 1000000000;\n\tbarrier.red.popc.u32 %0, 7, 192, p;\n\t}"
               : "=r"(count)
               : "r"(value)
               : "memory");
  out[threadIdx.x] = result * 1000 + count;
}

/// Threads leave early; the barrier counts those that are left.
__global__ void early_exit(uint32_t* out) {
  __shared__ uint32_t total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  if (threadIdx.x >= 128) return;
  atomicAdd(&total, threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = total;
}

/// Lanes reach the barrier one by one; some lanes of each warp exit in between, before and after the others arrive.
__global__ void lanes_leave(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t values[kThreads];
  const uint32_t value = in[threadIdx.x];
  values[threadIdx.x] = value;
  uint32_t sum = 1;
  __syncthreads();
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < (value >> 4 * round & 15); ++i) {
      sum = sum * value + i;
      if (sum % 11 == 3) goto done;
      if (sum % 7 == 2) break;
    }
    __syncthreads();
    sum += values[(threadIdx.x * 5 + round) % kThreads];
    __syncthreads();
    values[threadIdx.x] = sum;
    __syncthreads();
  }
done:
  out[threadIdx.x] = sum;
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    std::vector<uint32_t> values;
    Random random(report.seed());
    for (int i = 0; i < kThreads; ++i) values.push_back(static_cast<uint32_t>(random.bits()));
    const DeviceBuffer<uint32_t> in(values, "the input");
    DeviceBuffer<uint32_t> out(kThreads, "the output");

    pairs_and_triples<<<1, kThreads>>>(out.data());
    finish_kernel("pairs_and_triples");
    report.section("pairs and triples of warps", out.to_host());
    arrive_and_sync<<<1, kThreads>>>(out.data());
    finish_kernel("arrive_and_sync");
    report.section("arrive here, wait there", out.to_host());
    votes<<<1, kThreads>>>(in.data(), out.data());
    finish_kernel("votes");
    report.section("votes of the block", out.to_host());
    out.poison();
    early_exit<<<1, kThreads>>>(out.data());
    finish_kernel("early_exit");
    report.section("two warps leave early", out.to_host());
    lanes_leave<<<1, kThreads>>>(in.data(), out.data());
    finish_kernel("lanes_leave");
    report.section("lanes leave early", out.to_host());
  });
}
