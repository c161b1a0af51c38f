// The consumer returns early, with a stage in its hands.
// expect: this InputConsumerStage \(acquired at \S+:\d+\) is dropped without release\(\) on some path
#include "stagecraft/input_tile_pipeline.hpp"

using namespace stagecraft;
using Payload = StandardTilePayload<Tile<__nv_bfloat16, 64, 64>, Tile<__nv_bfloat16, 64, 64>, 2>;
using Pipeline = InputTilePipeline<Payload, 2>;

__global__ void read(int* out, int groups) {
  __shared__ Payload::Storage storage;
  __shared__ Pipeline::BarrierArray barriers;
  Pipeline pipeline{barriers, Payload{storage}};
  for (int group = 0; group < groups; ++group) {
    auto tiles = pipeline.acquire_consumer();
    if (out[group] < 0) {
#ifdef FIXED
      std::move(tiles).release();
#endif
      return;  // here
    }
    arrive(tiles.mbar());
    std::move(tiles).release();
  }
}
