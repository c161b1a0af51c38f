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
__device__ constexpr int scale_row_of(int lane) {
  // TODO 10: quad i has rows i, i + 8, i + 16 and i + 24. Which of its lanes has which, so that two fragments of A and
  // four of B find theirs?
  return lane;
}

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
    // TODO 10: where in the tile is the lane's first word, and where are the others? One load brings them all.
    for (uint32_t& one : words) one = 0;
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
  // TODO 11: the byte follows from the slice, and the thread from the fragment.
  return {.byte = 0, .thread = 0};
}
//! [selectors]

//! [multiply]
/// Adds the product of slice number `slice` of a k-tile to the sums, each block of it multiplied by its scale factors.
/// Called by a whole converged warp.
/// @param scales  the words that hold the slice's scale factors.
template <typename Type, int M, int N>
__device__ __forceinline__ void multiply_scaled(WarpSums<M, N>& sums, const Fragments<M, N>& fragments,
                                                const ScaleFragments<M, N>& scales, int slice) {
  // TODO 12: as multiply() of fragments.hpp, by multiply_scaled_fragments. Which registers have the scale factors of a
  // fragment?
}
//! [multiply]

}  // namespace stagecraft
