// The online softmax of the two rows that a thread has of a product.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "stagecraft/attention/exponential.hpp"
#include "stagecraft/wgmma.hpp"

namespace stagecraft {

/// The running maximum and sum of two rows, of which the four lanes of a quad have a quarter each: sums 4i + 2j and
/// 4i + 2j + 1 of a WarpgroupSums are of row j.
template <typename Config>
class RowSoftmax {
 public:
  /// Begins rows of which nothing has been seen.
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      used_[j] = -INFINITY;
      sum_[j] = 0;
    }
  }

  /// Makes weights of scores, in place: 2 to the power of what they exceed a maximum by.
  ///
  /// That maximum is not the newest: it stays as long as no score of the warp exceeds it by more than the tolerated
  /// growth. Weights and output are sums over the same one, so that it cancels when they are divided.
  /// @return whether it has changed, in any row of the warp: then what was summed before must be multiplied by
  /// `factor`.
  template <typename Scores>
  __device__ __forceinline__ bool weigh(Scores& scores, float scale_log2) {
    auto& s = scores.of[0];
    constexpr int kCount = Scores::columns / 2;
    float highest[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      highest[j] = fmaxf(s[2 * j], s[2 * j + 1]);
#pragma unroll
      for (int i = 4; i < kCount; i += 4) highest[j] = fmaxf(highest[j], fmaxf(s[i + 2 * j], s[i + 2 * j + 1]));
      highest[j] = fmaxf(highest[j], __shfl_xor_sync(0xffffffff, highest[j], 1));
      highest[j] = fmaxf(highest[j], __shfl_xor_sync(0xffffffff, highest[j], 2));
      highest[j] *= scale_log2;
    }
    // Where both are -inf, the difference is NaN, and no growth.
    const bool grows =
        highest[0] - used_[0] > Config::tolerated_growth || highest[1] - used_[1] > Config::tolerated_growth;
    const bool changes = __any_sync(0xffffffff, grows);
    if (changes) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float newest = fmaxf(used_[j], highest[j]);
        factor_[j] = exp2_by_unit(used_[j] - (newest == -INFINITY ? 0 : newest));
        used_[j] = newest;
        sum_[j] *= factor_[j];
      }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float subtracted = used_[j] == -INFINITY ? 0 : used_[j];  // of a row that sees no key yet
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& weight = s[i + 2 * j + h];
          weight = exp2_by_unit(fmaf(weight, scale_log2, -subtracted));
          sum_[j] += weight;
        }
      }
    }
    return changes;
  }

  /// What to multiply earlier sums of row j by, where `weigh` has answered yes.
  __device__ __forceinline__ float factor(int j) const { return factor_[j]; }

  /// Adds up the parts of the four lanes. To be called once, after the last scores.
  __device__ __forceinline__ void end() {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      sum_[j] += __shfl_xor_sync(0xffffffff, sum_[j], 1);
      sum_[j] += __shfl_xor_sync(0xffffffff, sum_[j], 2);
    }
  }

  /// What an output of row j is to be multiplied by; 0 where it sees no key.
  __device__ __forceinline__ float inverse_sum(int j) const { return sum_[j] == 0 ? 0 : 1 / sum_[j]; }
  /// The natural logarithm of the sum of all exponentials of row j; -inf where it sees no key.
  __device__ __forceinline__ float logsumexp(int j) const {
    constexpr float kLn2 = 0.693147180559945f;
    return sum_[j] == 0 ? -INFINITY : (used_[j] + log2f(sum_[j])) * kLn2;
  }

 private:
  float used_[2], sum_[2], factor_[2];
};

}  // namespace stagecraft
