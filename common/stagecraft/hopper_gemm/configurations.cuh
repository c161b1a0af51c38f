// The configurations of the kernel among which the host chooses, beside TwinDefaults. README.md says what each is for.
#pragma once

#include "stagecraft/hopper_gemm/kernel.cuh"

namespace stagecraft {

struct TwinHalved : TwinDefaults {
  static constexpr LastRound last_round = LastRound::halved;
};

struct TwinLarge : TwinHalved {
  static constexpr int tile_m = 256;
  static constexpr int tile_n = 192;
  static constexpr int stages = 3;
  static constexpr int slabs = 3;
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 2;
  static constexpr bool in_turn = true;
};

/// Tiles of 256 x `Columns`, pairs share a tile of A.
template <int Columns, int Stages, int Slabs>
struct TwinTall : TwinLarge {
  static constexpr int tile_n = Columns;
  static constexpr int stages = Stages;
  static constexpr int slabs = Slabs;
};

struct TwinTall144 : TwinTall<144, 4, 6> {};
struct TwinTall160 : TwinTall<160, 4, 2> {};
struct TwinTall176 : TwinTall<176, 4, 2> {};
struct TwinTall200 : TwinTall<200, 3, 1> {};

struct TwinThin : TwinDefaults {
  static constexpr int tile_n = 128;
  static constexpr int stages = 6;
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 2;
  static constexpr int in_flight = 1;
  static constexpr bool overlaps = false;  // there is rarely a next tile
  static constexpr LastRound last_round = LastRound::cut;
};

struct TwinThinRows : TwinThin {
  static constexpr int cluster_m = 2;
  static constexpr int cluster_n = 1;
};

struct TwinThin112 : TwinThin {
  static constexpr int tile_n = 112;
  static constexpr int slabs = 1;
};

struct TwinThin144 : TwinThinRows {
  static constexpr int tile_n = 144;
  static constexpr int stages = 5;
  static constexpr int slabs = 3;
};

struct TwinThin144Columns : TwinThin144 {
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 2;
};

struct TwinThin160 : TwinThin {
  static constexpr int tile_n = 160;
  static constexpr int stages = 5;
  static constexpr int slabs = 5;
};

/// Tiles of 128 x 112 by clusters of four.
struct TwinQuad112 : TwinThin112 {
  static constexpr int cluster_m = 2;
};

/// Tiles of 128 x 176 by clusters of four.
struct TwinQuad176 : TwinThin {
  static constexpr int tile_n = 176;
  static constexpr int stages = 5;
  static constexpr int slabs = 9;
  static constexpr int cluster_m = 2;
  static constexpr int in_flight = 0;
};

/// Tiles of 128 x `Columns`, pairs share a tile of A.
template <int Columns, int Slabs>
struct TwinWide : TwinThin {
  static constexpr int tile_n = Columns;
  static constexpr int stages = 4;
  static constexpr int slabs = Slabs;
  static constexpr int in_flight = 0;
};
/// The same, but pairs share a tile of B.
template <int Columns, int Slabs>
struct TwinWideRows : TwinWide<Columns, Slabs> {
  static constexpr int cluster_m = 2;
  static constexpr int cluster_n = 1;
};

struct TwinWide176 : TwinWide<176, 9> {};
struct TwinWide192 : TwinWide<192, 3> {};
struct TwinWide208 : TwinWide<208, 13> {};
struct TwinWide208Rows : TwinWideRows<208, 13> {};
struct TwinWide224 : TwinWide<224, 6> {};
struct TwinWide224Rows : TwinWideRows<224, 6> {};
struct TwinWide256 : TwinWide<256, 2> {};

struct TwinFlat : TwinDefaults {
  static constexpr int tile_n = 64;
  static constexpr int k_group = 2;
  static constexpr int slabs = 1;
  static constexpr int cluster_m = 1;
  static constexpr bool overlaps = false;
  static constexpr LastRound last_round = LastRound::cut;
  static constexpr auto a_hint = ptx::CacheHint::evict_last;   // all blocks read it
  static constexpr auto b_hint = ptx::CacheHint::evict_first;  // read once
};

struct TwinLow : TwinDefaults {
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 128;
  static constexpr int consumers = 1;
  static constexpr int stages = 8;
  static constexpr int slabs = 1;
  static constexpr int in_flight = 1;
  static constexpr bool overlaps = false;
  static constexpr LastRound last_round = LastRound::cut;
};

struct TwinLow64 : TwinLow {
  static constexpr int tile_n = 64;
  static constexpr int stages = 12;
};

struct TwinLowAlone : TwinFlat {
  static constexpr int tile_m = 64;
  static constexpr int consumers = 1;
  static constexpr int stages = 6;
};

/// Tiles of `Rows` x `Columns`, each by two blocks.
template <int Rows, int Columns, int Stages>
struct TwinSplitOf : TwinFlat {
  static constexpr int tile_m = Rows;
  static constexpr int tile_n = Columns;
  static constexpr int consumers = Rows == 64 ? 1 : 2;
  static constexpr int cluster_k = 2;
  static constexpr int stages = Stages;
  static constexpr LastRound last_round = LastRound::whole;
};

struct TwinSplit : TwinSplitOf<64, 128, 4> {};
struct TwinSplit64 : TwinSplitOf<64, 64, 6> {};
struct TwinSplit80 : TwinSplitOf<64, 80, 5> {};
struct TwinSplitTall64 : TwinSplitOf<128, 64, 4> {};
struct TwinSplitTall80 : TwinSplitOf<128, 80, 4> {};
struct TwinSplitHigh80 : TwinSplitOf<256, 80, 5> {
  static constexpr int k_group = 1;
};
struct TwinSplitHigh96 : TwinSplitOf<256, 96, 4> {
  static constexpr int k_group = 1;
};

/// C transposed by tiles of 64 or 128 columns of C, and `Rows` rows of it.
template <int Columns, int Rows, int Stages>
struct TwinSwapped : TwinDefaults {
  static constexpr bool swapped = true;
  static constexpr int tile_m = Columns;
  static constexpr int tile_n = Rows;
  static constexpr int consumers = Columns / 64;
  static constexpr int stages = Stages;
  static constexpr int slabs = 1;
  static constexpr int cluster_m = 1;
  static constexpr int in_flight = 1;
  static constexpr bool overlaps = false;
  static constexpr LastRound last_round = LastRound::cut;
};

struct TwinSwapped16 : TwinSwapped<64, 16, 10> {
  static constexpr int k_group = 2;
  static constexpr auto a_hint = ptx::CacheHint::evict_first;  // what is A in here: read once
  static constexpr auto b_hint = ptx::CacheHint::evict_last;
};

struct TwinSwapped32 : TwinSwapped<64, 32, 8> {
  static constexpr int k_group = 2;
};

/// Narrow ones, pairs share a tile of B.
struct TwinSwapped56 : TwinSwapped<64, 56, 12> {
  static constexpr int cluster_n = 2;
};

/// Pairs share a tile of B: two of them hold up to 144, 208 or 272 rows.
template <int Rows, int Stages>
struct TwinSwappedTwice : TwinSwapped<128, Rows, Stages> {
  static constexpr int cluster_n = 2;
};

struct TwinSwapped72 : TwinSwappedTwice<72, 7> {};
struct TwinSwapped104 : TwinSwappedTwice<104, 6> {};
struct TwinSwapped136 : TwinSwappedTwice<136, 5> {};

/// By clusters of four, which share a tile of A.
struct TwinSwapped128 : TwinSwapped<64, 128, 9> {
  static constexpr int cluster_m = 4;
};

struct TwinSwapped96 : TwinSwapped<128, 96, 7> {
  static constexpr int cluster_m = 2;
};

/// By clusters of four.
struct TwinSwapped112 : TwinSwapped<128, 112, 6> {
  static constexpr int cluster_m = 2;
  static constexpr int cluster_n = 2;
};

/// By clusters of four.
struct TwinSwapped112Narrow : TwinSwapped<64, 112, 9> {
  static constexpr int cluster_m = 2;
  static constexpr int cluster_n = 2;
};

struct TwinSwapped160 : TwinSwapped<128, 160, 5> {
  static constexpr int cluster_m = 2;
};

struct TwinSwapped192 : TwinSwapped<64, 192, 6> {};

/// By clusters of four.
struct TwinSwapped208 : TwinSwapped<64, 208, 6> {
  static constexpr int cluster_m = 2;
  static constexpr int cluster_n = 2;
};

/// A configuration whose tiles the threads store.
template <typename Config>
struct ByThreads : Config {
  static constexpr bool by_copy_engine = false;
};

struct TwinByThreads : ByThreads<TwinDefaults> {};
struct TwinThinByThreads : ByThreads<TwinThin> {};
struct TwinFlatByThreads : ByThreads<TwinFlat> {};

}  // namespace stagecraft
