// The copying thread skips a group, and forgets the stage that it had acquired for it.
// expect: this InputProducerStage \(acquired at \S+:\d+\) is dropped without release\(\) on some path
#include "stagecraft/input_tile_pipeline.hpp"

using namespace stagecraft;
using Payload = StandardTilePayload<Tile<__nv_bfloat16, 64, 64>, Tile<__nv_bfloat16, 64, 64>, 2>;
using Pipeline = InputTilePipeline<Payload, 2>;

__global__ void copy(const int* skip, int groups) {
  __shared__ Payload::Storage storage;
  __shared__ Pipeline::BarrierArray barriers;
  Pipeline pipeline{barriers, Payload{storage}};
  auto producer = pipeline.producer();
  for (int group = 0; group < groups; ++group) {
    auto tiles = producer.acquire_stage();
    if (skip[group] != 0) {
#ifdef FIXED
      std::move(tiles).release();
#endif
      continue;  // here
    }
    tiles.expect_bytes();
    std::move(tiles).release();
  }
}
