// In which order the tiles of C are computed.
#pragma once

#include <cstdint>

#include "stagecraft/tile_raster.hpp"

namespace stagecraft {

//! [in panels]
/// The place of tile `number` of `rows` x `columns`, in panels of `width` columns: a panel's numbers go across it
/// first, then down, and a panel is finished before the next begins. The last panel may be narrower.
/// @param number  below rows * columns.
/// @param width   1 or more.
__host__ __device__ constexpr TilePosition in_panels(uint32_t number, uint32_t rows, uint32_t columns, uint32_t width) {
  return TileRaster(rows, columns, RasterOrder::along_m, width).position(number);  // the library's
}
//! [in panels]

}  // namespace stagecraft
