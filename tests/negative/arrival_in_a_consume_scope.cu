// The scope of consume() arrives when it ends.
// expect: to arrive yourself, use consume_explicit\(\)
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void sum_one(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
#ifdef FIXED
  auto stage = ring.consume_explicit();
#else
  auto stage = ring.consume();
#endif
  *out = tile[stage.index()];
  stage.arrive();  // here
}
