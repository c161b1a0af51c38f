// The kernels of one list of configurations.
#include "stagecraft/gemm/kernels/configurations.hpp"
#include "stagecraft/gemm/kernels/tables.hpp"
#include "stagecraft/gemm/launch.cuh"

namespace stagecraft::shipped {

std::span<const GemmKernel> fp8_kernels() { return kernels_of<kFp8>(); }

}  // namespace stagecraft::shipped
