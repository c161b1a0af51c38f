// Parameters that types and kernels take.
#include <gemm.cuh>  // of chapter 10

using namespace stagecraft;

constexpr int kStages = 1, kColumns = 512, kGemmStages = 1, kAccumulators = 1;
constexpr Mma kMma{.m = 128, .n = 256};
using Element = __nv_bfloat16;

template <int Stages, int Columns, Mma Multiplication>
__device__ void use(uint64_t* barriers, uint32_t* published) {
  ProducerConsumerPipeline<Stages> pipeline{barriers};
  pipeline.producer_step();
  const TmemAllocation<Columns> tensor_memory{published};
  *published = instruction_descriptor<Multiplication>() + pipeline.producer_stage() + tensor_memory.address();
}

__global__ void use_both(uint64_t* barriers, uint32_t* published) {
  use<kStages, kColumns, kMma>(barriers, published);
  use<2, 64, Mma{.m = 64, .n = 24}>(barriers, published);
}

template __global__ void stagecraft::gemm<Element, kGemmStages, kAccumulators>(
    const __grid_constant__ Problem<Element>);
template __global__ void stagecraft::gemm<__nv_fp8_e4m3, 6, 4>(const __grid_constant__ Problem<__nv_fp8_e4m3>);
