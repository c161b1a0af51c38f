// Three warpgroups: one releases registers, the other two take them.
#include "gallery.hpp"
#include "stagecraft/wgmma.hpp"

using namespace stagecraft;

constexpr int kThreads = 3 * kWarpgroupSize;

__global__ void __launch_bounds__(kThreads, 1) share_registers(const float* in, float* out) {
  if (threadIdx.x < kWarpgroupSize) {
    ptx::release_registers<40>();
    out[threadIdx.x] = 2 * in[threadIdx.x];
  } else {
    ptx::take_registers<232>();
    out[threadIdx.x] = 3 * in[threadIdx.x];
  }
}

bool run() {
  const auto in = gallery::Array<float>::random(kThreads);
  auto out = gallery::Array<float>::poisoned(kThreads);
  share_registers<<<1, kThreads>>>(in.device(), out.device());
  out.fetch();
  for (size_t i = 0; i < kThreads; ++i) {
    if (out[i] != (i < kWarpgroupSize ? 2 : 3) * in[i]) return false;
  }
  return true;
}
