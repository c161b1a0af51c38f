// From an accumulator to D: tensor memory, registers, an epilogue's operations, swizzled shared memory, and TMA,
// which writes to global memory while the next slice is computed. Chapter 13 builds it.
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
/// @tparam Columns  of a slice.
template <TileElement Element, int Rows, int Columns, int NumBuffers>
class SliceBuffers {
  static_assert(NumBuffers >= 1 && NumBuffers <= 4,
                "SliceBuffers: NumBuffers must be 1 to 4; with 2, a slice is computed while another one is stored");

 public:
  using SliceTile = stagecraft::SliceTile<Element, Rows, Columns>;  ///< one slice
  using Map = BatchedTileMap<SliceTile>;                            ///< by which it is stored
  /// What is in shared memory, for all warps of the epilogue.
  struct Storage {
    SliceTile slices[kEpilogueWarps][NumBuffers];  ///< each warp's own
  };

  /// @param storage  in shared memory.
  /// @param map      of D, in the kernel's parameters.
  __device__ __forceinline__ SliceBuffers(Storage& storage, const Map& map)
      : slices_(storage.slices[warp_index() % kEpilogueWarps]), map_(&map) {}

  //! [put]
  /// Converts values and writes them to the calling thread's row of slice number `slice`.
  ///
  /// Eight lanes write 16 bytes of eight rows at a time, which the swizzle spreads over all banks.
  /// @param column  of the first value, in the slice; a multiple of 16 bytes.
  template <int Count>
  __device__ __forceinline__ void put(int slice, int row, int column, const float (&values)[Count]) const {
    if (row < 0) return;  // a lane without a row
    constexpr int kPerWord = 128 / element_bits<Element>;
    SliceTile& to = slices_[slice % NumBuffers];
#pragma unroll
    for (int first = 0; first < Count; first += kPerWord) {
      *reinterpret_cast<uint4*>(to.storage + SliceTile::offset_of(row, column + first)) =
          pack_elements<Element>(reinterpret_cast<const float(&)[kPerWord]>(values[first]));
    }
  }
  //! [put]

  /// Asks TMA to store slice number `slice`. Called by one thread, as `store_tile()`.
  __device__ __forceinline__ void store(int slice, int row, int column, int batch) const {
    store_tile(*map_, row, column, batch, slices_[slice % NumBuffers]);
  }

 private:
  SliceTile (&slices_)[NumBuffers];
  const Map* map_;
};

/// Writes accumulators to D: each of the four warps of an epilogue makes its own, and uses only its own part of an
/// accumulator and its own buffers, so that no warp waits for another.
///
/// The edges of D are TMA's matter: it does not write what hangs over them, as `store_tile()` explains.
/// @tparam AccumulatorType   a TmemTensor.
/// @tparam Element           of D: float, __nv_bfloat16, __half, __nv_fp8_e4m3, ...; values are rounded to nearest, and
///                           those of 8 bits and fewer saturate.
/// @tparam ColumnsPerResult  2 for an epilogue with a gated activation, else 1: `columns_per_result` of the epilogue.
/// @tparam NumBuffers        slices in shared memory, 1 to 4, that may be on their way at a time.
/// @tparam MaxColumns        of an accumulator in a slice: 32, 64, 128 or 256.
/// Source: chapters/13_sm100_gemm.
template <typename AccumulatorType, TileElement Element, int ColumnsPerResult = 1, int NumBuffers = 2,
          int MaxColumns = 128>
class TileWriter {
 public:
  using Accumulator = AccumulatorType;                                                     ///< what it writes
  using Slices = stagecraft::Slices<Accumulator, Element, ColumnsPerResult, MaxColumns>;   ///< in which pieces
  using Buffers = SliceBuffers<Element, Slices::Part::rows, Slices::columns, NumBuffers>;  ///< where they lie
  using Storage = typename Buffers::Storage;      ///< in shared memory: declare one for the block
  using Map = typename Buffers::Map;              ///< of D: from `make_batched_tile_map<TileWriter::SliceTile>()`
  using SliceTile = typename Buffers::SliceTile;  ///< what one copy stores

  /// Called by a whole converged warp.
  /// @param storage  in shared memory.
  /// @param map      of D, in the kernel's parameters.
  __device__ __forceinline__ TileWriter(Storage& storage, const Map& map)
      : buffers_(storage, map), is_storing_(elect_one()) {}

  /// Writes the calling warp's part of a tile, and frees the accumulator for the next MMAs as soon as it is read.
  ///
  /// Called by each whole converged warp of the epilogue. When it returns, the last stores may still be under way.
  /// @param sums      the accumulator, which is released.
  /// @param tile      where the tile of this block is.
  /// @param epilogue  an Epilogue.
  //! [write]
  template <typename Pipeline, typename Operations>
  __device__ __forceinline__ void write(EpilogueStage<Pipeline>&& sums, const TilePlace& tile, Operations& epilogue) {
    for_each_slice<Slices, element_bits<Element>>(
        std::move(sums), tile, slices_written_, epilogue, [&](const SlicePlace&) { wait_for_buffer(); },
        [&](const auto& values, const RowPlace& place) {
          buffers_.put(slices_written_, place.slice_row, place.slice_column, values);
        },
        [&](const SlicePlace& slice, auto& operations) { store(slice, operations); });
  }
  //! [write]

  /// Waits until TMA has read all slices: the block may end, or use the shared memory for something else.
  ///
  /// Called by the whole warp, after its last `write()`.
  __device__ __forceinline__ void drain() const {
    if (is_storing_) wait_until_stores_are_read();
    __syncwarp();
  }

  /// Waits until all slices are in global memory: what the calling warp then signals to other blocks may say so.
  __device__ __forceinline__ void wait_until_written() const {
    if (is_storing_) wait_until_stores_are_done();
    __syncwarp();
  }

 private:
  /// Waits until TMA has read the slice that was in the next buffer.
  //! [wait for buffer]
  __device__ __forceinline__ void wait_for_buffer() const {
    if (is_storing_) wait_until_stores_are_read<NumBuffers - 1>();
    __syncwarp();  // only the storing lane has waited; now all may write
  }
  //! [wait for buffer]

  /// Hands a slice that all lanes have written to TMA.
  //! [store]
  template <typename SliceOperations>
  __device__ __forceinline__ void store(const SlicePlace& slice, SliceOperations& operations) const {
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // each lane's writes, for TMA to see
    __syncwarp();                                           // all lanes have written
    if (is_storing_) {
      operations.store();
      buffers_.store(slices_written_, slice.row, slice.column / ColumnsPerResult, slice.batch);
      commit_stores();
    }
  }
  //! [store]

  Buffers buffers_;
  int slices_written_ = 0;
  bool is_storing_;  // the one lane that stores: bulk groups belong to a thread
};

/// An operation that changes no value, but stores them as a second matrix: those before the activation, say, which a
/// backward pass needs. Put it where in the Epilogue the values are the wanted ones.
/// @tparam Writer            the TileWriter of the epilogue, with which its slices are stored.
/// @tparam Element           of the second matrix.
/// @tparam ColumnsPerResult  columns of the accumulator that make one of the second matrix: 2 after a gated activation.
template <typename Writer, TileElement Element, int ColumnsPerResult = 1, int NumBuffers = 2>
class SecondOutput {
  using Slices = typename Writer::Slices;
  using Buffers = SliceBuffers<Element, Slices::Part::rows, Slices::sums / ColumnsPerResult, NumBuffers>;

 public:
  using Storage = typename Buffers::Storage;      ///< in shared memory: declare one for the block
  using Map = typename Buffers::Map;              ///< of the second matrix
  using SliceTile = typename Buffers::SliceTile;  ///< what one copy stores: for `make_batched_tile_map()`

  /// Called by a whole converged warp. Parameters as of TileWriter.
  __device__ __forceinline__ SecondOutput(Storage& storage, const Map& map) : buffers_(storage, map) {}

  /// The values of one slice.
  class Slice {
   public:
    /// Made by `slice()`.
    __device__ __forceinline__ Slice(const Buffers& buffers, const SlicePlace& place)
        : buffers_(buffers), place_(place) {}
    /// Writes values of one row to the slice's buffer. Any thread.
    template <int Count>
    __device__ __forceinline__ void operator()(const float (&values)[Count], const RowPlace& place) const {
      buffers_.put(place_.number, place.slice_row, place.slice_column, values);
    }
    /// Asks for the store. Called by one thread.
    __device__ __forceinline__ void store() const {
      buffers_.store(place_.number, place_.row, place_.column / ColumnsPerResult, place_.batch);
    }

   private:
    const Buffers& buffers_;
    const SlicePlace& place_;
  };
  /// Begins a slice. Called by a whole converged warp.
  __device__ __forceinline__ Slice slice(const SlicePlace& place) { return Slice(buffers_, place); }

 private:
  Buffers buffers_;
};

}  // namespace stagecraft
