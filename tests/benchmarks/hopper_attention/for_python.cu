// What benchmark.py calls: the library's kernels behind two C functions, or one configuration, whose members the
// compiler's command line gives.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>

#include "stagecraft/hopper_attention/attention.hpp"
#include "stagecraft/hopper_attention/launch.cuh"

namespace {

using Launch = std::function<void(cudaStream_t)>;

#ifdef STAGECRAFT_ATTENTION_MEMBERS
struct Measured : stagecraft::AttentionTwinDefaults {
  STAGECRAFT_ATTENTION_MEMBERS
};
Launch prepare(const stagecraft::HopperAttention& attention) {
  return stagecraft::AttentionTwinLaunch<Measured>(attention);
}
#else
Launch prepare(const stagecraft::HopperAttention& attention) { return prepare_hopper_attention(attention); }
#endif

}  // namespace

/// A launch over [sequences][heads][tokens][head_dim] without gaps; nullptr where that fails.
extern "C" Launch* prepare_measured_attention(int is_f16, int head_dim, int causal, void* q, void* k, void* v,
                                              void* out, float* logsumexp, int sequences, int heads, int key_heads,
                                              int queries, int keys, float scale) try {
  const auto rows = [head_dim](void* data, int64_t tokens, int64_t all_heads) {
    return stagecraft::AttentionRows{data, head_dim, tokens * head_dim, tokens * all_heads * head_dim};
  };
  return new Launch(
      prepare({.element = is_f16 != 0 ? stagecraft::AttentionElement::f16 : stagecraft::AttentionElement::bf16,
               .head_dim = head_dim,
               .sequences = sequences,
               .heads = heads,
               .key_heads = key_heads,
               .queries = queries,
               .keys = keys,
               .causal = causal != 0,
               .scale = scale,
               .q = rows(q, queries, heads),
               .k = rows(k, keys, key_heads),
               .v = rows(v, keys, key_heads),
               .out = rows(out, queries, heads),
               .logsumexp = logsumexp}));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return nullptr;
}

/// Starts one.
extern "C" void start_measured_attention(const Launch* launch, void* stream) {
  (*launch)(static_cast<cudaStream_t>(stream));
}
