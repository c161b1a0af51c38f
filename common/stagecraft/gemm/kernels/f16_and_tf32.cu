// The kernels of one list of configurations.
#include "stagecraft/gemm/kernels/configurations.hpp"
#include "stagecraft/gemm/kernels/tables.hpp"
#include "stagecraft/gemm/launch.cuh"

namespace stagecraft::shipped {

std::span<const GemmKernel> f16_and_tf32_kernels() { return kernels_of<kF16AndTf32>(); }

}  // namespace stagecraft::shipped
