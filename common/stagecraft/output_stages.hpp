// An accumulator that is being summed, and one that is being stored, as handles that cannot be forgotten.
// OutputTilePipeline::acquire_mma() and acquire_epilogue() return them.
#pragma once

#include <cstdint>
#include <utility>

#include "stagecraft/linear_handle.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/mma.hpp"

/// Defined nowhere: a program that could call one of these does not build, and its name says why.
extern "C" __device__ void MmaStage_is_dropped_without_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void MmaStage_is_used_after_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void EpilogueStage_is_dropped_without_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void EpilogueStage_is_used_after_release(int acquired_at_line);

namespace stagecraft {

/// The accumulator that the calling thread's MMAs sum in: free since the handle was acquired.
///
/// Linear, as ProducerStage is. Its `release()` commits: the tensor core hands the accumulator to the epilogue, in a
/// pair to both blocks', when the MMAs are done.
/// @tparam Pipeline  an OutputTilePipeline.
template <typename Pipeline>
class MmaStage {
 public:
  /// Made by `acquire_mma()`, after its wait.
  /// @param acquired_at  the line to name in messages.
  __device__ __forceinline__ MmaStage(Pipeline& pipeline, SourceLine acquired_at)
      : held_(pipeline, pipeline.producer_stage(), acquired_at) {}

  /// The accumulator stage, 0 to NumStages - 1. Called by any holder.
  __device__ __forceinline__ uint32_t index() const { return held_.index(); }

  /// The accumulator that the MMAs sum in. Called by any holder.
  __device__ __forceinline__ typename Pipeline::Accumulator accumulator() const {
    return held_.pipeline().accumulator(held_.index());
  }

  /// This block's full barrier of the stage, on which the commit of `release()` arrives. Called by any holder.
  __device__ __forceinline__ MbarPtr mbar() const { return held_.pipeline().producer_mbar(held_.index()); }

  /// Ends the handle: commits the MMAs that this thread has issued to the full barrier, and goes on to the next stage.
  ///
  /// Called by the one thread that issued them. Waits for nothing.
  __device__ __forceinline__ void release() && {
    held_.pipeline().signal_epilogue(held_.index());
    held_.let_go().producer_step();
  }

  /// Ends the handle: goes on to the next stage, and commits nothing, because that was done through `mbar()`.
  __device__ __forceinline__ void release_without_signal() && { held_.let_go().producer_step(); }

  /// Not for a named handle: its release must be seen to end it.
  template <typename Never = void>
  __device__ void release() const& {
    static_assert(never_allowed<Never>,
                  "release() ends an MmaStage, so it consumes the handle: write std::move(stage).release()");
  }
  /// Not for a named handle either.
  template <typename Never = void>
  __device__ void release_without_signal() const& {
    static_assert(never_allowed<Never>,
                  "release_without_signal() ends an MmaStage, so it consumes the handle: write "
                  "std::move(stage).release_without_signal()");
  }

 private:
  struct Messages {
    static __device__ constexpr const char* name() { return "MmaStage"; }
    static __device__ __forceinline__ void is_dropped(int line) { MmaStage_is_dropped_without_release(line); }
    static __device__ __forceinline__ void is_used_after_exit(int line) { MmaStage_is_used_after_release(line); }
  };

  StageInHand<Pipeline, Messages> held_;
};

/// The accumulator that the calling warp loads and stores: summed up since the handle was acquired.
///
/// Linear, as ConsumerStage is, with two exits: `release()`, and `release_without_signal()` after arriving oneself.
/// Call either only after `wait_for_tmem_loads()` (which `TmemTensor::load` includes): a load in flight reads whatever
/// the next MMA writes.
/// @tparam Pipeline  an OutputTilePipeline.
template <typename Pipeline>
class EpilogueStage {
 public:
  /// Made by `acquire_epilogue()`, after its wait.
  /// @param acquired_at  the line to name in messages.
  __device__ __forceinline__ EpilogueStage(Pipeline& pipeline, SourceLine acquired_at)
      : held_(pipeline, pipeline.consumer_stage(), acquired_at) {}

  /// The accumulator stage, 0 to NumStages - 1. Called by any holder.
  __device__ __forceinline__ uint32_t index() const { return held_.index(); }

  /// The accumulator to load. Called by any holder.
  __device__ __forceinline__ typename Pipeline::Accumulator accumulator() const {
    return held_.pipeline().accumulator(held_.index());
  }

  /// This block's empty barrier of the stage; in a pair, the MMA thread waits for the leader's. Called by any holder; a
  /// thread that arrives here exits by `release_without_signal()`.
  __device__ __forceinline__ MbarPtr mbar() const { return held_.pipeline().consumer_mbar(held_.index()); }

  /// Counts one arrival on the empty barrier, in a pair on the leader's: an MMA may overwrite what the calling thread
  /// has loaded.
  ///
  /// Called by those threads that the consumer arrive count includes, such as one lane of a warp after `__syncwarp()`,
  /// and followed by `release_without_signal()` in all. Orders the loads before it by
  /// `tcgen05.fence::before_thread_sync`.
  __device__ __forceinline__ void arrive() const { held_.pipeline().signal_mma(held_.index()); }

  /// Ends the handle: counts one arrival on the empty barrier, and goes on to the next stage.
  ///
  /// Called by every thread of the epilogue's warps, when the consumer arrive count includes each. Waits for nothing.
  __device__ __forceinline__ void release() && {
    held_.pipeline().signal_mma(held_.index());  // before the step, after which the stage is the next one
    held_.let_go().consumer_step();
  }

  /// Ends the handle: goes on to the next stage and signals nothing, because the arrivals were made before.
  __device__ __forceinline__ void release_without_signal() && { held_.let_go().consumer_step(); }

  /// Not for a named handle: its release must be seen to end it.
  template <typename Never = void>
  __device__ void release() const& {
    static_assert(never_allowed<Never>,
                  "release() ends an EpilogueStage, so it consumes the handle: write std::move(stage).release()");
  }
  /// Not for a named handle either.
  template <typename Never = void>
  __device__ void release_without_signal() const& {
    static_assert(never_allowed<Never>,
                  "release_without_signal() ends an EpilogueStage, so it consumes the handle: write "
                  "std::move(stage).release_without_signal()");
  }

 private:
  struct Messages {
    static __device__ constexpr const char* name() { return "EpilogueStage"; }
    static __device__ __forceinline__ void is_dropped(int line) { EpilogueStage_is_dropped_without_release(line); }
    static __device__ __forceinline__ void is_used_after_exit(int line) { EpilogueStage_is_used_after_release(line); }
  };

  StageInHand<Pipeline, Messages> held_;
};

// ---- As scopes ------------------------------------------------------------------------------------------------------

/// The scope in which a thread's MMAs sum in an accumulator: `auto stage = producer.accumulate();`. It ends with the
/// enclosing braces, on every exit, and commits and steps then.
template <typename Pipeline>
class [[nodiscard(
    "the accumulator is summed until the scope ends, so that the scope needs a name: "
    "auto stage = producer.accumulate();")]] MmaScope {
 public:
  /// Made by `accumulate()`, which has waited for the accumulator to be free.
  __device__ __forceinline__ explicit MmaScope(MmaStage<Pipeline> && stage) : stage_(std::move(stage)) {}
  MmaScope(const MmaScope&) = delete;
  MmaScope& operator=(const MmaScope&) = delete;

  /// Commits the MMAs that this thread has issued, and goes on to the next stage.
  __device__ __forceinline__ ~MmaScope() { std::move(stage_).release(); }

  /// The accumulator stage, 0 to NumStages - 1.
  __device__ __forceinline__ uint32_t index() const { return stage_.index(); }
  /// The accumulator that the MMAs sum in.
  __device__ __forceinline__ typename Pipeline::Accumulator accumulator() const { return stage_.accumulator(); }
  /// The full barrier of the stage, for inspection: the scope commits to it at its end.
  __device__ __forceinline__ MbarPtr mbar() const { return stage_.mbar(); }

 private:
  MmaStage<Pipeline> stage_;
};

/// The scope in which a warp loads an accumulator: `auto stage = consumer.consume();`. It ends with the enclosing
/// braces, on every exit; every thread then arrives and steps.
template <typename Pipeline>
class [[nodiscard(
    "the accumulator is read until the scope ends, so that the scope needs a name: "
    "auto stage = consumer.consume();")]] EpilogueScope {
 public:
  /// Made by `consume()`, which has waited for the MMAs to be done.
  __device__ __forceinline__ explicit EpilogueScope(EpilogueStage<Pipeline> && stage) : stage_(std::move(stage)) {}
  EpilogueScope(const EpilogueScope&) = delete;
  EpilogueScope& operator=(const EpilogueScope&) = delete;

  /// Counts one arrival on the empty barrier, and goes on to the next stage.
  __device__ __forceinline__ ~EpilogueScope() { std::move(stage_).release(); }

  /// The accumulator stage, 0 to NumStages - 1.
  __device__ __forceinline__ uint32_t index() const { return stage_.index(); }
  /// The accumulator to load.
  __device__ __forceinline__ typename Pipeline::Accumulator accumulator() const { return stage_.accumulator(); }
  /// The empty barrier of the stage, for inspection: the scope arrives on it at its end.
  __device__ __forceinline__ MbarPtr mbar() const { return stage_.mbar(); }

 private:
  EpilogueStage<Pipeline> stage_;
};

}  // namespace stagecraft
