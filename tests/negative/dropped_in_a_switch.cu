// One case of three forgets the release.
// expect: this ConsumerStage \(acquired at \S+:\d+\) is dropped without release\(\) on some path
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

__global__ void interpret(const int* commands, int* out, uint64_t* barriers, int count) {
  ProducerConsumerPipeline<2> ring{barriers};
  for (int i = 0; i < count; ++i) {
    auto stage = ring.acquire_consumer();
    switch (commands[stage.index()]) {
      case 0: std::move(stage).release(); break;
      case 1: out[0] += 1;
#ifdef FIXED
        std::move(stage).release();
#endif
        break;
      default: std::move(stage).release(); out[0] = 0;
    }
  }  // here
}
