// The kernels that the lesson goes through, as the host calls them.
#pragma once

#include <cuda_bf16.h>

namespace stagecraft {

/// The kernels of the chapter, in order.
enum class AttentionStep { one_role, online, two_tiles, correction, polynomials, persistent };

/// A problem with heads of 128 elements, on the host's side. Queries and outputs are [queries, heads, 128], keys and
/// values [keys, heads, 128].
struct AttentionStepProblem {
  int queries, keys, heads;
  bool causal;
  float scale;
  const __nv_bfloat16 *q, *k, *v;
  __nv_bfloat16* outputs;
  float* logsumexp;  ///< [heads, queries]
};

/// Starts one of the kernels, on all multiprocessors, and waits for it.
void run_attention_step(AttentionStep step, const AttentionStepProblem& problem);

}  // namespace stagecraft
