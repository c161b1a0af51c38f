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
/// `mbar()`.
template <typename Pipeline>
class [[nodiscard(
    "the tiles are filled until the scope ends, so that the scope needs a name: "
    "auto tiles = producer.acquire();")]] ProducerTiles {
 public:
  /// The handle that the scope holds.
  using Stage = InputProducerStage<Pipeline>;
  using Payload = typename Pipeline::Payload;  ///< what the stages hold

  /// Made by `acquire()`, which has waited for the group stage to be free.
  __device__ __forceinline__ explicit ProducerTiles(Stage && stage) : stage_(std::move(stage)) {}
  ProducerTiles(const ProducerTiles&) = delete;
  ProducerTiles& operator=(const ProducerTiles&) = delete;

  /// The producer goes on to its next group stage.
  __device__ __forceinline__ ~ProducerTiles() { std::move(stage_).release(); }

  /// The tiles of all stages.
  __device__ __forceinline__ const Payload& payload() const { return stage_.payload(); }

  /// The group stage, 0 to one less than there are.
  __device__ __forceinline__ uint32_t stage() const { return stage_.stage(); }

  /// The tiles of k-tile `k` of the group, 0 to k_group_size - 1: where the copies go.
  __device__ __forceinline__ typename Payload::Tiles tile(int k = 0) const { return stage_.tile(k); }

  /// This block's full barrier of the group stage, for the copies to signal.
  __device__ __forceinline__ MbarPtr mbar() const { return stage_.mbar(); }

  /// The same, by its name in Mojo.
  __device__ __forceinline__ MbarPtr barrier() const { return mbar(); }

  /// Announces what the copies will bring, and counts one arrival, as InputProducerStage does.
  __device__ __forceinline__ void expect_bytes(uint32_t bytes = Pipeline::bytes_per_stage) const {
    stage_.expect_bytes(bytes);
  }

  /// Asks for the tile of A of a k-tile of the group, or this block's slice of it, as InputProducerStage does.
  template <L2Hint Hint = L2Hint::none, typename Map>
  __device__ __forceinline__ void load_a(const Map& map, int row, int column, int k = 0) const {
    stage_.template load_a<Hint>(map, row, column, k);
  }

  /// Asks for the tile of B of a k-tile of the group, or this block's slice of it, as InputProducerStage does.
  template <L2Hint Hint = L2Hint::none, typename Map>
  __device__ __forceinline__ void load_b(const Map& map, int row, int column, int k = 0) const {
    stage_.template load_b<Hint>(map, row, column, k);
  }

  /// Asks for a tile that this block shares with no other, as InputProducerStage does.
  template <L2Hint Hint = L2Hint::none, typename T>
  __device__ __forceinline__ void load_own(T & to, const TileMap<T>& map, int row, int column) const {
    stage_.template load_own<Hint>(to, map, row, column);
  }

 private:
  Stage stage_;
};

/// The scope in which the calling thread multiplies the tiles of a group stage: `auto tiles = consumer.acquire();`.
///
/// It ends with the enclosing braces, on every exit, and only steps then: the MMAs must have been committed by
/// `commit_mma()`, or the producer waits forever one round later.
template <typename Pipeline>
class [[nodiscard(
    "the tiles are read until the scope ends, so that the scope needs a name: "
    "auto tiles = consumer.acquire();")]] ConsumerTiles {
 public:
  /// The handle that the scope holds.
  using Stage = InputConsumerStage<Pipeline>;
  using Payload = typename Pipeline::Payload;  ///< what the stages hold

  /// Made by `acquire()`, which has waited for the group stage to be filled.
  __device__ __forceinline__ explicit ConsumerTiles(Stage && stage) : stage_(std::move(stage)) {}
  ConsumerTiles(const ConsumerTiles&) = delete;
  ConsumerTiles& operator=(const ConsumerTiles&) = delete;

  /// The consumer goes on to its next group stage, and signals nothing.
  __device__ __forceinline__ ~ConsumerTiles() { std::move(stage_).release(); }

  /// The tiles of all stages.
  __device__ __forceinline__ const Payload& payload() const { return stage_.payload(); }

  /// The group stage, 0 to one less than there are.
  __device__ __forceinline__ uint32_t stage() const { return stage_.stage(); }

  /// The tiles of k-tile `k` of the group, 0 to k_group_size - 1.
  __device__ __forceinline__ typename Payload::Tiles tile(int k = 0) const { return stage_.tile(k); }

  /// This block's empty barrier of the group stage: the MMAs that read its tiles must be committed to it.
  __device__ __forceinline__ MbarPtr mbar() const { return stage_.mbar(); }

  /// Makes the tensor core free the group stage in all blocks that have brought some of it, as InputConsumerStage does.
  __device__ __forceinline__ void commit_mma() const { stage_.commit_mma(); }

 private:
  Stage stage_;
};

}  // namespace stagecraft
