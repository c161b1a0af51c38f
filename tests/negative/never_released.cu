// The release is missing altogether.
// expect: this ProducerStage \(acquired at \S+:\d+\) is dropped without release\(\) on some path
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void fill_one(float* tile, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_producer();
  tile[stage.index()] = 1;
  arrive(stage.mbar());  // here
#ifdef FIXED
  std::move(stage).release();
#endif
}
