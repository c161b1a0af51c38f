// What the blank page of chapter 17 computes.
#pragma once

#include <cuda_bf16.h>

inline constexpr int kStateDim = 128;  ///< elements of a token's state, and of a word

/// TODO 11. normalisers[t] = log(sum of exp(state t . word w) over all `count` words): what a language model's loss
/// needs of the whole vocabulary, without its tokens x count products in memory. It is attention's first product and
/// its softmax.
///
/// A block has 256 tokens, two tiles of 128, each with a warpgroup of its own; a warp loads, a warp multiplies.
/// Everything of problem.cuh and exponential.hpp may be used: AttentionTiles<__nv_bfloat16, kStateDim> has the types of
/// both operands.
/// @param states  tokens x 128.
/// @param words   count x 128.
void launch_normalisers(const __nv_bfloat16* states, const __nv_bfloat16* words, float* normalisers, int tokens,
                        int count);
