// Which blocks compute what, and when: clusters of two sizes, clusters of 16 blocks, sums whose bits do not depend on
// the schedule, and a GEMM behind a kernel that lets it start early. The kernels are compiled here, from their
// configurations.
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "stagecraft/dependent_launch.hpp"
#include "stagecraft/gemm/launch.cuh"

namespace stagecraft::tests {
namespace {

using bf16 = __nv_bfloat16;

constexpr std::array kTwoSizes{
    GemmConfig{.tile_n = 64, .cluster_m = 2, .cluster_n = 2, .fallback_m = 1, .fallback_n = 1},
    GemmConfig{.tile_m = 256,
               .tile_n = 64,
               .cta_group = 2,
               .cluster_m = 4,
               .cluster_n = 2,
               .fallback_m = 2,
               .fallback_n = 1,
               .launch_control = true},
    GemmConfig{.tile_n = 64,
               .cluster_m = 4,
               .cluster_n = 4,
               .fallback_m = 2,
               .fallback_n = 2,
               .launch_control = true,
               .divides_k = true},
};
constexpr std::array kSixteenBlocks{
    GemmConfig{.tile_n = 64, .cluster_m = 4, .cluster_n = 4},
    GemmConfig{.tile_m = 256, .tile_n = 64, .cta_group = 2, .cluster_m = 4, .cluster_n = 4, .launch_control = true},
    GemmConfig{.tile_m = 256, .tile_n = 64, .cta_group = 2, .cluster_m = 2, .cluster_n = 8},
    GemmConfig{.tile_m = 128, .tile_n = 64, .cta_group = 2, .cluster_m = 8, .cluster_n = 2, .launch_control = true},
};
constexpr std::array kDivided{
    GemmConfig{.d = DataType::f32, .tile_n = 64, .divides_k = true},
    GemmConfig{.d = DataType::f32, .tile_n = 64, .launch_control = true, .divides_k = true},
    GemmConfig{.d = DataType::f32, .tile_n = 64, .cluster_m = 2, .fallback_m = 1, .fallback_n = 1, .divides_k = true},
};
constexpr std::array kDependent{GemmConfig{.d = DataType::bf16, .tile_n = 64},
                                GemmConfig{.d = DataType::bf16, .tile_n = 64, .launch_control = true}};

std::string name_of(const GemmConfig& config) {
  return "cluster " + std::to_string(config.cluster_m) + "x" + std::to_string(config.cluster_n) + ", fallback " +
         std::to_string(config.fallback_m) + "x" + std::to_string(config.fallback_n) +
         (config.cta_group == 2 ? ", pairs" : "") + (config.launch_control ? ", launch control" : "");
}

struct Sizes {
  int64_t m, n, k;
};

/// A x B transposed in device memory, with a result of type `D`.
template <typename D>
struct Product {
  int64_t m, n, k;
  std::vector<bf16> a = harness::random_values<bf16>(m * k, 3 * m + k);
  std::vector<bf16> b = harness::random_values<bf16>(n * k, 5 * n + k);
  harness::DeviceBuffer<bf16> device_a{a, "A"}, device_b{b, "B"};
  harness::DeviceBuffer<D> d{static_cast<size_t>(m * n), "D"};

  /// @param clusters  at most; 0: as many as run at the same time.
  std::vector<D> run(const GemmKernel& kernel, uint32_t clusters = 0, uint32_t splits = 1, bool stream_k = false) {
    d.poison();
    launch(kernel, {.clusters = clusters, .splits = splits, .stream_k = stream_k});
    harness::check(cudaDeviceSynchronize(), "multiply");
    return d.to_host();
  }

  /// Starts the kernel; the problem and the addresses are filled in.
  void launch(const GemmKernel& kernel, GemmLaunch launch) {
    uint32_t resident = 0;
    harness::check(kernel.find_clusters(resident), "find how many clusters run at the same time");
    if (launch.clusters == 0) launch.clusters = resident;
    launch.problem = {.m = m, .n = n, .k = k};
    launch.problem.a = {.pitch = k, .batch_stride = m * k};
    launch.problem.b = {.pitch = k, .batch_stride = n * k};
    launch.problem.d = {.type = kernel.config.d, .pitch = n, .batch_stride = m * n};
    launch.arguments = {.a = device_a.data(), .b = device_b.data(), .d = d.data()};
    workspace.emplace_back(kernel.workspace_bytes(launch) + 1, "the workspace");
    launch.workspace = workspace.back().data();
    const auto error = kernel.launch(launch);
    ASSERT_FALSE(error) << error->message;
  }

  void expect_right(const std::vector<D>& result, const std::string& what) const {
    const harness::Comparison found = harness::compare<D>(
        result, harness::reference_product<bf16>(a, b, m, n, k),
        {.k = static_cast<size_t>(k), .output_epsilon = std::is_same_v<D, float> ? 0x1p-24 : 0x1p-8});
    EXPECT_EQ(found.wrong, 0u) << what << ", " << m << " x " << n << " x " << k << ": worst at row " << found.worst / n
                               << ", column " << found.worst % n;
  }

  std::vector<harness::DeviceBuffer<unsigned char>> workspace{};
};

class GemmScheduleTest : public testing::Test {
 protected:
  void SetUp() override {
    if (harness::current_device().major != 10) GTEST_SKIP() << "only compute capability 10.x has tcgen05";
  }
};

TEST_F(GemmScheduleTest, ClustersOfTwoSizesComputeOneProduct) {
  for (const GemmKernel& kernel : kernels_of<kTwoSizes>()) {
    for (const auto& [m, n, k] : {Sizes{600, 328, 328}, {130, 72, 64}}) {
      Product<bf16> product{m, n, k};
      for (const uint32_t clusters : {0u, 3u}) {
        product.expect_right(product.run(kernel, clusters), name_of(kernel.config));
        if (!kernel.config.divides_k) continue;
        product.expect_right(product.run(kernel, clusters, 3), name_of(kernel.config) + ", 3 pieces");
        product.expect_right(product.run(kernel, 5, 1, true), name_of(kernel.config) + ", even shares");
      }
    }
  }
}

TEST_F(GemmScheduleTest, ClustersOfSixteenBlocksShareTiles) {
  for (const GemmKernel& kernel : kernels_of<kSixteenBlocks>()) {
    for (const auto& [m, n, k] : {Sizes{600, 600, 200}, {40, 1040, 72}}) {
      Product<bf16> product{m, n, k};
      product.expect_right(product.run(kernel), name_of(kernel.config));
      product.expect_right(product.run(kernel, 1), name_of(kernel.config) + ", one cluster");
    }
  }
}

/// FNV-1a of the bits.
uint64_t hash_of(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3;
  }
  return hash;
}

/// The pieces of a tile follow from the sizes and from how many there are to be, and they are added in the order of K:
/// the bits of the result depend neither on the number of blocks nor on who arrives last. same_bits.py runs this with
/// other schedules of the warps and compares what it prints.
TEST_F(GemmScheduleTest, SplitSumsHaveTheSameBitsHoweverTheyAreDealtOut) {
  Product<float> product{300, 200, 1504};
  const auto kernels = kernels_of<kDivided>();
  const std::vector<float> first = product.run(kernels[0], 0, 3);
  product.expect_right(first, "split in 3");
  for (const GemmKernel& kernel : kernels) {
    for (const uint32_t clusters : {0u, 1u, 7u, 1000u}) {
      EXPECT_EQ(hash_of(product.run(kernel, clusters, 3)), hash_of(first))
          << name_of(kernel.config) << ", " << clusters;
    }
  }
  std::printf("bits of split-K %016llx\n", static_cast<unsigned long long>(hash_of(first)));
}

/// With even shares the pieces follow from the sizes, the cluster and the number of clusters: with that number the bits
/// are the same in every run, also by launch control; with another the sums are rounded at other places.
TEST_F(GemmScheduleTest, EvenSharesHaveTheSameBitsForTheSameNumberOfClusters) {
  Product<float> product{300, 200, 1504};
  const auto kernels = kernels_of<kDivided>();
  for (const uint32_t clusters : {5u, 7u}) {
    const std::vector<float> first = product.run(kernels[0], clusters, 1, true);
    product.expect_right(first, "even shares");
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(hash_of(product.run(kernels[0], clusters, 1, true)), hash_of(first)) << "run again";
      EXPECT_EQ(hash_of(product.run(kernels[1], clusters, 1, true)), hash_of(first)) << "by launch control";
    }
    std::printf("bits of stream-K on %u clusters %016llx\n", clusters, static_cast<unsigned long long>(hash_of(first)));
  }
}

/// Lets the next kernel start at once, and only then writes `to`.
__global__ void produce_late(const bf16* from, bf16* to, int64_t count) {
  let_next_grid_start();
  __nanosleep(20'000);
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) to[i] = from[i];
}

/// The GEMM's A is what the kernel before it writes after it has let the GEMM start; and its D is read by another GEMM.
/// A chip shows whether the kernel waits; the emulated GPU runs grids one after another.
TEST_F(GemmScheduleTest, WaitsForTheKernelThatWritesItsOperand) {
  for (const GemmKernel& kernel : kernels_of<kDependent>()) {
    Product<bf16> product{200, 136, 264};
    Product<bf16> next{200, 72, 136};
    const harness::DeviceBuffer<bf16> source(product.a, "what A will be");
    product.device_a.poison();
    product.d.poison();
    next.d.poison();
    cudaStream_t stream = nullptr;
    harness::check(cudaStreamCreate(&stream), "create a stream");
    harness::check(launch_kernel(produce_late, {.grid = 4, .block = 64, .stream = stream}, source.data(),
                                 product.device_a.data(), static_cast<int64_t>(product.a.size())),
                   "launch the kernel that writes A");
    product.launch(kernel, {.clusters = 0, .dependent = true, .stream = stream});
    harness::check(
        cudaMemcpyAsync(next.device_a.data(), product.d.data(), product.d.bytes(), cudaMemcpyDefault, stream),
        "the result is the next operand");
    next.launch(kernel, {.clusters = 0, .dependent = true, .stream = stream});
    harness::check(cudaStreamSynchronize(stream), "finish the kernels");
    const std::vector<bf16> result = product.d.to_host();
    product.expect_right(result, "behind another kernel");
    next.a = result;
    next.expect_right(next.d.to_host(), "behind another GEMM");
    harness::check(cudaStreamDestroy(stream), "destroy the stream");
  }
}

}  // namespace
}  // namespace stagecraft::tests
