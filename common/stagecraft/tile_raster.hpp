// In which order the tiles of a matrix are computed: from the number of a tile to its row and column.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace stagecraft {

/// Which neighbour comes next: the tile below (along M) or the one to the right (along N).
enum class RasterOrder : uint8_t { along_m, along_n };

/// Where a tile is, counted in tiles.
struct TilePosition {
  uint32_t row;     ///< from 0
  uint32_t column;  ///< from 0

  /// Whether both are the same place.
  constexpr bool operator==(const TilePosition&) const = default;
};

/// A numbering of the `rows` x `columns` tiles of a matrix, which visits each of them once.
///
/// Tiles that are computed at the same time should share rows of A and columns of B, because each is then fetched into
/// L2 once. So the matrix is cut into *panels*, and one panel is finished before the next begins. Along M, a panel is
/// `width` columns wide and as long as the matrix; the numbers go across its width first, and then down:
///
///     4 x 5 tiles along M, width 2        the same along N
///         0  1 |  8  9 | 16                   0  2  4  6  8
///         2  3 | 10 11 | 17                   1  3  5  7  9
///         4  5 | 12 13 | 18                  ---------------
///         6  7 | 14 15 | 19                  10 12 14 16 18
///                                            11 13 15 17 19
///
/// The last panel may be narrower. A width of 1 is plain column-major order (along M) or row-major order (along N).
/// All methods may be called by any thread, on the host and on the device.
class TileRaster {
 public:
  /// No tiles.
  constexpr TileRaster() = default;

  /// @param rows, columns  of tiles; their product must be below 2^32.
  /// @param order          the direction in which a panel is long.
  /// @param width          tiles across a panel, which CUTLASS calls the swizzle size; 0 counts as 1, and more than the
  ///                       matrix is wide as the whole width.
  __host__ __device__ constexpr TileRaster(uint32_t rows, uint32_t columns, RasterOrder order = RasterOrder::along_m,
                                           uint32_t width = 1)
      : length_(order == RasterOrder::along_m ? rows : columns),
        breadth_(order == RasterOrder::along_m ? columns : rows),
        width_(width == 0         ? 1
               : width < breadth_ ? width
                                  : breadth_),
        order_(order) {}

  /// How many tiles there are: numbers go from 0 to one less.
  __host__ __device__ constexpr uint32_t tiles() const { return length_ * breadth_; }

  //! [position]
  /// Returns the place of tile `number`, which must be below `tiles()`.
  __host__ __device__ constexpr TilePosition position(uint32_t number) const {
    const uint32_t panel = number / (width_ * length_);
    const uint32_t inside = number - panel * (width_ * length_);
    const uint32_t first = panel * width_;
    const uint32_t width = width_ < breadth_ - first ? width_ : breadth_ - first;  // the last panel may be narrower
    const uint32_t along = inside / width, across = first + inside % width;
    return order_ == RasterOrder::along_m ? TilePosition{along, across} : TilePosition{across, along};
  }
  //! [position]

 private:
  uint32_t length_ = 0;   // of a panel
  uint32_t breadth_ = 0;  // of all panels together
  uint32_t width_ = 1;    // of each panel but the last
  RasterOrder order_ = RasterOrder::along_m;
};

}  // namespace stagecraft
