// Softmax along the rows of S^T, whose rows are keys: a thread has one key and all packed queries, so that the maximum
// and the sum of a query are those of 128 threads.
#pragma once

#include <cmath>
#include <problem.cuh>

#include "stagecraft/attention/exponential.hpp"
#include "stagecraft/packed_elements.hpp"

namespace stagecraft {

/// log(2): turns logarithms to the base 2 into natural ones.
inline constexpr float kNaturalOfBinary = 0.693147181f;

/// What each warp of softmax has found for each query, for the others to read.
using ExchangedRows = float[kSoftmaxThreads / kWarpSize][kPackedRows];

/// Waits until all threads of softmax are here, and sees what they wrote to shared memory.
__device__ __forceinline__ void meet_softmax() {
  asm volatile("barrier.cta.sync 1, %0;" : : "n"(kSoftmaxThreads) : "memory");
}

/// The largest value of a warp, in all of its lanes, or NaN if a lane has that; sm_100a has the instruction for floats.
/// Source: PTX ISA, "redux.sync" (.f32).
__device__ __forceinline__ float warp_maximum(float value) {
  float largest;
  asm volatile("redux.sync.max.NaN.f32 %0, %1, 0xffffffff;" : "=f"(largest) : "f"(value));
  return largest;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

namespace detail {

/// Gives `reduce_warp(values[row])` of all warps to each thread, put together by `join`.
template <typename ReduceWarp, typename Join>
__device__ __forceinline__ void reduce_rows(float (&values)[kPackedRows], ExchangedRows& exchanged,
                                            ReduceWarp reduce_warp, Join join) {
  const uint32_t warp = warp_index() % 4;
#pragma unroll
  for (int row = 0; row < kPackedRows; ++row) {
    values[row] = reduce_warp(values[row]);
    if (lane_index() == 0) exchanged[warp][row] = values[row];
  }
  meet_softmax();
#pragma unroll
  for (int row = 0; row < kPackedRows; ++row) {
    values[row] = join(join(exchanged[0][row], exchanged[1][row]), join(exchanged[2][row], exchanged[3][row]));
  }
}

}  // namespace detail

/// Puts the largest of all threads' values in place of each. Called by all threads of softmax.
/// @param exchanged  in shared memory, and not what the call before used: a slower warp may still read that one.
__device__ __forceinline__ void largest_of_keys(float (&values)[kPackedRows], ExchangedRows& exchanged) {
  detail::reduce_rows(values, exchanged, warp_maximum, [](float a, float b) { return fmaxf(a, b); });
}

/// The same with the sum.
__device__ __forceinline__ void sum_of_keys(float (&values)[kPackedRows], ExchangedRows& exchanged) {
  detail::reduce_rows(values, exchanged, warp_sum, [](float a, float b) { return a + b; });
}

/// Rounds the weights of one key to the type of the tile, and writes them to the key's line of it.
template <typename Element>
__device__ __forceinline__ void write_weights(WeightTile<Element>& tile, int key, const float (&weights)[kPackedRows]) {
  constexpr int kChunk = 16 / sizeof(Element);  // elements in 16 bytes
#pragma unroll
  for (int first = 0; first < kPackedRows; first += kChunk) {
    float chunk[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) chunk[i] = weights[first + i];
    *reinterpret_cast<uint4*>(&tile.at(first, key)) = pack_elements<Element>(chunk);
  }
}

/// Writes zeros to the line of one value.
template <typename Element>
__device__ __forceinline__ void clear_value(ValueTile<Element>& tile, int key) {
  constexpr int kChunk = 16 / sizeof(Element);
#pragma unroll
  for (int first = 0; first < kHeadDim; first += kChunk) {
    *reinterpret_cast<uint4*>(&tile.at(first, key)) = uint4{};
  }
}

}  // namespace stagecraft
