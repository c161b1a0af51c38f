// How the host starts the kernels of steps 1 to 3.
#pragma once

#include <attention_launch.cuh>
#include <cstdint>
#include <steps/one_role.cuh>
#include <steps/online.cuh>

namespace stagecraft {

/// Starts step 1. @param workspace  `workspace_floats(shape)` floats in device memory.
/// Throws CudaError and TensorMapError.
template <typename Tiles>
void start_one_role(const AttentionShape& shape, const AttentionMatrices<typename Tiles::Element>& matrices,
                    float scale, float* workspace) {
  const int items = AttentionItems<1, false>::count(shape);
  if (items == 0) return;
  const LaunchOptions options{.grid = static_cast<unsigned>(items),
                              .block = kOneRoleThreads,
                              .dynamic_shared_bytes = sizeof(OneRoleShared<Tiles>)};
  harness::check(launch_kernel(attention_one_role<Tiles>, options,
                               make_attention_problem<Tiles>(shape, matrices, scale), workspace),
                 "launch step 1");
}

/// Starts step 2, with one tile in hand, or step 3, with two.
/// Throws CudaError and TensorMapError.
template <typename Tiles, int InHand>
void start_online(const AttentionShape& shape, const AttentionMatrices<typename Tiles::Element>& matrices,
                  float scale) {
  const int items = AttentionItems<InHand, false>::count(shape);
  if (items == 0) return;
  const LaunchOptions options{.grid = static_cast<unsigned>(items),
                              .block = kOnlineThreads<InHand>,
                              .dynamic_shared_bytes = sizeof(OnlineShared<Tiles, InHand>)};
  harness::check(
      launch_kernel(attention_online<Tiles, InHand>, options, make_attention_problem<Tiles>(shape, matrices, scale)),
      "launch a step with an online softmax");
}

}  // namespace stagecraft
