// The problem, its tiles and its warps: what the kernels of chapter 19 are about, without who waits for whom.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/slices.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/tile_scheduler.hpp"
#include "stagecraft/tile_work.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// Bytes of shared memory that one block can have on sm_120 and sm_121.
/// Source: CUDA C++ Programming Guide, "Compute Capabilities" (99 KB).
inline constexpr uint32_t kDeskSharedBytes = 99 * 1024;

//! [payload]
/// The stages of a ring through which tiles of A and B come, and those of D leave: a stage holds one or the other.
/// @tparam OutputType  what a block stores of D at a time.
/// @tparam NumTiles    stages.
template <SharedTile ATileType, SharedTile BTileType, typename OutputType, int NumTiles>
class TwoWayPayload {
 public:
  using ATile = ATileType;    ///< of A: M x K
  using BTile = BTileType;    ///< of B: N x K
  using Output = OutputType;  ///< of D

  /// One stage.
  union Stage {
    struct {
      ATile a;
      BTile b;
    } input;
    Output output;
  };
  /// What is in shared memory.
  struct Storage {
    Stage stages[NumTiles];
  };

  /// What a stage holds, by either name.
  struct Tiles {
    ATile& a;
    BTile& b;
    Output& output;
  };

  static constexpr int num_tiles = NumTiles;                               ///< stages
  static constexpr uint32_t bytes_per_tile = ATile::bytes + BTile::bytes;  ///< which the copies of a k-tile bring

  __device__ __forceinline__ explicit TwoWayPayload(Storage& storage) : storage_(&storage) {}
  __device__ __forceinline__ Tiles tile(uint32_t number) const {
    Stage& stage = storage_->stages[number];
    return {stage.input.a, stage.input.b, stage.output};
  }

 private:
  Storage* storage_;
};
//! [payload]

//! [config]
/// What a kernel is compiled for.
/// @tparam ElementType     of A and B: __nv_bfloat16, or __nv_fp8_e4m3. D is bf16.
/// @tparam RegisterStages  slices of the operands that a warp has in registers: with 2, it loads one while it
/// multiplies
///                         the other.
/// @tparam Swizzled        the tiles of A and B are swizzled; else they are stored row by row.
template <TileElement ElementType, int RegisterStages = 2, bool Swizzled = true>
struct Config {
  using Element = ElementType;
  static constexpr int register_stages = RegisterStages;
  static constexpr int tile_m = 128, tile_n = 128;                ///< of a tile of D
  static constexpr int tile_k = 128 * 8 / element_bits<Element>;  ///< of a k-tile: 128 bytes of each row
  static constexpr int stages = 3;                                ///< of the ring: 96 KiB
  static constexpr int warp_rows = 4, warp_columns = 2;           ///< of warps that share a tile of D
  static constexpr int warps = warp_rows * warp_columns;          ///< that multiply
  static constexpr int warp_m = tile_m / warp_rows;               ///< rows of a warp's part of it
  static constexpr int warp_n = tile_n / warp_columns;            ///< columns of that
  static constexpr int slice_k = 32 * 8 / element_bits<Element>;  ///< what one mma takes: 32 bytes of each row
  static constexpr int slices = tile_k / slice_k;                 ///< of a k-tile
  template <int Rows>
  using TileOf = std::conditional_t<Swizzled, Tile<Element, Rows, tile_k>, PlainTile<Element, Rows, tile_k>>;
  using ATile = TileOf<tile_m>;
  using BTile = TileOf<tile_n>;
  using OutputSlice = SliceTile<__nv_bfloat16, warp_m, warp_n>;  ///< a warp's part of D: one copy stores it
  using Payload = TwoWayPayload<ATile, BTile, OutputSlice[warps], stages>;
  static_assert(slices % 2 == 0, "Config: the last slice of a k-tile must be in the second stage of registers");
  static_assert(sizeof(typename Payload::Storage) <= kDeskSharedBytes - 1024,
                "Config: the stages and barriers must fit in 99 KiB");
};
//! [config]

//! [roles]
/// What a warp does.
enum class Role { multiply, load, schedule };

/// The calling warp's role: the first ones multiply, one loads, and one asks for tiles if the schedule needs that.
/// Called by a whole warp.
template <typename Config>
__device__ inline Role warp_role() {
  const uint32_t warp = warp_index();
  return warp < Config::warps ? Role::multiply : warp == Config::warps ? Role::load : Role::schedule;
}

/// Threads of a block with these roles.
template <typename Config, typename Scheduler>
inline constexpr int kGemmThreads = (Config::warps + 1 + (Scheduler::has_scheduler_warp ? 1 : 0)) * kWarpSize;
//! [roles]

//! [problem]
/// What a launch computes: D = epilogue(A (m x k) * B (n x k) transposed), all row-major.
/// @tparam Operations  the epilogue, as the host has put it together.
template <typename Config, typename Operations>
struct Problem {
  TileMap<typename Config::ATile> a;
  TileMap<typename Config::BTile> b;
  BatchedTileMap<typename Config::OutputSlice> d;
  Operations epilogue;
  WholeTiles<> tiles;
  int m, n, k;

  __device__ int k_tiles() const { return (k + Config::tile_k - 1) / Config::tile_k; }
  /// Where a block's tile of D is.
  __device__ TilePlace place(const Work& work) const {
    return {.row = work.row * Config::tile_m,
            .column = work.column * Config::tile_n,
            .batch = 0,
            .row_end = m,
            .column_end = n};
  }
};

/// Where a warp's part of a tile begins.
struct WarpPlace {
  int row, column;
};

/// The calling warp's place. Called by a whole warp that multiplies.
template <typename Config>
__device__ inline WarpPlace warp_place() {
  const int warp = static_cast<int>(warp_index());
  return {warp / Config::warp_columns * Config::warp_m, warp % Config::warp_columns * Config::warp_n};
}
//! [problem]

}  // namespace stagecraft
