// The configurations of the kernel among which the host chooses, beside TwinDefaults. README.md says what each is for.
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
  static constexpr int stages = 3;
  static constexpr int k_group = 2;
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 2;
  static constexpr LastRound last_round = LastRound::cut;
};

struct TwinFlat : TwinDefaults {
  static constexpr int tile_n = 64;
  static constexpr int k_group = 2;
  static constexpr int slabs = 1;
  static constexpr int cluster_m = 1;
  static constexpr bool overlaps = false;  // there is rarely a next tile
  static constexpr LastRound last_round = LastRound::cut;
  static constexpr auto a_hint = ptx::CacheHint::evict_last;   // all blocks read it
  static constexpr auto b_hint = ptx::CacheHint::evict_first;  // read once
};

struct TwinByThreads : TwinDefaults {
  static constexpr bool by_copy_engine = false;
};

}  // namespace stagecraft
