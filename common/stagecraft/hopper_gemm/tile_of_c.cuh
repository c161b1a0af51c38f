// The problem, and which tile of C a block computes when.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "stagecraft/cluster.hpp"
#include "stagecraft/hopper_gemm/configuration.cuh"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_raster.hpp"

namespace stagecraft {

/// What a launch computes: C (m x n) = A (m x k) * B (n x k) transposed, all row-major.
template <typename Config>
struct TwinProblem {
  TileMap<typename Twin<Config>::ASlice> a, a_edge;  ///< the second brings what is left of a slice at the edge
  TileMap<typename Twin<Config>::BSlice> b, b_edge;
  TileMap<typename Twin<Config>::Slab> c_map;
  __nv_bfloat16* c;
  int m, n, k;
  int band;             ///< rows of clusters that are gone through together, column by column
  int whole_tiles;      ///< of clusters: the others, in the last round, are cut or halved
  int pieces;           ///< of a tile that is cut; 1: none is
  int halved_tiles;     ///< of blocks
  int idle;             ///< clusters without a whole tile in a last round where others have one: two halves for each
  float4* partial;      ///< sums of such pieces, one place for each block
  uint32_t* delivered;  ///< for each multiplying warp of each block: 1 while its sums wait to be collected

  /// Rows and columns of clusters. A last one that has work for one block of two is not among them where tiles are
  /// halved.
  __host__ __device__ int cluster_rows() const { return clusters_along(m, Config::tile_m, Config::cluster_m); }
  __host__ __device__ int cluster_columns() const { return clusters_along(n, Config::tile_n, Config::cluster_n); }
  __host__ __device__ int tiles() const { return cluster_rows() * cluster_columns(); }
  /// Along K. Halves leave during the first stage and the last, so there they are two at least: what is beyond is zero.
  __host__ __device__ int k_groups() const {
    const int groups = ceil_div(k, Twin<Config>::kTileK * Config::k_group);
    return Config::in_turn && groups < 2 ? 2 : groups;
  }
  /// Rows that copies bring of `slices` slices of `rows` rows each of an operand of `size` rows, from row `first` on:
  /// all of a slice that is whole, and of each other, at the edge or beyond it, as many as the last one has.
  __host__ __device__ static int copied_rows(int size, int first, int rows, int slices = 1) {
    const int inside = (size - first) / rows, whole = inside < 0 ? 0 : inside < slices ? inside : slices;
    return whole * rows + (slices - whole) * rows_at_edge(size, rows);
  }
  /// Rows that copies bring of the last slice where it is not whole: a multiple of eight, which repeats the pattern of
  /// the swizzle. Eight where all are whole: beyond the edge, too, each slice brings something. For what a block may
  /// free again it learns from the others' copies alone (StageFreeing).
  __host__ __device__ static int rows_at_edge(int size, int rows) {
    return size % rows == 0 ? 8 : ceil_div(size % rows, 8) * 8;
  }
  __host__ __device__ static int ceil_div(int a, int b) { return (a + b - 1) / b; }
  __host__ __device__ static int clusters_along(int size, int tile, int blocks) {
    return Twin<Config>::kHalves ? ceil_div(size, tile) / blocks : ceil_div(size, tile * blocks);
  }
};

/// The place of the calling block in its cluster: a neighbour in the same row needs the same tile of A, one in the same
/// column the same tile of B.
template <typename Config>
struct TwinPlace {
  static constexpr int kNeighbours =
      Config::cluster_m + Config::cluster_n - 1;  // in its row or column, itself included

  int row = 0, column = 0;
  int part = 0;  // of K

  __device__ TwinPlace() {
    if constexpr (Twin<Config>::kSplits) {
      part = block_rank();
    } else if constexpr (Twin<Config>::kBlocks > 1) {
      row = block_rank() % Config::cluster_m;
      column = block_rank() / Config::cluster_m;
    }
  }
  /// The rank of the calling block.
  __device__ int rank() const { return row + column * Config::cluster_m; }
  /// The rank of neighbour `i`: first those of the same column, then the others of the same row.
  __device__ int neighbour(int i) const {
    if (i < Config::cluster_m) return i + column * Config::cluster_m;
    const int other = i - Config::cluster_m;
    return row + (other + (other >= column)) * Config::cluster_m;
  }
  /// The blocks that share this block's tile of A, as a mask.
  __device__ uint16_t same_row() const {
    uint32_t blocks = 0;
    for (int i = 0; i < Config::cluster_n; ++i) blocks |= 1u << (row + i * Config::cluster_m);
    return static_cast<uint16_t>(blocks);
  }
  /// And those that share its tile of B.
  __device__ uint16_t same_column() const {
    return static_cast<uint16_t>(((1u << Config::cluster_m) - 1) << (column * Config::cluster_m));
  }
};

//! [tile of c]
/// Where a block is in its work: its cluster begins with its own number and goes on to every so-many-th, as there are
/// clusters. Each role goes through the tiles independently.
///
/// Clusters that work at the same time should need the same tiles of A and B, which L2 then has: they are numbered down
/// a band of rows, column by column. Every second band is gone through from right to left, and every second tile along
/// K from end to beginning, so that what was used last is used again first.
///
/// Where the tiles of the last round are cut along K, neighbouring clusters compute the pieces of one, and the cluster
/// with the last piece collects the sums of the others. Where they are halved, each cluster computes one tile of a
/// block: its blocks share it along the side along which they otherwise have tiles of their own, so that each needs
/// only the slice of the other operand that it brings anyway. Clusters that have no whole tile in the last round begin
/// with two halves instead.
template <typename Config>
class TwinTile {
 public:
  __device__ TwinTile(const TwinProblem<Config>& problem, const TwinPlace<Config>& place)
      : problem_(problem),
        place_(place),
        number_(blockIdx.x / Twin<Config>::kBlocks),
        end_(Twin<Config>::kHalves ? problem.whole_tiles + problem.halved_tiles
                                   : problem.tiles() + (problem.tiles() - problem.whole_tiles) * (problem.pieces - 1)) {
    cut();
  }

  __device__ bool exists() const { return number_ < end_; }
  __device__ void next() {
    const int clusters = gridDim.x / Twin<Config>::kBlocks;
    int step = clusters;
    if constexpr (Twin<Config>::kHalves) {  // two halves of tiles take as long as a whole one
      const int half = number_ - problem_.whole_tiles;
      if (half >= 0 && half < problem_.idle) {
        step = problem_.idle;  // the second of two, while others have their last whole tile
      } else if (half < 0 && half + clusters >= problem_.idle) {
        step += problem_.idle;  // this was that tile: those halves are not for here
      }
    }
    number_ += step;
    backwards_ = !backwards_;
    cut();
  }
  /// Groups of k-tiles to add up.
  __device__ int num_k_groups() const { return end_k_group_ - first_k_group_; }
  /// The group that comes as number `turn`.
  __device__ int k_group(int turn) const { return backwards_ ? end_k_group_ - 1 - turn : first_k_group_ + turn; }
  /// Whether the sums of the other pieces are collected here. A whole tile is its own last piece.
  __device__ bool is_last_piece() const { return piece_ + 1 == pieces_; }
  /// Pieces of the same tile that the clusters just before this one compute.
  __device__ int pieces_before() const { return piece_; }

  /// Whether the block computes half of a tile.
  __device__ bool is_half() const { return Twin<Config>::kHalves && number_ >= problem_.whole_tiles; }

  /// First row and column of the calling block's tile of C. It takes some divisions: call it where there is time.
  __device__ int2 corner() const {
    const int after_whole = number_ - problem_.whole_tiles;
    if (is_half()) {
      const int paired = 2 * (problem_.tiles() - problem_.whole_tiles);  // halves of clusters' tiles come first
      int2 block;
      if (after_whole < paired) {
        const int2 cluster = cluster_place(problem_.whole_tiles + after_whole / 2);
        block = {cluster.x * Config::cluster_m + (Config::cluster_m == 2 ? after_whole % 2 : 0),
                 cluster.y * Config::cluster_n + (Config::cluster_n == 2 ? after_whole % 2 : 0)};
      } else if (Config::cluster_m == 2) {
        block = {problem_.cluster_rows() * 2, after_whole - paired};
      } else {
        block = {after_whole - paired, problem_.cluster_columns() * 2};
      }
      return {block.x * Config::tile_m + place_.column * (Config::tile_m / 2),
              block.y * Config::tile_n + place_.row * (Config::tile_n / 2)};
    }
    const int2 cluster =
        cluster_place(after_whole < 0 ? number_ : problem_.whole_tiles + after_whole / problem_.pieces);
    return {(cluster.x * Config::cluster_m + place_.row) * Config::tile_m,
            (cluster.y * Config::cluster_n + place_.column) * Config::tile_n};
  }

 private:
  /// Row and column, in clusters, of a tile: the bands are panels of the raster, and every second one turns back.
  __device__ int2 cluster_place(int tile) const {
    const uint32_t rows = problem_.cluster_rows(), columns = problem_.cluster_columns();
    const uint32_t band = min(static_cast<uint32_t>(problem_.band), rows), number = tile;
    const auto [row, column] = TileRaster{rows, columns, RasterOrder::along_n, band}.position(number);
    const bool turns_back = number / (band * columns) % 2 == 1;  // a division that the raster makes too
    return make_int2(row, turns_back ? columns - 1 - column : column);
  }

  __device__ void cut() {
    if constexpr (Twin<Config>::kSplits) {
      first_k_group_ = place_.part * problem_.k_groups() / 2;
      end_k_group_ = (place_.part + 1) * problem_.k_groups() / 2;
    }
    if (Config::last_round != LastRound::cut || number_ < problem_.whole_tiles) return;
    pieces_ = problem_.pieces;
    piece_ = (number_ - problem_.whole_tiles) % pieces_;
    first_k_group_ = piece_ * problem_.k_groups() / pieces_;
    end_k_group_ = (piece_ + 1) * problem_.k_groups() / pieces_;
  }

  const TwinProblem<Config>& problem_;
  const TwinPlace<Config>& place_;
  int number_, end_;
  int first_k_group_ = 0, end_k_group_ = problem_.k_groups();
  int piece_ = 0, pieces_ = 1;
  bool backwards_ = false;
};
//! [tile of c]

}  // namespace stagecraft
