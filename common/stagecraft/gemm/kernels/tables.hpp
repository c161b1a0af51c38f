// The tables of kernels, one for each source beside this file.
#pragma once

#include <span>

#include "stagecraft/gemm/kernel_table.hpp"

namespace stagecraft::shipped {

std::span<const GemmKernel> bf16_tiles_kernels();
std::span<const GemmKernel> bf16_schedules_kernels();
std::span<const GemmKernel> bf16_epilogues_kernels();
std::span<const GemmKernel> bf16_groups_kernels();
std::span<const GemmKernel> f16_and_tf32_kernels();
std::span<const GemmKernel> fp8_kernels();
std::span<const GemmKernel> block_scaled_kernels();

}  // namespace stagecraft::shipped
