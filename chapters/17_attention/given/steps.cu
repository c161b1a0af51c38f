// Launches each of the kernels that the lesson goes through.
#include <steps_launch.cuh>

#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "steps.hpp"

namespace stagecraft {

void run_attention_step(AttentionStep step, const AttentionStepProblem& problem) {
  using Tiles = AttentionTiles<__nv_bfloat16, 128>;
  constexpr int kDim = Tiles::head_dim;
  const AttentionShape shape{.queries = problem.queries,
                             .keys = problem.keys,
                             .heads = problem.heads,
                             .key_heads = problem.heads,
                             .causal = problem.causal};
  const int64_t token_stride = static_cast<int64_t>(problem.heads) * kDim;
  const AttentionMatrices<__nv_bfloat16> matrices{.queries = {problem.q, token_stride, kDim},
                                                  .keys = {problem.k, token_stride, kDim},
                                                  .values = {problem.v, token_stride, kDim},
                                                  .outputs = {problem.outputs, token_stride, kDim},
                                                  .logsumexp = problem.logsumexp};
  const harness::DeviceBuffer<float> workspace(step == AttentionStep::one_role ? workspace_floats(shape) + 1 : 1,
                                               "the workspace");
  const int blocks = harness::current_device().multiProcessorCount;
  switch (step) {
    case AttentionStep::one_role: start_one_role<Tiles>(shape, matrices, problem.scale, workspace.data()); break;
    case AttentionStep::online: start_online<Tiles, /*InHand=*/1>(shape, matrices, problem.scale); break;
    case AttentionStep::two_tiles: start_online<Tiles, /*InHand=*/2>(shape, matrices, problem.scale); break;
    case AttentionStep::correction:
      start_attention<AttentionConfig<Tiles>>(shape, matrices, problem.scale, blocks);
      break;
    case AttentionStep::polynomials:
      start_attention<AttentionConfig<Tiles, /*HasPolynomials=*/true>>(shape, matrices, problem.scale, blocks);
      break;
    case AttentionStep::persistent:
      start_attention<AttentionConfig<Tiles, /*HasPolynomials=*/true, /*IsPersistent=*/true>>(shape, matrices,
                                                                                              problem.scale, blocks);
      break;
  }
  harness::finish_kernel("the kernel");
}

}  // namespace stagecraft
