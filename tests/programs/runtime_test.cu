// Correct programs: the runtime's functions, used with kernels that nvcc built.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace {

__device__ int counter = 5;
__constant__ float factors[4] = {1, 2, 3, 4};
__managed__ int shared_with_host = 7;

__global__ void add(const float* left, const float* right, float* sum, int count) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index < count) sum[index] = left[index] + right[index];
}
__global__ void count_up() { atomicAdd(&counter, 1); }
__global__ void scale(float* values) { values[threadIdx.x] *= factors[threadIdx.x % 4]; }
__global__ void touch_managed() { atomicAdd(&shared_with_host, 1); }
__global__ void print(int value) {
  printf("thread %d of block %d: %d %.2f %s\n", threadIdx.x, blockIdx.x, value, 0.5, "x");
}
struct Pair {
  char small;
  double large;
};
__global__ void unpack(Pair pair, short number, double* out) { *out = pair.small + pair.large + number; }
__global__ void cluster_rank(unsigned* ranks) {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) ranks[blockIdx.x] = rank;
}

/// Each block writes its number; after the grid has met, each reads that of the next.
__global__ void pass_on(unsigned* numbers, unsigned* seen) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  for (unsigned round = 1; round <= 3; ++round) {
    if (threadIdx.x == 0) numbers[blockIdx.x] = round * 100 + blockIdx.x;
    grid.sync();
    if (threadIdx.x == 0) seen[blockIdx.x] = numbers[(blockIdx.x + 1) % gridDim.x];
    grid.sync();
  }
}

TEST(RuntimeProgramTest, AddsVectors) {
  constexpr int kCount = 1000;
  std::vector<float> left(kCount), right(kCount), sum(kCount);
  std::iota(left.begin(), left.end(), 0.0f);
  std::iota(right.begin(), right.end(), 0.5f);
  float* device[3];
  for (float*& pointer : device) ASSERT_EQ(cudaMalloc(&pointer, kCount * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(device[0], left.data(), kCount * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(device[1], right.data(), kCount * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  cudaEvent_t start, end;
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  add<<<(kCount + 127) / 128, 128, 0, stream>>>(device[0], device[1], device[2], kCount);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(sum.data(), device[2], kCount * sizeof(float), cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  for (int index = 0; index < kCount; ++index) ASSERT_EQ(sum[index], 2.0f * index + 0.5f);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GT(milliseconds, 0);
  for (float* pointer : device) EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(RuntimeProgramTest, ReadsAndWritesVariables) {
  count_up<<<2, 32>>>();
  int value = 0;
  ASSERT_EQ(cudaMemcpyFromSymbol(&value, counter, sizeof value), cudaSuccess);
  EXPECT_EQ(value, 69);
  void* address = nullptr;
  ASSERT_EQ(cudaGetSymbolAddress(&address, counter), cudaSuccess);
  ASSERT_EQ(cudaMemset(address, 0, sizeof value), cudaSuccess);
  count_up<<<1, 1>>>();
  ASSERT_EQ(cudaMemcpyFromSymbol(&value, counter, sizeof value), cudaSuccess);
  EXPECT_EQ(value, 1);

  const float changed[2] = {10, 20};
  ASSERT_EQ(cudaMemcpyToSymbol(factors, changed, sizeof changed, 2 * sizeof(float)), cudaSuccess);
  float* values = nullptr;
  ASSERT_EQ(cudaMallocManaged(&values, 4 * sizeof(float)), cudaSuccess);
  std::fill_n(values, 4, 1.0f);
  scale<<<1, 4>>>(values);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(std::vector<float>(values, values + 4), (std::vector<float>{1, 2, 10, 20}));
}

TEST(RuntimeProgramTest, SharesManagedVariablesWithTheHost) {
  EXPECT_EQ(shared_with_host, 7);
  shared_with_host = 100;
  touch_managed<<<1, 32>>>();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(shared_with_host, 132);
}

TEST(RuntimeProgramTest, PrintsFromTheDevice) {
  testing::internal::CaptureStdout();
  printf("before\n");
  print<<<1, 2>>>(42);
  cudaDeviceSynchronize();
  printf("after\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "before\nthread 0 of block 0: 42 0.50 x\nthread 1 of block 0: 42 0.50 x\nafter\n");
}

TEST(RuntimeProgramTest, PassesParametersOfEveryAlignment) {
  double* out = nullptr;
  ASSERT_EQ(cudaMallocManaged(&out, sizeof *out), cudaSuccess);
  unpack<<<1, 1>>>(Pair{3, 0.25}, -10, out);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(*out, -6.75);
}

TEST(RuntimeProgramTest, LaunchesClusters) {
  unsigned* ranks = nullptr;
  ASSERT_EQ(cudaMallocManaged(&ranks, 8 * sizeof *ranks), cudaSuccess);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {4, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = 8;
  config.blockDim = 32;
  config.attrs = &attribute;
  config.numAttrs = 1;
  ASSERT_EQ(cudaLaunchKernelEx(&config, cluster_rank, ranks), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (unsigned block = 0; block < 8; ++block) EXPECT_EQ(ranks[block], block % 4);
}

TEST(RuntimeProgramTest, SynchronisesACooperativeGrid) {
  int multiprocessors = 0, resident = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  ASSERT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, pass_on, 64, 0), cudaSuccess);
  unsigned *numbers = nullptr, *seen = nullptr;
  ASSERT_EQ(cudaMallocManaged(&numbers, 10 * sizeof *numbers), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&seen, 10 * sizeof *seen), cudaSuccess);
  void* arguments[] = {&numbers, &seen};
  const auto* kernel = reinterpret_cast<const void*>(pass_on);
  ASSERT_EQ(cudaLaunchCooperativeKernel(kernel, 10, 64, arguments, 0, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (unsigned block = 0; block < 10; ++block) EXPECT_EQ(seen[block], 300 + (block + 1) % 10);
  const auto too_many = static_cast<unsigned>(resident * multiprocessors + 1);
  EXPECT_EQ(cudaLaunchCooperativeKernel(kernel, too_many, 64, arguments, 0, nullptr),
            cudaErrorCooperativeLaunchTooLarge);
  EXPECT_EQ(cudaGetLastError(), cudaErrorCooperativeLaunchTooLarge);
}

/// A block's worth of a host pointer's memory, which kernels reach after cudaHostRegister.
TEST(RuntimeProgramTest, ReachesRegisteredMemoryOfTheHost) {
  std::vector<float> values(4, 1.0f);
  ASSERT_EQ(cudaHostRegister(values.data(), values.size() * sizeof(float), cudaHostRegisterMapped), cudaSuccess);
  float* device = nullptr;
  ASSERT_EQ(cudaHostGetDevicePointer(&device, values.data(), 0), cudaSuccess);
  scale<<<1, 4>>>(device);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_NE(values[3], 1.0f);
  ASSERT_EQ(cudaHostUnregister(values.data()), cudaSuccess);
}

TEST(RuntimeProgramTest, KnowsTheRegistersOfItsMachineCode) {
  cudaFuncAttributes attributes{};
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, add), cudaSuccess);
  EXPECT_GT(attributes.numRegs, 0);
  EXPECT_LT(attributes.numRegs, 64);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_GE(attributes.ptxVersion, 90);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
