// Decoding on Hopper, for programs: attention of one query of each sequence to a cache of keys and values.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

namespace stagecraft {

/// What queries, keys, values and results are made of.
enum class CacheType { bf16, f16 };

/// One query of each sequence, and the cache of all keys and values, in device memory.
///
/// With a page table, the cache is [pages, page_tokens, key_heads, head_dim] and token t of sequence s is in page
/// page_table[s][t / page_tokens]. Without one, it is the same with a page for each sequence. Strides say where tokens,
/// key heads and pages are, so that other orders of the cache work, too.
struct DecodingInputs {
  CacheType type = CacheType::bf16;  ///< of all matrices
  const void* queries = nullptr;     ///< [sequences, heads, head_dim], without gaps; 8-byte aligned
  const void* keys = nullptr;        ///< 16-byte aligned, as the values
  const void* values = nullptr;      ///< in the same order as the keys
  void* out = nullptr;               ///< [sequences, heads, head_dim], without gaps; 8-byte aligned
  float* logsumexp = nullptr;        ///< [sequences, heads], natural; or null
  const int* lengths = nullptr;      ///< keys of each sequence, 0 to `longest`; or null: each has `longest`
  const int* page_table = nullptr;   ///< [sequences, pages_per_sequence]; or null
  int sequences = 1;                 ///< with a query each
  int heads = 1;                     ///< of a query; a multiple of key_heads, at most 16 times as many
  int key_heads = 1;                 ///< of keys and values
  int head_dim = 128;                ///< 64 or 128
  int longest = 0;                   ///< no sequence has more keys
  int pages = 1;                     ///< of the cache; without a page table, as many as sequences
  int page_tokens = 1;               ///< of a page; with a page table, a multiple of 16
  int pages_per_sequence = 1;        ///< in a row of the page table
  int64_t token_stride = 0;          ///< elements from a token of a page to the next, a multiple of 8
  int64_t head_stride = 0;           ///< from a key head to the next, likewise
  int64_t page_stride = 0;           ///< from a page to the next, likewise
  float scale = 1;                   ///< of the scores
};

/// Prepares decoding on the current device; what it returns starts it on a stream. Copies of that share memory of the
/// device: start them on one stream.
///
/// A sequence without keys gets 0, and -inf as its logarithm. Results do not depend on the order in which blocks run.
/// @throws std::invalid_argument  saying what is legal.
/// @throws harness::CudaError when a call of CUDA fails; so does the launch.
std::function<void(cudaStream_t)> prepare_decoding(const DecodingInputs& inputs);

}  // namespace stagecraft
