// The barrier is signalled through a handle that was given away before.
// expect: this ProducerStage \(acquired at \S+:\d+\) is used after release\(\), or after it was moved from
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__device__ void finish(ProducerStage<2> stage) { std::move(stage).release(); }

__global__ void fill_one(float* tile, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_producer();
  tile[stage.index()] = 1;
#ifdef FIXED
  arrive(stage.mbar());
  finish(std::move(stage));
#else
  finish(std::move(stage));
  arrive(stage.mbar());  // here
#endif
}
