// What the fast kernel is compiled for, and the types that follow from it.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "stagecraft/cluster_shape.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/ptx_sm90.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/wgmma.hpp"

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
  static constexpr int cluster_k = 1;     ///< 2: each block of a cluster computes half of K, then half of the rows
  static constexpr int consumers = 2;     ///< warpgroups that multiply, one below the other in a tile
  static constexpr int in_flight = 0;     ///< stages that may still be multiplied when the next is issued: 0 or 1
  static constexpr bool swapped = false;  ///< C transposed is computed, as B * A transposed: M is then N in here
  static constexpr int slabs = 2;         ///< 16 x 64 parts of C for each warp, on their way out
  static constexpr LastRound last_round = LastRound::whole;  ///< what is done with tiles that leave blocks idle
  static constexpr Freeing frees = Freeing::stored;          ///< how other blocks learn that a stage is free
  static constexpr bool by_copy_engine = true;               ///< C is stored by it; else by the threads
  static constexpr bool overlaps = true;  ///< a tile is stored while the next is multiplied, if the registers suffice
  static constexpr bool in_turn = false;  ///< else the halves of a warpgroup's rows leave in turn, during two stages
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
  // of what is computed transposed are rows. An odd multiple of 8 columns leaves at once, and needs no swizzle: rows of
  // an odd number of 16 bytes start in different banks.
  static constexpr bool kIsOdd = Config::tile_n % 16 != 0;
  static constexpr int kSlabColumns = kIsOdd                     ? Config::tile_n
                                      : Config::tile_n % 64 == 0 ? 64
                                      : Config::tile_n % 32 == 0 ? 32
                                                                 : 16;
  static constexpr Swizzle kSlabSwizzle = Config::swapped || kSlabColumns == 16 ? Swizzle::bytes_32
                                          : kSlabColumns == 32                  ? Swizzle::bytes_64
                                                                                : Swizzle::bytes_128;
  template <bool IsPlain, int Rows, int Columns>
  struct SlabOf : std::type_identity<Tile<__nv_bfloat16, Rows, Columns, kSlabSwizzle>> {};
  template <int Rows, int Columns>
  struct SlabOf<true, Rows, Columns> : std::type_identity<PlainTile<__nv_bfloat16, Rows, Columns>> {};
  using Slab = typename SlabOf<kIsOdd && !Config::swapped, Config::swapped ? kSlabColumns : 16,
                               Config::swapped ? 16 : kSlabColumns>::type;
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
                                 kHalves ? Config::tile_n / Config::cluster_m : Config::tile_n>;

  static constexpr int kBands = Config::in_turn ? 1 : Sums::rows / 64;  // of 64 rows, that leave together
  static constexpr int kParts = kBands * Sums::columns / kSlabColumns;  // slabs of a warp in them
  // A rounded tile takes half the registers of its sums, so that it can leave while the next is multiplied.
  static constexpr bool kOverlaps = Config::overlaps && Sums::rows * Sums::columns <= 64 * 256;

  struct Shared {
    union {
      typename Payload::Storage tiles;
      float4 exchanged[kSplits ? Sums::rows / 64 * (Sums::columns / 8) : 1][kWarps / 2 * kWarpSize];
    };
    Slab slabs[kWarps][Config::slabs];
    typename Input::BarrierArray barriers;
    uint32_t freed[kStores ? Config::stages : 1][kConsumers][kBlocks];  // where the other blocks store
  };
  static_assert(Config::tile_n % 8 == 0, "Twin: tile_n must be a multiple of 8, as the tensor core needs it");
  static_assert(!Config::in_turn || (Sums::rows == 128 && (!kHalves || HalfSums::rows == 64) && !kOverlaps &&
                                     !kSplits && Config::in_flight == 0 && Config::k_group == 1),
                "Twin: only the two halves of whole tiles of 128 rows for each warpgroup leave in turn");
  static_assert((kSlabColumns == 64 && !Config::swapped) || Config::by_copy_engine,
                "Twin: threads store rows of 64 columns only");
  static_assert(Config::last_round != LastRound::cut || Sums::rows * Sums::columns <= 64 * 256,
                "Twin: a tile that is cut may have at most 128 sums for each thread, or there are no registers to "
                "collect others");
  static_assert(Config::cluster_m + Config::cluster_n <= 5,
                "Twin: a block may share tiles with three others, one for each warp of a warpgroup that tells them");
  static_assert(kConsumers == 1 || kConsumers == 2, "Twin: there are registers for one or two consumers");
  static_assert(!kHalves || kBlocks == 2, "Twin: tiles are halved by the two blocks of a cluster, so it must have two");
  static_assert(HalfSums::columns % kSlabColumns == 0, "Twin: half of a tile must be slabs, too");
  static_assert(sizeof(Shared) <= kSharedBytesPerBlock, "Twin: the stages and slabs do not fit in shared memory");

  // 24 * 128 + 240 * 256 registers are 504 * 128 of the multiprocessor's 512 * 128: as many as it had at the start.
  static constexpr int kLoadRegisters = 24, kMultiplyRegisters = 240;
};

}  // namespace stagecraft
