// f32 scales of A's rows, one for each k-tile, on their way to the epilogue: a ring of its own, because the tensor
// core, which frees the stages of A and B, does not read them. So blocks may share tiles of A and B in any cluster.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/slices.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_copy.hpp"

namespace stagecraft {

/// The scales of a block's rows of A in a ring of `NumStages` stages, one k-tile each.
///
/// The producer is one thread, which goes through the same k-tiles as the epilogue. The consumers are the epilogue's
/// four warps; one lane of each arrives when all of them have read. Every thread of both makes its own object over the
/// same barriers and scales.
/// @tparam Rows       of A that a block has: 64 or 128.
/// @tparam NumStages  k-tiles whose scales may be on their way; more than one hides how long copies take.
/// @tparam AnyRow     a block's rows may begin at any row of A, not only at multiples of 4.
template <int Rows, int NumStages, bool AnyRow>
class RowScalesPipeline {
  static constexpr int kAligned = 16 / sizeof(float);  // copies begin on 16-byte boundaries of global memory

 public:
  using Pipeline = ProducerConsumerPipeline<NumStages>;  ///< what synchronises
  using BarrierArray = uint64_t[NumStages * 2];          ///< full, then empty: declare it `__shared__`
  using ScalesTile = PlainTile<float, 1, Rows + (AnyRow ? kAligned : 0)>;  ///< one stage
  using Map = TileMap<ScalesTile>;                                         ///< of the scales: a row for each k-tile
  /// What is in shared memory.
  struct Storage {
    ScalesTile stages[NumStages];  ///< of the ring
  };

  /// Made by every thread of both roles; each has its own position.
  __device__ __forceinline__ RowScalesPipeline(BarrierArray& barriers, Storage& storage)
      : pipeline_(barriers), stages_(storage.stages) {}

  /// Initialises all barriers of the ring. Called by one thread of the block, once, followed by `fence_barrier_init()`
  /// and a block-wide barrier.
  __device__ static void init_barriers(MbarPtr storage) {
    Pipeline{storage}.init_mbars(/*producer_arrive_count=*/1,  // the loading thread, which announces bytes
                                 /*consumer_arrive_count=*/kEpilogueWarps);  // a lane of each warp
  }

  /// Asks for the scales of `k_tiles` k-tiles, each as soon as a stage is free. Called by one thread.
  /// @param first_k_tile  a row of the map.
  /// @param row           the block's first of A, a column of the map.
  __device__ __forceinline__ void load(const Map& map, int first_k_tile, int k_tiles, int row) {
#pragma unroll 1
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      auto stage = pipeline_.produce();
      expect_bytes(stage.mbar(), ScalesTile::bytes);
      copy_tile(stages_[stage.index()], map, first_k_tile + k_tile, row / kAligned * kAligned, stage.mbar());
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

  /// The place in a stage of row `row` of a block whose first is row `first_row` of A. Any thread.
  __device__ __forceinline__ static int place_of(int row, int first_row) {
    return AnyRow ? row + first_row % kAligned : row;
  }

  /// Waits for the scales of the next k-tile, frees them, and returns that of one row. Called by each whole converged
  /// warp of the epilogue.
  /// @param place  of the row, by `place_of()`.
  __device__ __forceinline__ float next(int place) {
    auto stage = pipeline_.consume_explicit();
    const float scale = stages_[stage.index()].at(0, place);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // the scale is read before TMA overwrites it
    __syncwarp();                                           // all lanes have read
    if (lane_index() == 0) stage.arrive();
    return scale;
  }

 private:
  Pipeline pipeline_;
  ScalesTile* stages_;
};

}  // namespace stagecraft
