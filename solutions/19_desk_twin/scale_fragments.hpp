// The scale factors of what a warp multiplies, in its registers: which lane has which, and which of them an `mma.sync`
// takes.
#pragma once

#include <cstdint>
#include <fragments.hpp>

#include "stagecraft/block_scaled_types.hpp"
#include "stagecraft/mma_sync.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

//! [words]
/// Which of 32 rows a lane has the scale factors of. It is the same for A and for B: an `mma.sync` takes those of row i
/// of a fragment from the quad that has that row of the fragment, and the lanes of a quad have rows of several
/// fragments.
__device__ constexpr int scale_row_of(int lane) { return lane % 4 * 8 + lane / 4; }

/// The scale factors of M rows of A and N rows of B, for four blocks of K, in the registers of a warp.
///
/// Those of a row are four bytes, a word in shared memory and a register. Each lane has one row of each 32, so that
/// nothing is there twice.
template <int M, int N>
struct ScaleFragments {
  uint32_t a[M / 32];  ///< `a[i]`: of row 32i + scale_row_of(lane)
  uint32_t b[N / 32];  ///< the same of B

  /// Loads word number `word` of each row. Called by a whole warp.
  /// @param first_a, first_b  of the rows, in the tiles: multiples of M and N.
  template <typename SfaTile, typename SfbTile>
  __device__ __forceinline__ void load(const SfaTile& sfa, int first_a, const SfbTile& sfb, int first_b, int word) {
    load_words(a, sfa, first_a, word);
    load_words(b, sfb, first_b, word);
  }

 private:
  /// The words of rows 0, 32, 64 and 96 of an atom are side by side: one load brings all of a lane's.
  template <int Count, typename SfTile>
  __device__ __forceinline__ static void load_words(uint32_t (&words)[Count], const SfTile& tile, int first_row,
                                                    int word) {
    struct alignas(4 * Count) Words {
      uint32_t of[Count];
    };
    const int row = first_row + scale_row_of(static_cast<int>(lane_index()));
    const Words loaded = *reinterpret_cast<const Words*>(tile.storage + SfTile::offset_of(row, 4 * word));
#pragma unroll
    for (int i = 0; i < Count; ++i) words[i] = loaded.of[i];
  }
};
//! [words]

//! [selectors]
/// Scale factors of a row that one slice of it takes: 32 bytes are one block, or four.
template <typename Type>
inline constexpr int kScalesPerSlice = 256 / element_bits<typename Type::Element> / Type::block;
/// Slices for which a word of four scale factors suffices.
template <typename Type>
inline constexpr int kSlicesPerWord = 4 / kScalesPerSlice<Type>;

/// Which lanes, and which of their bytes, have the scale factors of a fragment in a slice.
/// @param fragment  its number. @param rows  of a fragment: 16 of A, eight of B.
template <typename Type>
__device__ constexpr ScaleSelector select_scales(int fragment, int rows, int slice) {
  return {.byte = static_cast<uint16_t>(slice % kSlicesPerWord<Type> * kScalesPerSlice<Type>),
          .thread = static_cast<uint16_t>(fragment % (32 / rows))};
}
//! [selectors]

//! [multiply]
/// Adds the product of slice number `slice` of a k-tile to the sums, each block of it multiplied by its scale factors.
/// Called by a whole converged warp.
/// @param scales  the words that hold the slice's scale factors.
template <typename Type, int M, int N>
__device__ __forceinline__ void multiply_scaled(WarpSums<M, N>& sums, const Fragments<M, N>& fragments,
                                                const ScaleFragments<M, N>& scales, int slice) {
#pragma unroll
  for (int i = 0; i < M / 16; ++i) {
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      const uint32_t(&b)[4] = fragments.b[j / 2];
      multiply_scaled_fragments<Type>(sums.of[i][j], fragments.a[i], b[j % 2 * 2], b[j % 2 * 2 + 1], scales.a[i / 2],
                                      select_scales<Type>(i, 16, slice),  //
                                      scales.b[j / 4], select_scales<Type>(j, 8, slice));
    }
  }
}
//! [multiply]

}  // namespace stagecraft
