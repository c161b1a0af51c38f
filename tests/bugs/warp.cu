// One warp adds up a row: each lane its part in shared memory, then all of them by shuffles.
#include <cassert>

#include "gallery.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

constexpr int kRow = 128;

__device__ volatile int go_on = 0;
__device__ float scale(float value) { return 2 * value; }

__global__ void sum_row(const float* in, float* out, float (*function)(float)) {
  __shared__ float parts[kWarpSize];
  float sum = 0;
  for (int i = threadIdx.x; i < kRow; i += kWarpSize) sum += in[i];
  parts[threadIdx.x] = 2 * sum;
  __syncwarp();
  float total = parts[kWarpSize - 1 - threadIdx.x];
  for (int step = kWarpSize / 2; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffff, total, step);
  if (function != nullptr) total = function(total);
  out[threadIdx.x] = total;
}

bool run() {
  const auto in = gallery::Array<float>::random(kRow);
  auto out = gallery::Array<float>::poisoned(kWarpSize);
  sum_row<<<1, kWarpSize>>>(in.device(), out.device(), nullptr);
  out.fetch();
  float sum = 0;
  for (int i = 0; i < kRow; ++i) sum += in[i];
  return out[0] == 2 * sum && out[kWarpSize - 1] == 2 * sum;
}
