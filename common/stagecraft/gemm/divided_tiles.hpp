// Tiles that several blocks compute together, each a piece along K: in a fixed number of pieces, or in even shares for
// all clusters. Which of the two is a matter of the launch.
#pragma once

#include "stagecraft/tile_work.hpp"

namespace stagecraft {

/// SplitK or StreamK, whichever it was made from; the members are theirs.
template <typename Shape>
class DividedTiles {
 public:
  using Cluster = Shape;  ///< the blocks that take a turn together

  constexpr DividedTiles() = default;
  /// A fixed number of pieces for each tile.
  constexpr explicit DividedTiles(const SplitK<Shape>& split) : split_(split) {}
  /// Even shares for all clusters.
  constexpr explicit DividedTiles(const StreamK<Shape>& stream) : stream_(stream), is_stream_(true) {}

  /// How many units there are.
  __host__ __device__ constexpr uint32_t units() const { return is_stream_ ? stream_.units() : split_.units(); }
  /// How many pieces of tiles a unit has.
  __host__ __device__ constexpr uint32_t works(uint32_t unit) const {
    return is_stream_ ? stream_.works(unit) : split_.works(unit);
  }
  /// Piece `index` of a unit, for the block of rank `rank`.
  __host__ __device__ constexpr Work work(uint32_t unit, uint32_t index, uint32_t rank) const {
    return is_stream_ ? stream_.work(unit, index, rank) : split_.work(unit, index, rank);
  }
  /// How many partial tiles the workspace holds.
  __host__ __device__ constexpr uint32_t slots() const { return is_stream_ ? stream_.slots() : split_.slots(); }
  /// How many counters of finished pieces the workspace holds.
  __host__ __device__ constexpr uint32_t counters() const {
    return is_stream_ ? stream_.counters() : split_.counters();
  }

 private:
  SplitK<Shape> split_;
  StreamK<Shape> stream_;
  bool is_stream_ = false;
};

}  // namespace stagecraft
