// The index is asked for when the stage belongs to the other role again.
// expect: this ConsumerStage \(acquired at \S+:\d+\) is used after release\(\)
// expect: The stage belongs to the other role by then
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void sum_one(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
#ifdef FIXED
  *out = tile[stage.index()];
  std::move(stage).release();
#else
  std::move(stage).release();
  *out = tile[stage.index()];  // here
#endif
}
