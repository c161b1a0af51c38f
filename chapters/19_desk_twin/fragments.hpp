// What a warp multiplies: slices of tiles, from shared memory into its registers by `ldmatrix`, and the sums that
// `mma.sync` makes of them there.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/mma_sync.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

//! [sums]
/// M x N sums in the registers of a warp. A lane has four of each 16 rows and 8 columns, `of[i][j]`: those of row lane
/// / 4, columns lane % 4 * 2 and the next, and then the same of the row eight below.
template <int M, int N>
struct WarpSums {
  static_assert(M % 16 == 0 && N % 16 == 0, "WarpSums: M and N must be multiples of 16, as Fragments are loaded");
  static constexpr int rows = M;     ///< along M
  static constexpr int columns = N;  ///< along N
  float of[M / 16][N / 8][4];        ///< the calling lane's
};
//! [sums]

//! [fragments]
/// A slice of both operands in the registers of a warp: 32 bytes along K, of M rows of A and N rows of B.
///
/// Its rows are read as matrices of 8 rows and 16 bytes, four by one `ldmatrix`. A product takes four matrices of A, of
/// 16 rows, and two of B, of 8 rows, which are the columns of the sums: so four of B are for two products.
template <int M, int N>
struct Fragments {
  uint32_t a[M / 16][4];  ///< rows 0 to 7, rows 8 to 15, and both again 16 bytes further along K
  uint32_t b[N / 16][4];  ///< rows 0 to 7, the same 16 bytes further along K, and both again of rows 8 to 15

  /// Loads slice number `slice` of a k-tile.
  ///
  /// Called by a whole converged warp. The tiles must stay as they are until its registers are used, or until an
  /// arrival by `arrive_for_warp` after this.
  /// @param first_a, first_b  of the rows, in the tiles.
  template <SharedTile ATile, SharedTile BTile>
  __device__ __forceinline__ void load(const ATile& a_tile, int first_a, const BTile& b_tile, int first_b, int slice) {
    // TODO 1: load_matrices, where lane 8i + j passes the address of row j of matrix i. Which row of the tile is that,
    // and which half of the slice? It is not the same for A and for B. shared_address() and offset_of() of the tiles
    // say where an element is.
  }
};
//! [fragments]

//! [multiply]
/// Adds the product of a slice to the sums. Called by a whole converged warp.
template <FragmentElement Element, int M, int N>
__device__ __forceinline__ void multiply(WarpSums<M, N>& sums, const Fragments<M, N>& slice) {
  // TODO 2: each 16 x 8 of the sums is a product of four matrices of A and two of B: multiply_fragments. Which two?
}
//! [multiply]

//! [arrives]
/// Counts one arrival for the calling warp: what all of its lanes have read is in their registers. Called by all lanes.
__device__ __forceinline__ void arrive_for_warp(MbarPtr barrier) {
  // An arrival can overtake an ldmatrix that waits its turn, and TMA then overwrites what it has not read: seen on an
  // H200. The fence is what PTX asks for between a thread's reads and TMA's writes.
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  __syncwarp();
  if (lane_index() == 0) arrive(barrier);
}
//! [arrives]

}  // namespace stagecraft
