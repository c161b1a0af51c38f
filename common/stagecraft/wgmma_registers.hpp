// Products whose A is in registers: what a product before them has left there, after the threads have changed it. The
// second product of attention is one.
#pragma once

#include <concepts>
#include <cstdint>

#include "stagecraft/packed_elements.hpp"
#include "stagecraft/ptx_sm90.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/wgmma.hpp"

namespace stagecraft {

/// 64 x K elements of 16 bits in the registers of a warpgroup, as operand A.
template <typename Element, int K>
struct WarpgroupOperand {
  static_assert(K % 16 == 0, "WarpgroupOperand: K must be a multiple of 16, what one wgmma takes");

  uint32_t of[K / 16][4];  ///< `of[i]`: the calling thread's part of columns 16i to 16i + 15

  /// Rounds the sums of another product: what was along N there is along K here, in the same threads.
  __device__ __forceinline__ void round(const WarpgroupSums<Element, 64, K>& sums) {
#pragma unroll
    for (int i = 0; i < K / 4; ++i) of[i / 4][i % 4] = pack_pair<Element>(sums.of[0][2 * i], sums.of[0][2 * i + 1]);
  }
};

/// The descriptor by which `wgmma` finds a tile that is contiguous along N, with 128-byte swizzle.
template <SharedTile T>
__device__ __forceinline__ uint64_t describe_wgmma_tile_along_n(const T& tile) {
  static_assert(T::swizzle == Swizzle::bytes_128 && T::major == Major::mn,
                "describe_wgmma_tile_along_n: the tile must be contiguous along N, with 128-byte swizzle");
  constexpr uint64_t kNextBox = T::bytes_per_box >> 4, kEightLines = 1024 >> 4, kSwizzle128 = 1;
  return ((tile.shared_address() & 0x3ffff) >> 4) | kNextBox << 16 | kEightLines << 32 | kSwizzle128 << 62;
}

/// Issues the multiply-adds of rows in registers with a tile of B over all of their K, and makes a group of them.
///
/// Called by all four warps of a warpgroup. Neither operand nor the sums may be touched before a wait for the group.
/// @param b           its rows are the columns of the sums; contiguous along them.
/// @param accumulate  false: the sums are overwritten, whatever they held.
template <typename Element, int N, int K, SharedTile BTile>
__device__ __forceinline__ void multiply_registers(WarpgroupSums<Element, 64, N>& sums,
                                                   const WarpgroupOperand<Element, K>& a, const BTile& b,
                                                   bool accumulate) {
  static_assert(
      BTile::rows == N && BTile::columns == K && std::same_as<typename BTile::element_type, Element>,
      "multiply_registers: the tile of B must have a row for each column of the sums, a column for each of A, "
      "and their elements");
  const uint64_t b_rows = describe_wgmma_tile_along_n(b);
  ptx::wgmma_fence();
#pragma unroll
  for (int slice = 0; slice < K / 16; ++slice) {
    ptx::WgmmaOfRegisters<Element, N>::issue(
        sums.of[0], a.of[slice], b_rows + (BTile::linear_offset_of(0, slice * 16) >> 4), accumulate || slice > 0);
  }
  ptx::wgmma_commit_group();
}

}  // namespace stagecraft
