// How the tests of chapter 17 start the answer's kernel.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// Queries and outputs are [queries, heads, head_dim], keys and values [keys, key_heads, head_dim].
struct AttentionCase {
  int queries, keys;
  int heads = 1, key_heads = 1;
  bool causal = false;
  float scale = 0.0884f;
  int blocks = 148;  ///< at most, of a persistent kernel
};

/// @param logsumexp  heads x queries.
template <typename Element>
struct AttentionArrays {
  const Element *queries, *keys, *values;
  Element* outputs;
  float* logsumexp;
};

/// The kernel of step 4, with heads of 128.
void launch_attention(const AttentionCase& problem, const AttentionArrays<__nv_bfloat16>& arrays);
/// That of step 6, persistent and with polynomials, with heads of 64.
void launch_attention(const AttentionCase& problem, const AttentionArrays<__half>& arrays);
