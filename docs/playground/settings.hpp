// What the page can change about each kernel, and what the host and the kernels agree on. All members are 32-bit
// integers, so that a setting is a name and a number.
#pragma once

#include <cstdint>

inline constexpr int kRow = 256;      ///< Length of a row of the ring, in floats.
inline constexpr int kMaxStages = 4;  ///< Stages that the ring has room for.
inline constexpr int kWords = 32;     ///< Length of the table that two warps share, in words.

/// When the consumer of the ring releases a stage: the values of RingSettings::released.
enum Released : int32_t { kByAllLanes, kByOneLane, kBeforeReading, kNever };

/// What can be wrong about a ring.
struct RingSettings {
  int32_t stages = 2;              ///< Stages in use, 1 to kMaxStages.
  int32_t rows = 8;                ///< Rows that are added up.
  int32_t full_count = 1;          ///< Arrivals that end a phase of a full barrier.
  int32_t empty_count = 32;        ///< Arrivals that end a phase of an empty barrier.
  int32_t bytes = kRow * 4;        ///< Bytes that are announced for each row.
  int32_t producer_waits = 1;      ///< Whether the producer waits for the stage to be empty.
  int32_t producer_parity = 1;     ///< Parity that the producer waits for in its first lap.
  int32_t consumer_parity = 0;     ///< Parity that the consumer waits for in its first lap.
  int32_t consumer_flips = 1;      ///< Whether the consumer changes its parity after each lap.
  int32_t released = kByAllLanes;  ///< When and by which threads a stage is released.
};

/// Which threads of the writing warp arrive: the values of BarrierSettings::arrives.
enum Arrives : int32_t { kAllLanes, kOneLane, kOneLaneAfterSyncwarp, kNobody };

/// Which parity the reading warp waits for: the values of BarrierSettings::parity.
enum Parity : int32_t { kOfTheRound, kAlways0, kAlways1, kOfTheRoundBefore };

/// What can be wrong about one barrier.
struct BarrierSettings {
  int32_t rounds = 4;            ///< Times that the table is written and read.
  int32_t count = 32;            ///< Arrivals that end a phase.
  int32_t arrives = kAllLanes;   ///< Which threads arrive.
  int32_t parity = kOfTheRound;  ///< Which parity the reader waits for.
  int32_t block_barrier = 1;     ///< Whether a __syncthreads() ends each round.
};

inline constexpr int kProductM = 128;  ///< Rows of the product, and of each tile of A.
inline constexpr int kProductN = 16;   ///< Columns of the product, and rows of each tile of B.
inline constexpr int kProductK = 16;   ///< Columns of a tile of A or B: what one MMA takes.

/// Who arrives at the empty barrier of a stage: the values of ProductSettings::freed.
enum Freed : int32_t { kByTensorCore, kByThread, kByNobody };

/// Which MMAs overwrite the accumulator, where the others add to it: the values of ProductSettings::overwritten.
enum Overwritten : int32_t { kByTheFirst, kByNone, kByAll };

/// What can be wrong about a product on the tensor core.
struct ProductSettings {
  int32_t steps = 8;                  ///< Steps of K, each with a tile of A and one of B.
  int32_t stages = 2;                 ///< Stages in use, 1 to kMaxStages.
  int32_t tile_awaited = 1;           ///< Whether the MMA warp waits for the stage to be full.
  int32_t overwritten = kByTheFirst;  ///< Which MMAs overwrite the accumulator.
  int32_t freed = kByTensorCore;      ///< Who frees a stage.
  int32_t committed = 1;              ///< Whether a commit follows the last MMA.
  int32_t done_parity = 0;            ///< Parity that the storing warps wait for.
  int32_t fence = 1;                  ///< Whether a tcgen05 fence follows that wait.
  int32_t deallocated = 1;            ///< Whether tensor memory is deallocated.
};
