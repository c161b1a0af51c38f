// Uses of the device library that it refuses, one per macro, and one that it accepts.
#include "../../solutions/10_warp_specialized_gemm/gemm.cuh"

using namespace stagecraft;

#if defined(CASE_none)
constexpr int kStages = 2, kColumns = 64, kTileM = 128, kTileK = 64, kGemmStages = 6;
constexpr Mma kMma{.m = 64, .n = 24};
#else
constexpr int kStages =
#if defined(CASE_no_stages)
    0;
#else
    1;
#endif
constexpr int kColumns =
#if defined(CASE_48_columns)
    48;
#elif defined(CASE_1024_columns)
    1024;
#else
        512;
#endif
constexpr Mma kMma {
#if defined(CASE_mma_m_32)
  .m = 32, .n = 64
#elif defined(CASE_mma_n_264)
  .m = 64, .n = 264
#elif defined(CASE_mma_n_24)
  .m = 128, .n = 24
#elif defined(CASE_mma_bf16_in_f16)
  .m = 128, .n = 64, .accumulator = AccumulatorFormat::f16
#else
  .m = 128, .n = 256
#endif
};
constexpr int kTileM =
#if defined(CASE_tile_m_64)
    64;
#else
    128;
#endif
constexpr int kTileK =
#if defined(CASE_tile_k_32)
    32;
#else
    64;
#endif
constexpr int kGemmStages =
#if defined(CASE_eight_gemm_stages)
    8;
#else
    1;
#endif
#endif

__global__ void use(uint64_t* barriers, uint32_t* published) {
  ProducerConsumerPipeline<kStages> pipeline{barriers};
  pipeline.producer_step();
  const TmemAllocation<kColumns> tensor_memory{published};
  *published = instruction_descriptor<kMma>() + pipeline.producer_stage() + tensor_memory.address();
}

template __global__ void stagecraft::gemm<kTileM, 128, kTileK, kGemmStages>(const __grid_constant__ CUtensorMap,
                                                                            const __grid_constant__ CUtensorMap,
                                                                            __nv_bfloat16*, int, int, int);
