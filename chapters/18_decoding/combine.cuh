// Puts the results of the splits together: a warp for each row of the results, a lane for each split.
#pragma once

#include <problem.cuh>
#include <softmax.cuh>

#include "stagecraft/dependent_launch.hpp"

namespace stagecraft {

/// Rows of the results that a block combines.
inline constexpr int kCombineWarps = 4;

/// What a launch of `combine` computes.
struct CombineProblem {
  PartialResults partial;
  DecodingResults results;
  int64_t rows;
  int splits;  // 1 to kMostSplits
};

__global__ void __launch_bounds__(kCombineWarps* kWarpSize) combine(const __grid_constant__ CombineProblem problem) {
  const int64_t row = int64_t{blockIdx.x} * kCombineWarps + warp_index();
  const int split = static_cast<int>(lane_index()), first = split * (kHeadDim / kWarpSize);
  // TODO 9: this grid may have started before that of the splits has ended.
  if (row >= problem.rows) return;

  [[maybe_unused]] const auto output_of = [&](int other) {
    return *reinterpret_cast<const float4*>(problem.partial.outputs + (row * problem.splits + other) * kHeadDim +
                                            first);
  };
  float4 output = {};
  float logsumexp = -INFINITY;  // to the base 2

  // TODO 8: what does each split weigh, beside the others? Some have no keys, or all. `split` is this lane's own, and
  // `output_of(other)` four elements of another's output.

  const __nv_bfloat162 rounded[2] = {__floats2bfloat162_rn(output.x, output.y),
                                     __floats2bfloat162_rn(output.z, output.w)};
  *reinterpret_cast<uint2*>(problem.results.outputs + row * kHeadDim + first) =
      *reinterpret_cast<const uint2*>(rounded);
  if (split == 0 && problem.results.logsumexps != nullptr) {
    problem.results.logsumexps[row] = logsumexp * kNaturalOfBinary;
  }
}

}  // namespace stagecraft
