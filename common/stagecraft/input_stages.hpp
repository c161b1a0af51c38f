// A group of tiles that is being filled, and one that is being multiplied, as handles that cannot be forgotten.
// InputTilePipeline::acquire_producer() and acquire_consumer() return them. Chapter 09 builds them.
#pragma once

#include <cstdint>

#include "stagecraft/linear_handle.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tile_payload.hpp"

/// Defined nowhere: a program that could call one of these does not build, and its name says why.
extern "C" __device__ void InputProducerStage_is_dropped_without_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void InputProducerStage_is_used_after_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void InputConsumerStage_is_dropped_without_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void InputConsumerStage_is_used_after_release(int acquired_at_line);

namespace stagecraft {

template <TilePayload Payload, int NumGroupStages, int KGroupSize>
class InputTilePipeline;

/// The group stage that the calling thread fills now: free since the handle was acquired, and the thread's until
/// `release()`.
///
/// Linear, as ProducerStage is: it moves but does not copy, and a path on which it is not released does not build.
/// Source: chapters/09_input_tile_pipeline.
template <TilePayload Payload, int NumGroupStages, int KGroupSize>
class InputProducerStage {
 public:
  /// The pipeline that returns such handles.
  using Pipeline = InputTilePipeline<Payload, NumGroupStages, KGroupSize>;

  /// Made by `acquire_producer()`, after its wait.
  /// @param acquired_at  the line to name in messages.
  __device__ __forceinline__ InputProducerStage(Pipeline& pipeline, SourceLine acquired_at)
      : held_(pipeline, pipeline.producer_stage(), acquired_at) {}

  /// The tiles of all stages. Called by any holder.
  __device__ __forceinline__ const Payload& payload() const { return held_.pipeline().payload(); }

  /// The group stage, 0 to NumGroupStages - 1. Called by any holder.
  __device__ __forceinline__ uint32_t stage() const { return held_.index(); }

  /// The tiles of k-tile `k` of the group, 0 to KGroupSize - 1: where the copies go. Called by any holder.
  __device__ __forceinline__ typename Payload::Tiles tile(int k = 0) const {
    return held_.pipeline().tile(held_.index(), k);
  }

  /// The full barrier of the group stage, for the copies to signal. Called by any holder.
  __device__ __forceinline__ MbarPtr barrier() const { return held_.pipeline().producer_mbar(held_.index()); }

  /// Announces `bytes` that the copies will bring, and counts one arrival on the full barrier.
  ///
  /// Called by one thread, before or after the copies; with a producer arrive count of 1, it is the arrival.
  /// @param bytes  what all copies of the group bring together; by default the bytes of all its tiles. Elements beyond
  ///               an edge of the tensor count as well.
  __device__ __forceinline__ void expect_bytes(uint32_t bytes = Pipeline::bytes_per_stage) const {
    stagecraft::expect_bytes(barrier(), bytes);
  }

  /// Ends the handle: the producer goes on to its next group stage. It does not signal: the copies in flight do.
  ///
  /// Called by every producing thread. Waits for nothing and orders nothing.
  __device__ __forceinline__ void release() && { held_.let_go().producer_step(); }

  /// Not for a named handle: its release must be seen to end it.
  template <typename Never = void>
  __device__ void release() const& {
    static_assert(never_allowed<Never>,
                  "release() ends an InputProducerStage, so that it takes the handle away: write "
                  "std::move(tiles).release()");
  }

 private:
  struct Messages {
    static __device__ constexpr const char* name() { return "InputProducerStage"; }
    static __device__ __forceinline__ void is_dropped(int line) { InputProducerStage_is_dropped_without_release(line); }
    static __device__ __forceinline__ void is_used_after_exit(int line) {
      InputProducerStage_is_used_after_release(line);
    }
  };

  StageInHand<Pipeline, Messages> held_;
};

/// The group stage whose tiles the calling thread multiplies now: filled since the handle was acquired.
///
/// Linear, as InputProducerStage is. Its `release()` only steps: the tensor core frees the tiles when it has read them,
/// through the commit that the thread makes to `mbar()` before. A consumer that reads the tiles itself arrives on
/// `mbar()` instead.
/// Source: chapters/09_input_tile_pipeline.
template <TilePayload Payload, int NumGroupStages, int KGroupSize>
class InputConsumerStage {
 public:
  /// The pipeline that returns such handles.
  using Pipeline = InputTilePipeline<Payload, NumGroupStages, KGroupSize>;

  /// Made by `acquire_consumer()`, after its wait.
  /// @param acquired_at  the line to name in messages.
  __device__ __forceinline__ InputConsumerStage(Pipeline& pipeline, SourceLine acquired_at)
      : held_(pipeline, pipeline.consumer_stage(), acquired_at) {}

  /// The tiles of all stages. Called by any holder.
  __device__ __forceinline__ const Payload& payload() const { return held_.pipeline().payload(); }

  /// The group stage, 0 to NumGroupStages - 1. Called by any holder.
  __device__ __forceinline__ uint32_t stage() const { return held_.index(); }

  /// The tiles of k-tile `k` of the group, 0 to KGroupSize - 1. Called by any holder.
  __device__ __forceinline__ typename Payload::Tiles tile(int k = 0) const {
    return held_.pipeline().tile(held_.index(), k);
  }

  /// The empty barrier of the group stage: commit the MMAs that read its tiles to it. Called by any holder; the commit
  /// by the thread that issued the MMAs, after the last of them.
  __device__ __forceinline__ MbarPtr mbar() const { return held_.pipeline().consumer_mbar(held_.index()); }

  /// Ends the handle: the consumer goes on to its next group stage, and signals nothing.
  ///
  /// Called by every consuming thread, after the commit to `mbar()`. Waits for nothing.
  //! [release]
  __device__ __forceinline__ void release() && { held_.let_go().consumer_step(); }
  //! [release]

  /// Not for a named handle: its release must be seen to end it.
  template <typename Never = void>
  __device__ void release() const& {
    static_assert(never_allowed<Never>,
                  "release() ends an InputConsumerStage, so that it takes the handle away: write "
                  "std::move(tiles).release()");
  }

 private:
  struct Messages {
    static __device__ constexpr const char* name() { return "InputConsumerStage"; }
    static __device__ __forceinline__ void is_dropped(int line) { InputConsumerStage_is_dropped_without_release(line); }
    static __device__ __forceinline__ void is_used_after_exit(int line) {
      InputConsumerStage_is_used_after_release(line);
    }
  };

  StageInHand<Pipeline, Messages> held_;
};

}  // namespace stagecraft
