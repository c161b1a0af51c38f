// What the launch helpers ask CUDA for, and what they return when it refuses.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cuda/ptx>
#include <string>
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

/// What a block knows of the cluster that it is in.
struct BlockOfCluster {
  uint32_t blocks, rank, x, y, clusters_x;
};

__global__ void write_clusters(BlockOfCluster* out) {
  sync_cluster();  // all blocks of the cluster have started
  if (threadIdx.x == 0) {
    out[blockIdx.x + blockIdx.y * gridDim.x] = {cluster_blocks(), block_rank(), cuda::ptx::get_sreg_cluster_ctaid_x(),
                                                cuda::ptx::get_sreg_cluster_ctaid_y(),
                                                cuda::ptx::get_sreg_nclusterid_x()};
  }
}

/// Each region of the grid is one cluster of 4 x 2 blocks, or several of 2 x 1, and their blocks are numbered as if all
/// clusters had the same size. Source: CUDA, cudaLaunchAttributePreferredClusterDimension.
TEST(LaunchTest, FallsBackFromThePreferredCluster) {
  if (harness::current_device().major < 10) GTEST_SKIP() << "preferred clusters need compute capability 10";
  constexpr uint32_t kWidth = 64;
  harness::DeviceBuffer<BlockOfCluster> out(kWidth * 2, "blocks");
  ASSERT_EQ(
      launch_kernel(write_clusters, {.grid = {kWidth, 2, 1}, .block = 32, .cluster = 2, .preferred_cluster = {4, 2, 1}},
                    out.data()),
      cudaSuccess);
  harness::finish_kernel("write_clusters");
  const std::vector<BlockOfCluster> blocks = out.to_host();
  int preferred = 0;
  for (uint32_t y = 0; y < 2; ++y) {
    for (uint32_t x = 0; x < kWidth; ++x) {
      const BlockOfCluster& block = blocks[x + y * kWidth];
      const bool is_preferred = block.blocks == 8;
      ASSERT_TRUE(is_preferred || block.blocks == 2) << block.blocks << " blocks in a cluster";
      EXPECT_EQ(block.blocks, blocks[x / 4 * 4].blocks) << "a region has clusters of one size";
      const uint32_t width = is_preferred ? 4 : 2;
      EXPECT_EQ(block.x, x % width);
      EXPECT_EQ(block.y, is_preferred ? y : 0);
      EXPECT_EQ(block.rank, is_preferred ? x % 4 + 4 * y : x % 2);
      EXPECT_EQ(block.clusters_x, kWidth / width);
      preferred += is_preferred;
    }
  }
  // How many there are is the device's choice; the emulated one says.
  const char* const chosen = std::getenv("STAGECRAFT_PREFERRED_CLUSTERS");
  RecordProperty("blocks_of_preferred_clusters", preferred);
  if (chosen != nullptr && std::string(chosen) == "all") EXPECT_EQ(preferred, 2 * static_cast<int>(kWidth));
  if (chosen != nullptr && std::string(chosen) == "none") EXPECT_EQ(preferred, 0);
  if (chosen != nullptr && std::string(chosen) == "some") {
    EXPECT_GT(preferred, 0);
    EXPECT_LT(preferred, 2 * static_cast<int>(kWidth));
  }
}

TEST(LaunchTest, RefusesAPreferredClusterThatIsNoMultiple) {
  if (harness::current_device().major < 10) GTEST_SKIP() << "preferred clusters need compute capability 10";
  BlockOfCluster* const out = nullptr;
  const auto launch = [&](dim3 grid, dim3 preferred) {
    const cudaError_t error = launch_kernel(
        write_clusters, {.grid = grid, .block = 32, .cluster = {2, 2, 1}, .preferred_cluster = preferred}, out);
    (void)cudaGetLastError();
    return error;
  };
  EXPECT_NE(launch({12, 4, 1}, {3, 2, 1}), cudaSuccess) << "x is no multiple of the cluster's";
  EXPECT_NE(launch({12, 4, 1}, {2, 2, 2}), cudaSuccess) << "z is another";
  EXPECT_NE(launch({12, 6, 1}, {2, 4, 1}), cudaSuccess) << "the grid is no multiple";
  EXPECT_NE(launch({64, 64, 1}, {8, 4, 1}), cudaSuccess) << "more than 16 blocks";
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
