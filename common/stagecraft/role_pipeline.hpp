// One role's end of a ring, with the role in the type: a producer has no method that only a consumer may call. Chapter
// 06 builds it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "stagecraft/commit.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/pipeline_state.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// What the methods of a RolePipeline require: the compiler names these where a program calls the other role's method.
template <bool IsProducer>
concept only_producers_may_call_this = IsProducer;
template <bool IsProducer>
concept only_consumers_may_call_this = !IsProducer;

/// One role's position in a ring of `NumberOfStages` stages, and the ring's barriers.
///
/// Two objects of different `IsProducer` over the same barriers make a pipeline; each thread of a role has its own
/// object. A stage may have several barriers, one per sub-stage, when its parts are filled or freed one by one: there
/// are NumberOfStages * ProducerSubStages producer barriers (full) and NumberOfStages * ConsumerSubStages consumer
/// barriers (empty), those of one stage side by side. The producer starts on phase 1, so that its first round does not
/// wait. A method waits or orders memory only where its comment says so.
/// @tparam CtaGroup  blocks whose tensor cores work together, 1 or 2: for `commit_mma`.
/// Source: chapters/06_role_pipeline.
template <int NumberOfStages, bool IsProducer = true, int ProducerSubStages = 1, int ConsumerSubStages = 1,
          int CtaGroup = 1>
class RolePipeline {
  static_assert(NumberOfStages >= 1,
                "RolePipeline: NumberOfStages must be at least 1; 2 or more let the roles overlap");
  static_assert(ProducerSubStages >= 1 && ConsumerSubStages >= 1,
                "RolePipeline: ProducerSubStages and ConsumerSubStages must be at least 1, the stage as a whole");
  static_assert(CtaGroup == 1 || CtaGroup == 2,
                "RolePipeline: CtaGroup must be 1 or 2, the blocks that one tcgen05.mma can span");

 public:
  static constexpr int num_stages = NumberOfStages;                              ///< stages of the ring
  static constexpr int num_producer_mbars = NumberOfStages * ProducerSubStages;  ///< full barriers of the ring
  static constexpr int num_consumer_mbars = NumberOfStages * ConsumerSubStages;  ///< empty barriers of the ring

  /// @param producer_mbar_base  `num_producer_mbars` barriers in shared memory: full.
  /// @param consumer_mbar_base  `num_consumer_mbars` barriers in shared memory: empty.
  __device__ __forceinline__ RolePipeline(MbarPtr producer_mbar_base, MbarPtr consumer_mbar_base)
      : full_(producer_mbar_base), empty_(consumer_mbar_base) {}

  /// Initialises all barriers of the ring, for both roles.
  ///
  /// Called by one thread of the block, once, followed by `fence_barrier_init()` and a block-wide barrier.
  /// @param producer_arrive_count  arrivals that fill a sub-stage; announcing bytes counts as one, a commit too.
  /// @param consumer_arrive_count  arrivals that free a sub-stage.
  /// Source: PTX ISA, "mbarrier.init".
  __device__ void init_mbars(int32_t producer_arrive_count, int32_t consumer_arrive_count) const {
    for (int i = 0; i < num_producer_mbars; ++i) init_barrier(full_ + i, producer_arrive_count);
    for (int i = 0; i < num_consumer_mbars; ++i) init_barrier(empty_ + i, consumer_arrive_count);
  }

  /// Where this role is in the ring.
  __device__ __forceinline__ const PipelineState<NumberOfStages>& state() const { return state_; }

  /// The current stage, 0 to num_stages - 1.
  __device__ __forceinline__ uint32_t index() const { return state_.index(); }

  /// The full barrier of the current stage, or of one of its sub-stages. Called by any thread of either role.
  template <int SubStage = 0>
  __device__ __forceinline__ MbarPtr producer_mbar() const {
    static_assert(SubStage >= 0 && SubStage < ProducerSubStages,
                  "RolePipeline: sub-stage out of range: it must be 0 to ProducerSubStages - 1");
    return full_ + state_.index() * ProducerSubStages + SubStage;
  }

  /// The empty barrier of the current stage, or of one of its sub-stages. Called by any thread of either role.
  template <int SubStage = 0>
  __device__ __forceinline__ MbarPtr consumer_mbar() const {
    static_assert(SubStage >= 0 && SubStage < ConsumerSubStages,
                  "RolePipeline: sub-stage out of range: it must be 0 to ConsumerSubStages - 1");
    return empty_ + state_.index() * ConsumerSubStages + SubStage;
  }

  // ---- The producer -------------------------------------------------------------------------------------------------

  /// Waits until the consumers have freed the current stage, or this sub-stage of it; in the first round, returns at
  /// once.
  ///
  /// Called by every thread that will write there, or have it written: the consumers' reads before their arrivals are
  /// ordered before those writes. Does not step.
  /// @param hint  longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// Source: PTX ISA, "mbarrier.test_wait/mbarrier.try_wait" (parity).
  template <int SubStage = 0>
  __device__ __forceinline__ void acquire(uint32_t hint = 0) const requires only_producers_may_call_this<IsProducer> {
    stagecraft::wait(consumer_mbar<SubStage>(), state_.phase(), hint);
  }

  /// Counts one arrival on the full barrier (of sub-stage 0) and steps: what the thread wrote is there.
  ///
  /// Called by each thread that the producer arrive count includes. A thread that waits sees what it wrote before.
  /// Source: PTX ISA, "mbarrier.arrive" (release, at the scope of the block).
  __device__ __forceinline__ void commit() requires only_producers_may_call_this<IsProducer> {
    arrive(producer_mbar());
    step();
  }

  /// Makes the tensor core arrive on the full barrier when the MMAs issued so far are done. Does not step.
  ///
  /// Called by a whole converged warp; its elected lane commits, and must be the one that issued the MMAs. sm_100 only.
  /// Source: PTX ISA, "tcgen05.commit".
  __device__ __forceinline__ void commit_mma() const requires only_producers_may_call_this<IsProducer> {
    commit_mma(elect_one());
  }

  /// The same, with the election made beforehand: the loop of a whole warp elects once, outside. Does not step.
  ///
  /// Called by any threads; the one whose `elect` is true commits. sm_100 only.
  /// @param elect  what `elect_one()` returned. A number does not compile: 31 lanes would commit for their own.
  /// Source: PTX ISA, "tcgen05.commit".
  template <typename Elected>
  __device__ __forceinline__ void commit_mma(Elected elect) const requires only_producers_may_call_this<IsProducer> {
    static_assert(
        std::is_same_v<Elected, bool>,
        "commit_mma: give it the bool that elect_one() returned: of a lane's number, each lane but 0 would commit");
    if (elect) stagecraft::commit_mma<CtaGroup>(producer_mbar());
  }

  // ---- The consumer -------------------------------------------------------------------------------------------------

  /// Waits until the producer has filled the current stage, or this sub-stage of it. Does not step.
  ///
  /// Called by every thread that will read there: it sees what was written before the arrivals, and what the copies
  /// brought.
  /// @param hint  longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// Source: PTX ISA, "mbarrier.test_wait/mbarrier.try_wait" (parity).
  template <int SubStage = 0>
  __device__ __forceinline__ void wait(uint32_t hint = 0) const requires only_consumers_may_call_this<IsProducer> {
    stagecraft::wait(producer_mbar<SubStage>(), state_.phase(), hint);
  }

  /// Counts one arrival on the empty barrier, of this sub-stage, and steps: the last sub-stage of a stage to be freed.
  ///
  /// Called by each thread that the consumer arrive count includes, not before its last read, which it orders before
  /// the producer's next write. Source: PTX ISA, "mbarrier.arrive" (release, at the scope of the block).
  template <int SubStage = 0>
  __device__ __forceinline__ void release() requires only_consumers_may_call_this<IsProducer> {
    release_no_step<SubStage>();
    step();
  }

  /// Counts one arrival on the empty barrier of this sub-stage, and stays: there are more sub-stages to free.
  ///
  /// Called by each thread that the consumer arrive count includes, not before its last read of this sub-stage, which
  /// it orders as `release()` does.
  template <int SubStage = 0>
  __device__ __forceinline__ void release_no_step() const requires only_consumers_may_call_this<IsProducer> {
    arrive(consumer_mbar<SubStage>());
  }

  // ---- Both ---------------------------------------------------------------------------------------------------------

  /// Goes on to the next stage. Called by all threads of the role: by a producer after `commit_mma()` or after passing
  /// `producer_mbar()` to copies; by a consumer after freeing all sub-stages without a step.
  __device__ __forceinline__ void step() { state_.step(); }

 private:
  MbarPtr full_;
  MbarPtr empty_;
  PipelineState<NumberOfStages> state_{/*index=*/0, /*phase=*/IsProducer ? 1u : 0u};
};

}  // namespace stagecraft
