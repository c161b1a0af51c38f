// The compiled configurations, and how one is prepared. Those of each element are compiled in a file of their own, so
// that they can be compiled at the same time.
#pragma once

#include <functional>

#include "stagecraft/hopper_attention/attention.hpp"
#include "stagecraft/hopper_attention/launch.cuh"

namespace stagecraft {

/// Rows of 128: two warpgroups, because three would not have the registers for the output.
template <typename Type, bool Causal>
struct AttentionOf128 : AttentionTwinDefaults {
  using Element = Type;
  static constexpr bool causal = Causal, takes_turns = Causal;
};

/// Rows of 64: each product takes half as long, and exponentials as long as before. A third warpgroup hides more of
/// them.
template <typename Type, bool Causal>
struct AttentionOf64 : AttentionTwinDefaults {
  using Element = Type;
  static constexpr int head_dim = 64, consumers = 3, stages = 4;
  static constexpr bool causal = Causal, takes_turns = true;
};

/// Rows of 64 with few keys, where tiles of 192 queries would have many products at the diagonal that are masked.
template <typename Type>
struct AttentionOf64Short : AttentionOf64<Type, /*Causal=*/true> {
  static constexpr int consumers = 2;
};

/// The kernel of these elements that suits a problem, which has been checked.
template <typename Element>
std::function<void(cudaStream_t)> prepare_attention_of(const HopperAttention& attention, int blocks) {
  constexpr int kFewKeys = 1536;
  if (attention.head_dim == 128) {
    if (attention.causal) return AttentionTwinLaunch<AttentionOf128<Element, true>>(attention, blocks);
    return AttentionTwinLaunch<AttentionOf128<Element, false>>(attention, blocks);
  }
  if (!attention.causal) return AttentionTwinLaunch<AttentionOf64<Element, false>>(attention, blocks);
  if (attention.keys < kFewKeys) return AttentionTwinLaunch<AttentionOf64Short<Element>>(attention, blocks);
  return AttentionTwinLaunch<AttentionOf64<Element, true>>(attention, blocks);
}

}  // namespace stagecraft
