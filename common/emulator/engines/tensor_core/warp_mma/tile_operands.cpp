#include "emulator/engines/tensor_core/warp_mma/tile_operands.hpp"

#include <algorithm>
#include <bit>

#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

namespace {

const uint32_t* words_at(const Fragment& fragment, RegisterOffset offset) {
  return lanes_at<uint32_t>(fragment.registers, offset);
}

uint16_t* halves_at(const Fragment& fragment, RegisterOffset offset) {
  return lanes_at<uint16_t>(fragment.registers, offset);
}

}  // namespace

// Takes 8 rows by 4 pieces at a time.
void gather(const Fragment& fragment, const MmaTile& tile, Pieces& pieces) {
  constexpr uint32_t kRows = 8, kQuad = 4;
  const auto transpose = panel_kernels().transpose;
  for (uint32_t r = 0; r < tile.a_count; ++r) {
    const FragmentPlace place = place_in_a(tile.m, 0, r);
    transpose(words_at(fragment, tile.a[r]), kQuad, kRows, kQuad, pieces.a + place.column * kFragmentRows + place.row,
              kFragmentRows);
  }
  for (uint32_t r = 0; r < tile.b_count; ++r) {
    transpose(words_at(fragment, tile.b[r]), kQuad, kRows, kQuad, pieces.b + place_in_b(0, r).column * kFragmentColumns,
              kFragmentColumns);
  }
}

void decode(const MmaTile& tile, const Pieces& pieces, TileOperands& operands) {
  const auto table = [](ElementFormat format) { return bits_of(format) <= 8 ? values_of(format).data() : nullptr; };
  operands.depth = warp_mma_kernels().decode({tile.a_format, table(tile.a_format), pieces.a},
                                             {tile.b_format, table(tile.b_format), pieces.b}, tile.pieces,
                                             operands.rows, operands.columns);
}

float read_float(const Fragment& fragment, const MmaTile::Registers& registers, Accumulator type, uint32_t lane,
                 uint32_t i) {
  if (type == Accumulator::f16) return from_f16(halves_at(fragment, registers[i / 2])[2 * lane + i % 2]);
  return std::bit_cast<float>(words_at(fragment, registers[i])[lane]);
}

void write_float(const Fragment& fragment, const MmaTile::Registers& registers, Accumulator type, uint32_t lane,
                 uint32_t i, float value) {
  if (type == Accumulator::f16) {
    halves_at(fragment, registers[i / 2])[2 * lane + i % 2] = to_f16(value);
  } else {
    lanes_at<float>(fragment.registers, registers[i])[lane] = value;
  }
}

TileWords load_words(const Fragment& fragment, const MmaTile& tile) {
  TileWords words{};
  for (uint32_t i = 0; i < tile.d_elements; ++i) {
    const FragmentPlace place = place_in_d(0, i);
    panel_kernels().transpose(words_at(fragment, tile.c[i]), 4, 8, 4,
                              words.data() + place.column * kFragmentRows + place.row, 2 * kFragmentRows);
  }
  return words;
}

void store_words(const Fragment& fragment, const MmaTile& tile, const TileWords& words) {
  for (uint32_t i = 0; i < tile.d_elements; ++i) {
    const FragmentPlace place = place_in_d(0, i);
    panel_kernels().transpose(words.data() + place.column * kFragmentRows + place.row, 2 * kFragmentRows, 4, 8,
                              lanes_at<uint32_t>(fragment.registers, tile.d[i]), 4);
  }
}

TilePanels::TilePanels(const TileOperands& operands, uint32_t first, uint32_t count, const float* c)
    : depth(std::max(count, 8u)) {
  std::fill_n(a + count * kPanelLanes, (depth - count) * kPanelLanes, 0.0f);
  std::fill_n(b, kFragmentColumns * depth, 0.0f);
  for (uint32_t k = 0; k < count; ++k) {
    float* const row = std::copy_n(operands.rows + (first + k) * kFragmentRows, kFragmentRows, a + k * kPanelLanes);
    std::fill_n(row, kRows - kFragmentRows, 0.0f);
    for (uint32_t n = 0; n < kFragmentColumns; ++n) {
      b[n * depth + k] = operands.columns[(first + k) * kFragmentColumns + n];
    }
  }
  for (uint32_t n = 0; n < kFragmentColumns; ++n) {
    float* const column = std::copy_n(c + n * kFragmentRows, kFragmentRows, d + n * kPanelLanes);
    std::fill_n(column, kRows - kFragmentRows, 0.0f);
  }
}

void TilePanels::store(float* to) const {
  for (uint32_t n = 0; n < kFragmentColumns; ++n) {
    std::copy_n(d + n * kPanelLanes, kFragmentRows, to + n * kFragmentRows);
  }
}

}  // namespace stagecraft::emulator::machine
