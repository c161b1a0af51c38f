// Cooperative groups, as the toolkit's own headers make them: grids, clusters, blocks, tiles and what is left of a
// warp.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace {

namespace cg = cooperative_groups;

template <typename T>
struct Buffer {
  explicit Buffer(const std::vector<T>& values) : size(values.size()) {
    EXPECT_EQ(cudaMalloc(&data, size * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data, values.data(), size * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~Buffer() { cudaFree(data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::vector<T> read() const {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::vector<T> values(size);
    EXPECT_EQ(cudaMemcpy(values.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
  T* data = nullptr;
  size_t size;
};

std::vector<uint32_t> random_words(size_t count) {
  std::mt19937 random(std::random_device{}());
  std::vector<uint32_t> values(count);
  for (uint32_t& value : values) value = random() >> 8;
  return values;
}

// ---- A grid whose blocks wait for each other -----------------------------------------------------------------------

/// In each step every block adds up what all blocks wrote in the step before.
__global__ void sum_of_all(uint32_t* values, uint32_t* sums, int steps) {
  const cg::grid_group grid = cg::this_grid();
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x == 0) {
      uint32_t sum = step;
      for (unsigned i = 0; i < gridDim.x; ++i) sum += values[i];
      sums[blockIdx.x] = sum;
    }
    grid.sync();
    if (threadIdx.x == 0) values[blockIdx.x] = sums[blockIdx.x] % 1009 + blockIdx.x;
    grid.sync();
  }
}

TEST(CooperativeGroups, AGridSynchronises) {
  constexpr int kBlocks = 37, kSteps = 5;
  std::vector<uint32_t> expected = random_words(kBlocks);
  Buffer<uint32_t> values(expected), sums(std::vector<uint32_t>(kBlocks, 0));
  int steps = kSteps;
  void* arguments[] = {&values.data, &sums.data, &steps};
  ASSERT_EQ(cudaLaunchCooperativeKernel(sum_of_all, dim3(kBlocks), dim3(96), arguments), cudaSuccess);
  for (uint32_t step = 0; step < kSteps; ++step) {
    const uint32_t sum = std::accumulate(expected.begin(), expected.end(), step);
    for (uint32_t i = 0; i < kBlocks; ++i) expected[i] = sum % 1009 + i;
  }
  EXPECT_EQ(values.read(), expected);
}

__global__ void is_cooperative(uint32_t* answer) { *answer = cg::this_grid().is_valid(); }

TEST(CooperativeGroups, APlainGridCannot) {
  Buffer<uint32_t> answer({7});
  is_cooperative<<<1, 1>>>(answer.data);
  EXPECT_EQ(answer.read()[0], 0u);
  void* arguments[] = {&answer.data};
  ASSERT_EQ(cudaLaunchCooperativeKernel(is_cooperative, dim3(1), dim3(1), arguments), cudaSuccess);
  EXPECT_EQ(answer.read()[0], 1u);
}

// ---- Tiles ---------------------------------------------------------------------------------------------------------

/// Sum and inclusive scan of each tile, and a rotation by one through shared memory, which needs the tile's sync().
template <unsigned Size>
__global__ void use_tiles(const uint32_t* in, uint32_t* sums, uint32_t* scans, uint32_t* rotated) {
  __shared__ cg::block_tile_memory<512> scratch;
  __shared__ uint32_t words[512];
  const auto block = cg::this_thread_block(scratch);
  const auto tile = cg::tiled_partition<Size>(block);
  const unsigned i = block.thread_rank();
  sums[i] = cg::reduce(tile, in[i], cg::plus<uint32_t>());
  scans[i] = cg::inclusive_scan(tile, in[i]);
  words[i] = in[i];
  tile.sync();
  rotated[i] = words[i / Size * Size + (i + 1) % Size];
}

template <unsigned Size>
void check_tiles() {
  SCOPED_TRACE(Size);
  constexpr unsigned kThreads = 512;
  const std::vector<uint32_t> in = random_words(kThreads);
  const std::vector<uint32_t> none(kThreads, 0);
  const Buffer<uint32_t> values(in);
  Buffer<uint32_t> sums(none), scans(none), rotated(none);
  use_tiles<Size><<<1, kThreads>>>(values.data, sums.data, scans.data, rotated.data);
  std::vector<uint32_t> expected_sums(kThreads), expected_scans(kThreads), expected_rotated(kThreads);
  for (unsigned first = 0; first < kThreads; first += Size) {
    std::partial_sum(&in[first], &in[first] + Size, &expected_scans[first]);
    for (unsigned i = 0; i < Size; ++i) {
      expected_sums[first + i] = expected_scans[first + Size - 1];
      expected_rotated[first + i] = in[first + (i + 1) % Size];
    }
  }
  EXPECT_EQ(sums.read(), expected_sums);
  EXPECT_EQ(scans.read(), expected_scans);
  EXPECT_EQ(rotated.read(), expected_rotated);
}

TEST(CooperativeGroups, TilesOfAWarp) {
  check_tiles<1>();
  check_tiles<4>();
  check_tiles<16>();
  check_tiles<32>();
}

TEST(CooperativeGroups, TilesOfSeveralWarps) {
  check_tiles<64>();
  check_tiles<256>();
  check_tiles<512>();
}

// ---- Groups that the values make -----------------------------------------------------------------------------------

/// How many lanes of the warp have the same label, counted by the group itself; odd numbers are counted by those alone.
__global__ void count_labels(const uint32_t* labels, uint32_t* same, uint32_t* odd, uint32_t* halves) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const unsigned i = cg::this_grid().thread_rank();
  const cg::coalesced_group group = cg::labeled_partition(warp, labels[i]);
  same[i] = cg::reduce(group, 1u, cg::plus<uint32_t>());
  halves[i] = cg::binary_partition(warp, labels[i] > 2).size();
  odd[i] = 0;
  if (labels[i] % 2 != 0) {
    const cg::coalesced_group odds = cg::coalesced_threads();
    odd[i] = odds.shfl(odds.thread_rank() + 100, odds.size() - 1);
    odds.sync();
  }
}

TEST(CooperativeGroups, GroupsOfEqualLabels) {
  constexpr unsigned kThreads = 256;
  std::vector<uint32_t> labels = random_words(kThreads);
  for (uint32_t& label : labels) label %= 5;
  const std::vector<uint32_t> none(kThreads, 0);
  const Buffer<uint32_t> values(labels);
  Buffer<uint32_t> same(none), odd(none), halves(none);
  count_labels<<<2, kThreads / 2>>>(values.data, same.data, odd.data, halves.data);
  const auto counted = same.read(), odds = odd.read(), parts = halves.read();
  for (unsigned i = 0; i < kThreads; ++i) {
    uint32_t equal = 0, odd_ones = 0, part = 0;
    for (unsigned lane = 0; lane < 32; ++lane) {
      const uint32_t other = labels[i / 32 * 32 + lane];
      equal += other == labels[i];
      odd_ones += other % 2;
      part += (other > 2) == (labels[i] > 2);
    }
    EXPECT_EQ(counted[i], equal) << i;
    EXPECT_EQ(parts[i], part) << i;
    EXPECT_EQ(odds[i], labels[i] % 2 != 0 ? 99 + odd_ones : 0) << i;
  }
}

// ---- Blocks and clusters -------------------------------------------------------------------------------------------

/// A block copies its part into shared memory, and reads that of its neighbour in the cluster.
__global__ void __cluster_dims__(4) read_neighbour(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t part[128];
  const auto block = cg::this_thread_block();
  const auto cluster = cg::this_cluster();
  cg::memcpy_async(block, part, in + blockIdx.x * 128, sizeof part);
  cg::wait(block);
  cluster.sync();
  const uint32_t* const neighbour = cluster.map_shared_rank(part, (cluster.block_rank() + 1) % cluster.num_blocks());
  out[blockIdx.x * 128 + threadIdx.x] = neighbour[127 - threadIdx.x];
  cluster.sync();
}

TEST(CooperativeGroups, ClustersShareMemory) {
  constexpr unsigned kBlocks = 8;
  const std::vector<uint32_t> in = random_words(kBlocks * 128);
  const Buffer<uint32_t> values(in);
  Buffer<uint32_t> result(std::vector<uint32_t>(in.size(), 0));
  read_neighbour<<<kBlocks, 128>>>(values.data, result.data);
  const auto out = result.read();
  for (unsigned i = 0; i < in.size(); ++i) {
    const unsigned block = i / 128, neighbour = block / 4 * 4 + (block + 1) % 4;
    EXPECT_EQ(out[i], in[neighbour * 128 + 127 - i % 128]) << i;
  }
}

}  // namespace
