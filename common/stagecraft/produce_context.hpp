// Filling one stage as a scope: it waits on entry and steps on every exit. ProducerConsumerPipeline::produce() returns
// it. Chapter 05 builds it.
#pragma once

#include <cstdint>
#include <utility>

#include "stagecraft/producer_stage.hpp"

namespace stagecraft {

/// The scope in which the calling thread fills a stage: `auto stage = ring.produce();`.
///
/// It ends with the enclosing braces, also by `continue`, `break` or `return`, so that nothing can be forgotten. It
/// cannot be ended early or handed on: acquire a ProducerStage for that. Source: chapters/05_scopes.
template <int NumStages>
class [[nodiscard(
    "the stage is produced until the scope ends, so that the scope needs a name: "
    "auto stage = ring.produce();")]] ProduceContext {
 public:
  /// Made by `produce()`, which has waited for the stage to be free.
  __device__ __forceinline__ explicit ProduceContext(ProducerStage<NumStages> && stage) : stage_(std::move(stage)) {}
  ProduceContext(const ProduceContext&) = delete;
  ProduceContext& operator=(const ProduceContext&) = delete;

  /// The producer goes on to its next stage; the data was signalled through `mbar()`.
  __device__ __forceinline__ ~ProduceContext() { std::move(stage_).release(); }

  /// The stage, 0 to NumStages - 1. Called in the scope, any number of times, as `mbar()` is.
  __device__ __forceinline__ uint32_t index() const { return stage_.index(); }

  /// The full barrier of the stage: arrive on it, announce bytes to it, pass it to copies or to `tcgen05.commit`.
  __device__ __forceinline__ MbarPtr mbar() const { return stage_.mbar(); }

 private:
  ProducerStage<NumStages> stage_;
};

}  // namespace stagecraft
