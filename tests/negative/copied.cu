// One stage cannot have two handles.
// expect: deleted function|cannot be referenced
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void fill_one(float* tile, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_producer();
#ifdef FIXED
  auto other = std::move(stage);
#else
  auto other = stage;  // here
#endif
  tile[other.index()] = 1;
  arrive(other.mbar());
  std::move(other).release();
}
