// The configurations that are compiled, and the tables of kernels, one for each source beside this file.
#pragma once

#include <array>
#include <span>

#include "stagecraft/attention/kernel_table.hpp"

namespace stagecraft::shipped {

inline constexpr std::array kBf16Attentions{AttentionConfig{.head_dim = 64, .value_dim = 64}, AttentionConfig{},
                                            AttentionConfig{.head_dim = 192}};
inline constexpr std::array kF16Attentions{
    AttentionConfig{.type = DataType::f16, .output = DataType::f16, .head_dim = 64, .value_dim = 64},
    AttentionConfig{.type = DataType::f16, .output = DataType::f16},
    AttentionConfig{.type = DataType::f16, .output = DataType::f16, .head_dim = 192}};
inline constexpr std::array kE4m3Attentions{AttentionConfig{.type = DataType::e4m3},
                                            AttentionConfig{.type = DataType::e4m3, .head_dim = 192}};

std::span<const AttentionKernel> bf16_attentions();
std::span<const AttentionKernel> f16_attentions();
std::span<const AttentionKernel> e4m3_attentions();

}  // namespace stagecraft::shipped
