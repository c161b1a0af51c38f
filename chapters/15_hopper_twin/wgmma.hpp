// What a warpgroup asks of Hopper's tensor core: to multiply tiles from shared memory into its registers. The twin of
// stagecraft/mma.hpp and stagecraft/commit.hpp.
#pragma once

#include <concepts>
#include <cstdint>

#include "stagecraft/ptx_sm90.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft {

/// Threads of a warpgroup: four warps, the first of a number that four divides.
inline constexpr int kWarpgroupSize = 128;

/// M x N sums in the registers of a warpgroup: M / 64 multiply-adds of N columns make them, of tiles of `Element`.
template <typename Element, int M, int N>
struct WarpgroupSums {
  static_assert(M % 64 == 0 && M >= 64, "WarpgroupSums: M must be a multiple of 64, the rows of one wgmma");
  static_assert(M / 64 * (N / 2) <= 200, "WarpgroupSums: M * N must be at most 64 * 400, or the registers run out");

  static constexpr int rows = M;     ///< along M
  static constexpr int columns = N;  ///< along N
  float of[M / 64][N / 2];           ///< `of[i]`: the calling thread's part of rows 64i to 64i + 63

  /// Waits until all multiply-adds of the warpgroup are done; the sums may be read then. Called by all four warps.
  __device__ __forceinline__ void wait() {
#pragma unroll
    for (int i = 0; i < M / 64; ++i) ptx::Wgmma<Element, N>::template wait<0>(of[i]);
  }
};

/// The descriptor by which `wgmma` finds a K-major tile with 128-byte swizzle. `tcgen05.mma` has the same fields,
/// except for the code of the swizzle and the constant bit.
/// @param address  in shared memory, of the first of the rows.
/// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout" (matrix descriptor).
__device__ __forceinline__ uint64_t describe_wgmma_tile(uint32_t address) {
  constexpr uint64_t kEightRows = 1024 >> 4, kSwizzle128 = 1;
  return ((address & 0x3ffff) >> 4) | kEightRows << 32 | kSwizzle128 << 62;
}

/// Issues the multiply-adds of `Sums::rows` rows of a tile of A, from `first_row` on, with a tile of B over all of
/// their K, and makes a group of them.
///
/// Called by all four warps of a warpgroup. Neither the tiles nor the sums may be touched before a wait for the group.
/// @param accumulate  false: the sums are overwritten, whatever they held.
template <typename Element, int M, int N, SharedTile ATile, SharedTile BTile>
__device__ __forceinline__ void multiply_tiles(WarpgroupSums<Element, M, N>& sums, const ATile& a, int first_row,
                                               const BTile& b, bool accumulate) {
  static_assert(BTile::rows == N && ATile::columns == BTile::columns,
                "multiply_tiles: the sums must have as many columns as the tile of B has rows, and both tiles the same "
                "number of columns");
  static_assert(ATile::swizzle == Swizzle::bytes_128 && BTile::swizzle == Swizzle::bytes_128 &&
                    ATile::major == Major::k && BTile::major == Major::k &&
                    std::same_as<typename ATile::element_type, Element> &&
                    std::same_as<typename BTile::element_type, Element>,
                "multiply_tiles: here the tiles must be of the sums' elements, K-major, with 128-byte swizzle");
  // TODO 1: how many elements along K does one wgmma take, and where in the tiles is each such slice? Which instruction
  // comes before the first one, and which after the last?
}

}  // namespace stagecraft
