// The handle is not even kept.
// expect: a ProducerStage must be kept and released
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void fill_one(uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
#ifdef FIXED
  ring.acquire_producer().release();
#else
  ring.acquire_producer();  // here
#endif
}
