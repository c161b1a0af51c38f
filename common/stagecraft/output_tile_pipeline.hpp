// The ring that carries accumulators from the tensor core to the warps that store them: a ProducerConsumerPipeline
// whose stages are in tensor memory.
#pragma once

#include <bit>
#include <cstdint>
#include <cuda/ptx>
#include <utility>

#include "stagecraft/cluster.hpp"
#include "stagecraft/commit.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/output_stages.hpp"
#include "stagecraft/per_k_views.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/tensor_memory.hpp"

namespace stagecraft {

template <typename Pipeline>
class OutputProducer;
template <typename Pipeline>
class OutputConsumer;

/// `NumStages` accumulators in tensor memory, side by side: while the epilogue stores one, the MMAs sum in the next.
///
/// The producer is the thread that issues MMAs; the tensor core arrives on a stage's full barrier, through a commit.
/// The consumers are the warps of the epilogue; they arrive on its empty barrier when they have loaded what they need.
/// Waiting for a stage includes `tcgen05.fence::after_thread_sync`, and freeing it includes `before_thread_sync`:
/// without them an mbarrier does not order what one thread does in tensor memory with what another does.
///
/// An accumulator of a pair is in the tensor memory of both blocks, and the leader's thread issues its MMAs. The commit
/// hands it over to the epilogues of both, each by its own full barrier; both free it by the leader's empty barrier.
/// @tparam AccumulatorType  a TmemTensor, which also says how many blocks' tensor cores work together.
/// @tparam NumStages        accumulators; 2 let the epilogue of one tile overlap with the MMAs of the next.
/// Source: chapters/10_warp_specialized_gemm, chapters/11_cta_pairs.
template <typename AccumulatorType, int NumStages>
class OutputTilePipeline {
  static_assert(NumStages >= 1,
                "OutputTilePipeline: NumStages must be at least 1; 2 let the MMAs of the next tile start");
  static_assert(NumStages * AccumulatorType::tmem_columns <= kTmemColumns,
                "OutputTilePipeline: the accumulators do not fit in the 512 columns of tensor memory; use fewer stages "
                "or a narrower accumulator");

 public:
  using Accumulator = AccumulatorType;                      ///< what a stage holds
  using BarrierArray = uint64_t[NumStages * 2];             ///< full, then empty: declare it `__shared__`
  using Pipeline = ProducerConsumerPipeline<NumStages>;     ///< what synchronises
  using ProducerStage = MmaStage<OutputTilePipeline>;       ///< a stage that is being summed
  using ConsumerStage = EpilogueStage<OutputTilePipeline>;  ///< a stage that is being stored

  static constexpr int num_stages = NumStages;                  ///< accumulators
  static constexpr int cta_group = AccumulatorType::cta_group;  ///< blocks whose tensor cores work together
  /// Whose arrivals the waits are for: in a pair, the leader's tensor core and both epilogues arrive in both blocks.
  static constexpr Scope scope = cta_group == 1 ? Scope::block : Scope::cluster;
  /// Columns to allocate: what the accumulators take, rounded up to a legal power of two.
  static constexpr int tmem_columns = static_cast<int>(std::bit_ceil(
      static_cast<unsigned>(NumStages * Accumulator::tmem_columns < 32 ? 32 : NumStages * Accumulator::tmem_columns)));
  using Allocation = TmemAllocation<tmem_columns, cta_group>;  ///< what allocates them

  /// @param barriers  in shared memory.
  /// @param address   of the first accumulator in tensor memory: `Allocation::address()`.
  __device__ __forceinline__ OutputTilePipeline(BarrierArray& barriers, uint32_t address)
      : pipeline_(barriers), address_(address) {}

  /// Initialises all barriers of the ring.
  ///
  /// Called by one thread of the block, once, followed by `fence_barrier_init()` and a block-wide barrier.
  /// @param storage             the barriers: a BarrierArray in shared memory.
  /// @param producer_arrive_count  arrivals that hand over an accumulator: 1, the commit.
  /// @param consumer_arrive_count  arrivals that free it: the threads of the epilogue, or its warps; in a pair, those
  ///                               of both blocks.
  __device__ static void init_barriers(MbarPtr storage, int32_t producer_arrive_count, int32_t consumer_arrive_count) {
    Pipeline{storage}.init_mbars(producer_arrive_count, consumer_arrive_count);
  }

  /// The same where one commit hands over an accumulator and every thread of the epilogue frees it.
  /// @param storage           as above.
  /// @param epilogue_threads  of one block, that arrive for each accumulator.
  __device__ static void init_barriers(MbarPtr storage, int32_t epilogue_threads) {
    init_barriers(storage, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/cta_group * epilogue_threads);
  }

  // ---- Asking and waiting -------------------------------------------------------------------------------------------

  /// Whether the next accumulator is free, at once. Asked by the MMA thread, and answered by the epilogue's arrivals;
  /// go on by `wait_epilogue_if_needed(answer)`.
  __device__ __forceinline__ bool try_acquire_mma() const { return pipeline_.template try_wait_consumer<scope>(); }

  /// Whether the next accumulator is summed, at once. Asked by each thread of the epilogue, and answered by the
  /// tensor core; go on by `wait_mma_if_needed(answer)`.
  __device__ __forceinline__ bool try_acquire_epilogue() const { return pipeline_.template try_wait_producer<scope>(); }

  /// Whether the accumulator after the MMA thread's current one is free, at once: ask while the current one is in hand,
  /// and pass the answer to `wait_epilogue_if_needed` after its release.
  __device__ __forceinline__ bool try_acquire_next_mma() const {
    auto next = pipeline_.producer_state();
    next.step();
    return test_wait<scope>(consumer_mbar(next.index()), next.phase());
  }

  /// Whether the accumulator after the epilogue's current one is summed, at once. Asked by each thread of the epilogue
  /// while it has the current one in hand; pass the answer to `wait_mma_if_needed` after its release.
  __device__ __forceinline__ bool try_acquire_next_epilogue() const {
    auto next = pipeline_.consumer_state();
    next.step();
    return test_wait<scope>(producer_mbar(next.index()), next.phase());
  }

  /// The MMA thread waits until its current accumulator is free, unless `try_acquire_mma()` has said so.
  /// @param already_ready  what it has said at this same stage.
  /// @param hint           longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  __device__ __forceinline__ void wait_epilogue_if_needed(bool already_ready, uint32_t hint = 0) const {
    pipeline_.template wait_consumer_if_needed<scope>(already_ready, hint);
    cuda::ptx::tcgen05_fence_after_thread_sync();
  }

  /// An epilogue's thread waits until its current accumulator is summed, unless `try_acquire_epilogue()` has said so.
  /// Parameters as for `wait_epilogue_if_needed`.
  __device__ __forceinline__ void wait_mma_if_needed(bool already_ready, uint32_t hint = 0) const {
    pipeline_.template wait_producer_if_needed<scope>(already_ready, hint);
    cuda::ptx::tcgen05_fence_after_thread_sync();
  }

  // ---- Where things are ---------------------------------------------------------------------------------------------

  /// The stage that the MMA thread sums in next, 0 to NumStages - 1. By that thread: the position is its own.
  __device__ __forceinline__ uint32_t producer_stage() const { return pipeline_.producer_stage(); }

  /// The stage that the epilogue stores next, 0 to NumStages - 1. By a thread of the epilogue.
  __device__ __forceinline__ uint32_t consumer_stage() const { return pipeline_.consumer_stage(); }

  /// The full barrier of a stage: the tensor core arrives on it, through a commit. Any thread.
  /// @param stage  0 to NumStages - 1.
  __device__ __forceinline__ MbarPtr producer_mbar(uint32_t stage) const { return pipeline_.producer_mbar(stage); }

  /// The empty barrier of a stage: the epilogue arrives on it. Any thread.
  /// @param stage  0 to NumStages - 1.
  __device__ __forceinline__ MbarPtr consumer_mbar(uint32_t stage) const { return pipeline_.consumer_mbar(stage); }

  /// The accumulator of a stage: the columns from stage * Accumulator::tmem_columns on. Any thread.
  /// @param stage  0 to NumStages - 1.
  __device__ __forceinline__ Accumulator accumulator(uint32_t stage) const {
    return Accumulator(tmem_offset(address_, 0, stage * Accumulator::tmem_columns));
  }

  // ---- Signals and steps, which the handles make --------------------------------------------------------------------

  /// The tensor core hands stage `stage` to the epilogue, in a pair to both, when the MMAs of the calling thread are
  /// done. By that thread.
  __device__ __forceinline__ void signal_epilogue(uint32_t stage) const {
    if constexpr (cta_group == 1) {
      commit_mma(producer_mbar(stage));
    } else {
      commit_mma_to_blocks<cta_group>(producer_mbar(stage), 0b11 << leader());
    }
  }

  /// The calling thread of the epilogue has loaded what it needs of stage `stage`: it arrives where the MMA thread
  /// waits, in a pair in the leader.
  __device__ __forceinline__ void signal_mma(uint32_t stage) const {
    cuda::ptx::tcgen05_fence_before_thread_sync();
    if constexpr (cta_group == 1) {
      arrive(consumer_mbar(stage));
    } else {
      arrive_at_block(consumer_mbar(stage), leader());
    }
  }

  /// The MMA thread goes on to its next stage.
  __device__ __forceinline__ void producer_step() { pipeline_.producer_step(); }

  /// The epilogue goes on to its next stage. Called by each of its threads.
  __device__ __forceinline__ void consumer_step() { pipeline_.consumer_step(); }

  // ---- Handles that must be released --------------------------------------------------------------------------------

  /// Waits until the next accumulator is free, and returns it as a handle whose `release()` cannot be forgotten.
  ///
  /// Called by the one thread that issues the MMAs.
  /// @param hint         longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  [[nodiscard(
      "an MmaStage must be kept and released: auto stage = pipeline.acquire_mma(); ... "
      "std::move(stage).release();")]] __device__ __forceinline__ ProducerStage
  acquire_mma(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    wait_epilogue_if_needed(false, hint);
    return {*this, acquired_at};
  }

  /// Waits until the next accumulator is summed, and returns it as a handle whose exit cannot be forgotten.
  ///
  /// Called by every thread of the epilogue's warps. Parameters as for `acquire_mma`.
  [[nodiscard(
      "an EpilogueStage must be kept and released: auto stage = pipeline.acquire_epilogue(); ... "
      "std::move(stage).release();")]] __device__ __forceinline__ ConsumerStage
  acquire_epilogue(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    wait_mma_if_needed(false, hint);
    return {*this, acquired_at};
  }

  /// Waits until the epilogue has freed every accumulator that was handed to it.
  ///
  /// Called by the MMA thread after its last stage, where nothing else (such as MmaWarp) waits for the epilogue before
  /// tensor memory is deallocated.
  __device__ __forceinline__ void drain_producer() {
#pragma unroll 1
    for (int stage = 0; stage < NumStages; ++stage) {
      wait_epilogue_if_needed(false);
      producer_step();
    }
  }

  // ---- The roles' views ---------------------------------------------------------------------------------------------

  /// The view of the thread that issues MMAs.
  __device__ __forceinline__ OutputProducer<OutputTilePipeline> producer() {
    return OutputProducer<OutputTilePipeline>(*this);
  }

  /// The view of the epilogue's warps.
  __device__ __forceinline__ OutputConsumer<OutputTilePipeline> consumer() {
    return OutputConsumer<OutputTilePipeline>(*this);
  }

  /// The view of a kernel in which each k-tile has an accumulator of its own: the accumulators go together with the
  /// tiles that `input` brings, and the epilogue sees both.
  template <typename InputPipeline>
  __device__ __forceinline__ PerKViews<InputPipeline, OutputTilePipeline> per_k(InputPipeline& input) {
    return PerKViews<InputPipeline, OutputTilePipeline>(input, *this);
  }

 private:
  /// The rank of the leader of the calling block's pair.
  __device__ __forceinline__ static uint32_t leader() { return block_rank() / cta_group * cta_group; }

  Pipeline pipeline_;
  uint32_t address_;
};

/// What the thread that issues MMAs sees of an OutputTilePipeline. It refers to the pipeline, whose position it moves.
template <typename Pipeline>
class OutputProducer {
 public:
  /// Made by `OutputTilePipeline::producer()`.
  __device__ __forceinline__ explicit OutputProducer(Pipeline& pipeline) : pipeline_(&pipeline) {}

  /// Waits until the next accumulator is free; the scope that it returns commits and steps when it ends.
  ///
  /// Not called `acquire`, because no scope by that name signals anything.
  /// @param hint         longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  __device__ __forceinline__ MmaScope<Pipeline> accumulate(uint32_t hint = 0,
                                                           SourceLine acquired_at = SourceLine::here()) {
    return MmaScope<Pipeline>(acquire_stage(hint, acquired_at));
  }

  /// Waits until the next accumulator is free, and returns it as a handle that must be released. Parameters as for
  /// `accumulate`.
  [[nodiscard(
      "an MmaStage must be kept and released: auto stage = producer.acquire_stage(); ... "
      "std::move(stage).release();")]] __device__ __forceinline__ MmaStage<Pipeline>
  acquire_stage(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    return pipeline_->acquire_mma(hint, acquired_at);
  }

  /// Whether the next accumulator is free, at once; go on by `accumulate_if_needed`.
  __device__ __forceinline__ bool try_acquire() const { return pipeline_->try_acquire_mma(); }

  /// Whether the accumulator after the one in hand is free, at once; go on by `accumulate_if_needed` after its release.
  __device__ __forceinline__ bool try_acquire_next() const { return pipeline_->try_acquire_next_mma(); }

  /// `accumulate()`, without the wait where `try_acquire()` has answered true at this same stage.
  __device__ __forceinline__ MmaScope<Pipeline> accumulate_if_needed(bool already_ready, uint32_t hint = 0,
                                                                     SourceLine acquired_at = SourceLine::here()) {
    pipeline_->wait_epilogue_if_needed(already_ready, hint);
    return MmaScope<Pipeline>(MmaStage<Pipeline>(*pipeline_, acquired_at));
  }

  /// Waits until the epilogue has freed every accumulator, as `OutputTilePipeline::drain_producer()` does.
  __device__ __forceinline__ void drain() { pipeline_->drain_producer(); }

 private:
  Pipeline* pipeline_;
};

/// What a thread of the epilogue sees of an OutputTilePipeline. It refers to the pipeline, whose position it moves.
template <typename Pipeline>
class OutputConsumer {
 public:
  /// Made by `OutputTilePipeline::consumer()`.
  __device__ __forceinline__ explicit OutputConsumer(Pipeline& pipeline) : pipeline_(&pipeline) {}

  /// Waits until the next accumulator is summed; the scope that it returns arrives and steps when it ends.
  ///
  /// Called by every thread of the epilogue, when the consumer arrive count includes each. Named as
  /// `ProducerConsumerPipeline::consume()`, which arrives too.
  /// @param hint         longest suspension per attempt, in nanoseconds; 0 leaves it to the hardware.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  __device__ __forceinline__ EpilogueScope<Pipeline> consume(uint32_t hint = 0,
                                                             SourceLine acquired_at = SourceLine::here()) {
    return EpilogueScope<Pipeline>(acquire_stage(hint, acquired_at));
  }

  /// Waits until the next accumulator is summed, and returns it as a handle that must be released. Parameters as for
  /// `consume`.
  [[nodiscard(
      "an EpilogueStage must be kept and released: auto stage = consumer.acquire_stage(); ... "
      "std::move(stage).release();")]] __device__ __forceinline__ EpilogueStage<Pipeline>
  acquire_stage(uint32_t hint = 0, SourceLine acquired_at = SourceLine::here()) {
    return pipeline_->acquire_epilogue(hint, acquired_at);
  }

  /// Whether the next accumulator is summed up, at once; go on by `consume_if_needed`.
  __device__ __forceinline__ bool try_acquire() const { return pipeline_->try_acquire_epilogue(); }

  /// Whether the accumulator after the one in hand is summed up, at once; go on by `consume_if_needed` after its
  /// release.
  __device__ __forceinline__ bool try_acquire_next() const { return pipeline_->try_acquire_next_epilogue(); }

  /// `consume()`, without the wait where `try_acquire()` has answered true at this same stage.
  __device__ __forceinline__ EpilogueScope<Pipeline> consume_if_needed(bool already_ready, uint32_t hint = 0,
                                                                       SourceLine acquired_at = SourceLine::here()) {
    pipeline_->wait_mma_if_needed(already_ready, hint);
    return EpilogueScope<Pipeline>(EpilogueStage<Pipeline>(*pipeline_, acquired_at));
  }

 private:
  Pipeline* pipeline_;
};

}  // namespace stagecraft
