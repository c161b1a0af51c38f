// In which order the tiles of C are computed.
#pragma once

#include <cstdint>

#include "stagecraft/tile_raster.hpp"

namespace stagecraft {

/// The place of tile `number` of `rows` x `columns`, in panels of `width` columns: a panel's numbers go across it
/// first, then down, and a panel is finished before the next begins. The last panel may be narrower.
/// @param number  below rows * columns.
/// @param width   1 or more.
__host__ __device__ constexpr TilePosition in_panels(uint32_t number, uint32_t rows, [[maybe_unused]] uint32_t columns,
                                                     [[maybe_unused]] uint32_t width) {
  // TODO 1: these are panels of one column. Which panel is the tile in, and where in it?
  return {number % rows, number / rows};
}

}  // namespace stagecraft
