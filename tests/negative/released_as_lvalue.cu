// release() takes the handle away, so that it must be given.
// expect: release\(\) ends a ConsumerStage, so that it takes the handle away: write std::move\(stage\)\.release\(\)
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void sum_one(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
  *out = tile[stage.index()];
#ifdef MENDED
  std::move(stage).release();
#else
  stage.release();  // here
#endif
}
