// From tensor memory to C: what each of the four storing warps does with its part of a tile.
#pragma once

#include "problem.cuh"

namespace stagecraft {

/// Stores the quarter of a tile of C that the calling warp can reach. Called by each of four whole warps in a row.
template <TileElement Element>
__device__ void store_quarter(const Problem<Element>& problem, const TileOfC<Element>& tile,
                              const Accumulator& accumulator) {
  constexpr int kColumns = 32;  // at a time, in registers
  // TODO 1: of which row are the sums that this thread gets? A warp reaches 32 lanes, and which, its index says.
  const int row = tile.row();
  for (int column = 0; column < kTileN; column += kColumns) {
    // TODO 1: load them, kColumns at a time; see TmemTensor in tensor_memory.hpp.
    float sums[kColumns] = {};
    const int valid = problem.n - (tile.column() + column);  // columns of C from here on; none beyond its edge
    if (row < problem.m) store_row(problem.c + int64_t{row} * problem.n + tile.column() + column, sums, valid);
  }
}

}  // namespace stagecraft
