// A stage that is being consumed, as a handle that cannot be forgotten. ProducerConsumerPipeline::acquire_consumer()
// returns it. Chapter 04 builds it.
#pragma once

#include <cstdint>

#include "stagecraft/linear_handle.hpp"
#include "stagecraft/mbarrier.hpp"

/// Defined nowhere: a program that could call it does not build, and its name says why.
extern "C" __device__ void ConsumerStage_is_dropped_without_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void ConsumerStage_is_used_after_release(int acquired_at_line);

namespace stagecraft {

template <int NumStages>
class ProducerConsumerPipeline;

/// The stage that the calling thread reads now: filled since the handle was acquired, and the thread's until the exit.
///
/// Linear, as ProducerStage is, with two exits: `release()`, and `release_without_signal()` after an explicit arrival.
/// Source: chapters/04_linear_stage_handles.
template <int NumStages>
class ConsumerStage {
 public:
  /// Made by `acquire_consumer()`, after its wait.
  /// @param index        the stage, 0 to NumStages - 1.
  /// @param mbar         its empty barrier.
  /// @param acquired_at  the line to name in messages.
  __device__ __forceinline__ ConsumerStage(ProducerConsumerPipeline<NumStages>& pipeline, uint32_t index, MbarPtr mbar,
                                           SourceLine acquired_at)
      : pipeline_(&pipeline), index_(index), mbar_(mbar), obligation_(acquired_at) {}

  /// The new handle takes over the duty to release; the old one must not be used again.
  ConsumerStage(ConsumerStage&&) = default;
  /// The same, and what this handle held before must have been released.
  ConsumerStage& operator=(ConsumerStage&&) = default;

  /// The stage, 0 to NumStages - 1. Called by any holder, any number of times.
  __device__ __forceinline__ uint32_t index() const {
    obligation_.use();
    return index_;
  }

  /// The empty barrier of the stage, for arrivals of another kind: a remote one in a cluster, or `tcgen05.commit`.
  ///
  /// Called by any holder; a thread that arrives here exits by `release_without_signal()`.
  __device__ __forceinline__ MbarPtr mbar() const {
    obligation_.use();
    return mbar_;
  }

  /// Counts one arrival on the empty barrier: the calling thread has read what it needs.
  ///
  /// Called by those threads that the consumer arrive count includes, such as one lane of a warp after `__syncwarp()`,
  /// and followed by `release_without_signal()` in all threads. The thread's reads before are ordered before the
  /// producer's next writes. Source: PTX ISA, "mbarrier.arrive" (release, at the scope of the block).
  __device__ __forceinline__ void arrive() const {
    obligation_.use();
    stagecraft::arrive(mbar_);
  }

  /// Ends the handle: counts one arrival on the empty barrier, and the consumer goes on to its next stage.
  ///
  /// Called by every consuming thread, when the consumer arrive count includes each of them; not before the thread's
  /// last read of the stage, which it orders before the producer's next write. Waits for nothing.
  /// Source: PTX ISA, "mbarrier.arrive" (release, at the scope of the block).
  //! [release]
  __device__ __forceinline__ void release() && {
    obligation_.fulfil();
    stagecraft::arrive(mbar_);
    pipeline_->consumer_step();
  }
  //! [release]

  /// Ends the handle: the consumer goes on to its next stage and signals nothing.
  ///
  /// Called by every consuming thread, when the arrivals were made through `arrive()` or `mbar()`. Waits for nothing;
  /// those arrivals order, this does not.
  __device__ __forceinline__ void release_without_signal() && {
    obligation_.fulfil();
    pipeline_->consumer_step();
  }

  /// Not for a named handle: its release must be seen to end it.
  template <typename Never = void>
  __device__ void release() const& {
    static_assert(never_allowed<Never>,
                  "release() ends a ConsumerStage, so that it takes the handle away: write std::move(stage).release()");
  }
  /// Not for a named handle either.
  template <typename Never = void>
  __device__ void release_without_signal() const& {
    static_assert(never_allowed<Never>,
                  "release_without_signal() ends a ConsumerStage, so that it takes the handle away: write "
                  "std::move(stage).release_without_signal()");
  }

 private:
  struct Messages {
    static __device__ constexpr const char* name() { return "ConsumerStage"; }
    static __device__ __forceinline__ void is_dropped(int line) { ConsumerStage_is_dropped_without_release(line); }
    static __device__ __forceinline__ void is_used_after_exit(int line) { ConsumerStage_is_used_after_release(line); }
  };

  ProducerConsumerPipeline<NumStages>* pipeline_;
  uint32_t index_;
  MbarPtr mbar_;
  Obligation<Messages> obligation_;
};

}  // namespace stagecraft
