// Given: asks the learner's ring after each move of one thread, which plays both roles; and whether a consumer that
// only counts waits for its producer.
#include <producer_consumer_pipeline.hpp>

#include "launches.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

/// One thread, which moves by arrivals and steps, or by signal-and-step. filled[i], free[i]: what the two questions are
/// answered before the first move, and after each.
template <bool BySignals>
__global__ void ask_after_each_move(int* filled, int* free) {
  __shared__ uint64_t barriers[4];
  ProducerConsumerPipeline<2> ring{barriers};
  ring.init_mbars(/*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
  fence_barrier_init();

  for (int question = 0;; ++question) {
    filled[question] = ring.try_wait_producer();
    free[question] = ring.try_wait_consumer();
    if (question == kQuestions - 1) break;
    if (BySignals && question < 2) {
      ring.producer_signal_and_step();
    } else if (BySignals) {
      ring.consumer_signal_and_step();
    } else if (question < 2) {
      arrive(ring.producer_mbar(ring.producer_stage()));
      ring.producer_step();
    } else {
      arrive(ring.consumer_mbar(ring.consumer_stage()));
      ring.consumer_step();
    }
  }
}

void launch_ask_after_each_move(int* filled, int* free) { ask_after_each_move<false><<<1, 1>>>(filled, free); }
void launch_ask_after_each_signal(int* filled, int* free) { ask_after_each_move<true><<<1, 1>>>(filled, free); }

/// A lane of one warp signals late, and a lane of another counts it: *seen is 1 if the latter has waited for that.
__global__ void count_a_late_signal(int* seen) {
  __shared__ uint64_t barriers[4];
  __shared__ int is_signalled;
  ProducerConsumerPipeline<2> ring{barriers};
  if (threadIdx.x == 0) {
    is_signalled = 0;
    ring.init_mbars(/*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __nanosleep(kSlowStepNanoseconds);
    atomicExch(&is_signalled, 1);
    ring.producer_signal_and_step();
  } else if (threadIdx.x == kWarpSize) {
    ring.consumer_signal_and_step();
    *seen = atomicAdd(&is_signalled, 0);
  }
}

void launch_count_a_late_signal(int* seen) { count_a_late_signal<<<1, 2 * kWarpSize>>>(seen); }
