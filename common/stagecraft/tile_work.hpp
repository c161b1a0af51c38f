// What there is to compute, divided into numbered units: whole tiles of C, tiles split along K, or even shares of all
// k-tiles (stream-K). A scheduler hands out the numbers; these types say what each number means.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "stagecraft/cluster_shape.hpp"
#include "stagecraft/tile_raster.hpp"

namespace stagecraft {

/// The sizes of a product, counted in tiles of one block: the last of each dimension may hang over the edge.
struct ProductTiles {
  uint32_t rows;         ///< of tiles of C
  uint32_t columns;      ///< of tiles of C
  uint32_t k_tiles;      ///< to add up for each tile of C; with 0 each tile is all zeros
  uint32_t batches = 1;  ///< products of these sizes
};

/// The order in which the tiles of a product are numbered: see TileRaster.
struct RasterOptions {
  RasterOrder order = RasterOrder::along_m;  ///< the direction in which a panel is long
  uint32_t width = 1;                        ///< of a panel, in tiles of a cluster
};

/// What a block computes in a turn: some k-tiles of one tile of C.
///
/// A tile is one piece, unless it is split along K. Then several blocks compute a piece each, and their sums are added
/// through a workspace: `partial_sums.hpp` says how, and in which order.
struct Work {
  int row;              ///< of the tile of C, in tiles of a block. Beyond the edge if the cluster hangs over it
  int column;           ///< the same
  int batch;            ///< which product
  int first_k_tile;     ///< the piece begins here
  int k_tiles;          ///< and has so many; 0 only where the product has none
  uint32_t piece;       ///< which piece of its tile, in the order of K
  uint32_t pieces;      ///< how many the tile has; 1: the tile is whole
  uint32_t first_slot;  ///< in the workspace: the place of piece 0; piece i is i places further
  uint32_t counter;     ///< in the workspace: the number of this tile's counter of arrivals

  /// Whether this is all of the tile: nothing goes through a workspace.
  __host__ __device__ constexpr bool is_whole() const { return pieces == 1; }

  /// Whether all members are equal.
  constexpr bool operator==(const Work&) const = default;
};

namespace detail {

/// `size` things in `parts` contiguous parts that differ by one at most; the first parts are the larger ones.
class EvenParts {
 public:
  constexpr EvenParts() = default;
  /// @param parts  1 to `size`; or 1 for a size of 0.
  __host__ __device__ constexpr EvenParts(uint32_t size, uint32_t parts) : base_(size / parts), extra_(size % parts) {}

  /// The first thing of a part; for one part more than there are, the size.
  __host__ __device__ constexpr uint32_t begin(uint32_t part) const {
    return part * base_ + (part < extra_ ? part : extra_);
  }
  /// The part that a thing is in.
  __host__ __device__ constexpr uint32_t part_of(uint32_t thing) const {
    const uint32_t in_larger = extra_ * (base_ + 1);
    return thing < in_larger ? thing / (base_ + 1) : extra_ + (thing - in_larger) / base_;
  }

 private:
  uint32_t base_ = 0, extra_ = 0;
};

/// Equally many pieces of each tile along K.
class Pieces {
 public:
  constexpr Pieces() = default;
  /// @param pieces  of each tile; no more than there are k-tiles are made, and no fewer than one.
  __host__ __device__ constexpr Pieces(uint32_t k_tiles, uint32_t pieces)
      : count_(pieces < k_tiles ? pieces : k_tiles), parts_(k_tiles, count_ == 0 ? count_ = 1 : count_) {}

  /// How many pieces each tile has.
  __host__ __device__ constexpr uint32_t count() const { return count_; }
  /// What is left of a whole tile's work for one of its pieces.
  /// @param tile  numbers the blocks' tiles, for their places in the workspace.
  __host__ __device__ constexpr Work cut(Work work, uint32_t piece, uint32_t tile) const {
    const uint32_t begin = parts_.begin(piece);
    work.first_k_tile = static_cast<int>(begin);
    work.k_tiles = static_cast<int>(parts_.begin(piece + 1) - begin);
    work.piece = piece;
    work.pieces = count_;
    work.first_slot = tile * count_;
    work.counter = tile;
    return work;
  }
  /// Places for partial sums that so many blocks' tiles need.
  __host__ __device__ constexpr uint32_t slots(uint32_t tiles) const { return count_ == 1 ? 0 : tiles * count_; }
  /// Counters of arrivals that they need.
  __host__ __device__ constexpr uint32_t counters(uint32_t tiles) const { return count_ == 1 ? 0 : tiles; }

 private:
  uint32_t count_ = 1;
  EvenParts parts_;
};

//! [whole]
/// The whole tile of the block of this rank, in a cluster's tile.
template <typename Shape>
__host__ __device__ constexpr Work whole_tile(TilePosition cluster, uint32_t batch, uint32_t k_tiles, uint32_t rank) {
  return {.row = static_cast<int>(cluster.row * Shape::rows + Shape::row(rank)),
          .column = static_cast<int>(cluster.column * Shape::columns + Shape::column(rank)),
          .batch = static_cast<int>(batch),
          .first_k_tile = 0,
          .k_tiles = static_cast<int>(k_tiles),
          .piece = 0,
          .pieces = 1,
          .first_slot = 0,
          .counter = 0};
}
//! [whole]

/// What all ways to divide a product have in common: which tile of C a block of the cluster has.
template <typename Shape>
class ClusterTiles {
 public:
  constexpr ClusterTiles() = default;
  __host__ __device__ constexpr ClusterTiles(const ProductTiles& product, RasterOptions raster)
      : raster_((product.rows + Shape::rows - 1) / Shape::rows, (product.columns + Shape::columns - 1) / Shape::columns,
                raster.order, raster.width),
        batches_(product.batches),
        k_tiles_(product.k_tiles) {}

  __host__ __device__ constexpr uint32_t tiles() const { return raster_.tiles() * batches_; }
  __host__ __device__ constexpr uint32_t k_tiles() const { return k_tiles_; }

  /// The whole tile of the block of this rank, in the cluster's tile `number`.
  __host__ __device__ constexpr Work whole(uint32_t number, uint32_t rank) const {
    const uint32_t batch = number / raster_.tiles();
    return whole_tile<Shape>(raster_.position(number - batch * raster_.tiles()), batch, k_tiles_, rank);
  }

 private:
  TileRaster raster_;  // of the clusters' tiles
  uint32_t batches_ = 0;
  uint32_t k_tiles_ = 0;
};

}  // namespace detail

/// Each unit is a tile of C, with all of its k-tiles.
///
/// Made on the host and passed to the kernel; all methods may be called by any thread. A kernel may define its own type
/// with these members, for work that no type here describes: a scheduler calls `units()`, `works()` and `work()` only.
/// @tparam Shape  the cluster: the unit of a cluster is as many neighbouring tiles as it has blocks.
template <typename Shape = OneBlock>
class WholeTiles {
 public:
  /// The clusters whose work this is.
  using Cluster = Shape;

  /// No tiles.
  constexpr WholeTiles() = default;
  /// @param product  its `rows * columns * batches` must be below 2^31.
  __host__ __device__ constexpr explicit WholeTiles(const ProductTiles& product, RasterOptions raster = {})
      : tiles_(product, raster) {}

  /// How many units there are: numbers go from 0 to one less.
  __host__ __device__ constexpr uint32_t units() const { return tiles_.tiles(); }
  /// How many works a unit consists of: 1 or more.
  __host__ __device__ static constexpr uint32_t works(uint32_t /*unit*/) { return 1; }
  /// The work number `index` of a unit, for the block of this rank of its cluster.
  __host__ __device__ constexpr Work work(uint32_t unit, uint32_t /*index*/, uint32_t rank) const {
    return tiles_.whole(unit, rank);
  }

  /// Places for partial sums that the workspace needs, each as large as the tile of a block.
  __host__ __device__ static constexpr uint32_t slots() { return 0; }
  /// Counters of arrivals that the workspace needs.
  __host__ __device__ static constexpr uint32_t counters() { return 0; }

 private:
  detail::ClusterTiles<Shape> tiles_;
};

/// Each unit is one of `splits` pieces of a tile of C, along K. The pieces of a tile have neighbouring numbers, so that
/// they are computed at about the same time.
///
/// All else is as in WholeTiles.
template <typename Shape = OneBlock>
class SplitK {
 public:
  /// As in WholeTiles.
  using Cluster = Shape;

  /// No tiles.
  constexpr SplitK() = default;
  /// @param splits  pieces of each tile; no more than there are k-tiles are made, and no fewer than one.
  __host__ __device__ constexpr SplitK(const ProductTiles& product, uint32_t splits, RasterOptions raster = {})
      : tiles_(product, raster), pieces_(product.k_tiles, splits) {}

  /// As in WholeTiles.
  __host__ __device__ constexpr uint32_t units() const { return tiles_.tiles() * pieces_.count(); }
  /// As in WholeTiles.
  __host__ __device__ static constexpr uint32_t works(uint32_t /*unit*/) { return 1; }
  /// As in WholeTiles.
  __host__ __device__ constexpr Work work(uint32_t unit, uint32_t /*index*/, uint32_t rank) const {
    const uint32_t tile = unit / pieces_.count();
    return pieces_.cut(tiles_.whole(tile, rank), unit - tile * pieces_.count(), rank * tiles_.tiles() + tile);
  }

  /// As in WholeTiles.
  __host__ __device__ constexpr uint32_t slots() const { return pieces_.slots(tiles_.tiles() * Shape::blocks); }
  /// As in WholeTiles.
  __host__ __device__ constexpr uint32_t counters() const { return pieces_.counters(tiles_.tiles() * Shape::blocks); }

 private:
  detail::ClusterTiles<Shape> tiles_;
  detail::Pieces pieces_;
};

/// Even shares of the k-tiles of all tiles of C, so that all clusters work equally long (stream-K).
///
/// With W clusters and T tiles, a plain schedule takes T / W rounds, rounded up, and in the last round some clusters
/// have nothing to do. Here the first tiles (all, if there are fewer than W; otherwise T % W of them, and W more) are
/// divided by k-tiles: their k-tiles in a row, tile after tile, are cut into W shares that differ by one at most, and
/// share w is unit w. A share may begin and end inside a tile. The remaining tiles, a multiple of W, are whole, and a
/// unit each.
///
/// A share's works begin with its *last* tile: the piece of a tile that a cluster begins with is followed, in the order
/// of K, by the pieces of later clusters, so that the first pieces of a tile tend to be computed first. Which cluster
/// computes what depends only on the sizes and on W: results are the same in every run.
///
/// All else is as in WholeTiles. Source: Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense
/// Matrix-Matrix Multiplication on the GPU" (the hybrid of two tiles for each share).
template <typename Shape = OneBlock>
class StreamK {
 public:
  /// As in WholeTiles.
  using Cluster = Shape;

  /// No tiles.
  constexpr StreamK() = default;
  /// @param clusters  that work at the same time: W.
  /// @param least     k-tiles that a share has at least, unless there are fewer in all: a partial sum costs as much as
  ///                  several k-tiles. Fewer than W shares are made if need be. 0 counts as 1.
  __host__ __device__ constexpr StreamK(const ProductTiles& product, uint32_t clusters, RasterOptions raster = {},
                                        uint32_t least = 4)
      : tiles_(product, raster) {
    const uint32_t tiles = tiles_.tiles(), k_tiles = tiles_.k_tiles();
    if (clusters == 0 || tiles % clusters == 0 || k_tiles == 0) return;  // whole tiles are even already
    shared_tiles_ = tiles < clusters ? tiles : clusters + tiles % clusters;
    const uint32_t all = shared_tiles_ * k_tiles, most = least <= 1 ? all : all / least;
    shares_ = most == 0 ? 1 : clusters < most ? clusters : most;
    parts_ = detail::EvenParts(all, shares_);
  }

  /// As in WholeTiles.
  __host__ __device__ constexpr uint32_t units() const { return shares_ + (tiles_.tiles() - shared_tiles_); }
  /// As in WholeTiles.
  __host__ __device__ constexpr uint32_t works(uint32_t unit) const {
    return unit < shares_ ? last_tile(unit) - first_tile(unit) + 1 : 1;
  }
  /// As in WholeTiles.
  __host__ __device__ constexpr Work work(uint32_t unit, uint32_t index, uint32_t rank) const {
    if (unit >= shares_) return tiles_.whole(shared_tiles_ + (unit - shares_), rank);
    const uint32_t tile = last_tile(unit) - index;
    const uint32_t tile_begin = tile * tiles_.k_tiles(), tile_end = tile_begin + tiles_.k_tiles();
    const uint32_t begin = parts_.begin(unit) < tile_begin ? tile_begin : parts_.begin(unit);
    const uint32_t end = parts_.begin(unit + 1) < tile_end ? parts_.begin(unit + 1) : tile_end;
    const uint32_t first_share = parts_.part_of(tile_begin);
    Work work = tiles_.whole(tile, rank);
    work.first_k_tile = static_cast<int>(begin - tile_begin);
    work.k_tiles = static_cast<int>(end - begin);
    work.piece = unit - first_share;
    work.pieces = parts_.part_of(tile_end - 1) - first_share + 1;
    // From one piece to the next the tile or the share grows, so their sum numbers all pieces.
    work.first_slot = rank * slots_of_rank() + tile + first_share;
    work.counter = rank * shared_tiles_ + tile;
    return work;
  }

  /// As in WholeTiles.
  __host__ __device__ constexpr uint32_t slots() const { return slots_of_rank() * Shape::blocks; }
  /// As in WholeTiles.
  __host__ __device__ constexpr uint32_t counters() const { return shared_tiles_ * Shape::blocks; }

 private:
  __host__ __device__ constexpr uint32_t first_tile(uint32_t share) const {
    return parts_.begin(share) / tiles_.k_tiles();
  }
  __host__ __device__ constexpr uint32_t last_tile(uint32_t share) const {
    return (parts_.begin(share + 1) - 1) / tiles_.k_tiles();
  }
  __host__ __device__ constexpr uint32_t slots_of_rank() const {
    return shares_ == 0 ? 0 : shared_tiles_ + shares_ - 1;
  }

  detail::ClusterTiles<Shape> tiles_;
  uint32_t shared_tiles_ = 0;  // those that are divided: the first ones
  uint32_t shares_ = 0;
  detail::EvenParts parts_;  // of their k-tiles
};

}  // namespace stagecraft
