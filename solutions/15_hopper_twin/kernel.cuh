// C = A * B transposed on Hopper's tensor cores: one warp loads tiles, two warpgroups multiply them in their registers
// and store the sums. The twin of chapter 10's kernel: the ring and its tiles are the same types.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cuda/atomic>
#include <cuda/ptx>
#include <type_traits>

#include "ptx_sm90.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/cluster_shape.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/tile_raster.hpp"
#include "stagecraft/warp.hpp"
#include "wgmma.hpp"

namespace stagecraft {

/// What becomes of the tiles of the last round, where they do not keep all blocks busy.
enum class LastRound : uint8_t {
  whole,   ///< they are computed as all others
  cut,     ///< along K into pieces: the block with the last piece collects the sums of the others
  halved,  ///< between the two blocks of a cluster
};

/// How a stage is freed whose tiles other blocks of the cluster bring.
enum class Freeing : uint8_t {
  stored,     ///< by an asynchronous store, whose bytes the other block awaits as it awaits those of copies
  ordered,    ///< by an arrival with the scope of the cluster: a fence of about 300 cycles, for each k-tile
  tolerated,  ///< by an arrival without it, as CUTLASS does: PTX then promises nothing to the other block
};

/// What a kernel is compiled for: a type with these members, most simply one that inherits them and replaces some.
/// (A structure as a template argument would be simpler, but nvcc 13.0 cannot launch kernels that have one.)
struct TwinDefaults {
  using Element = __nv_bfloat16;                    ///< of A and B; or __nv_fp8_e4m3
  static constexpr int tile_m = 128, tile_n = 256;  ///< of C, computed by a block at a time
  static constexpr int stages = 4;                  ///< in shared memory
  static constexpr int k_group = 1;                 ///< k-tiles in a stage
  static constexpr int cluster_m = 2;     ///< blocks of a cluster, one below the other: they share a tile of B
  static constexpr int cluster_n = 1;     ///< side by side: they share a tile of A
  static constexpr int cluster_k = 1;     ///< 2: each block of a cluster computes half of K, and they add up
  static constexpr int consumers = 2;     ///< warpgroups that multiply, one below the other in a tile
  static constexpr int in_flight = 0;     ///< stages that may still be multiplied when the next is issued: 0 or 1
  static constexpr bool swapped = false;  ///< C transposed is computed, as B * A transposed: M is then N in here
  static constexpr int slabs = 2;         ///< 16 x 64 parts of C for each warp, on their way out
  static constexpr LastRound last_round = LastRound::whole;  ///< what is done with tiles that leave blocks idle
  static constexpr Freeing frees = Freeing::stored;          ///< how other blocks learn that a stage is free
  static constexpr bool by_copy_engine = true;               ///< C is stored by it; else by the threads
  static constexpr bool overlaps = true;  ///< a tile is stored while the next is multiplied, if the registers suffice
  static constexpr auto a_hint = ptx::CacheHint::evict_normal;  ///< how long L2 keeps tiles of A
  static constexpr auto b_hint = ptx::CacheHint::evict_normal;  ///< of B
  static constexpr auto c_hint = ptx::CacheHint::evict_normal;  ///< and of C
};

/// The types that follow from a configuration.
template <typename Config>
struct Twin {
  using Element = typename Config::Element;
  static constexpr int kTileK = 1024 / element_bits<Element>;             // 128 bytes, as wide as the swizzle
  static constexpr int kSharing = Config::cluster_m * Config::cluster_n;  // blocks of a cluster that share tiles
  static constexpr int kBlocks = kSharing * Config::cluster_k;
  static constexpr bool kSplits = Config::cluster_k == 2;
  static constexpr int kConsumers = Config::consumers;
  static constexpr int kThreads = (1 + kConsumers) * kWarpgroupSize;  // of one warpgroup more, one warp loads
  static constexpr int kRowsPerWarpgroup = Config::tile_m / kConsumers;
  static constexpr int kWarps = kConsumers * 4;  // that multiply and store

  using ATile = Tile<Element, Config::tile_m, kTileK>;
  using BTile = Tile<Element, Config::tile_n, kTileK>;
  // What one block brings of a tile that several share.
  using ASlice = Tile<Element, Config::tile_m / Config::cluster_n, kTileK>;
  using BSlice = Tile<Element, Config::tile_n / Config::cluster_m, kTileK>;
  // Columns of a tile that a warp stores at once, with its 16 rows: as many as divide the tile. In memory, the columns
  // of what is computed transposed are rows.
  static constexpr int kSlabColumns = Config::tile_n % 64 == 0 ? 64 : Config::tile_n % 32 == 0 ? 32 : 16;
  static constexpr Swizzle kSlabSwizzle = Config::swapped || kSlabColumns == 16 ? Swizzle::bytes_32
                                          : kSlabColumns == 32                  ? Swizzle::bytes_64
                                                                                : Swizzle::bytes_128;
  using Slab =
      Tile<__nv_bfloat16, Config::swapped ? kSlabColumns : 16, Config::swapped ? 16 : kSlabColumns, kSlabSwizzle>;
  using Payload = StandardTilePayload<ATile, BTile, Config::stages * Config::k_group>;
  static constexpr bool kStores = kSharing > 1 && Config::frees == Freeing::stored;
  static constexpr bool kOrders = kSharing > 1 && Config::frees == Freeing::ordered;
  // Only arrivals of threads of other blocks take waits of the cluster's scope.
  using Cluster = std::conditional_t<kOrders, ClusterShape<Config::cluster_m, Config::cluster_n>, OneBlock>;
  using Input = InputTilePipeline<Payload, Config::stages, Config::k_group, Cluster>;
  using Sums = WarpgroupSums<Element, kRowsPerWarpgroup, Config::tile_n>;
  // The two blocks of a cluster may share a tile: each then needs only the slices that it brings itself.
  static constexpr bool kHalves = Config::last_round == LastRound::halved;
  using HalfSums = WarpgroupSums<Element, kHalves ? kRowsPerWarpgroup / Config::cluster_n : kRowsPerWarpgroup,
                                 kHalves ? Config::tile_n / Config::cluster_m : Config::tile_n / Config::cluster_k>;

  static constexpr int kBands = Sums::rows / 64;                        // of 64 rows, each one wgmma's
  static constexpr int kParts = kBands * Sums::columns / kSlabColumns;  // slabs of a warp in a tile
  // A rounded tile takes half the registers of its sums, so that it can leave while the next is multiplied.
  static constexpr bool kOverlaps = Config::overlaps && Sums::rows * Sums::columns <= 64 * 256;

  struct Shared {
    union {
      typename Payload::Storage tiles;
      float4 exchanged[kSplits ? Sums::rows * Sums::columns / 2 / 4 / kWarpgroupSize : 1][kConsumers * kWarpgroupSize];
    };
    Slab slabs[kWarps][Config::slabs];
    typename Input::BarrierArray barriers;
    uint32_t freed[kStores ? Config::stages : 1][kConsumers][kBlocks];  // where the other blocks store
  };
  static_assert(Config::tile_n % 16 == 0, "Twin: tile_n must be a multiple of 16, the columns of the narrowest slab");
  static_assert((kSlabColumns == 64 && !Config::swapped) || Config::by_copy_engine,
                "Twin: threads store rows of 64 columns only");
  static_assert(kParts % Config::slabs == 0,
                "Twin: a warp's parts of a tile must be a multiple of its slabs, which they go through in turn");
  static_assert(HalfSums::rows / 64 * (HalfSums::columns / kSlabColumns) % Config::slabs == 0,
                "Twin: the parts of half a tile must be a multiple of a warp's slabs too");
  static_assert(Config::last_round != LastRound::cut || Sums::rows * Sums::columns <= 64 * 256,
                "Twin: a tile that is cut may have at most 128 sums for each thread, or there are no registers to "
                "collect others");
  static_assert(Config::cluster_m + Config::cluster_n <= 5,
                "Twin: a block may share tiles with three others, one for each warp of a warpgroup that tells them");
  static_assert(kConsumers == 1 || kConsumers == 2, "Twin: there are registers for one or two consumers");
  static_assert(!kHalves || kBlocks == 2, "Twin: tiles are halved by the two blocks of a cluster, so it must have two");
  static_assert(sizeof(Shared) <= kSharedBytesPerBlock, "Twin: the stages and slabs do not fit in shared memory");

  // 24 * 128 + 240 * 256 registers are 504 * 128 of the multiprocessor's 512 * 128: as many as it had at the start.
  static constexpr int kLoadRegisters = 24, kMultiplyRegisters = 240;
};

/// What a launch computes: C (m x n) = A (m x k) * B (n x k) transposed, all row-major.
template <typename Config>
struct TwinProblem {
  TileMap<typename Twin<Config>::ASlice> a;
  TileMap<typename Twin<Config>::BSlice> b;
  TileMap<typename Twin<Config>::Slab> c_map;
  __nv_bfloat16* c;
  int m, n, k;
  int band;             ///< rows of clusters that are gone through together, column by column
  int whole_tiles;      ///< of clusters: the others, in the last round, are cut or halved
  int pieces;           ///< of a tile that is cut; 1: none is
  int halved_tiles;     ///< of blocks
  float4* partial;      ///< sums of such pieces, one place for each block
  uint32_t* delivered;  ///< for each multiplying warp of each block: 1 while its sums wait to be collected

  /// Rows and columns of clusters. A last one that has work for one block of two is not among them where tiles are
  /// halved.
  __host__ __device__ int cluster_rows() const { return clusters_along(m, Config::tile_m, Config::cluster_m); }
  __host__ __device__ int cluster_columns() const { return clusters_along(n, Config::tile_n, Config::cluster_n); }
  __host__ __device__ int tiles() const { return cluster_rows() * cluster_columns(); }
  __host__ __device__ int k_groups() const { return ceil_div(k, Twin<Config>::kTileK * Config::k_group); }
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
/// only the slice of the other operand that it brings anyway.
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
    number_ += gridDim.x / Twin<Config>::kBlocks;
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

namespace twin {

/// What a warp does.
enum class Role { load, multiply };

/// The first warpgroup loads, the others multiply and store. Called by a whole warp.
__device__ inline Role warp_role() { return warp_index() < 4 ? Role::load : Role::multiply; }

/// Asks for what this block brings of a tile that `Sharers` blocks of the cluster share, for all of them.
/// @param slice   which part of the tile that is.
/// @param blocks  the sharers, as a mask.
template <int Sharers, typename T, typename Slice>
__device__ __forceinline__ void load_slice(T& tile, const TileMap<Slice>& map, int row, int column, MbarPtr barrier,
                                           int slice, uint16_t blocks, ptx::CacheHint hint) {
  static_assert(Slice::rows * Sharers == T::rows && Slice::num_boxes == 1 && T::num_boxes == 1,
                "load_slice: the slices must make the tile, and be one box wide");
  if constexpr (Sharers == 1) {
    ptx::copy_box(tile.storage, &map.map, column, row, barrier, hint);
  } else {
    ptx::copy_box(tile.storage + slice * Slice::bytes, &map.map, column, row + slice * Slice::rows, barrier, blocks,
                  hint);
  }
}

/// Two sums as two bf16 in a word, the first in the lower half.
__device__ __forceinline__ uint32_t rounded(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return reinterpret_cast<const uint32_t&>(both);
}

}  // namespace twin

/// Stores a warp's part of C, where the copy engine cannot: rows of C start on boundaries of 2 bytes only.
///
/// Called by a whole warp, which has written the slab. A row goes out as words of two elements, and one element alone
/// at either end where the row starts off a 4-byte boundary.
template <typename Config>
__device__ __forceinline__ void store_slab(const TwinProblem<Config>& problem, typename Twin<Config>::Slab& slab,
                                           int row, int column, int lane) {
  const int valid = min(64, problem.n - column), rows = min(16, problem.m - row);
  __nv_bfloat16* to = problem.c + static_cast<int64_t>(row) * problem.n + column;
#pragma unroll 4
  for (int i = 0; i < rows; ++i, to += problem.n) {
    const int shift = reinterpret_cast<uintptr_t>(to) / 2 % 2;
    const int first = 2 * lane + shift;
    const __nv_bfloat162 both{slab.at(i, first), slab.at(i, min(first + 1, 63))};
    if (first + 1 < valid) {
      *reinterpret_cast<__nv_bfloat162*>(to + first) = both;
    } else if (first < valid) {
      to[first] = both.x;
    }
    if (shift == 1 && lane == 0 && valid > 0) to[0] = slab.at(i, 0);
  }
}

/// Writes a warp's sums of a part of K of a tile to memory, for the warp that collects them. Called by a whole warp.
template <typename Config>
__device__ __forceinline__ void deliver(const TwinProblem<Config>& problem, const typename Twin<Config>::Sums& sums,
                                        int warp, int lane) {
  constexpr int kWords = Config::tile_n / 8;  // of four sums, for each 64 rows
  float4* to = problem.partial + static_cast<int64_t>(warp) * Twin<Config>::Sums::rows / 64 * kWords * 32 + lane;
#pragma unroll
  for (int i = 0; i < Twin<Config>::Sums::rows / 64; ++i) {
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const float* d = sums.of[i] + word * 4;
      __stcg(to + (i * kWords + word) * 32, make_float4(d[0], d[1], d[2], d[3]));
    }
  }
  __syncwarp();
  if (lane == 0) {  // releases what all lanes have written
    cuda::atomic_ref<uint32_t, cuda::thread_scope_device>(problem.delivered[warp]).store(1, cuda::memory_order_release);
  }
}

/// Waits for what a warp of another block delivers, and adds it to the caller's sums. Called by a whole warp.
template <typename Config>
__device__ __forceinline__ void collect(const TwinProblem<Config>& problem, typename Twin<Config>::Sums& sums, int warp,
                                        int lane) {
  constexpr int kWords = Config::tile_n / 8;
  const cuda::atomic_ref<uint32_t, cuda::thread_scope_device> delivered(problem.delivered[warp]);
  if (lane == 0) {
    while (delivered.load(cuda::memory_order_acquire) == 0) {
    }
    delivered.store(0, cuda::memory_order_relaxed);  // for the next launch
  }
  __syncwarp();
  const float4* from =
      problem.partial + static_cast<int64_t>(warp) * Twin<Config>::Sums::rows / 64 * kWords * 32 + lane;
#pragma unroll
  for (int i = 0; i < Twin<Config>::Sums::rows / 64; ++i) {
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      if (word % 4 == 0) asm volatile("" ::: "memory");  // no more loads at once than there are registers for
      const float4 other = __ldcg(from + (i * kWords + word) * 32);
      float* d = sums.of[i] + word * 4;
      d[0] += other.x;
      d[1] += other.y;
      d[2] += other.z;
      d[3] += other.w;
    }
  }
}

/// Adds up the sums of the two blocks of a cluster, each of which keeps half of the columns. Called by all threads that
/// multiply, in both blocks, when neither needs its stages any more.
template <typename Shared, typename Sums, typename HalfSums>
__device__ __forceinline__ void exchange(Shared& shared, const Sums& sums, HalfSums& half, int part) {
  constexpr int kHalf = Sums::columns / 4;
  const int thread = threadIdx.x - kWarpgroupSize;
  sync_cluster();
#pragma unroll
  for (int i = 0; i < Sums::rows / 64; ++i) {
#pragma unroll
    for (int word = 0; word < kHalf / 4; ++word) {
      const float* d = sums.of[i] + word * 4;
      ptx::store_in_block(ptx::address_in_block(&shared.exchanged[i * (kHalf / 4) + word][thread], 1 - part),
                          part == 0 ? make_float4(d[kHalf], d[kHalf + 1], d[kHalf + 2], d[kHalf + 3])
                                    : make_float4(d[0], d[1], d[2], d[3]));
    }
  }
  sync_cluster();
#pragma unroll
  for (int i = 0; i < Sums::rows / 64; ++i) {
#pragma unroll
    for (int word = 0; word < kHalf / 4; ++word) {
      const float* d = sums.of[i] + word * 4;
      const float4 other = shared.exchanged[i * (kHalf / 4) + word][thread];
      float* to = half.of[i] + word * 4;
      to[0] = (part == 0 ? d[0] : d[kHalf]) + other.x;
      to[1] = (part == 0 ? d[1] : d[kHalf + 1]) + other.y;
      to[2] = (part == 0 ? d[2] : d[kHalf + 2]) + other.z;
      to[3] = (part == 0 ? d[3] : d[kHalf + 3]) + other.w;
    }
  }
}

/// What tells one block of the cluster that a warpgroup has read a stage. Made and called by one thread.
template <typename Config>
class StageFreeing {
  using T = Twin<Config>;

 public:
  /// @param own_rank   of the calling block.
  /// @param block      the rank of the block that waits for this, or the own one.
  /// @param warpgroup  of the caller, among those that multiply.
  __device__ __forceinline__ StageFreeing(typename T::Shared& shared, int own_rank, int block, int warpgroup)
      : block_(block), is_own_(block == own_rank) {
    if constexpr (T::kStores) {
      barriers_ = ptx::address_in_block(typename T::Input::Pipeline{shared.barriers}.consumer_mbar(0), block);
      slots_ = ptx::address_in_block(&shared.freed[0][warpgroup][own_rank], block);
    }
  }

  /// Called when the warpgroup has read a stage of the own block: the other one's of the same number is meant too.
  /// @param stays_here  whether only the own block waits, for what its halves of tiles took.
  /// @param stage  its number.
  /// @param mbar   its empty barrier, of the own block.
  template <bool StaysHere>
  __device__ __forceinline__ void free(uint32_t stage, MbarPtr mbar) const {
    if constexpr (StaysHere) {
      if (!T::kStores || is_own_) arrive(mbar);
    } else if constexpr (T::kOrders) {
      arrive_at_block(mbar, block_);
    } else if constexpr (T::kStores) {
      if (is_own_) {
        arrive(mbar);
      } else {
        // An asynchronous store starts after what its thread did before, and a wait for its bytes comes after it: so
        // the reads of this stage come before the copy that refills it.
        ptx::store_async(slots_ + stage * sizeof(T::Shared::freed[0]), 0, barriers_ + stage * sizeof(uint64_t));
      }
    } else if constexpr (T::kSharing > 1) {
      ptx::arrive_in_cluster(mbar, block_);
    } else {
      arrive(mbar);
    }
  }

 private:
  int block_;
  bool is_own_;
  uint32_t barriers_ = 0, slots_ = 0;  // those of stage 0 in that block
};

/// A warp's part of a tile of C on its way from the registers to memory. All methods are called by the whole warp.
template <typename Config>
class LeavingTile {
  using T = Twin<Config>;

 public:
  /// @param slabs  of this warp, in shared memory.
  __device__ __forceinline__ LeavingTile(const TwinProblem<Config>& problem, typename T::Slab (&slabs)[Config::slabs])
      : problem_(problem), slabs_(slabs), elected_(elect_one()) {}

  /// Takes the sums, rounded: their registers are free then.
  /// @param row, column  of the warp's first element in C.
  template <typename Sums>
  __device__ __forceinline__ void take(const Sums& sums, int row, int column) {
    row_ = row;
    column_ = column;
    parts_ = Sums::rows / 64 * (Sums::columns / T::kSlabColumns);
#pragma unroll
    for (int band = 0; band < Sums::rows / 64; ++band) {
#pragma unroll
      for (int word = 0; word < Sums::columns / 4; ++word) {
        words_[band][word] = twin::rounded(sums.of[band][2 * word], sums.of[band][2 * word + 1]);
      }
    }
  }

  /// Stores part number `part` of the tile, if there is one. It waits only for a slab that is on its way out.
  __device__ __forceinline__ void store_part(int part) {
    if (part >= parts_) return;
#pragma unroll
    for (int i = 0; i < T::kParts; ++i) {  // registers have no index that is known only at run time
      if (i == part) store(i);
    }
  }

  /// Stores all parts from number `first` on. No tile is left then.
  __device__ __forceinline__ void store_rest(int first) {
#pragma unroll
    for (int i = 0; i < T::kParts; ++i) {
      if (i >= first && i < parts_) store(i);
    }
    parts_ = 0;
  }

  /// Waits until the slabs have been read: the block may end then.
  __device__ __forceinline__ void drain() const {
    if constexpr (Config::by_copy_engine) {
      if (elected_) wait_until_stores_are_read();
    }
  }

 private:
  __device__ __forceinline__ void store(int part) const {
    constexpr int kPerBand = Config::tile_n / T::kSlabColumns;
    const int band = part / kPerBand, column = part % kPerBand * T::kSlabColumns, lane = lane_index();
    auto& slab = slabs_[part % Config::slabs];
    if constexpr (Config::by_copy_engine) {
      if (elected_) wait_until_stores_are_read<Config::slabs - 1>();
    }
    __syncwarp();  // the slab's last content has been read
#pragma unroll
    for (int pair = 0; pair < T::kSlabColumns / 16; ++pair) {  // 16 columns: two matrices of 8 x 8, and two below them
      const uint32_t* words = words_[band] + column / 4 + pair * 4;
      if constexpr (Config::swapped) {
        ptx::store_matrices_transposed(
            slab.shared_address() + slab.offset_of(pair * 16 + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8), words[0],
            words[1], words[2], words[3]);
      } else {
        ptx::store_matrices(slab.shared_address() + slab.offset_of(lane % 16, pair * 16 + lane / 16 * 8), words[0],
                            words[1], words[2], words[3]);
      }
    }
    if constexpr (Config::by_copy_engine) {
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // the copy engine sees what this thread wrote
      __syncwarp();
      if (elected_) {
        const int2 corner{column_ + column, row_ + band * 64};
        ptx::store_box(&problem_.c_map.map, Config::swapped ? corner.y : corner.x,
                       Config::swapped ? corner.x : corner.y, slab.storage, Config::c_hint);
        commit_stores();
      }
    } else {
      __syncwarp();
      store_slab(problem_, slab, row_ + band * 64, column_ + column, lane);
    }
    __syncwarp();  // together again for the next wgmma, which needs the whole warp
  }

  const TwinProblem<Config>& problem_;
  typename T::Slab (&slabs_)[Config::slabs];
  uint32_t words_[T::kBands][Config::tile_n / 4];  // two elements each
  int row_ = 0, column_ = 0;
  int parts_ = 0;  // of the tile that is on its way
  bool elected_;
};

//! [kernel]
template <typename Config>
__global__ void __launch_bounds__(Twin<Config>::kThreads, 1)
    hopper_twin(const __grid_constant__ TwinProblem<Config> problem) {
  using T = Twin<Config>;
  using Input = typename T::Input;
  using Place = TwinPlace<Config>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<typename T::Shared*>(dynamic_shared_memory);
  Input input{shared.barriers, typename T::Payload{shared.tiles}};
  const twin::Role role = twin::warp_role();
  const Place place;

  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&problem.a.map);
    ptx::prefetch_tensor_map(&problem.b.map);
    Input::init_barriers(shared.barriers,
                         /*producer_arrive_count=*/1,    // the loading lane, which announces the bytes
                         T::kStores ? T::kConsumers + 1  // the own warpgroups, and the loading lane's announcement
                                    : T::kConsumers * Place::kNeighbours);  // those of all blocks that copies go to
    fence_barrier_init();
  }
  cudaTriggerProgrammaticLaunchCompletion();  // the next kernel may begin where this one leaves room
  if constexpr (T::kBlocks > 1) {
    sync_cluster();
  } else {
    __syncthreads();
  }

  switch (role) {
    case twin::Role::load:
      if constexpr (T::kConsumers > 1) ptx::release_registers<T::kLoadRegisters>();
      if (warp_index() == 0 && elect_one()) {
        cudaGridDependencySynchronize();  // the kernel before may have written A and B, and may still read C
        for (TwinTile tile{problem, place}; tile.exists(); tile.next()) {
          const int2 corner = tile.corner();
          for (int turn = 0; turn < tile.num_k_groups(); ++turn) {
            auto stage = input.producer().acquire();
            if (tile.is_half()) {
              stage.expect_bytes(Config::k_group * (T::ASlice::bytes + T::BSlice::bytes));
            } else {
              stage.expect_bytes();
            }
#pragma unroll
            for (int i = 0; i < Config::k_group; ++i) {
              const int k = (tile.k_group(turn) * Config::k_group + i) * T::kTileK;
              if (tile.is_half()) {
                ptx::copy_box(stage.tile(i).a.storage, &problem.a.map, k, corner.x, stage.barrier(), Config::a_hint);
                ptx::copy_box(stage.tile(i).b.storage, &problem.b.map, k, corner.y, stage.barrier(), Config::b_hint);
                continue;
              }
              twin::load_slice<Config::cluster_n>(stage.tile(i).a, problem.a, corner.x, k, stage.barrier(),
                                                  place.column, place.same_row(), Config::a_hint);
              twin::load_slice<Config::cluster_m>(stage.tile(i).b, problem.b, corner.y, k, stage.barrier(), place.row,
                                                  place.same_column(), Config::b_hint);
            }
            if constexpr (T::kStores) {  // what will free it again, besides the own warpgroups
              constexpr uint32_t kBytes = sizeof(uint32_t) * T::kConsumers * (Place::kNeighbours - 1);
              expect_bytes(input.consumer_mbar(stage.stage()), tile.is_half() ? 0 : kBytes);
            }
          }  // steps: stage full when the bytes have arrived
        }
        input.producer().drain();  // no block leaves while another may still arrive here
      }
      break;

    case twin::Role::multiply: {
      if constexpr (T::kConsumers > 1) ptx::take_registers<T::kMultiplyRegisters>();
      const int warp = warp_index() - 4;  // of those that multiply
      const int first_row = warp / 4 * T::kRowsPerWarpgroup;
      // One warp of a warpgroup for each block whose copies come here too: it tells that block of every stage read.
      // (What half a tile takes comes from the own block alone.)
      const bool frees = lane_index() == 0 && warp % 4 < Place::kNeighbours;
      const StageFreeing<Config> freeing{shared, place.rank(), place.neighbour(frees ? warp % 4 : 0), warp / 4};
      LeavingTile<Config> leaving{problem, shared.slabs[warp]};

      // Multiplies a tile, or half of one, with what the tile before and the tile after have to do meanwhile.
      const auto multiply = [&](auto& sums, const TwinTile<Config>& tile, auto b_of, auto is_half)
          __attribute__((always_inline)) {
        const int first_row = warp / 4 * std::remove_reference_t<decltype(sums)>::rows;
        const auto free = [&](uint32_t stage) __attribute__((always_inline)) {
          if (frees) freeing.template free<decltype(is_half)::value>(stage, input.consumer_mbar(stage));
        };
        int2 corner;
        uint32_t last = 0;  // stage
        if constexpr (T::kSplits) {
          if (tile.num_k_groups() == 0) {  // K is one k-tile, which the other block has
            for (auto& band : sums.of) {
              for (float& sum : band) sum = 0;
            }
            corner = tile.corner();
          }
        }
        for (int turn = 0; turn < tile.num_k_groups(); ++turn) {
          auto stage = input.consumer().acquire();
#pragma unroll
          for (int i = 0; i < Config::k_group; ++i) {
            multiply_tiles(sums, stage.tile(i).a, first_row, b_of(stage.tile(i)),
                           /*accumulate=*/turn > 0 || i > 0);
          }
          if (turn == 0) corner = tile.corner();
          if constexpr (T::kOverlaps) leaving.store_part(turn);
          ptx::wgmma_wait_group<Config::in_flight>();
          if (Config::in_flight == 0 || turn > 0) free(Config::in_flight == 0 ? stage.stage() : last);
          last = stage.stage();
        }  // steps: stage empty when both warpgroups of all neighbours have arrived
        if constexpr (T::kOverlaps) leaving.store_rest(tile.num_k_groups());
        sums.wait();
        if (Config::in_flight > 0 && tile.num_k_groups() > 0) free(last);
        return int2{corner.x + first_row + warp % 4 * 16, corner.y};
      };

      TwinTile tile{problem, place};
      for (; tile.exists() && !tile.is_half(); tile.next()) {
        typename T::Sums sums;
        const int2 at = multiply(
            sums, tile, [](const auto& tiles) -> const typename T::BTile& { return tiles.b; },
            /*is_half=*/std::false_type{});
        if constexpr (Config::last_round == LastRound::cut) {
          if (!tile.is_last_piece()) {
            deliver(problem, sums, blockIdx.x * T::kWarps + warp, lane_index());
            continue;
          }
          for (int i = 1; i <= tile.pieces_before(); ++i) {
            collect(problem, sums, (blockIdx.x - i * T::kBlocks) * T::kWarps + warp, lane_index());
          }
        }
        if constexpr (T::kSplits) {
          typename T::HalfSums half;
          exchange(shared, sums, half, place.part);
          leaving.take(half, at.x, at.y + place.part * (Config::tile_n / 2));
        } else {
          leaving.take(sums, at.x, at.y);
        }
        if constexpr (!T::kOverlaps) leaving.store_rest(0);
      }
      if constexpr (T::kHalves) {
        for (; tile.exists(); tile.next()) {
          typename T::HalfSums sums;
          const int2 at = multiply(
              sums, tile,
              [](const auto& tiles) -> const typename T::BSlice& {
                return reinterpret_cast<const typename T::BSlice&>(tiles.b);
              },
              /*is_half=*/std::true_type{});
          leaving.take(sums, at.x, at.y);
          if constexpr (!T::kOverlaps) leaving.store_rest(0);
        }
      }
      leaving.store_rest(0);
      leaving.drain();
      break;
    }
  }
}
//! [kernel]

}  // namespace stagecraft
