// The ring that carries tiles from the copy engine to the tensor core: a ProducerConsumerPipeline, what its
// stages hold, and a view of it for each of the two warps. Chapter 09 builds it.
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

#include "stagecraft/input_stages.hpp"
#include "stagecraft/input_tiles.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/tile_payload.hpp"

namespace stagecraft {

template <TilePayload Payload, int NumGroupStages, int KGroupSize>
class InputProducer;
template <TilePayload Payload, int NumGroupStages, int KGroupSize>
class InputConsumer;

/// Tiles in a ring of `NumGroupStages` stages of `KGroupSize` k-tiles each.
///
/// A stage has one full and one empty barrier for all its tiles together: with a larger group, the same shared memory
/// has fewer barriers to wait for. Group stage s holds tiles s * KGroupSize to s * KGroupSize + KGroupSize - 1 of the
/// payload. Barriers and payload are apart: the pipeline is the same for every kind of tile.
///
/// The producer is the warp that asks the copy engine; its copies fill a stage. The consumer is the warp that issues
/// MMAs; the tensor core frees a stage when it has read it, by the commit to `consumer_mbar(stage)`. Every thread of
/// both constructs its own object over the same barriers and tiles.
///
/// The names are those of the Mojo library whose design this follows, and they cross: the producer calls
/// `try_acquire_producer()`, which answers whether the *consumer* has freed the stage, so that it goes with
/// `wait_consumer_if_needed()`; `try_acquire_consumer()` goes with `wait_producer_if_needed()`.
/// Source: chapters/09_input_tile_pipeline.
template <TilePayload Payload, int NumGroupStages, int KGroupSize = 1>
class InputTilePipeline {
  static_assert(
      NumGroupStages >= 1,
      "InputTilePipeline: NumGroupStages must be at least 1; with 2 or more, copying and multiplying overlap");
  static_assert(KGroupSize >= 1, "InputTilePipeline: KGroupSize must be at least 1, the tiles that share a barrier");
  static_assert(Payload::num_tiles == NumGroupStages * KGroupSize,
                "InputTilePipeline: the payload must hold NumGroupStages * KGroupSize tiles");

 public:
  using BarrierArray = uint64_t[NumGroupStages * 2];          ///< full, then empty: declare it `__shared__`
  using Pipeline = ProducerConsumerPipeline<NumGroupStages>;  ///< what synchronises
  using ProducerStage = InputProducerStage<Payload, NumGroupStages, KGroupSize>;  ///< a stage that is being filled
  using ConsumerStage = InputConsumerStage<Payload, NumGroupStages, KGroupSize>;  ///< one that is being multiplied
  using Producer = InputProducer<Payload, NumGroupStages, KGroupSize>;            ///< the copying warp's view
  using Consumer = InputConsumer<Payload, NumGroupStages, KGroupSize>;            ///< the multiplying warp's view

  static constexpr int num_group_stages = NumGroupStages;                            ///< stages of the ring
  static constexpr int k_group_size = KGroupSize;                                    ///< k-tiles in a stage
  static constexpr uint32_t bytes_per_stage = KGroupSize * Payload::bytes_per_tile;  ///< that fill a stage

  /// Made by every thread of both roles, over the same barriers and tiles; each has its own position.
  /// @param barriers  in shared memory.
  /// @param payload   the tiles, in shared memory too.
  __device__ __forceinline__ InputTilePipeline(BarrierArray& barriers, Payload payload)
      : pipeline_(barriers), payload_(payload) {}

  /// Initialises all barriers of the ring.
  ///
  /// Called by one thread of the block, once, followed by `fence_barrier_init()` and a block-wide barrier.
  /// @param storage             the barriers: a BarrierArray in shared memory.
  /// @param producer_arrive_count  arrivals that fill a stage; announcing bytes counts as one.
  /// @param consumer_arrive_count  arrivals that free it; a `tcgen05.commit` counts as one.
  __device__ static void init_barriers(MbarPtr storage, int32_t producer_arrive_count, int32_t consumer_arrive_count) {
    Pipeline{storage}.init_mbars(producer_arrive_count, consumer_arrive_count);
  }

  // ---- Asking and waiting -------------------------------------------------------------------------------------------

  /// Whether the producer's current stage is free, at once: the *producer* asks whether the consumer has freed it.
  ///
  /// Ask early, do something else, then wait by `wait_consumer_if_needed(answer)`: the same barrier. (Not by
  /// `wait_producer_if_needed`, which waits on the other one.) Called by every thread that will wait.
  __device__ __forceinline__ bool try_acquire_producer() const { return pipeline_.try_wait_consumer(); }

  /// Whether the consumer's current stage is filled, at once: the *consumer* asks whether the producer has filled it.
  ///
  /// Ask early, do something else, then wait by `wait_producer_if_needed(answer)`. Called by every thread that will
  /// wait.
  __device__ __forceinline__ bool try_acquire_consumer() const { return pipeline_.try_wait_producer(); }

  /// The consumer waits until its current stage is filled, unless it already knows that it is.
  ///
  /// Called by every consuming thread; does not advance.
  /// @param already_ready  what `try_acquire_consumer()` has answered at this same stage.
  __device__ __forceinline__ void wait_producer_if_needed(bool already_ready) const {
    pipeline_.wait_producer_if_needed(already_ready);
  }

  /// The producer waits until its current stage is free, unless it already knows that it is. In the first round, all
  /// stages are.
  ///
  /// Called by every producing thread; does not advance.
  /// @param already_ready  what `try_acquire_producer()` has answered at this same stage.
  __device__ __forceinline__ void wait_consumer_if_needed(bool already_ready) const {
    pipeline_.wait_consumer_if_needed(already_ready);
  }

  // ---- Where things are ---------------------------------------------------------------------------------------------

  /// The stage that the producer fills next, 0 to NumGroupStages - 1. By a producing thread: it is the thread's own.
  __device__ __forceinline__ uint32_t producer_stage() const { return pipeline_.producer_stage(); }

  /// The stage that the consumer multiplies next, 0 to NumGroupStages - 1. By a consuming thread.
  __device__ __forceinline__ uint32_t consumer_stage() const { return pipeline_.consumer_stage(); }

  /// The full barrier of a stage: the copies signal it. Any thread.
  /// @param stage  0 to NumGroupStages - 1.
  __device__ __forceinline__ MbarPtr producer_mbar(uint32_t stage) const { return pipeline_.producer_mbar(stage); }

  /// The empty barrier of a stage: the tensor core signals it, through a commit. Any thread.
  /// @param stage  0 to NumGroupStages - 1.
  __device__ __forceinline__ MbarPtr consumer_mbar(uint32_t stage) const { return pipeline_.consumer_mbar(stage); }

  /// The tiles of all stages. Any thread.
  __device__ __forceinline__ const Payload& payload() const { return payload_; }

  /// The tiles of k-tile `k` (0 to KGroupSize - 1) of a stage: number stage * KGroupSize + k of the payload. Any
  /// thread.
  __device__ __forceinline__ typename Payload::Tiles tile(uint32_t stage, int k = 0) const {
    return payload_.tile(stage * KGroupSize + k);
  }

  /// The producer goes on to its next stage. Called by every producing thread, once the copies have been asked for.
  __device__ __forceinline__ void producer_step() { pipeline_.producer_step(); }

  /// The consumer goes on to its next stage. Called by every consuming thread, after the commit.
  __device__ __forceinline__ void consumer_step() { pipeline_.consumer_step(); }

  // ---- The two warps' views -----------------------------------------------------------------------------------------

  /// The view of the copying warp: it has nothing that only a consumer may call. By every producing thread.
  __device__ __forceinline__ Producer producer() { return Producer(*this); }

  /// The view of the multiplying warp: it has nothing that only a producer may call. By every consuming thread.
  __device__ __forceinline__ Consumer consumer() { return Consumer(*this); }

  // ---- Handles that must be released --------------------------------------------------------------------------------

  /// Waits until the producer's current stage is free, and returns it as a handle whose `release()` cannot be
  /// forgotten.
  ///
  /// Called by every producing thread; one handle at a time, because the position moves with its release.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  [[nodiscard(
      "an InputProducerStage must be kept and released: auto tiles = pipeline.acquire_producer(); ... "
      "std::move(tiles).release();")]] __device__ __forceinline__ ProducerStage
  acquire_producer(SourceLine acquired_at = SourceLine::here()) {
    pipeline_.wait_consumer();
    return {*this, acquired_at};
  }

  /// Waits until the consumer's current stage is filled, and returns it as a handle whose `release()` cannot be
  /// forgotten.
  ///
  /// Called by every consuming thread; one handle at a time. Parameters as for `acquire_producer`.
  [[nodiscard(
      "an InputConsumerStage must be kept and released: auto tiles = pipeline.acquire_consumer(); ... "
      "std::move(tiles).release();")]] __device__ __forceinline__ ConsumerStage
  acquire_consumer(SourceLine acquired_at = SourceLine::here()) {
    pipeline_.wait_producer();
    return {*this, acquired_at};
  }

  /// Waits until every stage that was filled is free again.
  ///
  /// Called by every producing thread after its last stage, before the block may end or reuse the shared memory: the
  /// tensor core, of this block or of its pair, may still be reading, and its last commits still have to arrive on
  /// barriers that exist. Leaves the producer at the same stage, one round later.
  __device__ __forceinline__ void drain_producer() {
#pragma unroll 1
    for (int stage = 0; stage < NumGroupStages; ++stage) {
      pipeline_.wait_consumer();
      pipeline_.producer_step();
    }
  }

 private:
  Pipeline pipeline_;
  Payload payload_;
};

/// What the copying warp sees of an InputTilePipeline. It refers to the pipeline, whose position it moves.
template <TilePayload Payload, int NumGroupStages, int KGroupSize>
class InputProducer {
 public:
  using Pipeline = InputTilePipeline<Payload, NumGroupStages, KGroupSize>;  ///< what it is a view of
  using Stage = InputProducerStage<Payload, NumGroupStages, KGroupSize>;    ///< a stage as a linear handle
  using Scope = ProducerTiles<Payload, NumGroupStages, KGroupSize>;         ///< a stage as a scope

  /// Made by `InputTilePipeline::producer()`.
  __device__ __forceinline__ explicit InputProducer(Pipeline& pipeline) : pipeline_(&pipeline) {}

  /// Waits until the current stage is free; the scope that it returns steps when it ends.
  ///
  /// Called by every producing thread: `auto tiles = producer.acquire();`.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  __device__ __forceinline__ Scope acquire(SourceLine acquired_at = SourceLine::here()) {
    return Scope(acquire_stage(acquired_at));
  }

  /// `acquire()` around a call: `producer.acquire([&](auto& tiles) { ... });`. Returns what `body` returns.
  template <std::invocable<Scope&> Body>
  __device__ __forceinline__ decltype(auto) acquire(Body&& body) {
    auto tiles = acquire();
    return std::forward<Body>(body)(tiles);
  }

  /// Waits until the current stage is free, and returns it as a handle that must be released. Parameters as for
  /// `acquire`.
  [[nodiscard(
      "an InputProducerStage must be kept and released: auto tiles = producer.acquire_stage(); ... "
      "std::move(tiles).release();")]] __device__ __forceinline__ Stage
  acquire_stage(SourceLine acquired_at = SourceLine::here()) {
    return pipeline_->acquire_producer(acquired_at);
  }

  /// Whether the current stage is free, at once. Called by every producing thread; go on by `acquire_if_needed`.
  __device__ __forceinline__ bool try_acquire() const { return pipeline_->try_acquire_producer(); }

  /// `acquire()`, without the wait where `try_acquire()` has answered true at this same stage.
  /// @param already_ready  the answer.
  /// @param acquired_at    as for `acquire`.
  __device__ __forceinline__ Scope acquire_if_needed(bool already_ready, SourceLine acquired_at = SourceLine::here()) {
    pipeline_->wait_consumer_if_needed(already_ready);
    return Scope(Stage(*pipeline_, acquired_at));
  }

  /// Waits until every stage that was filled is free again, as `InputTilePipeline::drain_producer()` does. Called by
  /// every producing thread after its last stage.
  __device__ __forceinline__ void drain() { pipeline_->drain_producer(); }

 private:
  Pipeline* pipeline_;
};

/// What the multiplying warp sees of an InputTilePipeline. It refers to the pipeline, whose position it moves.
template <TilePayload Payload, int NumGroupStages, int KGroupSize>
class InputConsumer {
 public:
  using Pipeline = InputTilePipeline<Payload, NumGroupStages, KGroupSize>;  ///< what it is a view of
  using Stage = InputConsumerStage<Payload, NumGroupStages, KGroupSize>;    ///< a stage as a linear handle
  using Scope = ConsumerTiles<Payload, NumGroupStages, KGroupSize>;         ///< a stage as a scope

  /// Made by `InputTilePipeline::consumer()`.
  __device__ __forceinline__ explicit InputConsumer(Pipeline& pipeline) : pipeline_(&pipeline) {}

  /// Waits until the current stage is filled; the scope that it returns steps when it ends.
  ///
  /// Called by every consuming thread: `auto tiles = consumer.acquire();`.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  __device__ __forceinline__ Scope acquire(SourceLine acquired_at = SourceLine::here()) {
    return Scope(acquire_stage(acquired_at));
  }

  /// `acquire()` around a call: `consumer.acquire([&](auto& tiles) { ... });`. Returns what `body` returns.
  template <std::invocable<Scope&> Body>
  __device__ __forceinline__ decltype(auto) acquire(Body&& body) {
    auto tiles = acquire();
    return std::forward<Body>(body)(tiles);
  }

  /// Waits until the current stage is filled, and returns it as a handle that must be released. Parameters as for
  /// `acquire`.
  [[nodiscard(
      "an InputConsumerStage must be kept and released: auto tiles = consumer.acquire_stage(); ... "
      "std::move(tiles).release();")]] __device__ __forceinline__ Stage
  acquire_stage(SourceLine acquired_at = SourceLine::here()) {
    return pipeline_->acquire_consumer(acquired_at);
  }

  /// Whether the current stage is filled, at once. Called by every consuming thread; go on by `acquire_if_needed`.
  __device__ __forceinline__ bool try_acquire() const { return pipeline_->try_acquire_consumer(); }

  /// `acquire()`, without the wait where `try_acquire()` has answered true at this same stage.
  /// @param already_ready  the answer.
  /// @param acquired_at    as for `acquire`.
  __device__ __forceinline__ Scope acquire_if_needed(bool already_ready, SourceLine acquired_at = SourceLine::here()) {
    pipeline_->wait_producer_if_needed(already_ready);
    return Scope(Stage(*pipeline_, acquired_at));
  }

 private:
  Pipeline* pipeline_;
};

}  // namespace stagecraft
