// A product on the tensor core, as in chapters 08 and 09, with what one can get wrong as settings.
#include <cuda/ptx>

#include "settings.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

enum class Role { copy, multiply, store };

constexpr int kThreads = 6 * kWarpSize;  // warps 0 to 3 store, 4 copies, 5 multiplies

__device__ Role warp_role() { return warp_index() < 4 ? Role::store : warp_index() == 4 ? Role::copy : Role::multiply; }

/// The tiles of A and B of one step, as they are in global memory too, so that one copy brings both.
struct Step {
  Tile<__nv_bfloat16, kProductM, kProductK, Swizzle::none> a;
  Tile<__nv_bfloat16, kProductN, kProductK, Swizzle::none> b;
};

/// __syncthreads() for tcgen05 instructions as well.
__device__ void sync_block() {
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
}

/// One block: D (128 x 16) is the sum over all steps of A (128 x 16) times B (16 x 16) transposed.
extern "C" __global__ void __launch_bounds__(kThreads) product(const Step* in, float* d, ProductSettings settings) {
  __shared__ Step tiles[kMaxStages];
  __shared__ uint64_t full[kMaxStages], empty[kMaxStages], done;
  __shared__ uint32_t published;
  const TmemAllocation<32> memory{&published};

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < settings.stages; ++stage) {
      init_barrier(&full[stage], /*arrive_count=*/1);
      init_barrier(&empty[stage], /*arrive_count=*/1);
    }
    init_barrier(&done, /*arrive_count=*/1);
    fence_barrier_init();
  }
  if (warp_index() == 0) {
    memory.allocate();
    memory.release_lock();
  }
  sync_block();
  const TmemTensor<kProductM, kProductN> sums{memory.address()};

  switch (warp_role()) {
    case Role::copy:
      if (elect_one()) {
        for (int step = 0; step < settings.steps; ++step) {
          const int stage = step % settings.stages;
          wait(&empty[stage], step / settings.stages % 2 ^ 1);
          expect_bytes(&full[stage], sizeof(Step));
          copy_bulk(&tiles[stage], in + step, sizeof(Step), &full[stage]);
        }
      }
      break;

    case Role::multiply:
      if (elect_one()) {
        for (int step = 0; step < settings.steps; ++step) {
          const int stage = step % settings.stages;
          if (settings.tile_awaited) wait(&full[stage], step / settings.stages % 2);
          const bool accumulate = settings.overwritten == kByNone || (settings.overwritten == kByTheFirst && step > 0);
          multiply_tiles(sums, tiles[stage].a, tiles[stage].b, accumulate);
          if (settings.freed == kByTensorCore) commit_mma(&empty[stage]);
          if (settings.freed == kByThread) arrive(&empty[stage]);
        }
        if (settings.committed) commit_mma(&done);
      }
      break;

    case Role::store:
      wait(&done, settings.done_parity);
      if (settings.fence) cuda::ptx::tcgen05_fence_after_thread_sync();
      float row[kProductN];
      load_tmem_columns(row, sums.part_of_warp(warp_index()));
      for (int i = 0; i < kProductN; ++i) d[threadIdx.x * kProductN + i] = row[i];
      break;
  }

  sync_block();  // all warps have loaded what they need
  if (warp_index() == 0 && settings.deallocated) memory.deallocate();
}
