// One warp writes a block of values for another, through one buffer that is handed over by mbarriers.
#include "gallery.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

constexpr int kBlocks = 4;

__global__ void hand_over(const float* in, float* out) {
  __shared__ float buffer[kWarpSize];
  __shared__ uint64_t written, taken;
  if (threadIdx.x == 0) {
    init_barrier(&written, /*arrive_count=*/1);
    init_barrier(&taken, /*arrive_count=*/1);
  }
  __syncthreads();

  const uint32_t lane = lane_index();
  for (int block = 0; block < kBlocks; ++block) {
    if (warp_index() == 0) {
      wait(&taken, (block + 1) % 2);
      buffer[lane] = in[block * kWarpSize + lane];
      __syncwarp();
      if (lane == 0) arrive(&written);
    } else {
      wait(&written, block % 2);
      const float value = buffer[kWarpSize - 1 - lane];
      __syncwarp();
      if (lane == 0) arrive(&taken);
      out[block * kWarpSize + lane] = value;
    }
  }
}

bool run() {
  const auto in = gallery::Array<float>::random(kBlocks * kWarpSize);
  auto out = gallery::Array<float>::poisoned(kBlocks * kWarpSize);
  hand_over<<<1, 2 * kWarpSize>>>(in.device(), out.device());
  out.fetch();
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != in[i / kWarpSize * kWarpSize + kWarpSize - 1 - i % kWarpSize]) return false;
  }
  return true;
}
