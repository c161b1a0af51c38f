// Consuming one stage as a scope that only steps: the arrivals are explicit, by some lanes, or by other means.
// ProducerConsumerPipeline::consume_explicit() returns it. Chapter 05 builds it.
#pragma once

#include <cstdint>
#include <utility>

#include "stagecraft/consumer_stage.hpp"

namespace stagecraft {

/// The scope in which the calling thread reads a stage whose empty barrier is arrived on explicitly:
///
///     auto stage = ring.consume_explicit();
///     ...                                        // the last read
///     if (lane_index() < kClusterSize) stage.arrive();
///
/// It ends with the enclosing braces, on every exit, and does not arrive. The body must make sure that the barrier gets
/// the arrivals that it counts, or the producer waits forever one round later.
/// Source: chapters/05_scopes.
template <int NumStages>
class [[nodiscard(
    "the stage is consumed until the scope ends, so that the scope needs a name: "
    "auto stage = ring.consume_explicit();")]] ExplicitConsumeContext {
 public:
  /// Made by `consume_explicit()`, which has waited for the stage to be filled.
  __device__ __forceinline__ explicit ExplicitConsumeContext(ConsumerStage<NumStages> && stage)
      : stage_(std::move(stage)) {}
  ExplicitConsumeContext(const ExplicitConsumeContext&) = delete;
  ExplicitConsumeContext& operator=(const ExplicitConsumeContext&) = delete;

  /// The consumer goes on to its next stage and signals nothing.
  __device__ __forceinline__ ~ExplicitConsumeContext() { std::move(stage_).release_without_signal(); }

  /// The stage, 0 to NumStages - 1. Called in the scope, any number of times, as `mbar()` is.
  __device__ __forceinline__ uint32_t index() const { return stage_.index(); }

  /// The empty barrier of the stage, for arrivals of another kind: a remote one in a cluster, or `tcgen05.commit`.
  __device__ __forceinline__ MbarPtr mbar() const { return stage_.mbar(); }

  /// Counts one arrival on the empty barrier. Called by those threads that the consumer arrive count includes, after
  /// their last read; before one lane arrives for its warp, `__syncwarp()` makes sure of the other lanes' reads.
  /// Waits for nothing. Source: PTX ISA, "mbarrier.arrive" (release, at the scope of the block).
  __device__ __forceinline__ void arrive() const { stage_.arrive(); }

 private:
  ConsumerStage<NumStages> stage_;
};

}  // namespace stagecraft
