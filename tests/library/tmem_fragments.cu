// What tcgen05.ld and st put where: each shape's registers and the cells of tensor memory, against the maps of
// tmem_layout.hpp.
#include <cuda/ptx>

#include "harness/device.hpp"
#include "ring_test.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft::tests {
namespace {

constexpr int kColumns = 128;

/// Four warps write the number of each cell into it, and read the cells of their quarter by `Shape` from lane `first`
/// of it on.
template <FragmentShape Shape, int Count>
__global__ void load_cells(uint32_t first_lane, uint32_t* out) {
  __shared__ uint32_t published;
  const TmemAllocation<kColumns> tensor_memory{&published};
  if (warp_index() == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const uint32_t quarter = tmem_offset(tensor_memory.address(), warp_index() * 32, 0);

  uint32_t numbers[kColumns];
  for (int column = 0; column < kColumns; ++column) numbers[column] = threadIdx.x * kColumns + column;
  store_tmem(quarter, numbers);
  wait_for_tmem_stores();
  uint32_t registers[Count];
  load_tmem<Shape>(registers, tmem_offset(quarter, first_lane, 0));
  wait_for_tmem_loads();
  for (int i = 0; i < Count; ++i) out[threadIdx.x * Count + i] = registers[i];

  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  if (warp_index() == 0) tensor_memory.deallocate();
}

/// The same the other way: writes by `Shape` and reads lane by lane.
template <FragmentShape Shape, int Count>
__global__ void store_cells(uint32_t first_lane, uint32_t* out) {
  __shared__ uint32_t published;
  const TmemAllocation<kColumns> tensor_memory{&published};
  if (warp_index() == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const uint32_t quarter = tmem_offset(tensor_memory.address(), warp_index() * 32, 0);

  uint32_t values[kColumns];
  for (int column = 0; column < kColumns; ++column) values[column] = 0xffffffff;
  store_tmem(quarter, values);
  wait_for_tmem_stores();
  uint32_t registers[Count];
  for (int i = 0; i < Count; ++i) registers[i] = threadIdx.x * Count + i;
  store_tmem<Shape>(tmem_offset(quarter, first_lane, 0), registers);
  wait_for_tmem_stores();
  load_tmem(values, quarter);
  wait_for_tmem_loads();
  for (int column = 0; column < kColumns; ++column) out[threadIdx.x * kColumns + column] = values[column];

  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  if (warp_index() == 0) tensor_memory.deallocate();
}

template <FragmentShape Shape, int Count>
void expect_cells(uint32_t first_lane) {
  harness::DeviceBuffer<uint32_t> loaded(128 * Count, "what was loaded"), cells(128 * kColumns, "the cells");
  loaded.poison();
  cells.poison();
  load_cells<Shape, Count><<<1, 128>>>(first_lane, loaded.data());
  store_cells<Shape, Count><<<1, 128>>>(first_lane, cells.data());
  harness::check(cudaDeviceSynchronize(), "load and store tensor memory");
  const auto registers = loaded.to_host(), stored = cells.to_host();
  std::vector<uint32_t> expected(128 * kColumns, 0xffffffff);
  for (uint32_t thread = 0; thread < 128; ++thread) {
    for (uint32_t i = 0; i < Count; ++i) {
      const TmemCell cell = fragment_cell(Shape, thread % 32, i);
      const uint32_t number = (thread / 32 * 32 + first_lane + cell.lane) * kColumns + cell.column;
      ASSERT_EQ(registers[thread * Count + i], number) << "thread " << thread << ", register " << i;
      expected[number] = thread * Count + i;
    }
  }
  EXPECT_EQ(stored, expected);
}

TEST(TmemFragmentTest, IsWhereTheMapsSay) {
  if (harness::current_device().major != 10) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  using enum FragmentShape;
  expect_cells<lanes_32x32b, 1>(0);
  expect_cells<lanes_32x32b, 16>(0);
  for (const uint32_t first_lane : {0u, 16u}) {
    SCOPED_TRACE(first_lane);
    expect_cells<lanes_16x64b, 1>(first_lane);
    expect_cells<lanes_16x64b, 32>(first_lane);
    expect_cells<lanes_16x128b, 2>(first_lane);
    expect_cells<lanes_16x128b, 32>(first_lane);
    expect_cells<lanes_16x256b, 4>(first_lane);
    expect_cells<lanes_16x256b, 64>(first_lane);
  }
}

}  // namespace
}  // namespace stagecraft::tests
