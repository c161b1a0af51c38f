// Stands in for the shipped kernels in a program that compiles each kernel when it needs it.
#include "stagecraft/gemm/kernel_table.hpp"

namespace stagecraft {

std::span<const GemmKernel* const> shipped_gemms() { return {}; }

}  // namespace stagecraft
