// A named handle is released without giving it up.
// expect: release\(\) ends an InputProducerStage, so that it takes the handle away
// expect: write std::move\(tiles\).release\(\)
#include "stagecraft/input_tile_pipeline.hpp"

using namespace stagecraft;
using Payload = StandardTilePayload<Tile<__nv_bfloat16, 64, 64>, Tile<__nv_bfloat16, 64, 64>, 2>;
using Pipeline = InputTilePipeline<Payload, 2>;

__global__ void copy() {
  __shared__ Payload::Storage storage;
  __shared__ Pipeline::BarrierArray barriers;
  Pipeline pipeline{barriers, Payload{storage}};
  auto tiles = pipeline.acquire_producer();
  tiles.expect_bytes();
#ifdef FIXED
  std::move(tiles).release();
#else
  tiles.release();  // here
#endif
}
