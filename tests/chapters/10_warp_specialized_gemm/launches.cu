// Starts the answer's kernel, and its store_quarter on its own.
#include <gemm.cuh>
#include <store_quarter.cuh>

#include "launch.cuh"
#include "launches.hpp"

using namespace stagecraft;

namespace {

/// As the storing warps of gemm() are, these are warps 2 to 5.
__global__ void __launch_bounds__(kGemmThreads) store_known(const __grid_constant__ Problem<tf32> problem) {
  __shared__ uint32_t tensor_memory_address;
  const TmemAllocation<kTileN> tensor_memory{&tensor_memory_address};
  const uint32_t warp = warp_index();
  if (warp == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  sync_block();
  const Accumulator accumulator{tensor_memory.address()};
  if (warp >= 2) {
    for (int column = 0; column < kTileN; ++column) {
      const float value = static_cast<float>(Accumulator::row_of(warp, lane_index()) * 1000 + column);
      store_tmem(accumulator.part_of_warp(warp, column), {__float_as_uint(value)});
    }
    wait_for_tmem_stores();
    store_quarter(problem, TileOfC{problem}, accumulator);
  }
  sync_block();
  if (warp == 0) tensor_memory.deallocate();
}

}  // namespace

void launch_store_known(float* c, int m, int n) {
  Problem<tf32> problem{};
  problem.c = c;
  problem.m = m;
  problem.n = n;
  problem.k = 1;
  store_known<<<1, kGemmThreads>>>(problem);
  harness::check(cudaGetLastError(), "launch store_known");
}

void launch_answer(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t m, int64_t n, int64_t k,
                   int blocks) {
  constexpr int kStages = 4, kAccumulators = 2;
  launch(gemm<__nv_bfloat16, kStages, kAccumulators>, make_problem<__nv_bfloat16>(a, b, c, m, n, k), kGemmThreads,
         kStages, blocks);
}
