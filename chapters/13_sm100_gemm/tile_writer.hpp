// Chapter 13: from an accumulator to D, through swizzled shared memory and TMA. TODO 4 and 5 are here; how
// a warp goes through an accumulator (stagecraft/slices.hpp) is the library's.
#pragma once

#include <cstdint>
#include <cuda/ptx>
#include <utility>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/output_stages.hpp"
#include "stagecraft/packed_elements.hpp"
#include "stagecraft/slices.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// A warp's buffers for slices that TMA stores: while it reads one, the warp writes the next.
template <TileElement Element, int Rows, int Columns, int NumBuffers>
class SliceBuffers {
 public:
  using SliceTile = stagecraft::SliceTile<Element, Rows, Columns>;
  using Map = BatchedTileMap<SliceTile>;
  struct Storage {
    SliceTile slices[kEpilogueWarps][NumBuffers];  // each warp's own
  };

  __device__ __forceinline__ SliceBuffers(Storage& storage, const Map& map)
      : slices_(storage.slices[warp_index() % kEpilogueWarps]), map_(&map) {}

  /// Converts values and writes them to row `row` of slice number `slice`, from `column` on. A lane without a row has
  /// row -1.
  template <int Count>
  __device__ __forceinline__ void put(int slice, int row, int column, const float (&values)[Count]) const {
    if (row < 0) return;
    constexpr int kPerWord = 128 / element_bits<Element>;
    SliceTile& to = slices_[slice % NumBuffers];
#pragma unroll
    for (int first = 0; first < Count; first += kPerWord) {
      const uint4 word = pack_elements<Element>(reinterpret_cast<const float(&)[kPerWord]>(values[first]));
      // TODO 4: where in to.storage do these 16 bytes belong? The tile knows, as in chapter 07.
    }
  }

  /// Asks TMA to store slice number `slice`. One thread.
  __device__ __forceinline__ void store(int slice, int row, int column, int batch) const {
    store_tile(*map_, row, column, batch, slices_[slice % NumBuffers]);
  }

 private:
  SliceTile (&slices_)[NumBuffers];
  const Map* map_;
};

/// Writes accumulators to D. Each of an epilogue's four warps makes its own, over its own buffers.
template <typename AccumulatorType, TileElement Element, int ColumnsPerResult = 1, int NumBuffers = 2,
          int MaxColumns = 128>
class TileWriter {
 public:
  using Accumulator = AccumulatorType;
  using Slices = stagecraft::Slices<Accumulator, Element, ColumnsPerResult, MaxColumns>;
  using Buffers = SliceBuffers<Element, Slices::Part::rows, Slices::columns, NumBuffers>;
  using Storage = typename Buffers::Storage;
  using Map = typename Buffers::Map;
  using SliceTile = typename Buffers::SliceTile;

  /// A whole warp.
  __device__ __forceinline__ TileWriter(Storage& storage, const Map& map)
      : buffers_(storage, map), is_storing_(elect_one()) {}

  /// Writes the calling warp's part of a tile, and frees the accumulator as soon as it is read. A whole warp.
  template <typename Pipeline, typename Operations>
  __device__ __forceinline__ void write(EpilogueStage<Pipeline>&& sums, const TilePlace& tile, Operations& epilogue) {
    for_each_slice<Slices, element_bits<Element>>(
        std::move(sums), tile, slices_written_, epilogue, [&](const SlicePlace&) { wait_for_buffer(); },
        [&](const auto& values, const RowPlace& place) {
          buffers_.put(slices_written_, place.slice_row, place.slice_column, values);
        },
        [&](const SlicePlace& slice, auto& operations) { store(slice, operations); });
  }

  /// Waits until TMA has read all slices. A whole warp.
  __device__ __forceinline__ void drain() const {
    // TODO 5: who waits, and for how many groups?
  }

 private:
  /// Waits until TMA has read the slice that was in the next buffer. A whole warp, before it writes there.
  __device__ __forceinline__ void wait_for_buffer() const {
    // TODO 5: all lanes write next, but only the one that has stored can ask; see tile_batch.hpp.
  }

  /// Hands a slice that all lanes have written to TMA. A whole warp.
  template <typename SliceOperations>
  __device__ __forceinline__ void store(const SlicePlace& slice, SliceOperations& operations) const {
    // TODO 5: what belongs between the lanes' writes and TMA's reads?
    // TODO 5: and then, in one lane, operations.store(), buffers_.store() and commit_stores().
  }

  Buffers buffers_;
  int slices_written_ = 0;
  bool is_storing_;  // true in one lane of the warp
};

}  // namespace stagecraft
