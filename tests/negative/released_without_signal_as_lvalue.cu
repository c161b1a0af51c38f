// Both exits of a consumer consume the handle.
// expect: write std::move\(stage\)\.release_without_signal\(\)
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void sum_one(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
  *out = tile[stage.index()];
  stage.arrive();
#ifdef FIXED
  std::move(stage).release_without_signal();
#else
  stage.release_without_signal();  // here
#endif
}
