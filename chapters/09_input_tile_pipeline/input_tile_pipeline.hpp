// Chapter 09: the ring of chapter 03 with tiles in its stages. TODO 1, 3 and 4 are here; the stages in hand, as handles
// (input_stages.hpp) and as scopes (input_tiles.hpp), are the library's.
#pragma once

#include <cstdint>

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

/// Tiles in a ring of `NumGroupStages` stages, each of which holds `KGroupSize` of the payload's tiles and has one full
/// and one empty barrier for all of them. Every thread of both roles constructs its own over the same shared memory.
/// @tparam ClusterType  for chapter 11.
template <TilePayload PayloadType, int NumGroupStages, int KGroupSize = 1, BlockCluster ClusterType = OneBlock>
class InputTilePipeline {
  static_assert(PayloadType::num_tiles == NumGroupStages * KGroupSize,
                "InputTilePipeline: the payload must hold NumGroupStages * KGroupSize tiles");

 public:
  using Payload = PayloadType;
  using Cluster = ClusterType;
  using BarrierArray = uint64_t[NumGroupStages * 2];  // full, then empty
  using Pipeline = ProducerConsumerPipeline<NumGroupStages>;
  using ProducerStage = InputProducerStage<InputTilePipeline>;
  using ConsumerStage = InputConsumerStage<InputTilePipeline>;
  using Producer = InputProducer<InputTilePipeline>;
  using Consumer = InputConsumer<InputTilePipeline>;

  /// Whose arrivals free a stage: those of this block, or in a cluster those of other blocks as well.
  static constexpr Scope scope = Cluster::blocks == 1 ? Scope::block : Scope::cluster;

  /// Bytes that fill a stage. `expect_bytes()` of a producer's stage announces as many.
  // TODO 1: how many? Payload::bytes_per_tile are for the tiles of one k-tile.
  static constexpr uint32_t bytes_per_stage = 0;

  __device__ __forceinline__ InputTilePipeline(BarrierArray& barriers, Payload payload)
      : pipeline_(barriers), payload_(payload) {}

  /// Initialises all barriers. One thread of the block.
  __device__ static void init_barriers(MbarPtr storage, int32_t producer_arrive_count, int32_t consumer_arrive_count) {
    Pipeline{storage}.init_mbars(producer_arrive_count, consumer_arrive_count);
  }

  /// The tiles of all stages.
  __device__ __forceinline__ const Payload& payload() const { return payload_; }

  /// The tiles of k-tile `k` (0 to KGroupSize - 1) of a stage.
  __device__ __forceinline__ typename Payload::Tiles tile(uint32_t stage, int k = 0) const {
    // TODO 1: the tiles of a stage are side by side in the payload; which is this one?
    return payload_.tile(0);
  }

  /// The *producer* asks: is its current stage free? Never blocks.
  __device__ __forceinline__ bool try_acquire_producer() const {
    // TODO 3: pipeline_ knows. Its methods are named for the role that they wait for, this one for the role that asks.
    return false;
  }

  /// The *consumer* asks: is its current stage filled? Never blocks.
  __device__ __forceinline__ bool try_acquire_consumer() const {
    // TODO 3: and here?
    return false;
  }

  /// The *consumer* waits for the producer, unless it knows already that its current stage is filled.
  __device__ __forceinline__ void wait_producer_if_needed(bool already_ready) const {
    pipeline_.wait_producer_if_needed(already_ready);
  }

  /// The *producer* waits for the consumer, unless it knows already that its current stage is free.
  __device__ __forceinline__ void wait_consumer_if_needed(bool already_ready) const {
    pipeline_.template wait_consumer_if_needed<scope>(already_ready);
  }

  __device__ __forceinline__ uint32_t producer_stage() const { return pipeline_.producer_stage(); }
  __device__ __forceinline__ uint32_t consumer_stage() const { return pipeline_.consumer_stage(); }
  __device__ __forceinline__ MbarPtr producer_mbar(uint32_t stage) const { return pipeline_.producer_mbar(stage); }
  __device__ __forceinline__ MbarPtr consumer_mbar(uint32_t stage) const { return pipeline_.consumer_mbar(stage); }
  __device__ __forceinline__ void producer_step() { pipeline_.producer_step(); }
  __device__ __forceinline__ void consumer_step() { pipeline_.consumer_step(); }

  /// What one of the roles sees of the pipeline.
  __device__ __forceinline__ Producer producer() { return Producer(*this); }
  __device__ __forceinline__ Consumer consumer() { return Consumer(*this); }

  /// Waits until the current stage is free; the handle must be released.
  __device__ __forceinline__ ProducerStage acquire_producer(SourceLine acquired_at = SourceLine::here()) {
    wait_consumer_if_needed(false);
    return {*this, acquired_at};
  }

  /// Waits until the current stage is filled; the handle must be released.
  __device__ __forceinline__ ConsumerStage acquire_consumer(SourceLine acquired_at = SourceLine::here()) {
    wait_producer_if_needed(false);
    return {*this, acquired_at};
  }

  /// Waits until every stage that was filled is free again. The producer, after its last stage.
  __device__ __forceinline__ void drain_producer() {
    // TODO 4: the stages become free in the order in which they were filled.
  }

 private:
  Pipeline pipeline_;
  Payload payload_;
};

/// What the producer sees: scopes by `acquire()`, handles by `acquire_stage()`, and the pair that asks and waits.
template <typename Pipeline>
class InputProducer {
 public:
  using Stage = InputProducerStage<Pipeline>;
  using Scope = ProducerTiles<Pipeline>;

  __device__ __forceinline__ explicit InputProducer(Pipeline& pipeline) : pipeline_(&pipeline) {}

  __device__ __forceinline__ Scope acquire(SourceLine at = SourceLine::here()) { return Scope(acquire_stage(at)); }
  __device__ __forceinline__ Stage acquire_stage(SourceLine at = SourceLine::here()) {
    return pipeline_->acquire_producer(at);
  }
  __device__ __forceinline__ bool try_acquire() const { return pipeline_->try_acquire_producer(); }
  __device__ __forceinline__ Scope acquire_if_needed(bool already_ready, SourceLine at = SourceLine::here()) {
    pipeline_->wait_consumer_if_needed(already_ready);
    return Scope(Stage(*pipeline_, at));
  }
  __device__ __forceinline__ void drain() { pipeline_->drain_producer(); }

 private:
  Pipeline* pipeline_;
};

/// What the consumer sees. It cannot drain: no role waits for it at the end.
template <typename Pipeline>
class InputConsumer {
 public:
  using Stage = InputConsumerStage<Pipeline>;
  using Scope = ConsumerTiles<Pipeline>;

  __device__ __forceinline__ explicit InputConsumer(Pipeline& pipeline) : pipeline_(&pipeline) {}

  __device__ __forceinline__ Scope acquire(SourceLine at = SourceLine::here()) { return Scope(acquire_stage(at)); }
  __device__ __forceinline__ Stage acquire_stage(SourceLine at = SourceLine::here()) {
    return pipeline_->acquire_consumer(at);
  }
  __device__ __forceinline__ bool try_acquire() const { return pipeline_->try_acquire_consumer(); }
  __device__ __forceinline__ Scope acquire_if_needed(bool already_ready, SourceLine at = SourceLine::here()) {
    pipeline_->wait_producer_if_needed(already_ready);
    return Scope(Stage(*pipeline_, at));
  }

 private:
  Pipeline* pipeline_;
};

}  // namespace stagecraft
