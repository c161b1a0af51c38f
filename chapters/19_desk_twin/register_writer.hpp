// From the registers of a warp to D: an epilogue's operations, `stmatrix` to swizzled shared memory, and TMA. The twin
// of stagecraft/tile_writer.hpp, which reads tensor memory.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cuda/ptx>
#include <fragments.hpp>
#include <problem.cuh>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/ptx_sm90.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// Writes the sums of a tile to D, in bf16: each warp makes its own slice, so that no warp waits for another. The edges
/// of D are TMA's matter, as for TileWriter.
/// @tparam Config  of the kernel.
template <typename Config>
class RegisterWriter {
 public:
  using Sums = WarpSums<Config::warp_m, Config::warp_n>;  ///< what it writes
  using Slice = typename Config::OutputSlice;             ///< what one copy stores
  using Map = BatchedTileMap<Slice>;                      ///< of D

  /// Called by a whole converged warp. @param map  of D, in the kernel's parameters.
  __device__ __forceinline__ explicit RegisterWriter(const Map& map) : map_(&map), is_storing_(elect_one()) {}

  /// Writes the calling warp's part of a tile. When it returns, TMA may still read the slice.
  ///
  /// Called by each whole converged warp that multiplies.
  /// @param slices    of all warps, in shared memory that nobody else uses.
  /// @param tile      where the block's tile is in D.
  /// @param epilogue  an Epilogue, of operations that make one result of one value.
  //! [write]
  template <typename Operations>
  __device__ __forceinline__ void write(const Sums& sums, Slice (&slices)[Config::warps], const TilePlace& tile,
                                        Operations& epilogue) {
    static_assert(Operations::columns_per_result == 1 && Operations::results_at_once <= 2,
                  "RegisterWriter: a lane has two neighbouring values of a row at a time, and two results");
    const WarpPlace warp = warp_place<Config>();
    const int lane = static_cast<int>(lane_index());
    const SlicePlace place{.row = tile.row + warp.row,
                           .column = tile.column + warp.column,
                           .batch = tile.batch,
                           .tile_row = warp.row,
                           .half = 0,
                           .number = tiles_written_++};
    Slice& to = slices[warp_index()];
    auto operations = epilogue.slice(place);
#pragma unroll
    for (int i = 0; i < Sums::rows / 16; ++i) {
#pragma unroll
      for (int j = 0; j < Sums::columns / 16; ++j) {  // 16 x 16 of the slice: four matrices of 8 x 8
        // TODO 3: four pairs of values, and their places (`place_of`): apply the operations, round, and store the four
        // matrices (`ptx::store_matrices`). The address of which row does each lane pass?
      }
    }
    store(to, place, operations);
    epilogue.end_tile();
  }
  //! [write]

  /// Waits until TMA has read the slices of the warp's last `write()`: they may be overwritten, or the block
  /// may end. Called by the whole warp.
  __device__ __forceinline__ void wait_until_read() const {
    if (is_storing_) wait_until_stores_are_read();
    __syncwarp();
  }

 private:
  //! [store]
  /// Hands a slice that all lanes have written to TMA.
  template <typename SliceOperations>
  __device__ __forceinline__ void store(const Slice& from, const SlicePlace& place, SliceOperations& operations) const {
    // TODO 3: what happens between the last write and the end of the store's group, and in which lanes? Chapter 13.
    __syncwarp();  // together again for the next ldmatrix, which takes whole warps
  }
  //! [store]

  const Map* map_;
  int tiles_written_ = 0;
  bool is_storing_;  // the one lane that stores: bulk groups belong to a thread
};

}  // namespace stagecraft
