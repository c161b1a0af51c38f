// What make_tile_map() passes to the driver, field by field, read back from the maps that the emulated driver encodes:
// every value below was worked out by hand from the tile's type. And where the library puts things, against the
// emulator's tensor core, which was written independently, from the ISA.
#include <gtest/gtest.h>

#include <bit>
#include <type_traits>
#include <vector>

#include "emulator/engines/copies/tensor_map.hpp"
#include "emulator/state/tensor_layouts.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tmem_layout.hpp"
#include "stagecraft/umma_descriptors.hpp"

namespace stagecraft::tests {
namespace {

namespace machine = emulator::machine;
using machine::TensorElement;
using machine::TensorSwizzle;

/// The fields of a two-dimensional map.
struct Fields {
  uint64_t address;
  TensorElement element;
  TensorSwizzle swizzle;
  std::vector<uint64_t> extents;
  std::vector<uint64_t> strides;
  std::vector<int> box;
  machine::TensorFill fill = machine::TensorFill::zero;

  bool operator==(const Fields&) const = default;
};

Fields fields_of(const CUtensorMap& encoded) {
  const auto map = std::bit_cast<machine::TensorMap>(encoded);
  EXPECT_EQ(map.mark, machine::kTensorMapMark);
  EXPECT_EQ(map.interleave, machine::TensorInterleave::none);
  Fields fields{map.address, map.element, map.swizzle, {}, {}, {}, map.fill};
  for (int i = 0; i < map.rank; ++i) {
    fields.extents.push_back(map.extent(i));
    fields.box.push_back(map.box[i]);
    EXPECT_EQ(map.element_strides[i], 1);
    if (i > 0) fields.strides.push_back(map.strides[i - 1]);
  }
  return fields;
}

/// A matrix at 0x10000; nothing looks at what is there.
template <typename T, typename... More>
Fields map_of(uint64_t rows, uint64_t columns, More... more) {
  using Element = matrix_element<typename T::element_type>;
  return fields_of(make_tile_map<T>(reinterpret_cast<const Element*>(0x10000), rows, columns, more...));
}

class TileMapTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cudaFree(nullptr), cudaSuccess); }  // starts the driver
};

constexpr Swizzle kNone = Swizzle::none, k32 = Swizzle::bytes_32, k64 = Swizzle::bytes_64, k128 = Swizzle::bytes_128;
constexpr Major kMn = Major::mn;

TEST_F(TileMapTest, DescribesMatricesContiguousAlongK) {
  EXPECT_EQ((map_of<Tile<__nv_bfloat16, 128, 64>>(300, 200)),
            (Fields{0x10000, TensorElement::bf16, TensorSwizzle::span_128, {200, 300}, {400}, {64, 128}}));
  EXPECT_EQ((map_of<Tile<__half, 256, 128, k64>>(300, 200)),  // boxes of 32 columns
            (Fields{0x10000, TensorElement::f16, TensorSwizzle::span_64, {200, 300}, {400}, {32, 256}}));
  EXPECT_EQ((map_of<Tile<tf32, 64, 8, k32>>(300, 200)),
            (Fields{0x10000, TensorElement::tf32, TensorSwizzle::span_32, {200, 300}, {800}, {8, 64}}));
  EXPECT_EQ((map_of<Tile<float, 64, 8, kNone>>(300, 200)),
            (Fields{0x10000, TensorElement::f32, TensorSwizzle::none, {200, 300}, {800}, {4, 64}}));
  EXPECT_EQ((map_of<Tile<__nv_fp8_e4m3, 128, 128>>(300, 208)),
            (Fields{0x10000, TensorElement::u8, TensorSwizzle::span_128, {208, 300}, {208}, {128, 128}}));
  EXPECT_EQ((map_of<Tile<__nv_fp8_e5m2, 8, 64, k64>>(3, 208)),
            (Fields{0x10000, TensorElement::u8, TensorSwizzle::span_64, {208, 3}, {208}, {64, 8}}));
  EXPECT_EQ((map_of<Tile<__nv_fp4_e2m1, 128, 256>>(300, 512)),
            (Fields{0x10000, TensorElement::u4_packed, TensorSwizzle::span_128, {512, 300}, {256}, {256, 128}}));
}

TEST_F(TileMapTest, DescribesMatricesContiguousAlongMOrN) {
  EXPECT_EQ((map_of<Tile<__nv_bfloat16, 128, 64, k128, kMn>>(304, 200)),
            (Fields{0x10000, TensorElement::bf16, TensorSwizzle::span_128, {304, 200}, {608}, {64, 64}}));
  EXPECT_EQ((map_of<Tile<__half, 32, 16, k64, kMn>>(304, 200)),
            (Fields{0x10000, TensorElement::f16, TensorSwizzle::span_64, {304, 200}, {608}, {32, 16}}));
  EXPECT_EQ((map_of<Tile<__nv_fp8_e5m2, 64, 32, k32, kMn>>(304, 200)),
            (Fields{0x10000, TensorElement::u8, TensorSwizzle::span_32, {304, 200}, {304}, {32, 32}}));
  EXPECT_EQ((map_of<Tile<__nv_fp8_e4m3, 64, 32, kNone, kMn>>(304, 200)),
            (Fields{0x10000, TensorElement::u8, TensorSwizzle::none, {304, 200}, {304}, {16, 32}}));
  EXPECT_EQ((map_of<Tile<tf32, 64, 32, Swizzle::bytes_128_atom_32, kMn>>(304, 200)),
            (Fields{0x10000, TensorElement::tf32, TensorSwizzle::span_128_atom_32, {304, 200}, {1216}, {32, 32}}));
}

/// What the driver receives about a matrix of 256 x 200 or 200 x 256 elements of a type.
struct TypeInMaps {
  TensorElement element;
  uint64_t line_bytes;             ///< of 256 elements
  int none, by_32, by_64, by_128;  ///< elements in a line of a box, by swizzle
};

template <typename Element>
void expect_every_swizzle_along_k(const TypeInMaps& type) {
  const auto expected = [&](TensorSwizzle swizzle, int line) {
    return Fields{0x10000, type.element, swizzle, {256, 200}, {type.line_bytes}, {line, 128}};
  };
  constexpr int kColumns = 1024 / element_bits<Element>;
  EXPECT_EQ((map_of<Tile<Element, 128, kColumns, kNone>>(200, 256)), expected(TensorSwizzle::none, type.none));
  EXPECT_EQ((map_of<Tile<Element, 128, kColumns, k32>>(200, 256)), expected(TensorSwizzle::span_32, type.by_32));
  EXPECT_EQ((map_of<Tile<Element, 128, kColumns, k64>>(200, 256)), expected(TensorSwizzle::span_64, type.by_64));
  EXPECT_EQ((map_of<Tile<Element, 128, kColumns, k128>>(200, 256)), expected(TensorSwizzle::span_128, type.by_128));
}

template <typename Element>
void expect_every_swizzle_along_m_or_n(const TypeInMaps& type) {
  const auto expected = [&](TensorSwizzle swizzle, int line) {
    return Fields{0x10000, type.element, swizzle, {256, 200}, {type.line_bytes}, {line, 64}};
  };
  EXPECT_EQ((map_of<Tile<Element, 128, 64, kNone, kMn>>(256, 200)), expected(TensorSwizzle::none, type.none));
  EXPECT_EQ((map_of<Tile<Element, 128, 64, k32, kMn>>(256, 200)), expected(TensorSwizzle::span_32, type.by_32));
  EXPECT_EQ((map_of<Tile<Element, 128, 64, k64, kMn>>(256, 200)), expected(TensorSwizzle::span_64, type.by_64));
  EXPECT_EQ((map_of<Tile<Element, 128, 64, k128, kMn>>(256, 200)), expected(TensorSwizzle::span_128, type.by_128));
}

TEST_F(TileMapTest, DescribesEveryTypeAndSwizzleInBothMajors) {
  const TypeInMaps bf16{TensorElement::bf16, 512, 8, 16, 32, 64}, f16{TensorElement::f16, 512, 8, 16, 32, 64},
      tf32_rounded{TensorElement::tf32, 1024, 4, 8, 16, 32}, bytes{TensorElement::u8, 256, 16, 32, 64, 128},
      halves_of_bytes{TensorElement::u4_packed, 128, 32, 64, 128, 256};
  expect_every_swizzle_along_k<__nv_bfloat16>(bf16);
  expect_every_swizzle_along_k<__half>(f16);
  expect_every_swizzle_along_k<tf32>(tf32_rounded);
  expect_every_swizzle_along_k<__nv_fp8_e4m3>(bytes);
  expect_every_swizzle_along_k<__nv_fp8_e5m2>(bytes);
  expect_every_swizzle_along_k<__nv_fp4_e2m1>(halves_of_bytes);
  expect_every_swizzle_along_m_or_n<__nv_bfloat16>(bf16);
  expect_every_swizzle_along_m_or_n<__half>(f16);
  expect_every_swizzle_along_m_or_n<__nv_fp8_e4m3>(bytes);
  expect_every_swizzle_along_m_or_n<__nv_fp8_e5m2>(bytes);
}

TEST_F(TileMapTest, TakesStrideAndFillAsGiven) {
  EXPECT_EQ((map_of<Tile<__nv_bfloat16, 128, 64>>(300, 200, 512, OutOfBounds::nan)),
            (Fields{0x10000,
                    TensorElement::bf16,
                    TensorSwizzle::span_128,
                    {200, 300},
                    {512},
                    {64, 128},
                    machine::TensorFill::nan}));
  EXPECT_EQ((map_of<Tile<__nv_bfloat16, 128, 64, k128, kMn>>(300, 200, 1024)),
            (Fields{0x10000, TensorElement::bf16, TensorSwizzle::span_128, {300, 200}, {1024}, {64, 64}}));
}

TEST_F(TileMapTest, DescribesPlainTilesAndScaleFactors) {
  EXPECT_EQ((map_of<PlainTile<float, 1, 128>>(7, 300)),
            (Fields{0x10000, TensorElement::f32, TensorSwizzle::none, {300, 7}, {1200}, {128, 1}}));
  EXPECT_EQ((map_of<ScaleFactorTile<__nv_fp8_e8m0, 256, 8>>(384, 12)),  // atoms of 512 bytes, 3 along K, 3 along M
            (Fields{0x10000, TensorElement::u16, TensorSwizzle::none, {256, 3, 3}, {512, 1536}, {256, 2, 2}}));
}

// ---- Against the emulator -------------------------------------------------------------------------------------------

constexpr machine::Swizzle theirs(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none: return machine::Swizzle::none;
    case Swizzle::bytes_32: return machine::Swizzle::bytes32;
    case Swizzle::bytes_64: return machine::Swizzle::bytes64;
    case Swizzle::bytes_128: return machine::Swizzle::bytes128;
    case Swizzle::bytes_128_atom_32: return machine::Swizzle::bytes128_atom32;
  }
  return machine::Swizzle::none;
}

/// By the tile's descriptor, the tensor core must look for each element of each slice where the tile has it.
template <typename T>
void expect_tensor_core_to_find_elements() {
  const uint64_t descriptor = tile_descriptor<T>();
  const auto leading = static_cast<uint32_t>(descriptor >> 16 & 0x3fff) * 16;
  const auto stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) * 16;
  for (int row = 0; row < T::rows; ++row) {
    for (int column = 0; column < T::columns; ++column) {
      const auto k = static_cast<uint32_t>(column % k_of_mma<T>), r = static_cast<uint32_t>(row);
      const uint32_t offset = T::major == Major::k
                                  ? machine::k_major_offset(theirs(T::swizzle), leading, stride, r, k * T::bits / 8)
                                  : machine::mn_major_offset(theirs(T::swizzle), leading, stride, r * T::bits / 8, k);
      const uint32_t start = slice_offset<T>(column / k_of_mma<T>);
      ASSERT_EQ(machine::swizzled(theirs(T::swizzle), start + offset), T::offset_of(row, column))
          << "row " << row << ", column " << column;
    }
  }
}

template <typename Element, Swizzle S>
void expect_elements_found() {
  constexpr int kLine = static_cast<int>(swizzle_span(S)) * 8 / element_bits<Element>;
  constexpr int kSliceK = 256 / element_bits<Element>;
  constexpr int kColumns = 2 * (kLine < kSliceK ? kSliceK : kLine);
  if constexpr (S != Swizzle::bytes_128_atom_32) expect_tensor_core_to_find_elements<Tile<Element, 64, kColumns, S>>();
  constexpr bool kMnMajor =
      element_bits<Element> >= 8 && std::is_same_v<Element, tf32> == (S == Swizzle::bytes_128_atom_32);
  if constexpr (kMnMajor) expect_tensor_core_to_find_elements<Tile<Element, 2 * kLine, 2 * kSliceK, S, Major::mn>>();
}

template <typename Element>
void expect_elements_found_under_all_swizzles() {
  expect_elements_found<Element, Swizzle::none>();
  expect_elements_found<Element, Swizzle::bytes_32>();
  expect_elements_found<Element, Swizzle::bytes_64>();
  expect_elements_found<Element, Swizzle::bytes_128>();
}

TEST(LayoutsTest, AgreeWithTheEmulatedTensorCore) {
  expect_elements_found_under_all_swizzles<__nv_bfloat16>();
  expect_elements_found_under_all_swizzles<__nv_fp8_e4m3>();
  expect_elements_found_under_all_swizzles<tf32>();
  expect_elements_found_under_all_swizzles<__nv_fp4_e2m1>();
  expect_elements_found<tf32, Swizzle::bytes_128_atom_32>();
}

TEST(LayoutsTest, AgreeWithTheEmulatedTensorMemory) {
  using enum FragmentShape;
  const std::pair<FragmentShape, machine::FragmentShape> shapes[] = {{lanes_32x32b, machine::FragmentShape::s32x32b},
                                                                     {lanes_16x64b, machine::FragmentShape::s16x64b},
                                                                     {lanes_16x128b, machine::FragmentShape::s16x128b},
                                                                     {lanes_16x256b, machine::FragmentShape::s16x256b}};
  for (const auto& [ours, other] : shapes) {
    EXPECT_EQ(fragment_lanes(ours), static_cast<int>(machine::lanes_of(other)));
    EXPECT_EQ(fragment_registers(ours), static_cast<int>(machine::registers_of(other)));
    EXPECT_EQ(fragment_columns(ours), static_cast<int>(machine::columns_of(other)));
    for (uint32_t thread = 0; thread < 32; ++thread) {
      for (uint32_t index = 0; index < 32; ++index) {
        const TmemCell cell = fragment_cell(ours, thread, index);
        EXPECT_EQ((machine::TensorCell{cell.lane, cell.column}), machine::fragment_cell(other, thread, index));
      }
    }
  }
  for (uint32_t row = 0; row < 128; ++row) {
    for (uint32_t column = 0; column < 64; ++column) {
      const TmemCell d = accumulator_place(AccumulatorLayout::d, row, column, 64).cell;
      EXPECT_EQ((machine::TensorCell{d.lane, d.column}),
                machine::accumulator_cell(machine::AccumulatorLayout::d, row, column, 64));
      if (row >= 64) continue;
      const TmemCell f = accumulator_place(AccumulatorLayout::f, row, column, 64).cell;
      EXPECT_EQ((machine::TensorCell{f.lane, f.column}),
                machine::accumulator_cell(machine::AccumulatorLayout::f, row, column, 64));
    }
    for (uint32_t quarter = 0; quarter < 4; ++quarter) {
      const TmemCell cell = scale_factor_cell(row, quarter);
      EXPECT_EQ((machine::TensorCell{cell.lane, cell.column}), machine::scale_cell(row, quarter));
    }
  }
}

}  // namespace
}  // namespace stagecraft::tests
