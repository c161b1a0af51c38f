// The stage is released on one path inside the loop, and again after it.
// expect: this ConsumerStage \(acquired at \S+:\d+\) is used after release\(\), or after it was moved from
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void sum_one(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
  *out = tile[stage.index()];
#ifdef FIXED
  if (*out >= 0) {
#else
  if (*out < 0) {
    std::move(stage).release();
  }
  if (*out < 9) {
#endif
    std::move(stage).release();  // here
  } else {
    std::move(stage).release_without_signal();
  }
}
