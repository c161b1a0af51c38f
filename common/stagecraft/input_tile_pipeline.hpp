// The ring that carries tiles from TMA to the tensor core: a ProducerConsumerPipeline, what its
// stages hold, and a view of it for each of the two warps. Chapter 09 builds it.
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

#include "stagecraft/cluster_shape.hpp"
#include "stagecraft/input_stages.hpp"
#include "stagecraft/input_tiles.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/tile_payload.hpp"

namespace stagecraft {

template <typename Pipeline>
class InputProducer;
template <typename Pipeline>
class InputConsumer;

/// Tiles in a ring of `NumGroupStages` stages of `KGroupSize` k-tiles each.
///
/// A stage has one full and one empty barrier for all its tiles together: with a larger group, the same shared memory
/// has fewer barriers to wait for. Group stage s holds tiles s * KGroupSize to s * KGroupSize + KGroupSize - 1 of the
/// payload. Barriers and payload are apart: the pipeline is the same for every kind of tile.
///
/// The producer is the warp that asks TMA; its copies fill a stage. The consumer is the warp that issues
/// MMAs; the tensor core frees a stage when it has read it, by the commit to `consumer_mbar(stage)`. Every thread of
/// both constructs its own object over the same barriers and tiles.
///
/// The names are those of the Mojo library whose design this follows, and they cross: the producer calls
/// `try_acquire_producer()`, which answers whether the *consumer* has freed the stage, so that it goes with
/// `wait_consumer_if_needed()`; `try_acquire_consumer()` goes with `wait_producer_if_needed()`.
///
/// In a cluster, the blocks of a row share tiles of A and those of a column tiles of B, and a producer's stage is free
/// when no block reads any longer what this one brought. In a pair only the leader consumes: the tiles of both blocks
/// fill the leader's stage, and its MMAs read them.
/// @tparam PayloadType  what one block holds; in a pair, its own tile of A and half of the tile of B.
/// @tparam ClusterType  the ClusterShape of the kernel.
/// Source: chapters/09_input_tile_pipeline, chapters/11_cta_pairs.
template <TilePayload PayloadType, int NumGroupStages, int KGroupSize = 1, BlockCluster ClusterType = OneBlock>
class InputTilePipeline {
  static_assert(
      NumGroupStages >= 1,
      "InputTilePipeline: NumGroupStages must be at least 1; with 2 or more, copying and multiplying overlap");
  static_assert(KGroupSize >= 1, "InputTilePipeline: KGroupSize must be at least 1, the tiles that share a barrier");
  static_assert(PayloadType::num_tiles == NumGroupStages * KGroupSize,
                "InputTilePipeline: the payload must hold NumGroupStages * KGroupSize tiles");

 public:
  using Payload = PayloadType;                                  ///< what the stages hold
  using Cluster = ClusterType;                                  ///< the blocks that share tiles
  using BarrierArray = uint64_t[NumGroupStages * 2];            ///< full, then empty: declare it `__shared__`
  using Pipeline = ProducerConsumerPipeline<NumGroupStages>;    ///< what synchronises
  using ProducerStage = InputProducerStage<InputTilePipeline>;  ///< a stage that is being filled
  using ConsumerStage = InputConsumerStage<InputTilePipeline>;  ///< one that is being multiplied
  using Producer = InputProducer<InputTilePipeline>;            ///< the copying warp's view
  using Consumer = InputConsumer<InputTilePipeline>;            ///< the multiplying warp's view

  static constexpr int num_group_stages = NumGroupStages;                            ///< stages of the ring
  static constexpr int k_group_size = KGroupSize;                                    ///< k-tiles in a stage
  static constexpr uint32_t bytes_per_stage = KGroupSize * Payload::bytes_per_tile;  ///< that fill a block's stage
  /// Whose arrivals free a stage: where tiles are shared, those of other blocks too. (Filling one takes no scope: a
  /// wait shows what the copies that signal its barrier have brought, and no thread of another block arrives there.)
  static constexpr Scope scope = Cluster::blocks == 1 ? Scope::block : Scope::cluster;

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

  /// The same for stages that only the tensor core reads: one thread of a block announces the bytes that fill a stage,
  /// and each tensor core, or pair of them, that reads what the block brings frees it by a commit.
  /// @param storage  as above.
  __device__ static void init_barriers(MbarPtr storage) {
    init_barriers(storage, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/Cluster::readers);
  }

  // ---- Asking and waiting -------------------------------------------------------------------------------------------

  /// Whether the producer's current stage is free, at once: the *producer* asks whether the consumer has freed it.
  ///
  /// Ask early, do something else, then wait by `wait_consumer_if_needed(answer)`: the same barrier. (Not by
  /// `wait_producer_if_needed`, which waits on the other one.) Called by every thread that will wait.
  __device__ __forceinline__ bool try_acquire_producer() const { return pipeline_.template try_wait_consumer<scope>(); }

  /// Whether the consumer's current stage is filled, at once: the *consumer* asks whether the producer has filled it.
  ///
  /// Ask early, do something else, then wait by `wait_producer_if_needed(answer)`. Called by every thread that will
  /// wait.
  __device__ __forceinline__ bool try_acquire_consumer() const { return pipeline_.try_wait_producer(); }

  /// Whether the stage after the producer's current one is free, at once: ask while the current stage is in hand, and
  /// pass the answer to `wait_consumer_if_needed` after its release. Called by every thread that will wait.
  __device__ __forceinline__ bool try_acquire_next_producer() const {
    auto next = pipeline_.producer_state();
    next.step();
    return test_wait<scope>(consumer_mbar(next.index()), next.phase());
  }

  /// Whether the stage after the consumer's current one is filled, at once: ask while the current stage is in hand, and
  /// pass the answer to `wait_producer_if_needed` after its release. Called by every thread that will wait.
  __device__ __forceinline__ bool try_acquire_next_consumer() const {
    auto next = pipeline_.consumer_state();
    next.step();
    return test_wait(producer_mbar(next.index()), next.phase());
  }

  /// The consumer waits until its current stage is filled, unless it already knows that it is.
  ///
  /// Called by every consuming thread; does not advance.
  /// @param already_ready  what `try_acquire_consumer()` has answered at this same stage.
  /// @param hint           longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  __device__ __forceinline__ void wait_producer_if_needed(bool already_ready, uint32_t hint = 0) const {
    pipeline_.wait_producer_if_needed(already_ready, hint);
  }

  /// The producer waits until its current stage is free, unless it already knows that it is. In the first round, all
  /// stages are.
  ///
  /// Called by every producing thread; does not advance.
  /// @param already_ready  what `try_acquire_producer()` has answered at this same stage.
  /// @param hint           longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  __device__ __forceinline__ void wait_consumer_if_needed(bool already_ready, uint32_t hint = 0) const {
    pipeline_.template wait_consumer_if_needed<scope>(already_ready, hint);
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
  /// @param hint         longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  [[nodiscard(
      "an InputProducerStage must be kept and released: auto tiles = pipeline.acquire_producer(); ... "
      "std::move(tiles).release();")]] __device__ __forceinline__ ProducerStage
  acquire_producer(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    pipeline_.template wait_consumer<scope>(hint);
    return {*this, acquired_at};
  }

  /// Waits until the consumer's current stage is filled, and returns it as a handle whose `release()` cannot be
  /// forgotten.
  ///
  /// Called by every consuming thread; one handle at a time. Parameters as for `acquire_producer`.
  [[nodiscard(
      "an InputConsumerStage must be kept and released: auto tiles = pipeline.acquire_consumer(); ... "
      "std::move(tiles).release();")]] __device__ __forceinline__ ConsumerStage
  acquire_consumer(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    pipeline_.wait_producer(hint);
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
      pipeline_.template wait_consumer<scope>();
      pipeline_.producer_step();
    }
  }

 private:
  Pipeline pipeline_;
  Payload payload_;
};

/// What the copying warp sees of an InputTilePipeline. It refers to the pipeline, whose position it moves.
template <typename Pipeline>
class InputProducer {
 public:
  using Stage = InputProducerStage<Pipeline>;  ///< a stage as a linear handle
  using Scope = ProducerTiles<Pipeline>;       ///< a stage as a scope

  /// Made by `InputTilePipeline::producer()`.
  __device__ __forceinline__ explicit InputProducer(Pipeline& pipeline) : pipeline_(&pipeline) {}

  /// Waits until the current stage is free; the scope that it returns steps when it ends.
  ///
  /// Called by every producing thread: `auto tiles = producer.acquire();`.
  /// @param hint         longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  __device__ __forceinline__ Scope acquire(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    return Scope(acquire_stage(hint, acquired_at));
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
  acquire_stage(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    return pipeline_->acquire_producer(hint, acquired_at);
  }

  /// Whether the current stage is free, at once. Called by every producing thread; go on by `acquire_if_needed`.
  __device__ __forceinline__ bool try_acquire() const { return pipeline_->try_acquire_producer(); }

  /// Whether the stage after the one in hand is free, at once; go on by `acquire_if_needed` after its release.
  __device__ __forceinline__ bool try_acquire_next() const { return pipeline_->try_acquire_next_producer(); }

  /// `acquire()`, without the wait where `try_acquire()` has answered true at this same stage.
  /// @param already_ready      the answer.
  /// @param hint, acquired_at  as for `acquire`.
  __device__ __forceinline__ Scope acquire_if_needed(bool already_ready, uint32_t hint = 0,
                                                     SourceLine acquired_at = SourceLine::here()) {
    pipeline_->wait_consumer_if_needed(already_ready, hint);
    return Scope(Stage(*pipeline_, acquired_at));
  }

  /// Waits until every stage that was filled is free again, as `InputTilePipeline::drain_producer()` does. Called by
  /// every producing thread after its last stage.
  __device__ __forceinline__ void drain() { pipeline_->drain_producer(); }

 private:
  Pipeline* pipeline_;
};

/// What the multiplying warp sees of an InputTilePipeline. It refers to the pipeline, whose position it moves.
template <typename Pipeline>
class InputConsumer {
 public:
  using Stage = InputConsumerStage<Pipeline>;  ///< a stage as a linear handle
  using Scope = ConsumerTiles<Pipeline>;       ///< a stage as a scope

  /// Made by `InputTilePipeline::consumer()`.
  __device__ __forceinline__ explicit InputConsumer(Pipeline& pipeline) : pipeline_(&pipeline) {}

  /// Waits until the current stage is filled; the scope that it returns steps when it ends.
  ///
  /// Called by every consuming thread: `auto tiles = consumer.acquire();`.
  /// @param hint         longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  __device__ __forceinline__ Scope acquire(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    return Scope(acquire_stage(hint, acquired_at));
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
  acquire_stage(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    return pipeline_->acquire_consumer(hint, acquired_at);
  }

  /// Whether the current stage is filled, at once. Called by every consuming thread; go on by `acquire_if_needed`.
  __device__ __forceinline__ bool try_acquire() const { return pipeline_->try_acquire_consumer(); }

  /// Whether the stage after the one in hand is filled, at once; go on by `acquire_if_needed` after its release.
  __device__ __forceinline__ bool try_acquire_next() const { return pipeline_->try_acquire_next_consumer(); }

  /// `acquire()`, without the wait where `try_acquire()` has answered true at this same stage.
  /// @param already_ready      the answer.
  /// @param hint, acquired_at  as for `acquire`.
  __device__ __forceinline__ Scope acquire_if_needed(bool already_ready, uint32_t hint = 0,
                                                     SourceLine acquired_at = SourceLine::here()) {
    pipeline_->wait_producer_if_needed(already_ready, hint);
    return Scope(Stage(*pipeline_, acquired_at));
  }

 private:
  Pipeline* pipeline_;
};

}  // namespace stagecraft
