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
        uint32_t matrices[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {  // the same order as of A: eight rows further down, then eight columns on
          const float(&of)[4] = sums.of[i][2 * j + k / 2];
          float values[2] = {of[k % 2 * 2], of[k % 2 * 2 + 1]};
          operations(values, place_of(tile, place, 16 * i + k % 2 * 8 + lane / 4, 16 * j + k / 2 * 8 + lane % 4 * 2));
          const __nv_bfloat162 rounded = __floats2bfloat162_rn(values[0], values[1]);
          matrices[k] = reinterpret_cast<const uint32_t&>(rounded);
        }
        ptx::store_matrices(to.shared_address() + Slice::offset_of(16 * i + lane % 16, 16 * j + lane / 16 * 8),
                            matrices[0], matrices[1], matrices[2], matrices[3]);
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
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // each lane's writes, for TMA to see
    __syncwarp();                                           // all lanes have written
    if (is_storing_) {
      operations.store();
      store_tile(*map_, place.row, place.column, place.batch, from);
      commit_stores();
    }
    __syncwarp();  // together again for the next ldmatrix, which takes whole warps
  }
  //! [store]

  const Map* map_;
  int tiles_written_ = 0;
  bool is_storing_;  // the one lane that stores: bulk groups belong to a thread
};

}  // namespace stagecraft
