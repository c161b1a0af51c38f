#include <attention_launch.cuh>
#include <cstdint>

#include "kernel.hpp"

using namespace stagecraft;

namespace {

template <typename Config>
void start(const AttentionCase& problem, const AttentionArrays<typename Config::Tiles::Element>& arrays) {
  constexpr int64_t kDim = Config::Tiles::head_dim;
  start_attention<Config>({.queries = problem.queries,
                           .keys = problem.keys,
                           .heads = problem.heads,
                           .key_heads = problem.key_heads,
                           .causal = problem.causal},
                          {.queries = {arrays.queries, problem.heads * kDim, kDim},
                           .keys = {arrays.keys, problem.key_heads * kDim, kDim},
                           .values = {arrays.values, problem.key_heads * kDim, kDim},
                           .outputs = {arrays.outputs, problem.heads * kDim, kDim},
                           .logsumexp = arrays.logsumexp},
                          problem.scale, problem.blocks);
}

}  // namespace

void launch_attention(const AttentionCase& problem, const AttentionArrays<__nv_bfloat16>& arrays) {
  start<AttentionConfig<AttentionTiles<__nv_bfloat16, 128>>>(problem, arrays);
}

void launch_attention(const AttentionCase& problem, const AttentionArrays<__half>& arrays) {
  start<AttentionConfig<AttentionTiles<__half, 64>, /*HasPolynomials=*/true, /*IsPersistent=*/true>>(problem, arrays);
}
