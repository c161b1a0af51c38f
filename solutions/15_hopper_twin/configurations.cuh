// The configurations of the kernel among which the host chooses, beside TwinDefaults. README.md says what each is for,
// and what it gave.
#pragma once

#include "kernel.cuh"

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
};

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

struct TwinThin160 : TwinThin {
  static constexpr int tile_n = 160;
  static constexpr int stages = 5;
  static constexpr int slabs = 5;
};

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

struct TwinSplit : TwinFlat {
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 128;
  static constexpr int consumers = 1;
  static constexpr int cluster_k = 2;
  static constexpr LastRound last_round = LastRound::whole;
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

struct TwinSwapped96 : TwinSwapped<128, 96, 7> {
  static constexpr int cluster_m = 2;
};

struct TwinSwapped160 : TwinSwapped<128, 160, 5> {
  static constexpr int cluster_m = 2;
};

struct TwinSwapped192 : TwinSwapped<64, 192, 6> {};

struct TwinByThreads : TwinDefaults {
  static constexpr bool by_copy_engine = false;
};

}  // namespace stagecraft
