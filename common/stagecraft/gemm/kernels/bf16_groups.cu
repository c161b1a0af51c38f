// The kernels of one list of configurations.
#include "stagecraft/gemm/kernels/configurations.hpp"
#include "stagecraft/gemm/kernels/tables.hpp"
#include "stagecraft/gemm/launch.cuh"

namespace stagecraft::shipped {

std::span<const GemmKernel> bf16_groups_kernels() { return kernels_of<kBf16Groups>(); }

}  // namespace stagecraft::shipped
