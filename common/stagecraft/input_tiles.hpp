// The group stages of an InputTilePipeline as scopes: they wait on entry and step on every exit.
// InputProducer::acquire() and InputConsumer::acquire() return them. Chapter 09 builds them.
#pragma once

#include <cstdint>
#include <utility>

#include "stagecraft/input_stages.hpp"

namespace stagecraft {

/// The scope in which the calling thread fills a group stage: `auto tiles = producer.acquire();`.
///
/// It ends with the enclosing braces, on every exit, and steps then. It signals nothing: the copies do, through
/// `barrier()`.
template <TilePayload Payload, int NumGroupStages, int KGroupSize>
class [[nodiscard(
    "the tiles are filled until the scope ends, so that the scope needs a name: "
    "auto tiles = producer.acquire();")]] ProducerTiles {
 public:
  /// The handle that the scope holds.
  using Stage = InputProducerStage<Payload, NumGroupStages, KGroupSize>;

  /// Made by `acquire()`, which has waited for the group stage to be free.
  __device__ __forceinline__ explicit ProducerTiles(Stage && stage) : stage_(std::move(stage)) {}
  ProducerTiles(const ProducerTiles&) = delete;
  ProducerTiles& operator=(const ProducerTiles&) = delete;

  /// The producer goes on to its next group stage.
  __device__ __forceinline__ ~ProducerTiles() { std::move(stage_).release(); }

  /// The tiles of all stages.
  __device__ __forceinline__ const Payload& payload() const { return stage_.payload(); }

  /// The group stage, 0 to NumGroupStages - 1.
  __device__ __forceinline__ uint32_t stage() const { return stage_.stage(); }

  /// The tiles of k-tile `k` of the group, 0 to KGroupSize - 1: where the copies go.
  __device__ __forceinline__ typename Payload::Tiles tile(int k = 0) const { return stage_.tile(k); }

  /// The full barrier of the group stage, for the copies to signal.
  __device__ __forceinline__ MbarPtr barrier() const { return stage_.barrier(); }

  /// Announces what the copies will bring, and counts one arrival, as InputProducerStage does.
  __device__ __forceinline__ void expect_bytes(uint32_t bytes = Stage::Pipeline::bytes_per_stage) const {
    stage_.expect_bytes(bytes);
  }

 private:
  Stage stage_;
};

/// The scope in which the calling thread multiplies the tiles of a group stage: `auto tiles = consumer.acquire();`.
///
/// It ends with the enclosing braces, on every exit, and only steps then: the MMAs must have been committed to
/// `mbar()`, or the producer waits for ever one round later.
template <TilePayload Payload, int NumGroupStages, int KGroupSize>
class [[nodiscard(
    "the tiles are read until the scope ends, so that the scope needs a name: "
    "auto tiles = consumer.acquire();")]] ConsumerTiles {
 public:
  /// The handle that the scope holds.
  using Stage = InputConsumerStage<Payload, NumGroupStages, KGroupSize>;

  /// Made by `acquire()`, which has waited for the group stage to be filled.
  __device__ __forceinline__ explicit ConsumerTiles(Stage && stage) : stage_(std::move(stage)) {}
  ConsumerTiles(const ConsumerTiles&) = delete;
  ConsumerTiles& operator=(const ConsumerTiles&) = delete;

  /// The consumer goes on to its next group stage, and signals nothing.
  __device__ __forceinline__ ~ConsumerTiles() { std::move(stage_).release(); }

  /// The tiles of all stages.
  __device__ __forceinline__ const Payload& payload() const { return stage_.payload(); }

  /// The group stage, 0 to NumGroupStages - 1.
  __device__ __forceinline__ uint32_t stage() const { return stage_.stage(); }

  /// The tiles of k-tile `k` of the group, 0 to KGroupSize - 1.
  __device__ __forceinline__ typename Payload::Tiles tile(int k = 0) const { return stage_.tile(k); }

  /// The empty barrier of the group stage: commit the MMAs that read its tiles to it.
  __device__ __forceinline__ MbarPtr mbar() const { return stage_.mbar(); }

 private:
  Stage stage_;
};

}  // namespace stagecraft
