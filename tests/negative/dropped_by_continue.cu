// A loop goes on to its next row with the stage in hand.
// expect: this ProducerStage \(acquired at \S+:\d+\) is dropped without release\(\) on some path
// expect: Write std::move\(stage\)\.release\(\) on this path too
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void skip_empty_rows(float* tile, uint64_t* barriers, const int* lengths, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.acquire_producer();
    if (lengths[row] == 0) {
#ifdef FIXED
      arrive(stage.mbar());
      std::move(stage).release();
#endif
      continue;  // here
    }
    tile[stage.index()] = static_cast<float>(row);
    arrive(stage.mbar());
    std::move(stage).release();
  }
}
