// Copies of tiles by TMA: from a matrix in global memory to a tile in shared memory, by the tensor map that
// make_tile_map() makes from the tile's type.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/ptx.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft {

namespace detail {

/// Calls `copy(address of a box, {contiguous coordinate, other coordinate})` for each box of a tile.
template <typename T, typename Copy>
__device__ __forceinline__ void for_each_box(T& tile, int row, int column, Copy copy) {
#pragma unroll
  for (int box = 0; box < T::num_boxes; ++box) {
    const int32_t contiguous = (T::major == Major::k ? column : row) + box * T::box_elements;
    const int32_t coordinates[2] = {contiguous, T::major == Major::k ? row : column};
    copy(tile.storage + box * T::bytes_per_box, coordinates);
  }
}

}  // namespace detail

/// Asks for the tile of a matrix that starts at (row, column), and returns at once.
///
/// Called by one thread. When the bytes (`bytes` of the tile, including those beyond the matrix) have arrived, TMA
/// subtracts them from what was announced to `barrier`; a thread that waits for that phase sees them.
/// @param map          of the tile's type. A bare CUtensorMap cannot be checked for that; a TileMap, below, is.
/// @param row, column  of the matrix; the contiguous one a multiple of 16 bytes. Elements outside read as zero.
/// Source: PTX ISA, "cp.async.bulk.tensor".
template <TileElement Element, int Rows, int Columns, Swizzle TileSwizzle, Major TileMajor>
__device__ __forceinline__ void copy_tile(Tile<Element, Rows, Columns, TileSwizzle, TileMajor>& to,
                                          const CUtensorMap& map, int row, int column, MbarPtr barrier) {
  detail::for_each_box(to, row, column, [&](void* box, const int32_t(&at)[2]) {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, box, &map, at, barrier);
  });
}

/// The same, for several blocks of a cluster at once: the tile goes to the same offset in the shared memory of each,
/// and counts at the barrier at the same offset there.
/// @param blocks  bit i: the block of rank i in the cluster gets the copy.
template <TileElement Element, int Rows, int Columns, Swizzle TileSwizzle, Major TileMajor>
__device__ __forceinline__ void copy_tile_to_blocks(Tile<Element, Rows, Columns, TileSwizzle, TileMajor>& to,
                                                    const CUtensorMap& map, int row, int column, MbarPtr barrier,
                                                    uint16_t blocks) {
  detail::for_each_box(to, row, column, [&](void* box, const int32_t(&at)[2]) {
    ptx::copy_tensor_to_blocks(box, &map, at, barrier, blocks);
  });
}

/// Asks for a plain tile, as above.
template <TileElement Element, int Rows, int Columns>
__device__ __forceinline__ void copy_tile(PlainTile<Element, Rows, Columns>& to, const CUtensorMap& map, int row,
                                          int column, MbarPtr barrier) {
  const int32_t at[2] = {column, row};
  cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to.storage, &map, at, barrier);
}

/// Asks for scale factors, as above.
/// @param row    of the operand, a multiple of 128.
/// @param block  along K, a multiple of 4.
template <TileElement Scale, int Rows, int Blocks>
__device__ __forceinline__ void copy_tile(ScaleFactorTile<Scale, Rows, Blocks>& to, const CUtensorMap& map, int row,
                                          int block, MbarPtr barrier) {
  const int32_t at[3] = {0, block / 4, row / 128};
  cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to.storage, &map, at, barrier);
}

// ---- By maps that know their tile -----------------------------------------------------------------------------------

/// Asks for a tile of any kind, as above, by a map that knows what it was made for: another tile does not compile.
template <typename T, typename MappedTile>
__device__ __forceinline__ void copy_tile(T& to, const TileMap<MappedTile>& map, int row, int column, MbarPtr barrier) {
  static_assert(
      std::same_as<T, MappedTile>,
      "copy_tile: the tensor map was made for tiles of another type: pass the one from make_tile_map<T>(), of "
      "this tile's type T");
  copy_tile(to, map.map, row, column, barrier);
}

/// The same for several blocks of a cluster at once. Parameters as above.
template <typename T, typename MappedTile>
__device__ __forceinline__ void copy_tile_to_blocks(T& to, const TileMap<MappedTile>& map, int row, int column,
                                                    MbarPtr barrier, uint16_t blocks) {
  static_assert(std::same_as<T, MappedTile>,
                "copy_tile_to_blocks: the tensor map was made for tiles of another type: pass the one from "
                "make_tile_map<T>(), of this tile's type T");
  copy_tile_to_blocks(to, map.map, row, column, barrier, blocks);
}

}  // namespace stagecraft
