// A scope without a name ends at once, and the copies go to a stage that no thread holds.
// expect: the tiles are filled until the scope ends, so that the scope needs a name
#include "stagecraft/input_tile_pipeline.hpp"

using namespace stagecraft;
using Payload = StandardTilePayload<Tile<__nv_bfloat16, 64, 64>, Tile<__nv_bfloat16, 64, 64>, 2>;
using Pipeline = InputTilePipeline<Payload, 2>;

__global__ void copy() {
  __shared__ Payload::Storage storage;
  __shared__ Pipeline::BarrierArray barriers;
  Pipeline pipeline{barriers, Payload{storage}};
  auto producer = pipeline.producer();
#ifdef FIXED
  auto tiles = producer.acquire();
#else
  producer.acquire();  // here
#endif
}
