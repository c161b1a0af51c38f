// What decoding.py calls: the library's decoding behind two C functions.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>

#include "stagecraft/hopper_attention/decoding.hpp"

namespace {
using Launch = std::function<void(cudaStream_t)>;
}

/// A launch over a cache of [sequences][key_heads][keys][head_dim] without gaps; nullptr where that fails.
extern "C" Launch* prepare_measured_decoding(int is_f16, int head_dim, void* q, void* k, void* v, void* out,
                                             float* logsumexp, int sequences, int heads, int key_heads, int keys,
                                             float scale) try {
  const int64_t row = head_dim;
  return new Launch(stagecraft::prepare_decoding({
      .type = is_f16 != 0 ? stagecraft::CacheType::f16 : stagecraft::CacheType::bf16,
      .queries = q,
      .keys = k,
      .values = v,
      .out = out,
      .logsumexp = logsumexp,
      .sequences = sequences,
      .heads = heads,
      .key_heads = key_heads,
      .head_dim = head_dim,
      .longest = keys,
      .pages = sequences,
      .page_tokens = keys,
      .token_stride = row,
      .head_stride = row * keys,
      .page_stride = row * keys * key_heads,
      .scale = scale,
  }));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return nullptr;
}

/// Starts one.
extern "C" void start_measured_decoding(const Launch* launch, void* stream) {
  (*launch)(static_cast<cudaStream_t>(stream));
}
