// From the registers of a warpgroup to D: an epilogue's operations, swizzled shared memory, and TMA. The
// twin of stagecraft/tile_writer.hpp, which reads tensor memory.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/slices.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// Writes the sums of a warpgroup to D, in bf16: each of its four warps makes its own slices and uses only its own
/// buffers, so that no warp waits for another. The edges of D are TMA's matter, as for TileWriter.
/// @tparam SumsType    a WarpgroupSums.
/// @tparam NumBuffers  slices in shared memory that may be on their way at a time.
template <typename SumsType, int NumBuffers = 2>
class RegisterWriter {
 public:
  using Sums = SumsType;                                                ///< what it writes
  static constexpr int columns = 64;                                    ///< of a slice: a line of 128 bytes
  using SliceTile = stagecraft::SliceTile<__nv_bfloat16, 16, columns>;  ///< what one copy stores
  using Map = BatchedTileMap<SliceTile>;                                ///< of D
  /// What is in shared memory, for one warpgroup.
  struct Storage {
    SliceTile slices[4][NumBuffers];  ///< each warp's own
  };

  /// Called by a whole converged warp.
  /// @param storage  of its warpgroup, in shared memory.
  /// @param map      of D, in the kernel's parameters.
  __device__ __forceinline__ RegisterWriter(Storage& storage, const Map& map)
      : slices_(storage.slices[warp_index() % 4]), map_(&map), is_storing_(elect_one()) {}

  /// Writes the calling warp's part of the sums, which must be complete.
  ///
  /// Called by each whole converged warp of the warpgroup. When it returns, the last stores may still be under way.
  /// @param tile      where the first of the warpgroup's sums belongs in D.
  /// @param epilogue  an Epilogue, of operations that make one result of one value.
  //! [write]
  template <typename Operations>
  __device__ __forceinline__ void write(const Sums& sums, const TilePlace& tile, Operations& epilogue) {
    static_assert(Operations::columns_per_result == 1 && Operations::results_at_once <= 2,
                  "RegisterWriter: a thread has two neighbouring values of a row at a time, and two results");
    const int lane = static_cast<int>(lane_index());
#pragma unroll
    for (int band = 0; band < Sums::rows / 64; ++band) {
#pragma unroll
      for (int first = 0; first < Sums::columns; first += columns, ++slices_written_) {
        const SlicePlace slice{.row = tile.row + band * 64 + static_cast<int>(warp_index() % 4) * 16,
                               .column = tile.column + first,
                               .batch = tile.batch,
                               .tile_row = band * 64,
                               .half = 0,
                               .number = slices_written_};
        SliceTile& to = slices_[slices_written_ % NumBuffers];
        wait_for_buffer();
        auto operations = epilogue.slice(slice);
#pragma unroll
        for (int i = 0; i < columns / 4; ++i) {  // two sums side by side: in one row, and then eight rows below
          const int row = lane / 4 + i % 2 * 8, column = i / 2 * 8 + lane % 4 * 2;
          float values[2] = {sums.of[band][first / 2 + 2 * i], sums.of[band][first / 2 + 2 * i + 1]};
          operations(values, place_of(tile, slice, row, column));
          *reinterpret_cast<__nv_bfloat162*>(&to.at(row, column)) = __floats2bfloat162_rn(values[0], values[1]);
        }
        store(to, slice, operations);
      }
    }
    epilogue.end_tile();
  }
  //! [write]

  /// Waits until TMA has read all slices: the block may end. Called by the whole warp, after its last
  /// `write()`.
  __device__ __forceinline__ void drain() const {
    if (is_storing_) wait_until_stores_are_read();
    __syncwarp();
  }

 private:
  /// Waits until TMA has read the slice that was in the next buffer.
  __device__ __forceinline__ void wait_for_buffer() const {
    if (is_storing_) wait_until_stores_are_read<NumBuffers - 1>();
    __syncwarp();  // only the storing lane has waited; now all may write
  }

  //! [store]
  /// Hands a slice that all lanes have written to TMA.
  template <typename SliceOperations>
  __device__ __forceinline__ void store(const SliceTile& from, const SlicePlace& slice,
                                        SliceOperations& operations) const {
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // each lane's writes, for TMA to see
    __syncwarp();                                           // all lanes have written
    if (is_storing_) {
      operations.store();
      store_tile(*map_, slice.row, slice.column, slice.batch, from);
      commit_stores();
    }
    __syncwarp();  // together again for the next wgmma, which takes whole warps
  }
  //! [store]

  SliceTile (&slices_)[NumBuffers];
  const Map* map_;
  int slices_written_ = 0;
  bool is_storing_;  // the one lane that stores: bulk groups belong to a thread
};

}  // namespace stagecraft
