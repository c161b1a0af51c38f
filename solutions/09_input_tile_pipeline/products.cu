// Chapter 09: matrix products from groups of tiles. Threads multiply, then pairs of blocks do, then the tensor core.
#include <input_tile_pipeline.hpp>
#include <utility>

#include "launches.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

//! [types]
template <typename Element>
using ATile = Tile<Element, kTileM, kTileK, Swizzle::bytes_64>;
template <typename Element>
using BTile = Tile<Element, kTileN, kTileK, Swizzle::bytes_64>;

template <int GroupStages, int KGroupSize, typename Element = float>
using PayloadOf = StandardTilePayload<ATile<Element>, BTile<Element>, GroupStages * KGroupSize>;
template <int GroupStages, int KGroupSize, typename Element = float>
using PipelineOf = InputTilePipeline<PayloadOf<GroupStages, KGroupSize, Element>, GroupStages, KGroupSize>;
//! [types]

/// Four warps hold a row of the tile of C in each of their threads; a fifth asks for the copies of tiles.
constexpr int kRowWarps = 4;
constexpr int kCopyWarp = kRowWarps;
constexpr int kThreads = (kRowWarps + 1) * kWarpSize;

/// What a warp does.
enum class Role { copy, multiply, store };

/// The calling warp's role where threads multiply, and each stores its own row. Called by a whole warp.
__device__ Role warp_role() { return warp_index() == kCopyWarp ? Role::copy : Role::multiply; }

/// The matrices, and which tile of C a block computes.
template <typename Element>
struct Problem {
  const TileMap<ATile<Element>>& a_map;
  const TileMap<BTile<Element>>& b_map;
  int first_row;     // of A and of C
  int first_column;  // of C: the first row of B
};

/// Groups of `KGroupSize` tiles along K; elements beyond its end read as zero.
template <int KGroupSize>
__device__ int groups_of(int k) {
  return (k + KGroupSize * kTileK - 1) / (KGroupSize * kTileK);
}

/// Writes a row of the block's tile of C, without the elements beyond the edges of C.
__device__ void store_row(float* c, const float (&sums)[kTileN], int row, int first_column, int m, int n) {
  for (int column = 0; column < kTileN; ++column) {
    if (row < m && first_column + column < n) c[static_cast<int64_t>(row) * n + first_column + column] = sums[column];
  }
}

// ---- 1. A group of tiles arrives ------------------------------------------------------------------------------------

/// Asks for the copies of one group: k-tiles group * KGroupSize and following. Called by one thread.
/// @param tiles  the stage that they go to, as the producer holds it.
template <int KGroupSize, typename Stage, typename Element>
__device__ void copy_group(const Stage& tiles, const Problem<Element>& problem, int group) {
  tiles.expect_bytes();  // of all the group: one phase of the barrier is for all its tiles
  for (int k_tile = 0; k_tile < KGroupSize; ++k_tile) {
    const int column = (group * KGroupSize + k_tile) * kTileK;
    tiles.load_a(problem.a_map, problem.first_row, column, k_tile);
    tiles.load_b(problem.b_map, problem.first_column, column, k_tile);
  }
}

//! [copy_groups]
/// Asks for the copies of all groups. Called by one thread.
template <int KGroupSize, typename Producer, typename Element>
__device__ void copy_groups(Producer& producer, const Problem<Element>& problem, int groups) {
  for (int group = 0; group < groups; ++group) {
    auto tiles = producer.acquire();  // waits until the stage is free
    copy_group<KGroupSize>(tiles, problem, group);
  }  // steps only; the bytes signal: stage full
}
//! [copy_groups]

// ---- 2. Threads multiply it -----------------------------------------------------------------------------------------

/// Adds the products of one k-tile to a row of C. Called by each thread for its row.
__device__ void add_products(float (&sums)[kTileN], ATile<float>& a, BTile<float>& b) {
#pragma unroll 4
  for (int i = 0; i < kTileK; ++i) {
    const float mine = a.at(threadIdx.x, i);
#pragma unroll
    for (int column = 0; column < kTileN; ++column) sums[column] += mine * b.at(column, i);
  }
}

/// Computes a row of C from all groups. Called by each thread of the row warps.
template <int KGroupSize, typename Consumer>
__device__ void multiply_groups(float (&sums)[kTileN], Consumer& consumer, int groups) {
  for (int group = 0; group < groups; ++group) {
    auto tiles = consumer.acquire();
    for (int k_tile = 0; k_tile < KGroupSize; ++k_tile) {
      const auto [a, b] = tiles.tile(k_tile);
      add_products(sums, a, b);
    }
    arrive(tiles.mbar());  // signals: stage empty, for this thread, after its last read
  }
}

/// One block computes a tile of C; block x goes down the rows of C, block y along its columns.
template <int GroupStages, int KGroupSize>
__global__ void __launch_bounds__(kThreads)
    multiply(const __grid_constant__ TileMap<ATile<float>> a_map, const __grid_constant__ TileMap<BTile<float>> b_map,
             float* c, int m, int n, int k) {
  //! [pipeline]
  using Payload = PayloadOf<GroupStages, KGroupSize>;
  using Pipeline = PipelineOf<GroupStages, KGroupSize>;
  __shared__ typename Payload::Storage tiles;
  __shared__ typename Pipeline::BarrierArray barriers;

  if (threadIdx.x == 0) {
    Pipeline::init_barriers(barriers, /*producer_arrive_count=*/1,  // the copying thread, which announces the bytes
                            /*consumer_arrive_count=*/kRowWarps * kWarpSize);  // every thread that has read the tiles
    fence_barrier_init();
  }
  __syncthreads();
  Pipeline pipeline{barriers, Payload{tiles}};
  //! [pipeline]

  const Problem<float> problem{a_map, b_map, static_cast<int>(blockIdx.x) * kTileM,
                               static_cast<int>(blockIdx.y) * kTileN};
  const int groups = groups_of<KGroupSize>(k);
  switch (warp_role()) {
    case Role::copy: {
      auto producer = pipeline.producer();
      if (elect_one()) copy_groups<KGroupSize>(producer, problem, groups);
      break;
    }

    case Role::multiply:
      auto consumer = pipeline.consumer();
      float sums[kTileN] = {};
      multiply_groups<KGroupSize>(sums, consumer, groups);
      store_row(c, sums, problem.first_row + threadIdx.x, problem.first_column, m, n);
      break;
  }
}

// ---- 3. The copying thread asks, works, then waits if needed --------------------------------------------------------

/// Adds up a piece of the numbers. Called by one thread.
__device__ uint32_t sum_of_piece(const uint32_t* numbers, int piece) {
  uint32_t sum = 0;
  for (int i = 0; i < kPiece; ++i) sum += numbers[piece * kPiece + i];
  return sum;
}

/// As multiply, for one tile of C. The copying thread has a second job: to add up `pieces` pieces of `numbers`. It does
/// so whenever it must wait for a free stage, and does what is left at the end.
__global__ void __launch_bounds__(kThreads)
    multiply_and_add(const __grid_constant__ TileMap<ATile<float>> a_map,
                     const __grid_constant__ TileMap<BTile<float>> b_map, float* c, int m, int n, int k,
                     const uint32_t* numbers, int pieces, uint32_t* sum, int* while_waiting) {
  constexpr int kGroupStages = 2, kGroupSize = 2;
  using Payload = PayloadOf<kGroupStages, kGroupSize>;
  using Pipeline = PipelineOf<kGroupStages, kGroupSize>;
  __shared__ Payload::Storage tiles;
  __shared__ Pipeline::BarrierArray barriers;

  if (threadIdx.x == 0) {
    Pipeline::init_barriers(barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/kRowWarps * kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();
  Pipeline pipeline{barriers, Payload{tiles}};

  const Problem<float> problem{a_map, b_map, 0, 0};
  const int groups = groups_of<kGroupSize>(k);
  switch (warp_role()) {
    case Role::copy: {
      auto producer = pipeline.producer();
      if (elect_one()) {
        uint32_t total = 0;
        int piece = 0;  // the next to add up
        for (int group = 0; group < groups; ++group) {
          const bool is_free = producer.try_acquire();
          if (!is_free && piece < pieces) total += sum_of_piece(numbers, piece++);
          auto tiles = producer.acquire_if_needed(is_free);
          copy_group<kGroupSize>(tiles, problem, group);
        }  // steps only; the bytes signal: stage full
        *while_waiting = piece;
        while (piece < pieces) total += sum_of_piece(numbers, piece++);
        *sum = total;
      }
      break;
    }

    case Role::multiply:
      auto consumer = pipeline.consumer();
      float sums[kTileN] = {};
      multiply_groups<kGroupSize>(sums, consumer, groups);
      store_row(c, sums, threadIdx.x, 0, m, n);
      break;
  }
}

// ---- 4. Two blocks bring each other tiles ---------------------------------------------------------------------------

/// Half of a tile of B, as one of the two blocks brings it.
using HalfOfB = Tile<float, kTileN / kClusterSize, kTileK, Swizzle::bytes_64>;

/// A pair of blocks computes two tiles of C, one below the other. Both need the same tiles of B: each asks for half of
/// every tile, to be copied to both. So each writes into its neighbour, and may do so when the threads of both have
/// read.
__global__ void __cluster_dims__(kClusterSize) __launch_bounds__(kThreads)
    multiply_in_pairs(const __grid_constant__ TileMap<ATile<float>> a_map,
                      const __grid_constant__ TileMap<HalfOfB> half_of_b_map, float* c, int m, int n, int k) {
  constexpr int kGroupStages = 2, kGroupSize = 2;
  using Payload = PayloadOf<kGroupStages, kGroupSize>;
  using Pipeline = InputTilePipeline<Payload, kGroupStages, kGroupSize, ClusterShape<kClusterSize, 1>>;
  __shared__ Payload::Storage tiles;
  __shared__ Pipeline::BarrierArray barriers;
  const uint32_t rank = block_rank();

  if (threadIdx.x == 0) {
    Pipeline::init_barriers(barriers, /*producer_arrive_count=*/1,
                            /*consumer_arrive_count=*/kClusterSize * kRowWarps);  // a lane of each row warp of the pair
    fence_barrier_init();
  }
  sync_cluster();  // no block may copy into another, or arrive there, before its barriers are ready
  Pipeline pipeline{barriers, Payload{tiles}};

  const int first_row = blockIdx.x * kTileM;
  const int first_column = blockIdx.y * kTileN;
  const int groups = groups_of<kGroupSize>(k);
  switch (warp_role()) {
    case Role::copy: {
      auto producer = pipeline.producer();
      if (elect_one()) {
        for (int group = 0; group < groups; ++group) {
          auto tiles = producer.acquire();  // free in *both* blocks
          tiles.expect_bytes();             // stage full when the neighbour's half of B has arrived as well
          for (int k_tile = 0; k_tile < kGroupSize; ++k_tile) {
            const int column = (group * kGroupSize + k_tile) * kTileK;
            HalfOfB& half = reinterpret_cast<HalfOfB*>(&tiles.tile(k_tile).b)[rank];
            tiles.load_a(a_map, first_row, column, k_tile);
            copy_tile_to_blocks(half, half_of_b_map, first_column + rank * HalfOfB::rows, column, tiles.mbar(),
                                /*blocks=*/0b11);
          }
        }
        producer.drain();  // the neighbour may still have to arrive here: this block must not have exited
      }
      break;
    }

    case Role::multiply:
      auto consumer = pipeline.consumer();
      float sums[kTileN] = {};
      for (int group = 0; group < groups; ++group) {
        auto tiles = consumer.acquire();
        if (rank == 1) __nanosleep(kSlowNanoseconds);  // one of the two is always later than the other
        for (int k_tile = 0; k_tile < kGroupSize; ++k_tile) {
          const auto [a, b] = tiles.tile(k_tile);
          add_products(sums, a, b);
        }
        __syncwarp();  // all lanes have read, before some arrive for them
        if (lane_index() < kClusterSize) arrive_at_block(tiles.mbar(), lane_index());
      }  // steps only; a lane of each row warp of both blocks signals: stage empty
      store_row(c, sums, first_row + threadIdx.x, first_column, m, n);
      break;
  }
}

// ---- 5. The tensor core multiplies ----------------------------------------------------------------------------------

constexpr int kMultiplyWarp = kCopyWarp + 1;

/// The calling warp's role where the tensor core multiplies: the row warps only store. Called by a whole warp.
__device__ Role role_beside_tensor_core() {
  const uint32_t warp = warp_index();
  return warp == kCopyWarp ? Role::copy : warp == kMultiplyWarp ? Role::multiply : Role::store;
}

/// As multiply, with the same copying thread; but a sixth warp asks the tensor core to multiply, and the four row
/// warps only store what it has computed.
__global__ void __launch_bounds__(kThreads + kWarpSize)
    multiply_on_tensor_core(const __grid_constant__ TileMap<ATile<tf32>> a_map,
                            const __grid_constant__ TileMap<BTile<tf32>> b_map, float* c, int m, int n, int k) {
#ifdef __CUDA_ARCH_FEAT_SM100_ALL
  constexpr int kGroupStages = 2, kGroupSize = 2;
  using Payload = PayloadOf<kGroupStages, kGroupSize, tf32>;
  using Pipeline = PipelineOf<kGroupStages, kGroupSize, tf32>;
  __shared__ Payload::Storage tiles;
  __shared__ Pipeline::BarrierArray barriers;
  __shared__ uint64_t done;
  __shared__ uint32_t published;
  const TmemAllocation<32> memory{&published};

  if (threadIdx.x == 0) {
    Pipeline::init_barriers(barriers, /*producer_arrive_count=*/1,  // the copying thread, as before
                            /*consumer_arrive_count=*/1);           // the tensor core, once for each group
    init_barrier(&done, /*arrive_count=*/1);                        // the tensor core, once
    fence_barrier_init();
  }
  __syncwarp();
  if (warp_index() == kMultiplyWarp) {
    memory.allocate();
    memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const TmemTensor<kTileM, kTileN> accumulator{memory.address()};
  Pipeline pipeline{barriers, Payload{tiles}};

  const Problem<tf32> problem{a_map, b_map, static_cast<int>(blockIdx.x) * kTileM,
                              static_cast<int>(blockIdx.y) * kTileN};
  const int groups = groups_of<kGroupSize>(k);
  switch (role_beside_tensor_core()) {
    case Role::copy: {
      auto producer = pipeline.producer();
      if (elect_one()) {
        copy_groups<kGroupSize>(producer, problem, groups);
        producer.drain();  // the last commits still have to arrive on barriers that exist
      }
      break;
    }

    case Role::multiply: {
      auto consumer = pipeline.consumer();
      if (elect_one()) {
        for (int group = 0; group < groups; ++group) {
          auto tiles = consumer.acquire_stage();
          for (int k_tile = 0; k_tile < kGroupSize; ++k_tile) {
            const auto [a, b] = tiles.tile(k_tile);
            multiply_tiles(accumulator, a, b, /*accumulate=*/group > 0 || k_tile > 0);
          }
          tiles.commit_mma();          // signals: stage empty, when the tensor core has read all of the group
          std::move(tiles).release();  // steps only
        }
        commit_mma(&done);
      }
      break;
    }

    case Role::store:
      wait(&done, /*parity=*/0);
      cuda::ptx::tcgen05_fence_after_thread_sync();
      float sums[kTileN];
      accumulator.load(sums, warp_index(), /*column=*/0);
      store_row(c, sums, problem.first_row + threadIdx.x, problem.first_column, m, n);
      cuda::ptx::tcgen05_fence_before_thread_sync();
      break;
  }
  __syncwarp();
  __syncthreads();  // no warp needs tensor memory any more
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (warp_index() == kMultiplyWarp) memory.deallocate();
#endif
}

// ---- What the test calls --------------------------------------------------------------------------------------------

/// Blocks for tiles of C: down its rows, along its columns.
static dim3 tiles_of_c(int m, int n) { return dim3((m + kTileM - 1) / kTileM, (n + kTileN - 1) / kTileN); }

void launch_multiply(const float* a, const float* b, float* c, int m, int n, int k, int k_group_size) {
  const auto a_map = make_tile_map<ATile<float>>(a, m, k);
  const auto b_map = make_tile_map<BTile<float>>(b, n, k);
  switch (k_group_size) {
    case 1: multiply<4, 1><<<tiles_of_c(m, n), kThreads>>>(a_map, b_map, c, m, n, k); break;
    case 2: multiply<2, 2><<<tiles_of_c(m, n), kThreads>>>(a_map, b_map, c, m, n, k); break;
    case 4: multiply<1, 4><<<tiles_of_c(m, n), kThreads>>>(a_map, b_map, c, m, n, k); break;
  }
}

void launch_multiply_and_add(const float* a, const float* b, float* c, int m, int n, int k, const uint32_t* numbers,
                             int pieces, uint32_t* sum, int* while_waiting) {
  multiply_and_add<<<1, kThreads>>>(make_tile_map<ATile<float>>(a, m, k), make_tile_map<BTile<float>>(b, n, k), c, m, n,
                                    k, numbers, pieces, sum, while_waiting);
}

void launch_multiply_in_pairs(const float* a, const float* b, float* c, int m, int n, int k) {
  dim3 blocks = tiles_of_c(m, n);
  blocks.x += blocks.x % kClusterSize;  // whole pairs; the last block may find nothing to store
  multiply_in_pairs<<<blocks, kThreads>>>(make_tile_map<ATile<float>>(a, m, k), make_tile_map<HalfOfB>(b, n, k), c, m,
                                          n, k);
}

void launch_multiply_on_tensor_core(const float* a, const float* b, float* c, int m, int n, int k) {
  multiply_on_tensor_core<<<tiles_of_c(m, n), kThreads + kWarpSize>>>(make_tile_map<ATile<tf32>>(a, m, k),
                                                                      make_tile_map<BTile<tf32>>(b, n, k), c, m, n, k);
}
