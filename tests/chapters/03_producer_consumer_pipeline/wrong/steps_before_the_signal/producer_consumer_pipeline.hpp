// Chapter 03, a wrong answer: see expect.
#pragma once

#include <cstdint>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/pipeline_state.hpp"

namespace stagecraft {

/// The barriers of a ring of `NumStages` stages, and the caller's own position in it.
///
/// Every thread of the block constructs one over the same barriers; the barriers are shared, the positions are the
/// thread's.
template <int NumStages>
class ProducerConsumerPipeline {
  static_assert(NumStages >= 1, "ProducerConsumerPipeline: NumStages must be at least 1");

 public:
  /// @param barriers  2 * NumStages barriers in shared memory: full[0], full[1], ..., then empty[0], empty[1], ...
  __device__ explicit ProducerConsumerPipeline(MbarPtr barriers) : full_(barriers), empty_(barriers + NumStages) {}

  /// Initialises all barriers: how many arrivals fill a stage, and how many free it. One thread of the block.
  __device__ void init_mbars(int32_t producer_arrive_count, int32_t consumer_arrive_count) const {
    for (int stage = 0; stage < NumStages; ++stage) {
      init_barrier(full_ + stage, producer_arrive_count);
      init_barrier(empty_ + stage, consumer_arrive_count);
    }
  }

  /// The consumer waits until the producer has filled the consumer's current stage. Does not advance.
  __device__ void wait_producer() const { wait(full_ + consumer_.index(), consumer_.phase()); }

  /// The producer waits until the consumers have freed the producer's current stage. Does not advance.
  __device__ void wait_consumer() const { wait(empty_ + producer_.index(), producer_.phase()); }

  /// Whether the consumer's current stage is filled. Never blocks.
  __device__ bool try_wait_producer() const { return test_wait(full_ + consumer_.index(), consumer_.phase()); }

  /// Whether the producer's current stage is free. Never blocks.
  __device__ bool try_wait_consumer() const { return test_wait(empty_ + producer_.index(), producer_.phase()); }

  /// Waits for the producer, unless `try_wait_producer()` at this same stage has already answered true.
  __device__ void wait_producer_if_needed(bool already_ready) const {
    if (!already_ready) wait_producer();
  }

  /// Waits for the consumer, unless `try_wait_consumer()` at this same stage has already answered true.
  __device__ void wait_consumer_if_needed(bool already_ready) const {
    if (!already_ready) wait_consumer();
  }

  /// Waits until the current stage is free, arrives on its full barrier, steps: a producer that only counts.
  __device__ void producer_signal_and_step() {
    wait_consumer();
    arrive(full_ + producer_.index());
    producer_.step();
  }

  /// Waits until the current stage is filled, arrives on its empty barrier, steps: a consumer that only counts.
  __device__ void consumer_signal_and_step() {
    wait_producer();
    consumer_.step();
    arrive(empty_ + consumer_.index());
  }

  __device__ MbarPtr producer_mbar(uint32_t stage) const { return full_ + stage; }
  __device__ MbarPtr consumer_mbar(uint32_t stage) const { return empty_ + stage; }
  __device__ uint32_t producer_stage() const { return producer_.index(); }
  __device__ uint32_t consumer_stage() const { return consumer_.index(); }
  __device__ void producer_step() { producer_.step(); }
  __device__ void consumer_step() { consumer_.step(); }

 private:
  MbarPtr full_;
  MbarPtr empty_;
  PipelineState<NumStages> producer_{0, 1};
  PipelineState<NumStages> consumer_{0, 0};
};

}  // namespace stagecraft
