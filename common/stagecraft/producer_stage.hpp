// A stage that is being filled, as a handle that cannot be forgotten. ProducerConsumerPipeline::acquire_producer()
// returns it. Chapter 04 builds it.
#pragma once

#include <cstdint>

#include "stagecraft/linear_handle.hpp"
#include "stagecraft/mbarrier.hpp"

/// Defined nowhere: a program that could call it does not build, and its name says why.
extern "C" __device__ void ProducerStage_is_dropped_without_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void ProducerStage_is_used_after_release(int acquired_at_line);

namespace stagecraft {

template <int NumStages>
class ProducerConsumerPipeline;

/// The stage that the calling thread fills now: free since the handle was acquired, and the thread's until `release()`.
///
/// Linear: it moves but does not copy, and on every path each handle meets `release()` exactly once, or the program
/// does not build. A `-G` build stops the kernel instead. The proof is the optimiser's: pass a handle only to functions
/// that are inlined, and let its existence not depend on data. It must not outlive its pipeline object.
/// Source: chapters/04_linear_stage_handles.
template <int NumStages>
class ProducerStage {
 public:
  /// Made by `acquire_producer()`, after its wait.
  /// @param index        the stage, 0 to NumStages - 1.
  /// @param mbar         its full barrier.
  /// @param acquired_at  the line to name in messages.
  __device__ __forceinline__ ProducerStage(ProducerConsumerPipeline<NumStages>& pipeline, uint32_t index, MbarPtr mbar,
                                           SourceLine acquired_at)
      : pipeline_(&pipeline), index_(index), mbar_(mbar), obligation_(acquired_at) {}

  /// The new handle takes over the duty to release; the old one must not be used again.
  ProducerStage(ProducerStage&&) = default;
  /// The same, and what this handle held before must have been released.
  ProducerStage& operator=(ProducerStage&&) = default;

  /// The stage, 0 to NumStages - 1. Called by any holder, any number of times.
  __device__ __forceinline__ uint32_t index() const {
    obligation_.use();
    return index_;
  }

  /// The full barrier of the stage: arrive on it, announce bytes to it, pass it to copies or to `tcgen05.commit`.
  ///
  /// Called by any holder; the phase completes after as many arrivals as `init_mbars` set, and all announced bytes.
  __device__ __forceinline__ MbarPtr mbar() const {
    obligation_.use();
    return mbar_;
  }

  /// Ends the handle: the producer goes on to its next stage. It does not signal: the data was signalled, or will be by
  /// the copies on their way, through `mbar()`.
  ///
  /// Called by every producing thread. Waits for nothing and orders nothing; the arrival through `mbar()` does.
  __device__ __forceinline__ void release() && {
    obligation_.fulfil();
    pipeline_->producer_step();
  }

  /// Not for a named handle: its release must be seen to end it.
  template <typename Never = void>
  __device__ void release() const& {
    static_assert(never_allowed<Never>,
                  "release() ends a ProducerStage, so that it takes the handle away: write std::move(stage).release()");
  }

 private:
  struct Messages {
    static __device__ constexpr const char* name() { return "ProducerStage"; }
    static __device__ __forceinline__ void is_dropped(int line) { ProducerStage_is_dropped_without_release(line); }
    static __device__ __forceinline__ void is_used_after_exit(int line) { ProducerStage_is_used_after_release(line); }
  };

  ProducerConsumerPipeline<NumStages>* pipeline_;
  uint32_t index_;
  MbarPtr mbar_;
  Obligation<Messages> obligation_;
};

}  // namespace stagecraft
