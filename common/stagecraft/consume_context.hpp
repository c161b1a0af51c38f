// Consuming one stage as a scope: it waits on entry, and arrives and steps on every exit.
// ProducerConsumerPipeline::consume() returns it. Chapter 05 builds it.
#pragma once

#include <cstdint>
#include <utility>

#include "stagecraft/consumer_stage.hpp"

namespace stagecraft {

/// The scope in which the calling thread reads a stage: `auto stage = ring.consume();`.
///
/// It ends with the enclosing braces, also by `continue`, `break` or `return`; every consuming thread then arrives, so
/// that the consumer arrive count must include each of them. A scope cannot be ended early or handed on: acquire a
/// ConsumerStage for that. Source: chapters/05_scopes.
template <int NumStages>
class [[nodiscard(
    "the stage is consumed until the scope ends, so that the scope needs a name: "
    "auto stage = ring.consume();")]] ConsumeContext {
 public:
  /// Made by `consume()`, which has waited for the stage to be filled.
  __device__ __forceinline__ explicit ConsumeContext(ConsumerStage<NumStages> && stage) : stage_(std::move(stage)) {}
  ConsumeContext(const ConsumeContext&) = delete;
  ConsumeContext& operator=(const ConsumeContext&) = delete;

  /// Counts one arrival on the empty barrier, and the consumer goes on to its next stage. The thread's reads in the
  /// scope are ordered before the producer's next writes.
  __device__ __forceinline__ ~ConsumeContext() { std::move(stage_).release(); }

  /// The stage, 0 to NumStages - 1. Called in the scope, any number of times, as `mbar()` is.
  __device__ __forceinline__ uint32_t index() const { return stage_.index(); }

  /// The empty barrier of the stage, for inspection: the scope arrives on it at its end.
  __device__ __forceinline__ MbarPtr mbar() const { return stage_.mbar(); }

  /// Not available: the scope arrives once when it ends, and a second arrival would free the stage under other readers.
  template <typename Never = void>
  __device__ void arrive() const {
    static_assert(never_allowed<Never>,
                  "the scope of consume() arrives when it ends; to arrive yourself, use consume_explicit()");
  }

 private:
  ConsumerStage<NumStages> stage_;
};

}  // namespace stagecraft
