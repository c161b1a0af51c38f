// Where things are: every map of the library is one-to-one, fills what it should, and agrees with single places that
// were worked out by hand from the tables of the PTX ISA.
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "stagecraft/swizzle.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tmem_layout.hpp"

namespace stagecraft {
namespace {

// ---- Swizzles -------------------------------------------------------------------------------------------------------

constexpr Swizzle kSwizzles[] = {Swizzle::none, Swizzle::bytes_32, Swizzle::bytes_64, Swizzle::bytes_128,
                                 Swizzle::bytes_128_atom_32};

TEST(SwizzleTest, ExchangesTheBitsThatItsNameSays) {
  for (const uint32_t address : {0u, 0x80u, 0x1f0u, 0x3a4u, 0x7ffffu, 0x12345u}) {
    EXPECT_EQ(swizzled(address, Swizzle::none), address);
    EXPECT_EQ(swizzled(address, Swizzle::bytes_32), address ^ (address >> 3 & 0x10));
    EXPECT_EQ(swizzled(address, Swizzle::bytes_64), address ^ (address >> 3 & 0x30));
    EXPECT_EQ(swizzled(address, Swizzle::bytes_128), address ^ (address >> 3 & 0x70));
    EXPECT_EQ(swizzled(address, Swizzle::bytes_128_atom_32), address ^ (address >> 2 & 0x60));
  }
  EXPECT_EQ(swizzled(0x380, Swizzle::bytes_128), 0x3f0u);  // line 7: the first chunk goes to the last place
  EXPECT_EQ(swizzled(0x0a0, Swizzle::bytes_128), 0x0b0u);  // line 1: chunks of a pair change places
  EXPECT_EQ(swizzled(0x180, Swizzle::bytes_128_atom_32), 0x1e0u);
}

TEST(SwizzleTest, IsItsOwnInverseAndOneToOne) {
  for (const Swizzle swizzle : kSwizzles) {
    std::set<uint32_t> places;
    for (uint32_t address = 0; address < 4096; ++address) {
      EXPECT_EQ(swizzled(swizzled(address, swizzle), swizzle), address);
      places.insert(swizzled(address, swizzle));
    }
    EXPECT_EQ(places.size(), 4096u);
    EXPECT_EQ(*places.rbegin(), 4095u);
  }
}

TEST(SwizzleTest, SpreadsAColumnOverAllBanks) {
  std::set<uint32_t> chunks;
  for (uint32_t row = 0; row < 8; ++row) chunks.insert(swizzled(row * 128, Swizzle::bytes_128) % 128);
  EXPECT_EQ(chunks.size(), 8u);
}

TEST(SwizzleTest, TellsItsSizes) {
  const uint32_t spans[] = {16, 32, 64, 128, 128}, atoms[] = {16, 16, 16, 16, 32}, rows[] = {8, 8, 8, 8, 4};
  const uint32_t alignments[] = {128, 256, 512, 1024, 1024};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(swizzle_span(kSwizzles[i]), spans[i]);
    EXPECT_EQ(swizzle_atom(kSwizzles[i]), atoms[i]);
    EXPECT_EQ(swizzle_rows(kSwizzles[i]), rows[i]);
    EXPECT_EQ(tile_alignment(kSwizzles[i]), alignments[i]);
  }
}

// ---- Tiles ----------------------------------------------------------------------------------------------------------

/// Every byte of the tile belongs to one element; of elements of 4 bits, to two.
template <typename T>
void expect_one_to_one() {
  std::vector<int> owners(T::bytes);
  for (int row = 0; row < T::rows; ++row) {
    for (int column = 0; column < T::columns; ++column) {
      for (uint32_t byte = 0; byte < (T::bits + 7) / 8; ++byte) {
        const uint32_t at = T::offset_of(row, column) + byte;
        ASSERT_LT(at, T::bytes) << row << ", " << column;
        ++owners[at];
      }
    }
  }
  EXPECT_EQ(owners, std::vector<int>(T::bytes, T::bits < 8 ? 2 : 1));
  EXPECT_EQ(sizeof(T), (T::bytes + alignof(T) - 1) / alignof(T) * alignof(T));
}

template <typename Element, Swizzle S>
void expect_tiles_to_be_one_to_one() {
  constexpr int kLine = static_cast<int>(swizzle_span(S)) * 8 / element_bits<Element>;
  expect_one_to_one<Tile<Element, 8, kLine, S>>();
  expect_one_to_one<Tile<Element, 128, 2 * kLine, S>>();
  expect_one_to_one<Tile<Element, kLine, 16, S, Major::mn>>();
  expect_one_to_one<Tile<Element, 3 * kLine, 64, S, Major::mn>>();
}

template <typename Element>
void expect_tiles_of() {
  expect_tiles_to_be_one_to_one<Element, Swizzle::none>();
  expect_tiles_to_be_one_to_one<Element, Swizzle::bytes_32>();
  expect_tiles_to_be_one_to_one<Element, Swizzle::bytes_64>();
  expect_tiles_to_be_one_to_one<Element, Swizzle::bytes_128>();
  expect_tiles_to_be_one_to_one<Element, Swizzle::bytes_128_atom_32>();
}

TEST(TileTest, GivesEveryElementItsOwnBytes) {
  expect_tiles_of<__nv_fp4_e2m1>();
  expect_tiles_of<__nv_fp8_e4m3>();
  expect_tiles_of<__nv_bfloat16>();
  expect_tiles_of<tf32>();
  expect_tiles_of<double>();
  expect_one_to_one<PlainTile<float, 1, 128>>();
  expect_one_to_one<PlainTile<__half, 33, 40>>();
  expect_one_to_one<ScaleFactorTile<__nv_fp8_e8m0, 128, 4>>();
  expect_one_to_one<ScaleFactorTile<__nv_fp8_e4m3, 384, 16>>();
}

TEST(TileTest, PutsElementsWhereTheCopyEngineDoes) {
  using Rows = Tile<__nv_bfloat16, 128, 128>;  // two boxes of 128 rows of 128 bytes
  EXPECT_EQ(Rows::offset_of(0, 0), 0u);
  EXPECT_EQ(Rows::offset_of(0, 9), 18u);
  EXPECT_EQ(Rows::offset_of(1, 0), 128u + 16);           // chunk 0 of line 1 is in place 1
  EXPECT_EQ(Rows::offset_of(3, 17), 3 * 128u + 16 + 2);  // chunk 2 of line 3 is in place 1
  EXPECT_EQ(Rows::offset_of(8, 0), 1024u);
  EXPECT_EQ(Rows::offset_of(0, 64), 16384u);
  EXPECT_EQ(Rows::offset_of(127, 127), 16384u + 127 * 128 + 14);  // chunk 7 of a line 7 is in place 0
  EXPECT_EQ(Rows::linear_offset_of(3, 17), 3 * 128u + 34);
  using Columns = Tile<__nv_fp8_e4m3, 64, 16, Swizzle::bytes_32, Major::mn>;  // two boxes of 16 lines of 32 bytes
  EXPECT_EQ(Columns::offset_of(0, 1), 32u);
  EXPECT_EQ(Columns::offset_of(5, 4), 4 * 32u + 5 + 16);  // line 4 begins 128 bytes on
  EXPECT_EQ(Columns::offset_of(33, 0), 512u + 1);
  using Plain = Tile<tf32, 8, 8, Swizzle::none>;  // two boxes of 8 rows of 16 bytes
  EXPECT_EQ(Plain::offset_of(2, 3), 2 * 16u + 12);
  EXPECT_EQ(Plain::offset_of(2, 4), 128u + 2 * 16);
  using Packed = Tile<__nv_fp4_e2m1, 8, 64, Swizzle::bytes_32>;
  EXPECT_EQ(Packed::offset_of(1, 6), 32u + 3);
  EXPECT_EQ(Packed::offset_of(1, 7), 32u + 3);
}

TEST(TileTest, PutsScaleFactorsWhereTheTensorCoreWantsThem) {
  using Scales = ScaleFactorTile<__nv_fp8_e8m0, 256, 8>;
  EXPECT_EQ(Scales::offset_of(0, 3), 3u);
  EXPECT_EQ(Scales::offset_of(1, 0), 16u);
  EXPECT_EQ(Scales::offset_of(32, 0), 4u);
  EXPECT_EQ(Scales::offset_of(127, 2), 31 * 16u + 3 * 4 + 2);
  EXPECT_EQ(Scales::offset_of(0, 4), 512u);
  EXPECT_EQ(Scales::offset_of(128, 0), 1024u);
}

TEST(TileTest, KnowsItsBoxes) {
  using Rows = Tile<__nv_bfloat16, 128, 128>;
  EXPECT_EQ(Rows::box_elements, 64);
  EXPECT_EQ(Rows::lines, 128);
  EXPECT_EQ(Rows::num_boxes, 2);
  EXPECT_EQ(Rows::bytes_per_box, 16384u);
  EXPECT_EQ(Rows::bytes, 32768u);
  using Columns = Tile<__nv_fp8_e4m3, 64, 16, Swizzle::bytes_32, Major::mn>;
  EXPECT_EQ(Columns::box_elements, 32);
  EXPECT_EQ(Columns::lines, 16);
  EXPECT_EQ(Columns::num_boxes, 2);
  EXPECT_EQ(Columns::bytes, 1024u);
}

// ---- Tensor memory --------------------------------------------------------------------------------------------------

/// Each element of D has a cell of its own, the inverse finds it again, and D takes as many columns as it should.
void expect_accumulator(AccumulatorLayout layout, uint32_t m, uint32_t n, uint32_t ctas, uint32_t lanes) {
  std::set<std::vector<uint32_t>> cells;
  for (uint32_t row = 0; row < m; ++row) {
    for (uint32_t column = 0; column < n; ++column) {
      const AccumulatorPlace place = accumulator_place(layout, row, column, n);
      ASSERT_LT(place.cta, ctas);
      ASSERT_LT(place.cell.lane, 128u);
      ASSERT_LT(place.cell.column, static_cast<uint32_t>(accumulator_columns(layout, static_cast<int>(n))));
      cells.insert({place.cta, place.cell.lane, place.cell.column});
      ASSERT_EQ(accumulator_row(layout, place.cell.lane, place.cta), static_cast<int>(row));
      ASSERT_EQ(accumulator_column(layout, place.cell.lane, place.cell.column, n), static_cast<int>(column));
    }
  }
  EXPECT_EQ(cells.size(), size_t{m} * n);
  uint32_t used = 0;
  for (uint32_t lane = 0; lane < 128; ++lane) used += accumulator_row(layout, lane) >= 0;
  EXPECT_EQ(used, lanes);
}

TEST(AccumulatorLayoutTest, IsOneToOne) {
  for (const uint32_t n : {16u, 64u, 256u}) {
    expect_accumulator(AccumulatorLayout::a, 256, n, 2, 128);
    expect_accumulator(AccumulatorLayout::b, 128, n, 2, 128);
    expect_accumulator(AccumulatorLayout::d, 128, n, 1, 128);
    expect_accumulator(AccumulatorLayout::f, 64, n, 1, 64);
  }
}

TEST(AccumulatorLayoutTest, FollowsFromTheShape) {
  EXPECT_EQ(accumulator_layout(128, 1), AccumulatorLayout::d);
  EXPECT_EQ(accumulator_layout(64, 1), AccumulatorLayout::f);
  EXPECT_EQ(accumulator_layout(256, 2), AccumulatorLayout::a);
  EXPECT_EQ(accumulator_layout(128, 2), AccumulatorLayout::b);
}

TEST(AccumulatorLayoutTest, PutsElementsWhereTheTablesDo) {
  using Place = AccumulatorPlace;
  EXPECT_EQ(accumulator_place(AccumulatorLayout::d, 77, 5, 64), (Place{0, {77, 5}}));
  EXPECT_EQ(accumulator_place(AccumulatorLayout::f, 17, 5, 64), (Place{0, {33, 5}}));
  EXPECT_EQ(accumulator_place(AccumulatorLayout::f, 63, 5, 64), (Place{0, {111, 5}}));
  EXPECT_EQ(accumulator_place(AccumulatorLayout::a, 130, 5, 64), (Place{1, {2, 5}}));
  EXPECT_EQ(accumulator_place(AccumulatorLayout::b, 65, 5, 64), (Place{1, {1, 5}}));
  EXPECT_EQ(accumulator_place(AccumulatorLayout::b, 3, 40, 64), (Place{0, {67, 8}}));
  EXPECT_EQ(accumulator_row(AccumulatorLayout::f, 16), -1);
}

TEST(FragmentTest, IsOneToOneAndFillsARectangle) {
  using enum FragmentShape;
  for (const FragmentShape shape : {lanes_32x32b, lanes_16x64b, lanes_16x128b, lanes_16x256b}) {
    for (const int repetitions : {1, 2, 8}) {
      const auto lanes = static_cast<uint32_t>(fragment_lanes(shape));
      const auto columns = static_cast<uint32_t>(fragment_columns(shape) * repetitions);
      std::set<std::pair<uint32_t, uint32_t>> cells;
      for (uint32_t thread = 0; thread < 32; ++thread) {
        for (int index = 0; index < fragment_registers(shape) * repetitions; ++index) {
          const TmemCell cell = fragment_cell(shape, thread, static_cast<uint32_t>(index));
          ASSERT_LT(cell.lane, lanes);
          ASSERT_LT(cell.column, columns);
          cells.insert({cell.lane, cell.column});
        }
      }
      EXPECT_EQ(cells.size(), size_t{lanes} * columns);
    }
  }
}

TEST(FragmentTest, PutsRegistersWhereTheTablesDo) {
  using enum FragmentShape;
  EXPECT_EQ(fragment_cell(lanes_32x32b, 21, 3), (TmemCell{21, 3}));
  EXPECT_EQ(fragment_cell(lanes_16x64b, 5, 2), (TmemCell{9, 4}));    // thread 5: lane 1 + 8
  EXPECT_EQ(fragment_cell(lanes_16x64b, 6, 2), (TmemCell{1, 5}));    // thread 6: the second column
  EXPECT_EQ(fragment_cell(lanes_16x128b, 7, 3), (TmemCell{9, 7}));   // odd registers: 8 lanes on
  EXPECT_EQ(fragment_cell(lanes_16x256b, 7, 6), (TmemCell{9, 14}));  // the third of each four: 8 lanes on
  EXPECT_EQ(fragment_cell(lanes_16x256b, 31, 1), (TmemCell{7, 7}));
}

TEST(FragmentTest, GivesEachQuarterItsScaleFactors) {
  std::set<std::pair<uint32_t, uint32_t>> cells;
  for (uint32_t row = 0; row < 256; ++row) {
    for (uint32_t quarter = 0; quarter < 4; ++quarter) {
      const TmemCell cell = scale_factor_cell(row, quarter);
      EXPECT_EQ(cell.lane / 32, quarter);
      EXPECT_LT(cell.column, 8u);
      cells.insert({cell.lane, cell.column});
    }
  }
  EXPECT_EQ(cells.size(), 1024u);
  EXPECT_EQ(scale_factor_cell(70, 2), (TmemCell{70, 2}));
}

TEST(TmemAddressTest, HoldsTheLaneAboveTheColumn) {
  EXPECT_EQ(tmem_address({96, 5}), 0x0060'0005u);
  EXPECT_EQ(tmem_offset(0x0020'0040, 32, 8), 0x0040'0048u);
}

}  // namespace
}  // namespace stagecraft
