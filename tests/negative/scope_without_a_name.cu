// A scope that has no name ends at the semicolon.
// expect: the stage is consumed until the scope ends, so that the scope needs a name
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void sum_one(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
#ifdef FIXED
  auto stage = ring.consume();
#else
  ring.consume();  // here
#endif
  *out = tile[ring.consumer_stage()];
}
