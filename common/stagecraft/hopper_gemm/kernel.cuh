// C = A * B transposed on Hopper's tensor cores: one warp loads tiles, two warpgroups multiply them in their registers
// and store the sums. The twin of chapter 10's kernel: the ring and its tiles are the same types.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cuda/ptx>
#include <type_traits>

#include "stagecraft/cluster.hpp"
#include "stagecraft/hopper_gemm/leaving_tile.cuh"
#include "stagecraft/hopper_gemm/partial_tiles.cuh"
#include "stagecraft/hopper_gemm/tile_of_c.cuh"
#include "stagecraft/ptx_sm90.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/wgmma.hpp"

namespace stagecraft {

namespace twin {

/// What a warp does.
enum class Role { load, multiply };

/// The first warpgroup loads, the others multiply and store. Called by a whole warp.
__device__ inline Role warp_role() { return warp_index() < 4 ? Role::load : Role::multiply; }

/// The first slice of a tile: what a block needs of it for half a tile of C.
template <typename Slice, typename T>
__device__ __forceinline__ Slice& slice_of(T& tile) {
  return reinterpret_cast<Slice&>(tile);
}
template <typename Slice, typename T>
__device__ __forceinline__ const Slice& slice_of(const T& tile) {
  return reinterpret_cast<const Slice&>(tile);
}

/// The sums of 64 of a warpgroup's 128 rows.
template <typename Element, int N>
__device__ __forceinline__ auto half_of(const WarpgroupSums<Element, 128, N>& sums, int half) -> const
    float (&)[1][N / 2] {
  return reinterpret_cast<const float(&)[1][N / 2]>(sums.of[half]);
}

/// What a copy brings of an operand, and how.
template <typename Slice>
struct Operand {
  const TileMap<Slice>&map, &edge;  ///< the second for what is left of a slice at the edge
  int size;                         ///< rows
  ptx::CacheHint hint;
};

/// Asks for what this block brings of a tile that `Sharers` blocks of the cluster share, for all of them. Few rows
/// beyond the edge of the matrix are copied: copies that hang over it clear them, but take longer (on an H200, a
/// product of 96 rows by tiles of 128 took 1.19 times as long).
/// @param row     the first of the tile.
/// @param slice   which part of the tile that is.
/// @param blocks  the sharers, as a mask.
template <typename Config, int Sharers, typename T, typename Slice>
__device__ __forceinline__ void load_slice(T& tile, const Operand<Slice>& from, int row, int column, MbarPtr barrier,
                                           int slice, uint16_t blocks) {
  static_assert(Slice::rows * Sharers == T::rows && Slice::num_boxes == 1 && T::num_boxes == 1,
                "load_slice: the slices must make the tile, and be one box wide");
  const int first = row + (Sharers > 1 ? slice * Slice::rows : 0);
  const void* map = first + Slice::rows <= from.size ? &from.map.map : &from.edge.map;
  if constexpr (Sharers == 1) {
    ptx::copy_box(tile.storage, map, column, first, barrier, from.hint);
  } else {
    ptx::copy_box(tile.storage + slice * Slice::bytes, map, column, first, barrier, blocks, from.hint);
  }
}

/// Clears the rows of tiles that no copy brings at the edges: what is multiplied there is stored nowhere, but should
/// not be what nobody wrote. Called by all threads, before the barrier after which tiles are multiplied.
template <typename Config, typename Shared>
__device__ __forceinline__ void clear_edges(Shared& shared, const TwinProblem<Config>& problem) {
  using T = Twin<Config>;
  constexpr int kWordsOfRow = swizzle_span(Swizzle::bytes_128) / sizeof(uint4);  // swizzling keeps rows
  // The last tile in the matrix has the rows before these; one beyond it, which a cluster may have, at least eight.
  const auto first_cleared = [&problem](int size, int tile, int blocks) {
    const bool has_tiles_beyond = !T::kHalves && problem.ceil_div(size, tile) % blocks != 0;
    return size % tile != 0 || has_tiles_beyond ? problem.rows_at_edge(size, tile) : 0;
  };
  const int a_rows = first_cleared(problem.m, Config::tile_m, Config::cluster_m);
  const int b_rows = first_cleared(problem.n, Config::tile_n, Config::cluster_n);
  if (a_rows == 0 && b_rows == 0) return;
  const auto clear = [](auto& tile, int from) {
    if (from == 0) return;
    for (int i = from * kWordsOfRow + threadIdx.x; i < tile.rows * kWordsOfRow; i += T::kThreads) {
      reinterpret_cast<uint4*>(tile.storage)[i] = uint4{};
    }
  };
  const typename T::Payload payload{shared.tiles};
  for (int i = 0; i < Config::stages * Config::k_group; ++i) {
    clear(payload.tile(i).a, a_rows);
    clear(payload.tile(i).b, b_rows);
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // the tensor core sees what this thread wrote
}

}  // namespace twin

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
    ptx::prefetch_tensor_map(&problem.a_edge.map);
    ptx::prefetch_tensor_map(&problem.b_edge.map);
    Input::init_barriers(shared.barriers,
                         /*producer_arrive_count=*/1,    // the loading lane, which announces the bytes
                         T::kStores ? T::kConsumers + 1  // the own warpgroups, and the loading lane's announcement
                                    : T::kConsumers * Place::kNeighbours);  // those of all blocks that copies go to
    fence_barrier_init();
  }
  twin::clear_edges<Config>(shared, problem);
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
        const twin::Operand<typename T::ASlice> a{problem.a, problem.a_edge, problem.m, Config::a_hint};
        const twin::Operand<typename T::BSlice> b{problem.b, problem.b_edge, problem.n, Config::b_hint};
        for (TwinTile tile{problem, place}; tile.exists(); tile.next()) {
          const int2 corner = tile.corner();
          // A block needs only the slices that it brings itself of half a tile.
          constexpr int kASlices = Config::tile_m / T::ASlice::rows, kBSlices = Config::tile_n / T::BSlice::rows;
          const int a_rows = problem.copied_rows(problem.m, corner.x, T::ASlice::rows, tile.is_half() ? 1 : kASlices);
          const int b_rows = problem.copied_rows(problem.n, corner.y, T::BSlice::rows, tile.is_half() ? 1 : kBSlices);
          const int bytes = Config::k_group * (a_rows + b_rows) * swizzle_span(Swizzle::bytes_128);
          for (int turn = 0; turn < tile.num_k_groups(); ++turn) {
            auto stage = input.producer().acquire();
            stage.expect_bytes(bytes);
#pragma unroll
            for (int i = 0; i < Config::k_group; ++i) {
              const int k = (tile.k_group(turn) * Config::k_group + i) * T::kTileK;
              if (tile.is_half()) {
                twin::load_slice<Config, 1>(twin::slice_of<typename T::ASlice>(stage.tile(i).a), a, corner.x, k,
                                            stage.mbar(), 0, 0);
                twin::load_slice<Config, 1>(twin::slice_of<typename T::BSlice>(stage.tile(i).b), b, corner.y, k,
                                            stage.mbar(), 0, 0);
                continue;
              }
              twin::load_slice<Config, Config::cluster_n>(stage.tile(i).a, a, corner.x, k, stage.mbar(), place.column,
                                                          place.same_row());
              twin::load_slice<Config, Config::cluster_m>(stage.tile(i).b, b, corner.y, k, stage.mbar(), place.row,
                                                          place.same_column());
            }
            if constexpr (T::kStores) {  // what will free it again, besides the own warpgroups
              constexpr uint32_t kBytes = sizeof(uint32_t) * T::kConsumers * (Place::kNeighbours - 1);
              expect_bytes(input.consumer_mbar(stage.stage()), tile.is_half() ? 0 : kBytes);
            }
          }  // steps only; the bytes signal: stage full
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
        }  // steps only; both warpgroups of all neighbours signal: stage empty
        if constexpr (T::kOverlaps) leaving.store_rest(tile.num_k_groups());
        sums.wait();
        if (Config::in_flight > 0 && tile.num_k_groups() > 0) free(last);
        return int2{corner.x + first_row + warp % 4 * 16, corner.y};
      };

      // Multiplies a tile whose halves leave in turn: the second half of the tile before during the first stage of this
      // one, the first half of this one during its last stage. The second half is only taken. (Written in one loop, the
      // stages make ptxas finish each product before the next.)
      const auto multiply_in_turn = [&](auto& sums, const TwinTile<Config>& tile) __attribute__((always_inline)) {
        using Product = ptx::Wgmma<typename T::Element, Config::tile_n>;
        const int turns = tile.num_k_groups();
        const auto free = [&](uint32_t stage) __attribute__((always_inline)) {
          if (frees) freeing.template free<false>(stage, input.consumer_mbar(stage));
        };
        int2 at;
        {
          auto stage = input.consumer().acquire();
          multiply_tiles<0, 1>(sums, stage.tile(0).a, first_row, stage.tile(0).b, /*accumulate=*/false);
          leaving.store_rest(0);
          multiply_tiles<1, 1>(sums, stage.tile(0).a, first_row, stage.tile(0).b, /*accumulate=*/false);
          at = tile.corner();
          at.x += first_row + warp % 4 * 16;
          ptx::wgmma_wait_group<0>();
          free(stage.stage());
        }
        for (int turn = 1; turn < turns - 1; ++turn) {
          auto stage = input.consumer().acquire();
          multiply_tiles(sums, stage.tile(0).a, first_row, stage.tile(0).b, /*accumulate=*/true);
          ptx::wgmma_wait_group<0>();
          free(stage.stage());
        }
        {
          auto stage = input.consumer().acquire();
          multiply_tiles<0, 1>(sums, stage.tile(0).a, first_row, stage.tile(0).b, /*accumulate=*/true);
          multiply_tiles<1, 1>(sums, stage.tile(0).a, first_row, stage.tile(0).b, /*accumulate=*/true);
          Product::template wait<1>(sums.of[0]);
          leaving.store_at_once(twin::half_of(sums, 0), at.x, at.y);
          Product::template wait<0>(sums.of[1]);
          free(stage.stage());
        }
        leaving.take(twin::half_of(sums, 1), at.x + 64, at.y);
      };

      TwinTile tile{problem, place};
      for (; tile.exists() && !tile.is_half(); tile.next()) {
        typename T::Sums sums;
        if constexpr (Config::in_turn) {
          multiply_in_turn(sums, tile);
          continue;
        }
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
          typename T::Sums whole;
          if (exchange(shared, sums, whole, warp, place.part)) leaving.take(whole, at.x, at.y);
        } else {
          leaving.take(sums, at.x, at.y);
        }
        if constexpr (!T::kOverlaps) leaving.store_rest(0);
      }
      if constexpr (Config::in_turn) leaving.store_rest(0);  // not in a loop, where ptxas would spill
      if constexpr (T::kHalves) {
        for (; tile.exists(); tile.next()) {
          typename T::HalfSums sums;
          const int2 at = multiply(
              sums, tile,
              [](const auto& tiles) -> const typename T::BSlice& {
                return twin::slice_of<typename T::BSlice>(tiles.b);
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
