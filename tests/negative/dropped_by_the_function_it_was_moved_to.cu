// The handle is given away properly, and lost there.
// expect: this ProducerStage \(acquired at \S+:\d+\) is dropped without release\(\) on some path
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__device__ void fill(ProducerStage<2> stage, float* tile, float value) {
  tile[stage.index()] = value;
  arrive(stage.mbar());
#ifdef FIXED
  std::move(stage).release();
#endif
}

__global__ void fill_all(float* tile, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.acquire_producer();
    fill(std::move(stage), tile, static_cast<float>(row));  // here
  }
}
