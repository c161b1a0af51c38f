// The handle of the next stage replaces one that was not released.
// expect: this ConsumerStage \(acquired at \S+:\d+\) is dropped without release\(\) on some path
// expect: or is overwritten
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void sum_two(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
  float sum = tile[stage.index()];
#ifdef FIXED
  std::move(stage).release();
#endif
  stage = ring.acquire_consumer();  // here
  sum += tile[stage.index()];
  std::move(stage).release();
  *out = sum;
}
