// Cluster launch control at its simplest: blocks without roles, each of which takes over the work of blocks that have
// not started.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cuda/ptx>
#include <exception>
#include <stdexcept>
#include <vector>

#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/mbarrier.hpp"

using namespace stagecraft;
using namespace stagecraft::harness;

constexpr uint32_t kThreads = 128, kBlocks = 1000;

//! [kernel]
/// Doubles kThreads values for each block of the grid, whichever block does it. Each that starts adds 1 to `*started`.
__global__ void __launch_bounds__(kThreads) double_values(float* values, uint32_t* started) {
  __shared__ alignas(16) uint4 response;
  __shared__ uint64_t responded;
  if (threadIdx.x == 0) {
    atomicAdd(started, 1);
    init_barrier(&responded, /*arrive_count=*/1);
    fence_barrier_init();
  }
  __syncthreads();

  uint32_t phase = 0;
  uint32_t block = blockIdx.x;  // whose work this is: at first, the block's own
  for (bool is_work = true; is_work; phase ^= 1) {
    if (threadIdx.x == 0) {  // ask first, so that the answer comes while this block works
      expect_bytes(&responded, sizeof response);
      cuda::ptx::clusterlaunchcontrol_try_cancel(&response, &responded);
    }
    values[block * kThreads + threadIdx.x] *= 2;

    wait(&responded, phase);
    const uint4 answer = response;
    is_work = cuda::ptx::clusterlaunchcontrol_query_cancel_is_canceled(answer);
    if (is_work) block = cuda::ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid_x<uint32_t>(answer);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // each thread has read ...
    __syncthreads();                                        // ... before the next response overwrites it
  }
}
//! [kernel]

int main() try {
  const cudaDeviceProp device = current_device();
  if (device.major < 10) throw std::runtime_error("launch control needs compute capability 10.0 or later");
  const DeviceBuffer<float> values(std::vector<float>(kBlocks * kThreads, 1.5f), "the values");
  const DeviceBuffer<uint32_t> started(std::vector<uint32_t>{0}, "the blocks that started");
  // More than half of what a multiprocessor has, so that it has one block at a time.
  const uint32_t shared_bytes = static_cast<uint32_t>(device.sharedMemPerMultiprocessor / 3 * 2);
  check(launch_kernel(double_values, {.grid = kBlocks, .block = kThreads, .dynamic_shared_bytes = shared_bytes},
                      values.data(), started.data()),
        "launch double_values");
  finish_kernel("double_values");
  for (const float value : values.to_host()) {
    if (value == 3) continue;
    std::printf("a value is %g, and should be 3\n", value);
    return 1;
  }
  std::printf("%u blocks have done the work of %u\n", started.to_host()[0], kBlocks);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "take_over: %s\n", error.what());
  return 1;
}
