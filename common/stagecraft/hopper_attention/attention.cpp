// What the kernels compute and what they refuse, and which one a problem gets.
#include "stagecraft/hopper_attention/attention.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <stdexcept>
#include <string>

namespace stagecraft {

/// Compiled in the files attention_*.cu, as configurations.cuh defines it.
template <typename Element>
std::function<void(cudaStream_t)> prepare_attention_of(const HopperAttention& attention, int blocks);

namespace {

void refuse_unless(bool legal, const std::string& what, double value, const std::string& rule) {
  if (legal) return;
  const bool whole = value == std::floor(value) && std::abs(value) < 1e9;
  throw std::invalid_argument(what + " = " + (whole ? std::to_string(static_cast<int>(value)) : std::to_string(value)) +
                              ": " + rule);
}

}  // namespace

std::function<void(cudaStream_t)> prepare_hopper_attention(const HopperAttention& a, int blocks) {
  refuse_unless(a.head_dim == 64 || a.head_dim == 128, "head_dim", a.head_dim,
                "it must be 64 or 128. Pad rows with zeros.");
  refuse_unless(a.sequences >= 1, "sequences", a.sequences, "there must be at least one.");
  refuse_unless(a.heads >= 1, "heads", a.heads, "there must be at least one.");
  refuse_unless(a.key_heads >= 1 && a.heads % a.key_heads == 0, "key_heads", a.key_heads,
                "it must divide the heads of queries, which are " + std::to_string(a.heads) + ".");
  refuse_unless(a.queries >= 0, "queries", a.queries, "it must not be negative.");
  refuse_unless(a.keys >= 0, "keys", a.keys, "it must not be negative.");
  refuse_unless(a.scale > 0 && std::isfinite(a.scale), "scale", a.scale,
                "it must be a number greater than 0: the largest product is taken for the largest logit.");
  const double tiles = std::ceil(a.queries / 128.) * a.heads * a.sequences;
  refuse_unless(tiles < 1 << 30, "tiles of 128 queries", tiles, "all heads of all sequences may have 2^30 of them.");
  if (a.queries == 0) return [](cudaStream_t) {};
  return a.element == AttentionElement::f16 ? prepare_attention_of<__half>(a, blocks)
                                            : prepare_attention_of<__nv_bfloat16>(a, blocks);
}

}  // namespace stagecraft
