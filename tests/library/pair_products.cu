// Products of which two blocks compute each tile together (cta_group::2): each brings half of A's and half of B's rows,
// one thread has both tensor cores multiply, and each block finds its half of the result in its own tensor memory.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cuda/ptx>

#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/reference_product.hpp"
#include "ring_test.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft::tests {
namespace {

constexpr int kPairThreads = 128;

/// What a block of a pair holds of one k-tile: half the rows of each operand.
template <typename Element, int M, int N>
struct HalfTiles {
  static constexpr int k = 128 / sizeof(Element);  // a line of the 128-byte swizzle
  using A = Tile<Element, M / 2, k>;
  using B = Tile<Element, N / 2, k>;
  A a;
  B b;
  static constexpr uint32_t bytes = A::bytes + B::bytes;
};

/// A copy that signals the barrier at this place in the even block of the pair, whichever block it is issued in.
/// Source: PTX ISA, "cp.async.bulk.tensor" (.cta_group::2); the even block's address is the same without bit 24.
template <typename T>
__device__ void copy_half_tile(T& to, const CUtensorMap& map, int row, int column, MbarPtr barrier) {
  const auto shared = [](const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); };
  asm volatile(
      "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];"
      :
      : "r"(shared(to.storage)), "l"(&map), "r"(column), "r"(row), "r"(shared(barrier) & 0xfeffffffu)
      : "memory");
}

__device__ void meet_cluster() {
  cuda::ptx::barrier_cluster_arrive();
  cuda::ptx::barrier_cluster_wait();
}

/// C = A * B transposed. A pair of blocks for each M by N tile; one stage, so that each round waits for the one before.
template <typename Element, int M, int N>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kPairThreads)
    multiply_by_pairs(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float* c,
                      int columns_of_c, int rounds) {
  using Tiles = HalfTiles<Element, M, N>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  Tiles& tiles = *reinterpret_cast<Tiles*>(dynamic_shared_memory);
  __shared__ uint64_t barriers[2];  // in the even block: the tiles of both have arrived; in each: they have been read
  __shared__ uint32_t published;
  const TmemAllocation<256, 2> tensor_memory{&published};
  const uint32_t rank = cuda::ptx::get_sreg_cluster_ctarank();
  const int row = static_cast<int>(blockIdx.x / 2) * M, column = static_cast<int>(blockIdx.y) * N;

  if (threadIdx.x == 0) {
    init_barrier(&barriers[0], 1);
    init_barrier(&barriers[1], 1);
    fence_barrier_init();
  }
  __syncwarp();
  if (warp_index() == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  meet_cluster();  // no thread signals a barrier of the other block before it is initialised
  cuda::ptx::tcgen05_fence_after_thread_sync();

  const TmemTensor<M, N, 2> accumulator(tensor_memory.address());
  if (threadIdx.x == 0) {
    for (int round = 0; round < rounds; ++round) {
      if (rank == 0) expect_bytes(&barriers[0], 2 * Tiles::bytes);
      copy_half_tile(tiles.a, a_map, row + static_cast<int>(rank) * M / 2, round * Tiles::k, &barriers[0]);
      copy_half_tile(tiles.b, b_map, column + static_cast<int>(rank) * N / 2, round * Tiles::k, &barriers[0]);
      if (rank == 0) {
        wait(&barriers[0], round & 1);
        cuda::ptx::tcgen05_fence_after_thread_sync();
        multiply_tiles(accumulator, tiles.a, tiles.b, /*accumulate=*/round > 0);
        commit_mmas_to_blocks<2>(&barriers[1], 0b11);
      }
      wait(&barriers[1], round & 1);
    }
  }
  __syncthreads();
  wait(&barriers[1], (rounds - 1) & 1);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const int c_row = row + accumulator.row_of(warp_index(), lane_index(), rank);
  for (int at = 0; at < accumulator_columns(accumulator.layout, N); at += 8) {
    float values[8];
    accumulator.load(values, warp_index(), at);
    for (int i = 0; i < 8; ++i) {
      c[c_row * columns_of_c + column + accumulator.column_of(warp_index(), at + i)] = values[i];
    }
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  if (warp_index() == 0) tensor_memory.deallocate();
}

template <typename Element, int M, int N>
void expect_product_of_pairs() {
  using Tiles = HalfTiles<Element, M, N>;
  constexpr int kRounds = 3, kRows = 2 * M, kColumns = 3 * N, kK = kRounds * Tiles::k;
  const std::vector<Element> a = harness::random_values<Element>(kRows * kK, M + N);
  const std::vector<Element> b = harness::random_values<Element>(kColumns * kK, M * N);
  const harness::DeviceBuffer<Element> device_a(a, "A");
  const harness::DeviceBuffer<Element> device_b(b, "B");
  harness::DeviceBuffer<float> device_c(kRows * kColumns, "C");
  device_c.poison();
  const auto kernel = multiply_by_pairs<Element, M, N>;
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Tiles)),
                 "ask for the kernel's shared memory");
  kernel<<<dim3(2 * kRows / M, kColumns / N), kPairThreads, sizeof(Tiles)>>>(
      make_tile_map<typename Tiles::A>(device_a.data(), kRows, kK),
      make_tile_map<typename Tiles::B>(device_b.data(), kColumns, kK), device_c.data(), kColumns, kRounds);
  harness::check(cudaDeviceSynchronize(), "multiply by pairs");
  const std::vector<double> reference = harness::reference_product<Element>(a, b, kRows, kColumns, kK);
  const std::vector<float> c = device_c.to_host();
  const harness::Comparison found = harness::compare<float>(
      c, reference, {.k = kK, .output_epsilon = 0x1p-24, .mma_k = static_cast<size_t>(32 / sizeof(Element))});
  EXPECT_EQ(found.wrong, 0u) << "worst at row " << found.worst / kColumns << ", column " << found.worst % kColumns
                             << ": " << c[found.worst] << " for " << reference[found.worst];
}

class PairProductTest : public testing::Test {
 protected:
  void SetUp() override {
    if (harness::current_device().major != 10) GTEST_SKIP() << "only compute capability 10.x has tcgen05";
  }
};

TEST_F(PairProductTest, IsRightForBf16) {
  expect_product_of_pairs<__nv_bfloat16, 256, 256>();
  expect_product_of_pairs<__nv_bfloat16, 256, 32>();
  expect_product_of_pairs<__nv_bfloat16, 128, 128>();
  expect_product_of_pairs<__nv_bfloat16, 128, 64>();
}

TEST_F(PairProductTest, IsRightForE4m3) {
  expect_product_of_pairs<__nv_fp8_e4m3, 256, 64>();
  expect_product_of_pairs<__nv_fp8_e4m3, 128, 192>();
}

}  // namespace
}  // namespace stagecraft::tests
