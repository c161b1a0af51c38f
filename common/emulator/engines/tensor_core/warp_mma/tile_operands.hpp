// The matrices of a product of one warp, out of its registers and back into them.
#pragma once

#include <array>
#include <cstdint>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/register_fragments.hpp"
#include "emulator/engines/tensor_core/warp_mma/mma_tile.hpp"
#include "emulator/engines/tensor_core/warp_mma/warp_mma_kernels.hpp"

namespace stagecraft::emulator::machine {

/// A as [piece][16] and B as [piece][8].
struct Pieces {
  alignas(64) uint32_t a[kFragmentPieces * kFragmentRows] = {};
  alignas(64) uint32_t b[kFragmentPieces * kFragmentColumns] = {};
};

/// Gathers A and B from the places of register_fragments.hpp.
void gather(const Fragment& fragment, const MmaTile& tile, Pieces& pieces);

/// The numbers of A and B as [k][16] and [k][8].
struct TileOperands {
  float rows[kFragmentDepth * kFragmentRows], columns[kFragmentDepth * kFragmentColumns];
  uint32_t depth = 0;
};
void decode(const MmaTile& tile, const Pieces& pieces, TileOperands& operands);

/// Calls visit(lane, element, index in d[n][16]) for all elements of C or D.
template <typename Visit>
void for_each_element(const MmaTile& tile, Visit visit) {
  for (uint32_t i = 0; i < tile.d_elements; ++i) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const FragmentPlace place = place_in_d(lane, i);
      visit(lane, i, place.column * kFragmentRows + place.row);
    }
  }
}

float read_float(const Fragment& fragment, const MmaTile::Registers& registers, Accumulator type, uint32_t lane,
                 uint32_t i);
void write_float(const Fragment& fragment, const MmaTile::Registers& registers, Accumulator type, uint32_t lane,
                 uint32_t i, float value);

/// C or D as [n][16], in 32-bit words. All of C is read before D is written, because they may share registers.
using TileWords = std::array<uint32_t, kFragmentColumns * kFragmentRows>;
TileWords load_words(const Fragment& fragment, const MmaTile& tile);
void store_words(const Fragment& fragment, const MmaTile& tile, const TileWords& words);

/// A part of a product as panel_kernels.hpp takes it. A panel has more rows, and perhaps more elements along K, which
/// are zero.
struct TilePanels {
  static constexpr uint32_t kRows = 32;  ///< the fewest of a panel

  float a[kFragmentDepth * kPanelLanes], b[kFragmentColumns * kFragmentDepth], d[kFragmentColumns * kPanelLanes];
  uint32_t depth;

  /// Takes the elements [first, first + count) along K, and C as [n][16].
  TilePanels(const TileOperands& operands, uint32_t first, uint32_t count, const float* c);
  MultiplyShape shape(const FusedSum& sum) const { return {kRows, kFragmentColumns, depth, 0, true, sum}; }
  /// Stores D as [n][16].
  void store(float* to) const;
};

}  // namespace stagecraft::emulator::machine
