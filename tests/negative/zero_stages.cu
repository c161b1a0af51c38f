// A ring of no stages.
// expect: ProducerConsumerPipeline: NumStages must be at least 1
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

#ifdef FIXED
constexpr int kStages = 1;
#else
constexpr int kStages = 0;
#endif

__global__ void fill_one(uint64_t* barriers) {
  ProducerConsumerPipeline<kStages> ring{barriers};  // here
  ring.producer_step();
}
