// One tile of C on the tensor core, from tiles of every type and layout: descriptors, instruction descriptors and
// tensor maps all follow from the types, so that a product that is right shows that they agree.
#include <cmath>
#include <cuda/ptx>
#include <type_traits>

#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/reference_product.hpp"
#include "ring_test.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft::tests {
namespace {

constexpr int kProductThreads = 128;

/// Allocates tensor memory and initialises `barriers`, in a block of four warps.
template <typename Allocation>
__device__ void begin(const Allocation& tensor_memory, MbarPtr barriers, int count) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; ++i) init_barrier(barriers + i, 1);
    fence_barrier_init();
  }
  __syncwarp();
  if (warp_index() == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
}

/// Waits for the product, writes it out, and deallocates tensor memory.
template <typename Allocation, typename Accumulator>
__device__ void finish(const Allocation& tensor_memory, const Accumulator& accumulator, MbarPtr done, float* c) {
  wait(done, 0);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const int row = accumulator.row_of(warp_index(), lane_index());
  for (int column = 0; column < Accumulator::columns; column += 8) {
    float values[8];
    accumulator.load(values, warp_index(), column);
    for (int i = 0; i < 8; ++i) {
      if (row >= 0) c[row * Accumulator::columns + column + i] = values[i];
    }
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  if (warp_index() == 0) tensor_memory.deallocate();
}

template <typename ATile, typename BTile>
__global__ void __launch_bounds__(kProductThreads)
    multiply(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float* c) {
  using Payload = StandardTilePayload<ATile, BTile, 1>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  const Payload payload(*reinterpret_cast<typename Payload::Storage*>(dynamic_shared_memory));
  __shared__ uint64_t barriers[2];  // the tiles have arrived; the product is done
  __shared__ uint32_t published;
  const TmemAllocation<256> tensor_memory{&published};
  begin(tensor_memory, barriers, 2);

  const TmemTensor<ATile::rows, BTile::rows> accumulator(tensor_memory.address());
  if (threadIdx.x == 0) {
    const auto [a, b] = payload.tile(0);
    expect_bytes(&barriers[0], Payload::bytes_per_tile);
    copy_tile(a, a_map, 0, 0, &barriers[0]);
    copy_tile(b, b_map, 0, 0, &barriers[0]);
    wait(&barriers[0], 0);
    multiply_tiles(accumulator, a, b, /*accumulate=*/false);
    commit_mma(&barriers[1]);
  }
  __syncwarp();
  finish(tensor_memory, accumulator, &barriers[1], c);
}

/// Random values in the order of rows and columns, and in the order of the tile's matrix.
template <typename T>
struct Operand {
  using Source = matrix_element<typename T::element_type>;
  std::vector<Source> row_major, as_stored;

  explicit Operand(uint64_t seed) : row_major(harness::random_values<Source>(T::rows * T::columns, seed)) {
    if constexpr (std::is_same_v<typename T::element_type, tf32>) {  // values that tf32 has, so that nothing is rounded
      for (float& value : row_major) value = static_cast<float>(static_cast<__half>(value));
    }
    as_stored = row_major;
    if constexpr (T::major == Major::mn) {
      for (int i = 0; i < T::rows * T::columns; ++i) {
        as_stored[i % T::columns * T::rows + i / T::columns] = row_major[i];
      }
    }
  }
};

void expect_close(const std::vector<float>& c, const std::vector<double>& reference, int columns, int k) {
  const harness::Comparison found =
      harness::compare<float>(c, reference, {.k = static_cast<size_t>(k), .output_epsilon = 0x1p-24});
  EXPECT_EQ(found.wrong, 0u) << "worst at row " << found.worst / columns << ", column " << found.worst % columns << ": "
                             << c[found.worst] << " for " << reference[found.worst];
}

template <typename ATile, typename BTile>
void expect_product() {
  constexpr int kM = ATile::rows, kN = BTile::rows, kK = ATile::columns;
  const Operand<ATile> a(kM * 7 + kK);
  const Operand<BTile> b(kN * 11 + kK);
  const harness::DeviceBuffer device_a(std::span(a.as_stored), "A");
  const harness::DeviceBuffer device_b(std::span(b.as_stored), "B");
  harness::DeviceBuffer<float> device_c(kM * kN, "C");
  device_c.poison();
  const auto kernel = multiply<ATile, BTile>;
  constexpr int kSharedBytes = sizeof(typename StandardTilePayload<ATile, BTile, 1>::Storage);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
                 "ask for the kernel's shared memory");
  kernel<<<1, kProductThreads, kSharedBytes>>>(make_tile_map<ATile>(device_a.data(), kM, kK),
                                               make_tile_map<BTile>(device_b.data(), kN, kK), device_c.data());
  harness::check(cudaDeviceSynchronize(), "multiply");
  std::vector<double> reference(kM * kN);
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      for (int k = 0; k < kK; ++k) {
        reference[row * kN + column] += static_cast<double>(static_cast<float>(a.row_major[row * kK + k])) *
                                        static_cast<double>(static_cast<float>(b.row_major[column * kK + k]));
      }
    }
  }
  expect_close(device_c.to_host(), reference, kN, kK);
}

/// Both majors of both operands under one swizzle. The tile is two boxes deep or wide.
template <typename Element, Swizzle S>
void expect_products_of_all_majors() {
  constexpr int kSliceK = 256 / element_bits<Element>;
  constexpr int kLine = static_cast<int>(swizzle_span(S)) * 8 / element_bits<Element>;
  constexpr int kK = kLine < kSliceK ? 2 * kSliceK : 2 * kLine;
  constexpr int kN = kLine < 32 ? 32 : kLine;
  using AK = Tile<Element, 128, kK, S>;
  using BK = Tile<Element, kN, kK, S>;
  using AMn = Tile<Element, 128, kK, S, Major::mn>;
  using BMn = Tile<Element, kN, kK, S, Major::mn>;
  expect_product<AK, BK>();
  expect_product<AK, BMn>();
  expect_product<AMn, BK>();
  expect_product<AMn, BMn>();
}

template <typename Element>
void expect_products_of_all_swizzles() {
  expect_products_of_all_majors<Element, Swizzle::none>();
  expect_products_of_all_majors<Element, Swizzle::bytes_32>();
  expect_products_of_all_majors<Element, Swizzle::bytes_64>();
  expect_products_of_all_majors<Element, Swizzle::bytes_128>();
}

class TileProductTest : public testing::Test {
 protected:
  void SetUp() override {
    if (harness::current_device().major != 10) GTEST_SKIP() << "only compute capability 10.x has tcgen05";
  }
};

TEST_F(TileProductTest, IsRightForBf16) { expect_products_of_all_swizzles<__nv_bfloat16>(); }
TEST_F(TileProductTest, IsRightForF16) { expect_products_of_all_swizzles<__half>(); }
TEST_F(TileProductTest, IsRightForE4m3) { expect_products_of_all_swizzles<__nv_fp8_e4m3>(); }
TEST_F(TileProductTest, IsRightForE5m2) { expect_products_of_all_swizzles<__nv_fp8_e5m2>(); }

TEST_F(TileProductTest, IsRightForTf32) {
  expect_product<Tile<tf32, 128, 32, Swizzle::none>, Tile<tf32, 64, 32, Swizzle::none>>();
  expect_product<Tile<tf32, 128, 16, Swizzle::bytes_32>, Tile<tf32, 64, 16, Swizzle::bytes_32>>();
  expect_product<Tile<tf32, 128, 16, Swizzle::bytes_64>, Tile<tf32, 64, 16, Swizzle::bytes_64>>();
  expect_product<Tile<tf32, 128, 64>, Tile<tf32, 64, 64>>();
  using AMn = Tile<tf32, 128, 32, Swizzle::bytes_128_atom_32, Major::mn>;
  using BMn = Tile<tf32, 64, 32, Swizzle::bytes_128_atom_32, Major::mn>;
  expect_product<AMn, Tile<tf32, 64, 32>>();
  expect_product<Tile<tf32, 128, 32>, BMn>();
  expect_product<AMn, BMn>();
}

TEST_F(TileProductTest, IsRightForMixedOperands) {
  expect_product<Tile<__nv_fp8_e4m3, 128, 128>, Tile<__nv_fp8_e5m2, 64, 128, Swizzle::bytes_64, Major::mn>>();
  expect_product<Tile<__half, 128, 64>, Tile<__nv_bfloat16, 32, 64, Swizzle::bytes_32>>();
}

TEST_F(TileProductTest, IsRightForEveryShape) {
  expect_product<Tile<__nv_bfloat16, 64, 64>, Tile<__nv_bfloat16, 8, 64>>();
  expect_product<Tile<__nv_bfloat16, 64, 64>, Tile<__nv_bfloat16, 256, 64>>();
  expect_product<Tile<__nv_bfloat16, 64, 64, Swizzle::bytes_128, Major::mn>, Tile<__nv_bfloat16, 40, 64>>();
  expect_product<Tile<__nv_bfloat16, 128, 128>, Tile<__nv_bfloat16, 256, 128>>();
  expect_product<Tile<__nv_bfloat16, 128, 16, Swizzle::bytes_32>, Tile<__nv_bfloat16, 16, 16, Swizzle::bytes_32>>();
}

}  // namespace
}  // namespace stagecraft::tests
