// Sums of vectors: shuffles inside a warp, shared memory between warps, atomics between blocks. Also what depends on
// the order of additions only where the order is fixed.
#include "report.hpp"

using namespace stagecraft::conformance;

constexpr int kThreads = 256;

template <typename T>
__device__ T warp_sum(T value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xffffffff, value, distance);
  return value;
}

/// Sum of the block's values, in thread 0.
template <typename T>
__device__ T block_sum(T value) {
  __shared__ T sums[kThreads / 32];
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < kThreads / 32 ? sums[threadIdx.x] : T{};
  if (threadIdx.x < 32) value = warp_sum(value);
  return value;
}

template <typename T>
__global__ void sum_of_blocks(const T* values, int size, T* sums) {
  T mine{};
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < size; i += gridDim.x * kThreads) mine += values[i];
  const T total = block_sum(mine);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

template <typename T>
__global__ void total_by_atomics(const T* values, int size, T* total) {
  T mine{};
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < size; i += gridDim.x * kThreads) mine += values[i];
  const T sum = block_sum(mine);
  if (threadIdx.x == 0) atomicAdd(total, sum);
}

/// All threads add to a few counters in shared memory, and the blocks then to those in global memory.
__global__ void histogram(const unsigned* values, int size, unsigned* counts) {
  __shared__ unsigned local[64];
  if (threadIdx.x < 64) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < size; i += gridDim.x * kThreads) {
    atomicAdd(&local[values[i] % 64], 1u);
  }
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}

/// The block that is last to arrive adds up what all have stored: a counter and two fences.
__global__ void last_block_sums(const unsigned* values, int size, unsigned* partial, unsigned* arrived,
                                unsigned* total) {
  unsigned mine = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < size; i += gridDim.x * kThreads) mine += values[i];
  const unsigned sum = block_sum(mine);
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    unsigned all = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) all += *const_cast<volatile unsigned*>(&partial[i]);
    *total = all;
  }
}

template <typename T>
std::vector<T> zeros(size_t size) {
  return std::vector<T>(size);
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    Random random(report.seed());
    constexpr int kSize = 20000;
    std::vector<unsigned> integers;
    std::vector<unsigned long long> wide;
    std::vector<float> reals, small_integers;
    for (int i = 0; i < kSize; ++i) {
      integers.push_back(static_cast<unsigned>(random.bits()));
      wide.push_back(random.bits());
      reals.push_back(random.uniform());
      small_integers.push_back(static_cast<float>(static_cast<int>(random.bits() % 201) - 100));
    }
    const DeviceBuffer<unsigned> device_integers(integers, "integers");
    const DeviceBuffer<unsigned long long> device_wide(wide, "wide integers");
    const DeviceBuffer<float> device_reals(reals, "reals"), device_small(small_integers, "small integers");

    for (const int blocks : {1, 7, 40}) {
      const std::string where = ", " + std::to_string(blocks) + " blocks";
      DeviceBuffer<float> sums(blocks, "the sums");
      sums.poison();
      sum_of_blocks<<<blocks, kThreads>>>(device_reals.data(), kSize, sums.data());
      finish_kernel("sum_of_blocks");
      report.section("float sums by shuffles" + where, sums.to_host());

      DeviceBuffer<float> exact(zeros<float>(1), "the total");
      total_by_atomics<<<blocks, kThreads>>>(device_small.data(), kSize, exact.data());
      finish_kernel("total_by_atomics");
      report.section("float total by atomics, exact in any order" + where, exact.to_host());

      DeviceBuffer<unsigned long long> total(zeros<unsigned long long>(1), "the total");
      total_by_atomics<<<blocks, kThreads>>>(device_wide.data(), kSize, total.data());
      finish_kernel("total_by_atomics");
      report.section("64-bit total by atomics" + where, total.to_host());

      DeviceBuffer<unsigned> counts(zeros<unsigned>(64), "the counts");
      histogram<<<blocks, kThreads>>>(device_integers.data(), kSize, counts.data());
      finish_kernel("histogram");
      report.section("histogram" + where, counts.to_host());

      DeviceBuffer<unsigned> partial(blocks, "partial sums"), arrived(zeros<unsigned>(1), "the counter");
      DeviceBuffer<unsigned> last(zeros<unsigned>(1), "the total");
      last_block_sums<<<blocks, kThreads>>>(device_integers.data(), kSize, partial.data(), arrived.data(), last.data());
      finish_kernel("last_block_sums");
      report.section("total by the last block" + where, last.to_host());
    }
  });
}
