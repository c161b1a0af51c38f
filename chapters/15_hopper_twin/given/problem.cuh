// The problem and its tiles: what the kernel of chapter 15 is about, without who waits for whom.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "stagecraft/cluster_shape.hpp"
#include "stagecraft/epilogue.hpp"
#include "stagecraft/ptx_sm90.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/tile_payload.hpp"
#include "stagecraft/tile_scheduler.hpp"
#include "stagecraft/tile_work.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// Who multiplies a tile of D.
enum class Consumers {
  cooperative,  ///< both warpgroups, each half of its rows: they start and end a tile together
  ping_pong,    ///< one of them, in turn: one multiplies while the other stores
};

/// What a kernel is compiled for.
/// @tparam N       columns of a tile: 64, 128, 192 or 256, what one wgmma makes.
/// @tparam Blocks  the cluster: a block shares its tile of A with those in its row, and its tile of B with its column.
template <Consumers Roles, int N, typename Blocks = OneBlock>
struct Config {
  static constexpr Consumers consumers = Roles;                     ///< who multiplies
  static constexpr bool ping_pong = Roles == Consumers::ping_pong;  ///< whether that is one in turn
  static constexpr int tile_m = ping_pong ? 64 : 128;               ///< rows of a tile: 64 for each of them
  static constexpr int tile_n = N;                                  ///< columns of a tile
  static constexpr int tile_k = 64;                                 ///< of a k-tile: 128 bytes of each row
  static constexpr int stages = 4;                                  ///< k-tiles in shared memory
  using Cluster = Blocks;                                           ///< who shares tiles
  using ATile = Tile<__nv_bfloat16, tile_m, tile_k>;                ///< of A
  using BTile = Tile<__nv_bfloat16, tile_n, tile_k>;                ///< of B
  using Payload = StandardTilePayload<ATile, BTile, stages>;        ///< what is in shared memory
};

//! [roles]
/// One warpgroup loads, though one thread of it would do: registers are dealt out by warpgroups. Two multiply and
/// store.
inline constexpr int kConsumers = 2;
inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kGemmThreads = (1 + kConsumers) * kWarpgroupThreads;
/// Registers of a thread that loads, and of one that multiplies: 24 * 128 + 240 * 256 are no more than the 65536 that a
/// multiprocessor has.
inline constexpr int kLoadRegisters = 24, kMultiplyRegisters = 240;

/// What a warp does.
enum class Role { load, multiply };

/// The calling warp's role. Called by a whole warp.
__device__ inline Role warp_role() { return warp_index() < 4 ? Role::load : Role::multiply; }
//! [roles]

//! [problem]
/// What a launch computes: D = epilogue(A (m x k) * B (n x k) transposed), all row-major.
/// @tparam Config      what the kernel is compiled for.
/// @tparam Writer      of D.
/// @tparam Operations  the epilogue, as the host has put it together.
template <typename Config, typename Writer, typename Operations>
struct Problem {
  using Cluster = typename Config::Cluster;
  TileMap<typename Config::ATile, Cluster::blocks_sharing_a> a;
  TileMap<typename Config::BTile, Cluster::blocks_sharing_b> b;
  typename Writer::Map d;
  Operations epilogue;
  WholeTiles<Cluster> tiles;
  int m, n, k;
};
//! [problem]

//! [tile of d]
/// Where a block is in its work: a turn of the library's scheduler. Each role goes through the tiles independently.
template <typename Config>
class TileOfD {
  using Scheduler = StaticScheduler<WholeTiles<typename Config::Cluster>>;

 public:
  template <typename Problem>
  __device__ explicit TileOfD(const Problem& problem)
      : m_(problem.m), n_(problem.n), turn_(Scheduler{none_, problem.tiles}.turns()) {}

  __device__ bool exists() const { return turn_.exists(); }
  __device__ void next() { turn_.next(); }
  __device__ TilePlace place() const {
    const Work work = turn_.work();
    return {.row = work.row * Config::tile_m,
            .column = work.column * Config::tile_n,
            .batch = 0,
            .row_end = m_,
            .column_end = n_};
  }

 private:
  int m_, n_;
  typename Scheduler::Storage none_;
  typename Scheduler::Turn turn_;
};
//! [tile of d]

}  // namespace stagecraft
