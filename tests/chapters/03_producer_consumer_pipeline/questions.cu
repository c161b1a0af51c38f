// Given: asks the learner's ring after each move of one thread, which plays both roles.
#include <producer_consumer_pipeline.hpp>

#include "launches.hpp"

using namespace stagecraft;

/// One thread. filled[i], free[i]: what the two questions are answered before the first move, and after each.
__global__ void ask_after_each_move(int* filled, int* free) {
  __shared__ uint64_t barriers[4];
  ProducerConsumerPipeline<2> ring{barriers};
  ring.init_mbars(/*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
  fence_barrier_init();

  for (int question = 0;; ++question) {
    filled[question] = ring.try_wait_producer();
    free[question] = ring.try_wait_consumer();
    if (question == kQuestions - 1) break;
    if (question < 2) {
      arrive(ring.producer_mbar(ring.producer_stage()));
      ring.producer_step();
    } else {
      arrive(ring.consumer_mbar(ring.consumer_stage()));
      ring.consumer_step();
    }
  }
}

void launch_ask_after_each_move(int* filled, int* free) { ask_after_each_move<<<1, 1>>>(filled, free); }
