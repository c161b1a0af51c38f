// Both pipelines of a kernel together: each group of input tiles has an accumulator of its own, and the epilogue, which
// adds the accumulators up, sees the tiles as well. It serves scales that the tensor core cannot apply, as those of
// blockwise FP8: the epilogue multiplies the sums of each group by the scales that arrived with its tiles.
// OutputTilePipeline::per_k() returns it.
#pragma once

#include <cstdint>
#include <utility>

#include "stagecraft/linear_handle.hpp"
#include "stagecraft/mbarrier.hpp"

namespace stagecraft {

/// The scope in which the MMA thread multiplies one group of tiles into an accumulator of its own. On every
/// exit, two commits make the tensor core free the tiles for its part and hand over the accumulator.
template <typename InputPipeline, typename OutputPipeline>
class [[nodiscard(
    "the stage is held until the scope ends, so that the scope needs a name: auto stage = per_k.mma();")]] MmaKStage {
 public:
  /// Made by `PerKViews::mma()`, which has waited for both.
  __device__ __forceinline__ MmaKStage(typename InputPipeline::ConsumerStage && input,
                                       typename OutputPipeline::ProducerStage && output)
      : input_(std::move(input)), output_(std::move(output)) {}
  MmaKStage(const MmaKStage&) = delete;
  MmaKStage& operator=(const MmaKStage&) = delete;

  /// Commits to both pipelines, and goes on in both.
  __device__ __forceinline__ ~MmaKStage() {
    input_.commit_mma();
    std::move(input_).release();
    std::move(output_).release();
  }

  /// The tiles of k-tile `k` of the group.
  __device__ __forceinline__ auto tile(int k = 0) const { return input_.tile(k); }
  /// The accumulator to sum in; its old values are not needed, so that the first MMA overwrites them.
  __device__ __forceinline__ typename OutputPipeline::Accumulator accumulator() const { return output_.accumulator(); }

 private:
  typename InputPipeline::ConsumerStage input_;
  typename OutputPipeline::ProducerStage output_;
};

/// The scope in which a thread of the epilogue loads the accumulator of one group, and reads what else arrived with its
/// tiles. On every exit it arrives on the empty barriers of both.
template <typename InputPipeline, typename OutputPipeline>
class [[nodiscard(
    "the stage is held until the scope ends, so that the scope needs a name: auto stage = "
    "per_k.epilogue();")]] EpilogueKStage {
 public:
  /// Made by `PerKViews::epilogue()`, which has waited for both.
  __device__ __forceinline__ EpilogueKStage(typename InputPipeline::ConsumerStage && input,
                                            typename OutputPipeline::ConsumerStage && output)
      : input_(std::move(input)), output_(std::move(output)) {}
  EpilogueKStage(const EpilogueKStage&) = delete;
  EpilogueKStage& operator=(const EpilogueKStage&) = delete;

  /// Arrives once on the empty barrier of the tiles and once on that of the accumulator, and goes on in both.
  __device__ __forceinline__ ~EpilogueKStage() {
    arrive(input_.mbar());
    std::move(input_).release();
    std::move(output_).release();
  }

  /// The tiles of k-tile `k` of the group, of which the epilogue reads the scales.
  __device__ __forceinline__ auto tile(int k = 0) const { return input_.tile(k); }
  /// The accumulator to load.
  __device__ __forceinline__ typename OutputPipeline::Accumulator accumulator() const { return output_.accumulator(); }

 private:
  typename InputPipeline::ConsumerStage input_;
  typename OutputPipeline::ConsumerStage output_;
};

/// Adds the columns of an accumulator, times a scale, to sums in registers. Such a step is called *promotion*: the
/// tensor core sums one group of tiles, and what is longer is summed in full f32, with a scale for each group.
///
/// Called by a whole converged warp, in the scope of an EpilogueKStage; thread i holds row `row_of(warp, i)`.
/// @param sums    of `Count` columns of that row.
/// @param scale   of that row, times that of these columns.
/// @param column  the first of the columns in the accumulator.
/// @tparam AtOnce  columns that are loaded at a time, a power of two: more wait less often, and need more registers.
/// @tparam Count   a multiple of 8. All are in registers, and the loads need `AtOnce` more: at most 128 with 4 warps.
template <int AtOnce = 32, int Count, typename Accumulator>
__device__ __forceinline__ void add_scaled(float (&sums)[Count], const Accumulator& accumulator, uint32_t warp,
                                           float scale, int column = 0) {
  static_assert(Count % 8 == 0 && Count <= Accumulator::tmem_columns,
                "add_scaled: Count must be a multiple of 8, and no more than the columns of the accumulator");
  //! [promotion]
  constexpr int kAtOnce = (Count & -Count) < AtOnce ? (Count & -Count) : AtOnce;
#pragma unroll
  for (int first = 0; first < Count; first += kAtOnce) {
    float values[kAtOnce];
    accumulator.load(values, warp, column + first);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) sums[first + i] = fmaf(values[i], scale, sums[first + i]);
  }
  //! [promotion]
}

/// The two pipelines of a kernel that sums each group of k-tiles separately. It refers to both, and moves the calling
/// thread's positions in both.
///
/// Both the tensor core and the epilogue read the tiles, so that the input pipeline's consumer arrive count is 1 (the
/// commit) and the threads of the epilogue; the output pipeline's is the threads of the epilogue.
template <typename InputPipeline, typename OutputPipeline>
class PerKViews {
  static_assert(
      InputPipeline::Cluster::blocks == 1,
      "PerKViews: the epilogue frees the tiles of its own block only, so the input pipeline's cluster must be "
      "OneBlock");

 public:
  /// Made by `OutputTilePipeline::per_k()`.
  __device__ __forceinline__ PerKViews(InputPipeline& input, OutputPipeline& output)
      : input_(&input), output_(&output) {}

  /// The MMA thread waits for an accumulator to be free and for the next tiles: `auto stage = per_k.mma();`.
  /// @param acquired_at  the line that messages name; leave it out, unless you wrap this.
  __device__ __forceinline__ MmaKStage<InputPipeline, OutputPipeline> mma(SourceLine acquired_at = SourceLine::here()) {
    auto output = output_->acquire_mma(/*hint=*/0, acquired_at);
    auto input = input_->acquire_consumer(/*hint=*/0, acquired_at);
    return {std::move(input), std::move(output)};
  }

  /// A thread of the epilogue waits for the next accumulator, and for its tiles, which arrived before:
  /// `auto stage = per_k.epilogue();`. Called by each thread of the epilogue's warps. Parameters as for `mma`.
  __device__ __forceinline__ EpilogueKStage<InputPipeline, OutputPipeline> epilogue(
      SourceLine acquired_at = SourceLine::here()) {
    auto output = output_->acquire_epilogue(/*hint=*/0, acquired_at);
    auto input = input_->acquire_consumer(/*hint=*/0,
                                          acquired_at);  // to see what the copies wrote, its barrier must be waited for
    return {std::move(input), std::move(output)};
  }

 private:
  InputPipeline* input_;
  OutputPipeline* output_;
};

}  // namespace stagecraft
