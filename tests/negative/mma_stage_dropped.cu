// The MMA thread leaves the loop without handing its accumulator to the epilogue.
// expect: this MmaStage \(acquired at \S+:\d+\) is dropped without release\(\) on some path
#include "stagecraft/output_tile_pipeline.hpp"

using namespace stagecraft;
using Output = OutputTilePipeline<TmemTensor<128, 64>, 2>;

__global__ void multiply(const int* empty, int tiles) {
  __shared__ Output::BarrierArray barriers;
  Output output{barriers, 0};
  for (int tile = 0; tile < tiles; ++tile) {
    auto stage = output.acquire_mma();
    if (empty[tile] != 0) {
#ifdef FIXED
      std::move(stage).release_without_signal();
#endif
      break;  // here
    }
    std::move(stage).release();
  }
}
