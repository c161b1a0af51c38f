// Starts the answer's kernels, and the parts of its scale factors on their own.
#include <block_scaled.cuh>
#include <blockwise.cuh>
#include <scale_factors.hpp>

#include "harness/device_buffer.hpp"
#include "launch.cuh"
#include "launches.hpp"
#include "stagecraft/commit.hpp"
#include "stagecraft/mbarrier.hpp"

using namespace stagecraft;

namespace {

using ScaleTile = ScaleFactorTile<__nv_fp8_e8m0, kScaleRows, kScaleBlocks>;

/// All threads meet, and what they did in tensor memory is ordered.
__device__ void sync_block() {
  __syncwarp();
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
}

__global__ void __launch_bounds__(kStoreThreads)
    copy_scale_factors_and_read(const __grid_constant__ TileMap<ScaleTile> map, uint32_t* cells) {
  __shared__ ScaleTile tile;
  __shared__ uint64_t arrived, copied;
  __shared__ uint32_t published;
  constexpr int kFirstColumn = 8;  // theirs; what is before is not
  const TmemAllocation<32> tensor_memory{&published};
  if (threadIdx.x == 0) {
    init_barrier(&arrived, 1);
    init_barrier(&copied, 1);
    fence_barrier_init();
  }
  __syncwarp();
  if (warp_index() == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  sync_block();
  const uint32_t address = tmem_offset(tensor_memory.address(), 0, kFirstColumn);
  if (threadIdx.x == 0) {
    expect_bytes(&arrived, ScaleTile::bytes);
    copy_tile(tile, map, 0, 0, &arrived);
    wait(&arrived, 0);
    copy_scale_factors(TmemScaleTile<ScaleTile>{address}, tile);
    commit_mma(&copied);
  }
  __syncwarp();
  wait(&copied, 0);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  uint32_t words[kReadColumns];
  load_tmem(words, tmem_offset(address, warp_index() * kWarpSize, 0));
  wait_for_tmem_loads();
  for (int i = 0; i < kReadColumns; ++i) cells[threadIdx.x * kReadColumns + i] = words[i];
  sync_block();
  if (warp_index() == 0) tensor_memory.deallocate();
}

/// What the kernel of a kind is compiled for.
template <typename Type, int TileN>
struct Parts {
  static constexpr int kAccumulators = TileN == 256 ? 1 : 2;
  using TilePayload = Payload<Type, TileN, kStages>;
  using Tmem = BlockScaledTmem<OutputTilePipeline<TmemTensor<kTileM, TileN>, kAccumulators>, TilePayload>;

  static void launch_product(const BlockScaledOperand& a, const BlockScaledOperand& b, float* c, int64_t m, int64_t n,
                             int64_t k, int blocks) {
    launch<TilePayload>(multiply_block_scaled<Type, TileN, kStages, kAccumulators>,
                        make_problem<Type, TileN>(a, b, c, m, n, k), blocks);
  }
};

template <typename Tmem>
__global__ void divide(Division* division) {
  const Tmem tmem{0};
  for (int i = 0; i < kStages; ++i) {
    const auto scales = tmem.scale_factors(i);
    division->sfa[i] = scales.sfa.address_of(0, 0);
    division->sfb[i] = scales.sfb.address_of(0, 0);
  }
  division->tmem_columns = Tmem::tmem_columns;
  division->scale_columns = Tmem::ScaleFactors::tmem_columns;
}

template <typename Tmem>
Division division() {
  harness::DeviceBuffer<Division> there(1, "the division");
  divide<Tmem><<<1, 1>>>(there.data());
  harness::check(cudaGetLastError(), "launch divide");
  return there.to_host()[0];
}

}  // namespace

int columns_of_scale_factors() { return TmemScaleTile<ScaleTile>::tmem_columns; }

ScalePlace place_of_scale_factor(int row, int block) {
  const TmemCell cell = TmemScaleTile<ScaleTile>::cell_of(row, block);
  return {cell.lane, cell.column, TmemScaleTile<ScaleTile>::byte_of(block)};
}

void launch_copy_scale_factors(const uint8_t* tile, uint32_t* cells) {
  const auto map = make_tile_map<ScaleTile>(reinterpret_cast<const __nv_fp8_e8m0*>(tile), kScaleRows, kScaleBlocks);
  copy_scale_factors_and_read<<<1, kStoreThreads>>>(map, cells);
}

Division division_of(Kind kind) {
  switch (kind) {
    case Kind::mxfp8: return division<Parts<Mxfp8, 128>::Tmem>();
    case Kind::mxfp4: return division<Parts<Mxfp4, 128>::Tmem>();
    case Kind::nvfp4: return division<Parts<Nvfp4, 256>::Tmem>();
  }
  return {};
}

void launch_answer(Kind kind, const uint8_t* a, const uint8_t* sfa, const uint8_t* b, const uint8_t* sfb, float* c,
                   int64_t m, int64_t n, int64_t k, int blocks) {
  const BlockScaledOperand of_a{a, sfa}, of_b{b, sfb};
  switch (kind) {
    case Kind::mxfp8: return Parts<Mxfp8, 128>::launch_product(of_a, of_b, c, m, n, k, blocks);
    case Kind::mxfp4: return Parts<Mxfp4, 128>::launch_product(of_a, of_b, c, m, n, k, blocks);
    case Kind::nvfp4: return Parts<Nvfp4, 256>::launch_product(of_a, of_b, c, m, n, k, blocks);
  }
}

void launch_blockwise_answer(const uint8_t* a, const float* a_scales, int64_t a_scales_in_row, const uint8_t* b,
                             const float* b_scales, int64_t b_scales_in_row, float* c, int64_t m, int64_t n, int64_t k,
                             int blocks) {
  using Element = __nv_fp8_e4m3;
  launch<BlockwisePayload<kStages>>(
      multiply_blockwise<kStages, /*Accumulators=*/2>,
      make_blockwise_problem({reinterpret_cast<const Element*>(a), a_scales, a_scales_in_row},
                             {reinterpret_cast<const Element*>(b), b_scales, b_scales_in_row}, c, m, n, k),
      blocks);
}
