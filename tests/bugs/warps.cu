// Three warps: one loads rows by cp.async, two reverse them in shared memory and hand them over at named barriers.
#include "gallery.hpp"
#include "operations.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using namespace gallery;

constexpr int kRows = 4, kRow = 2 * kWarpSize;

__global__ void reverse_rows(const float* in, float* out) {
  __shared__ alignas(16) float loaded[kRow], reversed[kRow];
  for (int row = 0; row < kRows; ++row) {
    if (warp_index() == 0) {
      copy_8_bytes(&loaded[2 * lane_index()], in + row * kRow + 2 * lane_index());
      wait_for_copies();
      arrive_named(1, 3 * kWarpSize);
      sync_named(2, 3 * kWarpSize);
    } else {
      const uint32_t reader = threadIdx.x - kWarpSize;
      sync_named(1, 3 * kWarpSize);
      reversed[kRow - 1 - reader] = loaded[reader];
      sync_named(3, 2 * kWarpSize);
      out[row * kRow + reader] = reversed[reader];
      sync_named(2, 3 * kWarpSize);
    }
  }
}

bool run() {
  const auto in = gallery::Array<float>::random(kRows * kRow);
  auto out = gallery::Array<float>::poisoned(kRows * kRow);
  reverse_rows<<<1, 3 * kWarpSize>>>(in.device(), out.device());
  out.fetch();
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != in[i / kRow * kRow + kRow - 1 - i % kRow]) return false;
  }
  return true;
}
