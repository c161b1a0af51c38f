// Attention on Hopper for programs: what there is to compute, and its launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

namespace stagecraft {

/// What Q, K, V and the output are made of.
enum class AttentionElement : uint8_t { bf16, f16 };

/// Rows of `head_dim` elements, one for each token, head and sequence: where they are.
///
/// Any order of the three will do: [sequences][tokens][heads][head_dim] as well as
/// [sequences][heads][tokens][head_dim].
struct AttentionRows {
  void* data = nullptr;         ///< device address, a multiple of 16 bytes
  int64_t token_stride = 0;     ///< elements from one token to the next, a multiple of 8
  int64_t head_stride = 0;      ///< from one head to the next
  int64_t sequence_stride = 0;  ///< from one sequence to the next
};

/// Out = softmax(scale * Q * K transposed) * V, for each head of each sequence.
struct HopperAttention {
  AttentionElement element = AttentionElement::bf16;
  int head_dim = 128;          ///< 64 or 128
  int sequences = 1;           ///< at least 1
  int heads = 1;               ///< of Q and the output
  int key_heads = 1;           ///< of K and V; a divisor of `heads`: neighbours share one
  int queries = 0;             ///< of each sequence; 0 is legal
  int keys = 0;                ///< of each sequence; 0 is legal: then the output is 0, and its logarithm -inf
  bool causal = false;         ///< query i sees keys 0 to i + keys - queries: the last one is at the last key
  float scale = 1;             ///< greater than 0
  AttentionRows q{};           ///< read
  AttentionRows k{};           ///< read
  AttentionRows v{};           ///< read
  AttentionRows out{};         ///< written
  float* logsumexp = nullptr;  ///< [sequences][heads][queries], natural logarithms; nullptr: not wanted
};

/// Prepares a launch of the kernel that suits the problem, to be started any number of times, but not twice at once.
/// @param blocks  at most, for tests; 0: as many as the device has room for at once.
/// @throws std::invalid_argument for what no kernel computes, with what is legal; TensorMapError for addresses and
///         strides that TMA cannot take.
std::function<void(cudaStream_t)> prepare_hopper_attention(const HopperAttention& attention, int blocks = 0);

}  // namespace stagecraft
