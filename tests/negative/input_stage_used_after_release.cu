// The consumer asks for the barrier of the stage that it has released.
// expect: this InputConsumerStage \(acquired at \S+:\d+\) is used after release\(\)
#include "stagecraft/input_tile_pipeline.hpp"

using namespace stagecraft;
using Payload = StandardTilePayload<Tile<__nv_bfloat16, 64, 64>, Tile<__nv_bfloat16, 64, 64>, 2>;
using Pipeline = InputTilePipeline<Payload, 2>;

__global__ void read(int groups) {
  __shared__ Payload::Storage storage;
  __shared__ Pipeline::BarrierArray barriers;
  Pipeline pipeline{barriers, Payload{storage}};
  for (int group = 0; group < groups; ++group) {
    auto tiles = pipeline.acquire_consumer();
#ifdef FIXED
    arrive(tiles.mbar());
    std::move(tiles).release();
#else
    std::move(tiles).release();
    arrive(tiles.mbar());  // here
#endif
  }
}
