// Uses of the device library that it refuses, one per macro, and one that it accepts.
#include <gemm.cuh>  // of chapter 10

using namespace stagecraft;

#if defined(CASE_none)
constexpr int kStages = 2, kColumns = 64, kGemmStages = 6, kAccumulators = 4;
using Element = __nv_fp8_e4m3;
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
constexpr int kGemmStages =
#if defined(CASE_eight_gemm_stages)
    8;
#elif defined(CASE_no_gemm_stages)
    0;
#else
    1;
#endif
constexpr int kAccumulators =
#if defined(CASE_five_accumulators)
    5;
#else
    1;
#endif
#if defined(CASE_gemm_of_float)
using Element = float;
template <>
struct stagecraft::GemmType<float> {
  using Output = float;
};
#else
using Element = __nv_bfloat16;
#endif
#endif

__global__ void use(uint64_t* barriers, uint32_t* published) {
  ProducerConsumerPipeline<kStages> pipeline{barriers};
  pipeline.producer_step();
  const TmemAllocation<kColumns> tensor_memory{published};
  *published = instruction_descriptor<kMma>() + pipeline.producer_stage() + tensor_memory.address();
}

template __global__ void stagecraft::gemm<Element, kGemmStages, kAccumulators>(
    const __grid_constant__ Problem<Element>);
