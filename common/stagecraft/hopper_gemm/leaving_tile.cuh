// A finished tile on its way from the registers to memory.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/hopper_gemm/tile_of_c.cuh"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

namespace twin {

/// Two sums as two bf16 in a word, the first in the lower half.
__device__ __forceinline__ uint32_t rounded(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return reinterpret_cast<const uint32_t&>(both);
}

}  // namespace twin

/// Stores a warp's part of C, where TMA cannot: rows of C start on boundaries of 2 bytes only.
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
    take(sums.of, row, column);
  }

  /// The same for some bands of 64 rows.
  template <int Bands, int Count>
  __device__ __forceinline__ void take(const float (&bands)[Bands][Count], int row, int column) {
    row_ = row;
    column_ = column;
    parts_ = Bands * (2 * Count / T::kSlabColumns);
#pragma unroll
    for (int band = 0; band < Bands; ++band) {
#pragma unroll
      for (int word = 0; word < Count / 2; ++word) {
        words_[band][word] = twin::rounded(bands[band][2 * word], bands[band][2 * word + 1]);
      }
    }
  }

  /// Stores bands while there are no registers to keep them rounded: each part is rounded when it is stored.
  template <int Count>
  __device__ __forceinline__ void store_at_once(const float (&bands)[T::kBands][Count], int row, int column) {
    take(bands, row, column);
#pragma unroll
    for (int i = 0; i < T::kParts; ++i) store(i);
    parts_ = 0;
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
  __device__ __forceinline__ void store(int part) {
    constexpr int kPerBand = Config::tile_n / T::kSlabColumns;
    const int band = part / kPerBand, column = part % kPerBand * T::kSlabColumns, lane = lane_index();
    auto& slab = slabs_[next_slab_];
    next_slab_ = next_slab_ + 1 == Config::slabs ? 0 : next_slab_ + 1;
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
    if constexpr (T::kIsOdd) {  // and the last 8 columns
      constexpr int kLast = T::kSlabColumns - 8;
      const uint32_t* words = words_[band] + column / 4 + kLast / 4;
      if constexpr (Config::swapped) {
        ptx::store_two_matrices_transposed(slab.shared_address() + slab.offset_of(kLast + lane % 8, lane / 8 % 2 * 8),
                                           words[0], words[1]);
      } else {
        ptx::store_two_matrices(slab.shared_address() + slab.offset_of(lane % 16, kLast), words[0], words[1]);
      }
    }
    if constexpr (Config::by_copy_engine) {
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // TMA sees what this thread wrote
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
  int next_slab_ = 0;
  bool elected_;
};

}  // namespace stagecraft
