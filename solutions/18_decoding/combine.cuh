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

//! [combine]
__global__ void __launch_bounds__(kCombineWarps* kWarpSize) combine(const __grid_constant__ CombineProblem problem) {
  const int64_t row = int64_t{blockIdx.x} * kCombineWarps + warp_index();
  const int split = static_cast<int>(lane_index()), first = split * (kHeadDim / kWarpSize);
  wait_for_earlier_grids();  // the splits: all that is above overlaps with their end
  if (row >= problem.rows) return;

  const auto output_of = [&](int other) {
    return *reinterpret_cast<const float4*>(problem.partial.outputs + (row * problem.splits + other) * kHeadDim +
                                            first);
  };
  float4 output = {};
  float logsumexp = -INFINITY;  // to the base 2

  const float own = split < problem.splits ? problem.partial.logsumexps[row * problem.splits + split] : -INFINITY;
  const float largest = warp_maximum(own);
  if (largest != -INFINITY) {  // else no split has a key, and infinity minus infinity has no value
    const float weight = exp2_by_unit(own - largest);
    logsumexp = largest + __log2f(warp_sum(weight));
    const float share = exp2_by_unit(own - logsumexp);
#pragma unroll 4
    for (int other = 0; other < problem.splits; ++other) {
      const float of_other = __shfl_sync(0xffffffff, share, other);
      const float4 part = of_other == 0 ? float4{} : output_of(other);  // a split without keys has written none
      output.x += of_other * part.x;
      output.y += of_other * part.y;
      output.z += of_other * part.z;
      output.w += of_other * part.w;
    }
  }

  const __nv_bfloat162 rounded[2] = {__floats2bfloat162_rn(output.x, output.y),
                                     __floats2bfloat162_rn(output.z, output.w)};
  *reinterpret_cast<uint2*>(problem.results.outputs + row * kHeadDim + first) =
      *reinterpret_cast<const uint2*>(rounded);
  if (split == 0 && problem.results.logsumexps != nullptr) {
    problem.results.logsumexps[row] = logsumexp * kNaturalOfBinary;
  }
}
//! [combine]

}  // namespace stagecraft
