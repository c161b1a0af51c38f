// Each kernel has one block, so that one core does the work.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "emulated_work.hpp"
#include "harness/device_buffer.hpp"
#include "harness/random.hpp"
#include "kernel_time.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

namespace {

using Element = __nv_bfloat16;
constexpr int kThreads = 128, kStages = 4, kRounds = 64, kK = 64, kN = 256;

template <int M>
using Operands = StandardTilePayload<Tile<Element, M, kK>, Tile<Element, kN, kK>, kStages>;

/// Fills all stages with tiles that follow each other along K. Called by all threads.
template <int M>
__device__ void fetch(const Operands<M>& payload, const CUtensorMap& a_map, const CUtensorMap& b_map,
                      MbarPtr all_there) {
  if (threadIdx.x == 0) {
    init_barrier(all_there, 1);
    fence_barrier_init();
    expect_bytes(all_there, kStages * Operands<M>::bytes_per_tile);
    for (int stage = 0; stage < kStages; ++stage) {
      const auto [a, b] = payload.tile(stage);
      copy_tile(a, a_map, 0, stage * kK, all_there);
      copy_tile(b, b_map, 0, stage * kK, all_there);
    }
  }
  __syncthreads();
  wait(all_there, 0);
}

__global__ void __launch_bounds__(kThreads)
    tcgen05_product(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float* c) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  const Operands<128> payload(*reinterpret_cast<Operands<128>::Storage*>(dynamic_shared_memory));
  __shared__ uint64_t all_there, done;
  __shared__ uint32_t published;
  const TmemAllocation<256> tensor_memory{&published};
  if (threadIdx.x == 0) {
    init_barrier(&done, 1);
    fence_barrier_init();
  }
  __syncwarp();
  if (warp_index() == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  fetch<128>(payload, a_map, b_map, &all_there);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const TmemTensor<128, kN> accumulator(tensor_memory.address());
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRounds * kStages; ++i) {
      const auto [a, b] = payload.tile(i % kStages);
      multiply_tiles(accumulator, a, b, /*accumulate=*/i > 0);
    }
    commit_mma(&done);
  }
  __syncwarp();
  wait(&done, 0);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const int row = accumulator.row_of(warp_index(), lane_index());
  for (int column = 0; column < kN; column += 8) {
    float values[8];
    accumulator.load(values, warp_index(), column);
    for (int i = 0; i < 8; ++i) c[row * kN + column + i] = values[i];
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  if (warp_index() == 0) tensor_memory.deallocate();
#endif
}

#define EIGHT(i)                                                                                              \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define THIRTY_TWO(i) EIGHT(i), EIGHT(i + 8), EIGHT(i + 16), EIGHT(i + 24)

__global__ void __launch_bounds__(kThreads)
    wgmma_product(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float* c) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  const Operands<64> payload(*reinterpret_cast<Operands<64>::Storage*>(dynamic_shared_memory));
  __shared__ uint64_t all_there;
  fetch<64>(payload, a_map, b_map, &all_there);
  // Rows of 128 bytes in blocks of 8, swizzled (PTX ISA, "Matrix descriptor" of wgmma). Along K it goes 32 bytes on.
  const auto describe = [](const void* tile, int slice) {
    const uint64_t address = __cvta_generic_to_shared(tile) + slice * 32;
    return address >> 4 | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
  };
  float d[128] = {};
  for (int i = 0; i < kRounds * kStages; ++i) {
    const auto [a, b] = payload.tile(i % kStages);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int slice = 0; slice < kK / 16; ++slice) {
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
          "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
          "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
          "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
          "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
          "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
          "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
          "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
          "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
          "%128, %129, 1, 1, 1, 0, 0;"
          : THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64), THIRTY_TWO(96)
          : "l"(describe(&a, slice)), "l"(describe(&b, slice)));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;"
                 : THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64), THIRTY_TWO(96)::"memory");
  }
  // Each thread has two rows, and of eight columns two (PTX ISA, figure of the m64nNk16 accumulator).
  for (int i = 0; i < 128; ++i) {
    const int row = warp_index() * 16 + lane_index() / 4 + i / 2 % 2 * 8;
    c[row * kN + i / 4 * 8 + lane_index() % 4 * 2 + i % 2] = d[i];
  }
#endif
}

__global__ void copy_all_tiles(const __grid_constant__ CUtensorMap map) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  using CopiedTile = Tile<Element, 128, 64>;
  auto* tiles = reinterpret_cast<CopiedTile*>(dynamic_shared_memory);
  __shared__ uint64_t full[kStages];
  if (threadIdx.x != 0) return;
  for (uint64_t& barrier : full) init_barrier(&barrier, 1);
  fence_barrier_init();
  constexpr int kTilesPerRow = kMatrixColumns / 64, kTiles = kMatrixRows / 128 * kTilesPerRow;
  for (int i = 0; i < kPasses * kTiles + kStages; ++i) {
    if (i >= kStages) wait(&full[i % kStages], (i / kStages - 1) % 2);
    if (i >= kPasses * kTiles) continue;
    expect_bytes(&full[i % kStages], kTileBytes);
    copy_tile(tiles[i % kStages], map, i % kTiles / kTilesPerRow * 128, i % kTilesPerRow * 64, &full[i % kStages]);
  }
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "emulator_rates: wrong: %s\n", what);
  std::exit(EXIT_FAILURE);
}

/// Small integers, so that sums are exact.
std::vector<Element> small_numbers(size_t size, uint64_t seed) {
  harness::Random random(seed);
  std::vector<Element> values(size);
  for (Element& value : values) value = __float2bfloat16(static_cast<float>(random.bits() % 5) - 2);
  return values;
}

template <int M, typename Kernel>
Work multiply(Kernel kernel, const char* what) {
  const std::vector<Element> a = small_numbers(M * kK * kStages, 1), b = small_numbers(kN * kK * kStages, 2);
  const harness::DeviceBuffer<Element> device_a(a, "A"), device_b(b, "B");
  harness::DeviceBuffer<float> c(M * kN, "C");
  c.poison();
  const int bytes = sizeof(typename Operands<M>::Storage);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), what);
  const CUtensorMap a_map = make_tile_map<Tile<Element, M, kK>>(device_a.data(), M, kK * kStages).map;
  const CUtensorMap b_map = make_tile_map<Tile<Element, kN, kK>>(device_b.data(), kN, kK * kStages).map;
  Work work{2.0 * M * kN * kK * kStages * kRounds};
  work.seconds = seconds_in_kernels(what, [&] { kernel<<<1, kThreads, bytes>>>(a_map, b_map, c.data()); });
  const std::vector<float> result = c.to_host();
  for (int row = 0; row < M; ++row) {
    for (int column = 0; column < kN; ++column) {
      float sum = 0;
      for (int k = 0; k < kK * kStages; ++k) {
        sum += static_cast<float>(a[row * kK * kStages + k]) * static_cast<float>(b[column * kK * kStages + k]);
      }
      require(result[row * kN + column] == sum * kRounds, what);
    }
  }
  return work;
}

}  // namespace

Work multiply_by_tcgen05() { return multiply<128>(tcgen05_product, "the product by tcgen05"); }
Work multiply_by_wgmma() { return multiply<64>(wgmma_product, "the product by wgmma"); }

Work copy_tiles() {
  const harness::DeviceBuffer<Element> matrix(small_numbers(kMatrixRows * kMatrixColumns, 3), "the matrix");
  harness::check(cudaFuncSetAttribute(copy_all_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, kRingBytes),
                 "the copies");
  const CUtensorMap map = make_tile_map<Tile<Element, 128, 64>>(matrix.data(), kMatrixRows, kMatrixColumns).map;
  return {double{kPasses} * kMatrixBytes,
          seconds_in_kernels("the copies", [&] { copy_all_tiles<<<1, 32, kRingBytes>>>(map); })};
}
