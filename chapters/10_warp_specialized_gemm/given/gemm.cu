// Launches the finished kernel, for each type of operands.
#include "gemm.cuh"
#include "gemm.hpp"
#include "launch.cuh"

namespace stagecraft {
namespace {

constexpr int kStages = 4;
constexpr int kAccumulators = 2;

}  // namespace

template <typename Element>
void launch_gemm(const GemmOperand<Element>* a, const GemmOperand<Element>* b, GemmOutput<Element>* c, int64_t m,
                 int64_t n, int64_t k, int blocks) {
  launch(gemm<Element, kStages, kAccumulators>, make_problem<Element>(a, b, c, m, n, k), kGemmThreads, kStages, blocks);
}

template void launch_gemm<__nv_bfloat16>(const __nv_bfloat16*, const __nv_bfloat16*, __nv_bfloat16*, int64_t, int64_t,
                                         int64_t, int);
template void launch_gemm<__half>(const __half*, const __half*, __half*, int64_t, int64_t, int64_t, int);
template void launch_gemm<tf32>(const float*, const float*, float*, int64_t, int64_t, int64_t, int);
template void launch_gemm<__nv_fp8_e4m3>(const __nv_fp8_e4m3*, const __nv_fp8_e4m3*, float*, int64_t, int64_t, int64_t,
                                         int);
template void launch_gemm<__nv_fp8_e5m2>(const __nv_fp8_e5m2*, const __nv_fp8_e5m2*, float*, int64_t, int64_t, int64_t,
                                         int);

}  // namespace stagecraft
