// What the launch helpers ask CUDA for, and what they return when it refuses.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/dependent_launch.hpp"
#include "stagecraft/launch.hpp"

namespace stagecraft::tests {
namespace {

struct Pair {
  int first;
  double second;
};

/// Writes each block's rank, and what it was given, to `out`: `out_of_block(blockIdx.x)`.
__global__ void write_ranks(double* out, Pair pair, const __grid_constant__ Pair constant) {
  extern __shared__ int shared[];
  shared[threadIdx.x] = pair.first;
  __syncthreads();
  wait_for_earlier_grids();
  let_next_grid_start();
  if (threadIdx.x == 0) out[blockIdx.x] += block_rank() + shared[blockDim.x - 1] + constant.second;
}

TEST(LaunchTest, PassesArgumentsClustersAndSharedMemory) {
  harness::DeviceBuffer<double> out(8, "ranks");
  harness::check(cudaMemset(out.data(), 0, out.bytes()), "clear");
  ASSERT_EQ(
      launch_kernel(write_ranks, {.grid = 8, .block = 64, .cluster = {4, 1, 1}, .dynamic_shared_bytes = 200 * 1024},
                    out.data(), {10, 0}, {0, 100}),
      cudaSuccess);
  harness::finish_kernel("write_ranks");
  EXPECT_EQ(out.to_host(), (std::vector<double>{110, 111, 112, 113, 110, 111, 112, 113}));
}

TEST(LaunchTest, LaunchesClustersOfSixteen) {
  harness::DeviceBuffer<double> out(16, "ranks");
  harness::check(cudaMemset(out.data(), 0, out.bytes()), "clear");
  ASSERT_EQ(launch_kernel(write_ranks, {.grid = 16, .block = 32, .cluster = 16, .dynamic_shared_bytes = 128},
                          out.data(), {0, 0}, {0, 0}),
            cudaSuccess);
  harness::finish_kernel("write_ranks");
  EXPECT_EQ(out.to_host()[15], 15);
}

TEST(LaunchTest, FallsBackFromThePreferredCluster) {
  harness::DeviceBuffer<double> out(8, "ranks");
  harness::check(cudaMemset(out.data(), 0, out.bytes()), "clear");
  if (harness::current_device().major < 10) GTEST_SKIP() << "preferred clusters need compute capability 10";
  ASSERT_EQ(
      launch_kernel(write_ranks,
                    {.grid = 8, .block = 32, .cluster = 2, .preferred_cluster = {4, 1, 1}, .dynamic_shared_bytes = 128},
                    out.data(), {0, 0}, {0, 0}),
      cudaSuccess);
  harness::finish_kernel("write_ranks");
  const std::vector<double> ranks = out.to_host();
  for (int block = 0; block < 8; ++block) EXPECT_EQ(static_cast<int>(ranks[block]) % 2, block % 2);
}

TEST(LaunchTest, LaunchesDependentKernelsInAStream) {
  harness::DeviceBuffer<double> out(4, "ranks");
  cudaStream_t stream = nullptr;
  harness::check(cudaStreamCreate(&stream), "create a stream");
  harness::check(cudaMemset(out.data(), 0, out.bytes()), "clear");
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(launch_kernel(write_ranks,
                            {.grid = 4,
                             .block = 32,
                             .dynamic_shared_bytes = 128,
                             .stream = stream,
                             .programmatic_dependent_launch = true},
                            out.data(), {1, 0}, {0, 0}),
              cudaSuccess);
  }
  harness::check(cudaStreamSynchronize(stream), "finish the kernels");
  EXPECT_EQ(out.to_host(), (std::vector<double>{3, 3, 3, 3}));
  harness::check(cudaStreamDestroy(stream), "destroy the stream");
}

TEST(LaunchTest, ReturnsWhatCudaRefuses) {
  double* const out = nullptr;
  EXPECT_NE(launch_kernel(write_ranks, {.grid = 7, .block = 32, .cluster = 2}, out, {0, 0}, {0, 0}), cudaSuccess);
  EXPECT_NE(launch_kernel(write_ranks, {.grid = 1, .block = 2048}, out, {0, 0}, {0, 0}), cudaSuccess);
  EXPECT_NE(launch_kernel(write_ranks, {.grid = 1, .block = 32, .dynamic_shared_bytes = 1 << 20}, out, {0, 0}, {0, 0}),
            cudaSuccess);
  (void)cudaGetLastError();
}

TEST(LaunchTest, FindsHowManyClustersFit) {
  const int multiprocessors = harness::current_device().multiProcessorCount;
  const LaunchOptions alone{.block = 1024, .dynamic_shared_bytes = 150 * 1024};
  uint32_t clusters = 0;
  ASSERT_EQ(find_resident_clusters(write_ranks, alone, clusters), cudaSuccess);
  EXPECT_EQ(clusters, static_cast<uint32_t>(multiprocessors));
  LaunchOptions pair = alone;
  pair.cluster = 2;
  ASSERT_EQ(find_resident_clusters(write_ranks, pair, clusters), cudaSuccess);
  EXPECT_GT(clusters, 0u);
  EXPECT_LE(clusters, static_cast<uint32_t>(multiprocessors) / 2);
}

}  // namespace
}  // namespace stagecraft::tests
