// Kernels whose threads wait in loops for what others write, each right and with a mistake that the default schedule
// hides. exploration_test.py runs them.
//
// usage: waiting_loops flags|counter|locks right|wrong
#include <cuda_runtime.h>

#include <cstdio>
#include <cuda/atomic>
#include <string>

namespace {

constexpr int kSlots = 2, kTiles = 3, kRounds = 2, kLockers = 2;

template <cuda::thread_scope scope>
using Flag = cuda::atomic_ref<int, scope>;
using BlockFlag = Flag<cuda::thread_scope_block>;
using DeviceFlag = Flag<cuda::thread_scope_device>;

/// One warp hands tiles to another through slots of shared memory. A flag of a slot says how many tiles it has held,
/// another how many of them have been read. `wrong`: the reader waits until exactly one more has been written than it
/// has read, and the writer does not wait for the reader of the last tile.
template <bool wrong>
__global__ void hand_over(int* sum) {
  __shared__ int tile[kSlots], written[kSlots], read[kSlots];
  if (threadIdx.x < kSlots) written[threadIdx.x] = read[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kTiles; ++i) {
      const int slot = i % kSlots, round = i / kSlots;
      if (wrong) {
        __nanosleep(10'000);
      } else {
        while (BlockFlag(read[slot]).load(cuda::memory_order_acquire) < round) {
        }
        tile[slot] = i + 1;
      }
      BlockFlag(written[slot]).store(round + 1, cuda::memory_order_release);
    }
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < kTiles; ++i) {
      const int slot = i % kSlots, round = i / kSlots;
      if (wrong) {
        while (BlockFlag(written[slot]).load(cuda::memory_order_acquire) != round + 1) {
        }
      } else {
        while (BlockFlag(written[slot]).load(cuda::memory_order_acquire) <= round) {
        }
      }
      *sum += wrong ? i + 1 : tile[slot];
      BlockFlag(read[slot]).store(round + 1, cuda::memory_order_release);
    }
  }
}

/// Two blocks meet, in each round, at a counter in global memory. `wrong`: each waits until the counter is what it is
/// when all have come, and so misses that, if the other one is in the next round before it looks.
template <bool wrong>
__global__ void meet(int* counter, int* sum) {
  const DeviceFlag count(*counter);
  for (int round = 1; round <= kRounds; ++round) {
    if (wrong && blockIdx.x == 1) __nanosleep(10'000);
    count.fetch_add(1, cuda::memory_order_acq_rel);
    const int all = round * static_cast<int>(gridDim.x);
    if (wrong) {
      while (count.load(cuda::memory_order_acquire) != all) {
      }
    } else {
      while (count.load(cuda::memory_order_acquire) < all) {
      }
    }
  }
  atomicAdd(sum, 1);
}

__device__ void lock(int& word) {
  int free = 0;
  while (!BlockFlag(word).compare_exchange_strong(free, 1, cuda::memory_order_acquire)) free = 0;
}
__device__ void unlock(int& word) { BlockFlag(word).store(0, cuda::memory_order_release); }

/// Warps add up under two locks. `wrong`: not all take them in the same order.
template <bool wrong>
__global__ void add_under_locks(int* sum) {
  __shared__ int locks[2], total;
  if (threadIdx.x == 0) locks[0] = locks[1] = total = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    const int first = wrong ? static_cast<int>(threadIdx.x / 32) % 2 : 0;
    if (first == 1) __nanosleep(10'000);
    lock(locks[first]);
    lock(locks[1 - first]);
    total += 1;
    unlock(locks[1 - first]);
    unlock(locks[first]);
  }
  __syncthreads();
  if (threadIdx.x == 0) *sum = total;
}

template <bool wrong>
void start(const std::string& name, int* counter, int* sum) {
  if (name == "flags") hand_over<wrong><<<1, 64>>>(sum);
  if (name == "counter") meet<wrong><<<2, 1>>>(counter, sum);
  if (name == "locks") add_under_locks<wrong><<<1, 32 * kLockers>>>(sum);
}

}  // namespace

int main(int argc, char** argv) {
  int* words = nullptr;
  if (argc != 3 || cudaMallocManaged(&words, 2 * sizeof *words) != cudaSuccess) return 2;
  words[0] = words[1] = 0;
  argv[2] == std::string("wrong") ? start<true>(argv[1], words, words + 1) : start<false>(argv[1], words, words + 1);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("%d %s\n", words[1], cudaGetErrorName(error));
  return error == cudaSuccess ? 0 : 2;
}
