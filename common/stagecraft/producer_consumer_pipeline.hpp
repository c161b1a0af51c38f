// A ring of stages between two roles: the producer fills a stage and completes a phase of its full barrier, the
// consumer uses it up and completes a phase of its empty barrier. Chapter 02 builds the ring by hand; chapter 03 builds
// this type.
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

#include "stagecraft/cluster.hpp"
#include "stagecraft/consume_context.hpp"
#include "stagecraft/consumer_stage.hpp"
#include "stagecraft/explicit_consume_context.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/pipeline_state.hpp"
#include "stagecraft/produce_context.hpp"
#include "stagecraft/producer_stage.hpp"

namespace stagecraft {

/// The barriers of a ring of `NumStages` stages, and the caller's own position in it.
///
/// Every thread of the block constructs one over the same barriers; the barriers are shared, the positions are the
/// thread's. A producer uses only the producer half of the methods (and waits for the consumer), a consumer the other.
/// The type knows nothing about what a stage holds. A method waits or orders memory only where its comment says so.
/// Source: chapters/03_producer_consumer_pipeline.
template <int NumStages>
class ProducerConsumerPipeline {
  static_assert(
      NumStages >= 1,
      "ProducerConsumerPipeline: NumStages must be at least 1; with 2 or more, copying and computing overlap");

 public:
  /// How many stages the ring has.
  static constexpr int num_stages = NumStages;

  /// @param barriers  2 * NumStages barriers in shared memory: full[0], full[1], ..., then empty[0], empty[1], ...
  __device__ explicit ProducerConsumerPipeline(MbarPtr barriers) : full_(barriers), empty_(barriers + NumStages) {}

  /// Bytes of shared memory for the barriers.
  __host__ __device__ static constexpr uint32_t smem_bytes() { return 2 * NumStages * sizeof(uint64_t); }

  /// Initialises all barriers of the ring.
  ///
  /// Called by one thread of the block, once, followed by `fence_barrier_init()` and a block-wide barrier.
  /// @param producer_arrive_count  arrivals that fill a stage; announcing bytes counts as one.
  /// @param consumer_arrive_count  arrivals that free it; a `tcgen05.commit` counts as one.
  /// Source: PTX ISA, "mbarrier.init".
  __device__ void init_mbars(int32_t producer_arrive_count, int32_t consumer_arrive_count) const {
    for (int stage = 0; stage < NumStages; ++stage) {
      init_barrier(full_ + stage, producer_arrive_count);
      init_barrier(empty_ + stage, consumer_arrive_count);
    }
  }

  // ---- Waiting ------------------------------------------------------------------------------------------------------
  // All waits take a scope: Scope::cluster, where threads of other blocks arrive on the barrier.

  /// The consumer waits until the producer has filled the consumer's current stage.
  ///
  /// Called by every thread that will read the stage: it sees what the producer wrote before arriving, and what the
  /// copies brought. Does not advance.
  /// @param hint  longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// Source: PTX ISA, "mbarrier.test_wait/mbarrier.try_wait" (parity).
  template <Scope WaitScope = Scope::block>
  __device__ void wait_producer(uint32_t hint = 0) const {
    wait<WaitScope>(producer_mbar(consumer_.index()), consumer_.phase(), hint);
  }

  /// The producer waits until the consumers have freed the producer's current stage.
  ///
  /// Called by every thread that will write the stage, or have it written: the consumers' reads before their arrivals
  /// are ordered before those writes. Does not advance. The first `NumStages` calls return at once, because the
  /// producer starts on phase 1 and a fresh barrier counts its phase 1 as complete.
  /// @param hint  longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// Source: PTX ISA, "mbarrier.test_wait/mbarrier.try_wait" (parity).
  template <Scope WaitScope = Scope::block>
  __device__ void wait_consumer(uint32_t hint = 0) const {
    wait<WaitScope>(consumer_mbar(producer_.index()), producer_.phase(), hint);
  }

  /// Whether the consumer's current stage is filled. Never blocks: ask, do other work, then pass the answer to
  /// `wait_producer_if_needed`.
  ///
  /// Called by every thread that will read the stage; with true, the thread sees what the producer wrote.
  /// Source: PTX ISA, "mbarrier.test_wait/mbarrier.try_wait" (test_wait, which is non-blocking; parity).
  template <Scope WaitScope = Scope::block>
  __device__ bool try_wait_producer() const {
    return test_wait<WaitScope>(producer_mbar(consumer_.index()), consumer_.phase());
  }

  /// Whether the producer's current stage is free. Never blocks: ask, do other work, then pass the answer to
  /// `wait_consumer_if_needed`.
  ///
  /// Called by every thread that will write the stage; with true, the consumers' reads of it are over.
  /// Source: PTX ISA, "mbarrier.test_wait/mbarrier.try_wait" (test_wait, which is non-blocking; parity).
  template <Scope WaitScope = Scope::block>
  __device__ bool try_wait_consumer() const {
    return test_wait<WaitScope>(consumer_mbar(producer_.index()), producer_.phase());
  }

  /// `wait_producer()`, unless `try_wait_producer()` at this same stage has already answered true.
  ///
  /// Called by the threads that asked. Either way they then see what the producer wrote.
  /// @param already_ready  the answer.
  /// @param hint           as for `wait_producer()`.
  template <Scope WaitScope = Scope::block>
  __device__ void wait_producer_if_needed(bool already_ready, uint32_t hint = 0) const {
    if (!already_ready) wait_producer<WaitScope>(hint);
  }

  /// `wait_consumer()`, unless `try_wait_consumer()` at this same stage has already answered true.
  ///
  /// Called by the threads that asked. Either way the consumers' reads are then over.
  /// @param already_ready  the answer.
  /// @param hint           as for `wait_consumer()`.
  template <Scope WaitScope = Scope::block>
  __device__ void wait_consumer_if_needed(bool already_ready, uint32_t hint = 0) const {
    if (!already_ready) wait_consumer<WaitScope>(hint);
  }

  // ---- Barriers and positions ---------------------------------------------------------------------------------------

  /// The full barrier of a stage: the producer, or TMA on its behalf, arrives here. Called by any thread.
  __device__ MbarPtr producer_mbar(uint32_t stage) const { return full_ + stage; }

  /// The empty barrier of a stage: the consumers, or the tensor core on their behalf, arrive here. Called by any
  /// thread.
  __device__ MbarPtr consumer_mbar(uint32_t stage) const { return empty_ + stage; }

  /// The stage that the producer fills next, 0 to NumStages - 1. Called by producing threads: only they move it.
  __device__ uint32_t producer_stage() const { return producer_.index(); }

  /// The stage that the consumer uses next, 0 to NumStages - 1. Called by consuming threads: only they move it.
  __device__ uint32_t consumer_stage() const { return consumer_.index(); }

  /// The producer's position, as a copy that can be stepped ahead. Called by producing threads.
  __device__ PipelineState<NumStages> producer_state() const { return producer_; }

  /// The consumer's position, as a copy that can be stepped ahead. Called by consuming threads.
  __device__ PipelineState<NumStages> consumer_state() const { return consumer_; }

  /// The producer goes on to its next stage. Called by every producing thread, after the stage was signalled.
  __device__ void producer_step() { producer_.step(); }

  /// The consumer goes on to its next stage. Called by every consuming thread, after the stage was freed.
  __device__ void consumer_step() { consumer_.step(); }

  // ---- Handles that must be released --------------------------------------------------------------------------------

  /// Waits until the producer's current stage is free, and returns it as a handle whose `release()` cannot be
  /// forgotten.
  ///
  /// Called by every producing thread; one handle at a time, because the position moves with its release. Orders as
  /// `wait_consumer()` does.
  /// @param hint         longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  template <Scope WaitScope = Scope::block>
  [[nodiscard(
      "a ProducerStage must be kept and released: auto stage = ring.acquire_producer(); ... "
      "std::move(stage).release();")]] __device__ __forceinline__ ProducerStage<NumStages>
  acquire_producer(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    wait_consumer<WaitScope>(hint);
    return {*this, producer_stage(), producer_mbar(producer_stage()), acquired_at};
  }

  /// Waits until the consumer's current stage is filled, and returns it as a handle whose exit cannot be forgotten.
  ///
  /// Called by every consuming thread; one handle at a time, because the position moves with its release. Orders as
  /// `wait_producer()` does. Parameters as for `acquire_producer`.
  template <Scope WaitScope = Scope::block>
  [[nodiscard(
      "a ConsumerStage must be kept and released: auto stage = ring.acquire_consumer(); ... "
      "std::move(stage).release();")]] __device__ __forceinline__ ConsumerStage<NumStages>
  acquire_consumer(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    wait_producer<WaitScope>(hint);
    return {*this, consumer_stage(), consumer_mbar(consumer_stage()), acquired_at};
  }

  // ---- Scopes -------------------------------------------------------------------------------------------------------

  /// Waits until the producer's current stage is free; the scope that it returns steps when it ends.
  ///
  /// Called by every producing thread: `auto stage = ring.produce();`. Orders as `wait_consumer()` does. Parameters as
  /// for `acquire_producer`.
  template <Scope WaitScope = Scope::block>
  __device__ __forceinline__ ProduceContext<NumStages> produce(uint32_t hint = 0,
                                                               SourceLine acquired_at = SourceLine::here()) {
    return ProduceContext<NumStages>(acquire_producer<WaitScope>(hint, acquired_at));
  }

  /// Waits until the consumer's current stage is filled; the scope that it returns arrives and steps when it ends.
  ///
  /// Called by every consuming thread: `auto stage = ring.consume();`. Orders as `wait_producer()` does, and at its end
  /// as an arrival does. Parameters as for `acquire_producer`.
  template <Scope WaitScope = Scope::block>
  __device__ __forceinline__ ConsumeContext<NumStages> consume(uint32_t hint = 0,
                                                               SourceLine acquired_at = SourceLine::here()) {
    return ConsumeContext<NumStages>(acquire_consumer<WaitScope>(hint, acquired_at));
  }

  /// Waits until the consumer's current stage is filled; the scope that it returns only steps when it ends: the
  /// arrivals are made inside it.
  ///
  /// Called by every consuming thread: `auto stage = ring.consume_explicit();`. Orders as `wait_producer()` does.
  /// Parameters as for `acquire_producer`.
  template <Scope WaitScope = Scope::block>
  __device__ __forceinline__ ExplicitConsumeContext<NumStages> consume_explicit(
      uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    return ExplicitConsumeContext<NumStages>(acquire_consumer<WaitScope>(hint, acquired_at));
  }

  /// `produce()` around a call: `ring.produce([&](auto& stage) { ... });`. Returns what `body` returns.
  template <std::invocable<ProduceContext<NumStages>&> Body>
  __device__ __forceinline__ decltype(auto) produce(Body&& body) {
    auto stage = produce();
    return std::forward<Body>(body)(stage);
  }

  /// `consume()` around a call: `ring.consume([&](auto& stage) { ... });`. Returns what `body` returns.
  template <std::invocable<ConsumeContext<NumStages>&> Body>
  __device__ __forceinline__ decltype(auto) consume(Body&& body) {
    auto stage = consume();
    return std::forward<Body>(body)(stage);
  }

  /// `consume_explicit()` around a call: `ring.consume_explicit([&](auto& stage) { ... stage.arrive(); });`. Returns
  /// what `body` returns.
  template <std::invocable<ExplicitConsumeContext<NumStages>&> Body>
  __device__ __forceinline__ decltype(auto) consume_explicit(Body&& body) {
    auto stage = consume_explicit();
    return std::forward<Body>(body)(stage);
  }

  // ---- Both at once -------------------------------------------------------------------------------------------------

  /// Waits until the current stage is free, arrives on its full barrier, steps: a producer that only counts.
  ///
  /// Called by each thread that the producer arrive count includes. It throttles one role by another's progress; the
  /// stages hold no data. What the thread did before is visible to the consumer after its wait.
  /// Source: PTX ISA, "mbarrier.try_wait" (acquire), "mbarrier.arrive" (release).
  __device__ void producer_signal_and_step() {
    wait_consumer();
    arrive(producer_mbar(producer_stage()));
    producer_step();
  }

  /// Waits until the current stage is filled, arrives on its empty barrier, steps: a consumer that only counts.
  ///
  /// Called by each thread that the consumer arrive count includes. What the thread did before is visible to the
  /// producer after its wait. Source: as for `producer_signal_and_step()`.
  __device__ void consumer_signal_and_step() {
    wait_producer();
    arrive(consumer_mbar(consumer_stage()));
    consumer_step();
  }

 private:
  MbarPtr full_;
  MbarPtr empty_;
  PipelineState<NumStages> producer_{/*index=*/0, /*phase=*/1};
  PipelineState<NumStages> consumer_{/*index=*/0, /*phase=*/0};
};

}  // namespace stagecraft
