// release() consumes the handle, so that the handle must be moved into it.
// expect: release\(\) ends a ConsumerStage, so that it takes the handle away: write std::move\(stage\)\.release\(\)
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void sum_one(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
  *out = tile[stage.index()];
#ifdef FIXED
  std::move(stage).release();
#else
  stage.release();  // here
#endif
}
