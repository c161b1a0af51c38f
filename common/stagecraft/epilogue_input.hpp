// What an epilogue adds to the sums: C, or any matrix of its shape, brought by TMA slice by slice through a
// ring of its own, from a warp that only loads it to the four that use it.
#pragma once

#include <cstdint>
#include <utility>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/slices.hpp"
#include "stagecraft/tile_batch.hpp"

namespace stagecraft {

/// Slices of a matrix in a ring of `NumStages` stages: as many rows as a block has of an accumulator, and the columns
/// of one slice of the TileWriter that goes with it.
///
/// The producer is one thread, which goes through the same tiles as the epilogue. The consumers are the epilogue's four
/// warps; one lane of each arrives when all of them have read. Every thread of both makes its own object over the same
/// barriers and slices, and holds a stage as with any ProducerConsumerPipeline.
/// @tparam Writer   the TileWriter or RowWriter of the epilogue, which says how wide slices are.
/// @tparam Element  of the matrix: float, __nv_bfloat16 or __half.
template <typename Writer, TileElement ElementType, int NumStages>
class EpilogueInputPipeline {
  static_assert(NumStages >= 1,
                "EpilogueInputPipeline: NumStages must be at least 1; with 2 or more, loading and adding overlap");
  using Part = typename Writer::Slices::Part;

 public:
  using Element = ElementType;                              ///< of the matrix
  using Slices = typename Writer::Slices;                   ///< in which pieces it comes
  using Pipeline = ProducerConsumerPipeline<NumStages>;     ///< what synchronises
  using ConsumerScope = ExplicitConsumeContext<NumStages>;  ///< a stage that is being added
  using BarrierArray = uint64_t[NumStages * 2];             ///< full, then empty: declare it `__shared__`
  using SliceTile = stagecraft::SliceTile<Element, Part::block_rows, Slices::sums>;  ///< for `make_batched_tile_map()`
  using Map = BatchedTileMap<SliceTile>;                                             ///< of the matrix
  /// One stage; two slices where the accumulator's halves lie below each other in tensor memory (M = 128 in a pair).
  struct Stage {
    SliceTile halves[Part::halves];  ///< left, right
  };
  /// What is in shared memory.
  struct Storage {
    Stage stages[NumStages];  ///< of the ring
  };
  static constexpr uint32_t bytes_per_stage = Part::halves * SliceTile::bytes;  ///< that fill a stage

  /// Made by every thread of both roles; each has its own position.
  __device__ __forceinline__ EpilogueInputPipeline(BarrierArray& barriers, Storage& storage)
      : pipeline_(barriers), stages_(storage.stages) {}

  /// Initialises all barriers of the ring. Called by one thread of the block, once, followed by `fence_barrier_init()`
  /// and a block-wide barrier.
  __device__ static void init_barriers(MbarPtr storage) {
    Pipeline{storage}.init_mbars(/*producer_arrive_count=*/1,  // the loading thread, which announces bytes
                                 /*consumer_arrive_count=*/kEpilogueWarps);  // a lane of each warp
  }

  // ---- The loading thread -------------------------------------------------------------------------------------------

  /// Waits until the next stage is free, and returns it as a scope that steps when it ends. As
  /// `ProducerConsumerPipeline::produce()`.
  __device__ __forceinline__ ProduceContext<NumStages> produce(SourceLine acquired_at = SourceLine::here()) {
    return pipeline_.produce(/*hint=*/0, acquired_at);
  }

  /// Asks for all slices of a tile, each as soon as a stage is free. Called by one thread.
  /// @param tile     the same that the epilogue's warps write.
  /// @param is_read  false: stages are handed over as they are, and `map` is not used.
  __device__ __forceinline__ void load(const Map& map, const TilePlace& tile, bool is_read = true) {
#pragma unroll 1
    for (int slice = 0; slice < Slices::count; ++slice) {
      auto stage = produce();
      expect_bytes(stage.mbar(), is_read ? bytes_per_stage : 0);
      if (!is_read) continue;
#pragma unroll
      for (int half = 0; half < Part::halves; ++half) {
        copy_tile(stages_[stage.index()].halves[half], map, tile.row,
                  tile.column + half * Part::columns + slice * Slices::sums, tile.batch, stage.mbar());
      }
    }
  }

  /// Waits until the epilogue has read every stage: no copy is under way, and the block may end.
  __device__ __forceinline__ void drain() {
#pragma unroll 1
    for (int stage = 0; stage < NumStages; ++stage) {
      pipeline_.wait_consumer();
      pipeline_.producer_step();
    }
  }

  // ---- The epilogue's warps -----------------------------------------------------------------------------------------

  /// Waits until the next stage is filled, and returns it as a scope, in which one lane of each warp arrives, and which
  /// steps when it ends. As `ProducerConsumerPipeline::consume_explicit()`.
  __device__ __forceinline__ ExplicitConsumeContext<NumStages> consume(SourceLine acquired_at = SourceLine::here()) {
    return pipeline_.consume_explicit(/*hint=*/0, acquired_at);
  }

  /// The slices of a stage.
  __device__ __forceinline__ Stage& stage(uint32_t index) const { return stages_[index]; }

 private:
  Pipeline pipeline_;
  Stage* stages_;
};

/// values + factor * C, with C from an EpilogueInputPipeline: beta * C, or a residual. With a factor of 0 no element of
/// C is used, so that it may be NaN: as in BLAS.
///
/// It must come before operations that make one result of two columns.
/// @tparam Input  an EpilogueInputPipeline.
template <typename Input>
class AddInput {
  using Tile = typename Input::SliceTile;
  using Element = typename Input::Element;

 public:
  /// @param input  the calling thread's own, which must outlive this.
  __device__ __forceinline__ AddInput(Input& input, float factor) : input_(&input), factor_(factor) {}

  /// The values of one slice: waits for C's slice at first, and frees it at the end.
  class Slice {
   public:
    /// Waits until C's slice is there. Called by a whole warp.
    __device__ __forceinline__ Slice(Input& input, float factor, const SlicePlace& place)
        : stage_(input.consume()),
          tile_(input.stage(stage_.index()).halves[place.half]),
          tile_row_(place.tile_row),
          factor_(factor) {}

    /// Frees the stage, after the reads of all lanes.
    __device__ __forceinline__ ~Slice() {
      __syncwarp();
      if (lane_index() == 0) stage_.arrive();
    }

    /// Adds to values of one row. Any thread.
    template <int Count>
    __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) const {
      if (place.slice_row < 0 || factor_ == 0) return;  // a lane without a row, or nothing to add
      constexpr int kPerWord = 16 / sizeof(Element);
#pragma unroll
      for (int first = 0; first < Count; first += kPerWord) {
        const uint4 word = *reinterpret_cast<const uint4*>(
            tile_.storage + Tile::offset_of(tile_row_ + place.slice_row, place.slice_column + first));
        const auto& elements = reinterpret_cast<const Element(&)[kPerWord]>(word);
#pragma unroll
        for (int i = 0; i < kPerWord; ++i) values[first + i] += factor_ * static_cast<float>(elements[i]);
      }
    }

   private:
    typename Input::ConsumerScope stage_;
    const Tile& tile_;
    int tile_row_;
    float factor_;
  };
  /// Begins a slice. Called by a whole converged warp.
  __device__ __forceinline__ Slice slice(const SlicePlace& place) { return Slice(*input_, factor_, place); }

 private:
  Input* input_;
  float factor_;
};

}  // namespace stagecraft
