// The epilogue never frees the accumulators that it has loaded.
// expect: this EpilogueStage \(acquired at \S+:\d+\) is dropped without release\(\) on some path
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using Output = OutputTilePipeline<TmemTensor<128, 64>, 2>;

__global__ void store(float* out, int tiles) {
  __shared__ Output::BarrierArray barriers;
  Output output{barriers, 0};
  for (int tile = 0; tile < tiles; ++tile) {
    auto stage = output.acquire_epilogue();
    float values[32];
    stage.accumulator().load(values, warp_index(), 0);
    for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = values[i];
#ifdef FIXED
    std::move(stage).release();
#endif
  }  // here
}
