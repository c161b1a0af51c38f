// The kernel ends at the first negative value, with the stage in hand.
// expect: this ConsumerStage \(acquired at \S+:\d+\) is dropped without release\(\) on some path
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void sum_until_negative(const float* tile, float* out, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  float sum = 0;
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.acquire_consumer();
    const float value = tile[stage.index()];
    if (value < 0) {
#ifdef FIXED
      std::move(stage).release_without_signal();
#endif
      return;  // here
    }
    sum += value;
    std::move(stage).release();
  }
  *out = sum;
}
