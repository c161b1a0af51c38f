// Tests of chapter 14, in the order of its TODOs.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/block_scaling.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "harness/scaled_mistakes.hpp"
#include "launches.hpp"
#include "tcgen05_test.hpp"

using namespace stagecraft;
using namespace stagecraft::harness;

namespace {

using Chapter14 = chapters::Tcgen05Test;

// ---- TODO 1 to 3: scale factors in tensor memory --------------------------------------------------------------------

TEST_F(Chapter14, Todo1EachScaleFactorHasItsByte) {
  // Counted out, one column after another, so that a failing test does not print the formula.
  std::vector<ScalePlace> places(size_t{kScaleRows} * kScaleBlocks);
  int columns = 0;
  for (int first_block = 0; first_block < kScaleBlocks; first_block += 4) {
    for (int first_row = 0; first_row < kScaleRows; first_row += 32, ++columns) {
      for (uint32_t lane = 0; lane < 32; ++lane) {
        for (uint32_t byte = 0; byte < 4; ++byte) {
          places[(first_row + lane) * kScaleBlocks + first_block + byte] = {lane, uint32_t(columns), byte};
        }
      }
    }
  }
  ASSERT_EQ(columns_of_scale_factors(), columns) << "a column of 32 lanes holds four blocks of 32 rows";
  for (int row = 0; row < kScaleRows; ++row) {
    for (int block = 0; block < kScaleBlocks; ++block) {
      const ScalePlace place = place_of_scale_factor(row, block), expected = places[row * kScaleBlocks + block];
      const std::string which = "the scale factor of row " + std::to_string(row) + ", block " + std::to_string(block);
      ASSERT_EQ(place.lane, expected.lane) << "the lane of " << which;
      ASSERT_EQ(place.column, expected.column) << "the column of " << which;
      ASSERT_EQ(place.byte, expected.byte) << "the byte of " << which;
    }
  }
}

uint8_t scale_factor_in(const std::vector<uint8_t>& tile, uint32_t row, uint32_t block) {
  return tile[scale_factor_offset(row, block, kScaleBlocks)];
}

/// Which atom of the tile is where that of (row, block) belongs, in the four columns from `column` on.
std::string atom_that_is_there(const std::vector<uint8_t>& tile, const std::vector<uint32_t>& cells, uint32_t row,
                               uint32_t block, uint32_t column) {
  for (uint32_t other_row = 0; other_row < kScaleRows; other_row += 128) {
    for (uint32_t other_block = 0; other_block < kScaleBlocks; other_block += 4) {
      bool is_there = true;
      for (uint32_t i = 0; i < 128 * 4; ++i) {
        const uint32_t cell = cells[i / 4 % 32 * kReadColumns + column + i / 128];
        is_there &= (cell >> i % 4 * 8 & 0xff) == scale_factor_in(tile, other_row + i / 4, other_block + i % 4);
      }
      if (is_there) {
        const auto name = [](uint32_t first_row, uint32_t first_block) {
          return "rows " + std::to_string(first_row) + " to " + std::to_string(first_row + 127) + ", blocks " +
                 std::to_string(first_block) + " to " + std::to_string(first_block + 3);
        };
        return ": the atom of " + name(other_row, other_block) + " is where that of " + name(row, block) + " belongs";
      }
    }
  }
  return ": no atom of the tile is in these columns. Was it copied?";
}

TEST_F(Chapter14, Todo2TheTensorCoreCopiesTheScaleFactors) {
  Random random(std::random_device{}());
  std::vector<uint8_t> tile(size_t{kScaleRows} * kScaleBlocks);
  for (uint8_t& byte : tile) byte = static_cast<uint8_t>(random.bits());
  const DeviceBuffer<uint8_t> there(tile, "the scale factors");
  DeviceBuffer<uint32_t> read(size_t{128} * kReadColumns, "what is in tensor memory");
  read.poison();
  launch_copy_scale_factors(there.data(), read.data());
  finish_kernel("copy_scale_factors_and_read");
  const std::vector<uint32_t> cells = read.to_host();
  for (uint32_t lane = 0; lane < 128; ++lane) {
    for (uint32_t column = 0; column < kReadColumns; ++column) {
      const uint32_t row = column % (kScaleRows / 32) * 32 + lane % 32, block = column / (kScaleRows / 32) * 4;
      for (uint32_t byte = 0; byte < 4; ++byte) {
        const uint32_t found = cells[lane * kReadColumns + column] >> 8 * byte & 0xff;
        const uint32_t expected = scale_factor_in(tile, row, block + byte);
        ASSERT_EQ(found, expected) << "byte " << byte << " of lane " << lane << ", column " << column
                                   << " should be the scale factor of row " << row << ", block " << block + byte
                                   << atom_that_is_there(tile, cells, row / 128 * 128, block, column - row % 128 / 32);
      }
    }
  }
}

TEST_F(Chapter14, Todo3AccumulatorsAndScaleFactorsShareTensorMemory) {
  struct Expected {
    Kind kind;
    uint32_t accumulators, sfa, sfb;  // columns: of all accumulators, and of a k-tile's scale factors
  };
  for (const auto& [kind, accumulators, sfa, sfb] :
       {Expected{Kind::mxfp8, 256, 4, 4}, {Kind::mxfp4, 256, 8, 8}, {Kind::nvfp4, 256, 16, 32}}) {
    const Division division = division_of(kind);
    const uint32_t both = sfa + sfb;
    ASSERT_EQ(static_cast<uint32_t>(division.scale_columns), both) << "columns of a k-tile's scale factors";
    uint32_t used = accumulators;
    for (uint32_t i = 0; i < kStages; ++i, used += both) {
      const uint32_t first_of_b = used + sfa;
      ASSERT_EQ(division.sfa[i], used) << "the column where the scale factors of k-tile " << i
                                       << " begin; the accumulators take 0 to " << accumulators - 1;
      ASSERT_EQ(division.sfb[i], first_of_b) << "the column where those of B begin, after those of A";
    }
    const uint32_t allocated = std::bit_ceil(used);
    ASSERT_EQ(static_cast<uint32_t>(division.tmem_columns), allocated) << "columns to allocate: a power of two";
  }
}

// ---- TODO 4 and 5: block-scaled products ----------------------------------------------------------------------------

/// A block-scaled type of the test, and the kernel that is given it.
template <typename Type>
struct Tested;
template <>
struct Tested<Mxfp8> {
  static constexpr Kind kind = Kind::mxfp8;
  static constexpr const char* name = "mxfp8";
};
template <>
struct Tested<Mxfp4> {
  static constexpr Kind kind = Kind::mxfp4;
  static constexpr const char* name = "mxfp4";
};
template <>
struct Tested<Nvfp4> {
  static constexpr Kind kind = Kind::nvfp4;
  static constexpr const char* name = "nvfp4";
};

template <typename Type>
constexpr bool kScalesArePowers = std::is_same_v<typename Type::Scale, __nv_fp8_e8m0>;

/// What the answer makes of A and B.
template <typename Type>
std::vector<float> multiply(const BlockScaledMatrix& a, const BlockScaledMatrix& b, int blocks) {
  const BlockScaledBuffers there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<float> there_c(a.rows * b.rows, "C");
  there_c.poison();
  launch_answer(Tested<Type>::kind, there_a.elements.data(), there_a.scale_factors.data(), there_b.elements.data(),
                there_b.scale_factors.data(), there_c.data(), static_cast<int64_t>(a.rows),
                static_cast<int64_t>(b.rows), static_cast<int64_t>(a.columns), blocks);
  finish_kernel("multiply_block_scaled");
  return there_c.to_host();
}

/// A number that a scale factor can be, another one for each block.
template <typename Type>
float scale_of_block(size_t block) {
  return kScalesArePowers<Type> ? std::ldexp(1.0f, static_cast<int>(block)) : static_cast<float>(block + 1);
}

/// The bits of a number as a scale factor; it can be one.
template <typename Type>
uint8_t scale_bits(float scale) {
  return kScalesArePowers<Type> ? static_cast<uint8_t>(127 + std::ilogb(scale)) : __nv_fp8_e4m3(scale).__x;
}

/// A matrix of zeros and ones, by `element(row, block)`, whose scale factors are `scale(block)`.
template <typename Type, typename Element, typename Scale>
BlockScaledMatrix matrix_of_blocks(size_t rows, size_t k, Element element, Scale scale) {
  constexpr size_t kPerByte = element_bits<typename Type::Element> == 4 ? 2 : 1;
  BlockScaledMatrix matrix = quantise<Type>(std::vector<float>(rows * k), rows, k);
  for (size_t i = 0; i < rows * k; ++i) {
    const size_t row = i / k, block = i % k / Type::block;
    const uint8_t bits = nearest_bits<typename Type::Element>(element(row, block) ? 1.0f : 0.0f);
    matrix.elements[i / kPerByte] |= static_cast<uint8_t>(i % kPerByte == 1 ? bits << 4 : bits);
    matrix.scale_factors[scale_factor_offset(static_cast<uint32_t>(row), static_cast<uint32_t>(block),
                                             static_cast<uint32_t>(matrix.padded_blocks))] =
        scale_bits<Type>(scale(block));
  }
  return matrix;
}

/// What a sum of one block says about the scale factor that it was multiplied by.
template <typename Type>
std::string explain(float sum, size_t blocks) {
  const float scale = sum / Type::block;
  for (size_t block = 0; block < blocks; ++block) {
    if (scale == scale_of_block<Type>(block)) return "the scale factor of block " + std::to_string(block);
    // The other operand's scale factors are ones, and would be taken for powers too.
    const int exponent = scale_bits<Type>(scale_of_block<Type>(block)) - 127, of_one = scale_bits<Type>(1) - 127;
    if (!kScalesArePowers<Type> && scale == std::ldexp(1.0f, exponent + of_one)) {
      return "2^" + std::to_string(exponent) + ", which is what the bits of that of block " + std::to_string(block) +
             " mean as ue8m0";
    }
  }
  return std::to_string(scale);
}

/// Multiplies a matrix that has ones in one block of each row only, as A and as B, with ones.
template <typename Type>
void expect_own_scale_factors() {
  constexpr size_t kK = 1024 / element_bits<typename Type::Element>, kBlocks = kK / Type::block, kSize = 128;
  const auto ones = matrix_of_blocks<Type>(
      kSize, kK, [](size_t, size_t) { return true; }, [](size_t) { return 1.0f; });
  const auto one_block = matrix_of_blocks<Type>(
      kSize, kK, [](size_t row, size_t block) { return row % kBlocks == block; }, scale_of_block<Type>);
  for (const bool of_a : {true, false}) {
    const std::vector<float> c = of_a ? multiply<Type>(one_block, ones, 1) : multiply<Type>(ones, one_block, 1);
    for (size_t i = 0; i < kSize; ++i) {
      const size_t block = i % kBlocks;
      const float sum = c[of_a ? i * kSize : i];
      ASSERT_EQ(sum, Type::block * scale_of_block<Type>(block))
          << Tested<Type>::name << ", " << (of_a ? "row " : "column ") << i << " of C: block " << block << " of K of "
          << (of_a ? "A" : "B") << " was multiplied by " << explain<Type>(sum, kBlocks) << "; its own is "
          << scale_of_block<Type>(block);
    }
  }
}

/// Fresh random operands through the answer's kernel; every element must be right.
template <typename Type>
void expect_product(size_t m, size_t n, size_t k, int blocks) {
  const uint64_t seed = std::random_device{}();
  const BlockScaledMatrix a = quantise<Type>(random_uneven_values(m, k, seed), m, k);
  const BlockScaledMatrix b = quantise<Type>(random_uneven_values(n, k, ~seed), n, k);
  const std::vector<float> c = multiply<Type>(a, b, blocks);
  const ScaledProduct reference = scaled_product(a.values, b.values, m, n, k);
  constexpr int kElementBits = element_bits<typename Type::Element>;
  const Comparison found = compare_scaled(c, reference, k, 256 / kElementBits);
  if (found.wrong == 0) return;
  const ProductShape shape{.m = static_cast<int>(m),
                           .n = static_cast<int>(n),
                           .k = static_cast<int>(k),
                           .tile_m = 128,
                           .tile_n = Tested<Type>::kind == Kind::nvfp4 ? 256 : 128,
                           .tile_k = 1024 / kElementBits,
                           .mma_k = 256 / kElementBits};
  FAIL() << Tested<Type>::name << ", C of " << m << " x " << n << " x " << k << " on " << blocks << " block(s), seed "
         << seed << ": " << found.wrong << " of " << c.size() << " elements are wrong"
         << likely_mistake_of(c, reference, a.values, b.values, parts_of<Type>(a), parts_of<Type>(b), shape,
                              /*extra_units=*/0)
         << "\nfor example C[" << found.worst / n << "][" << found.worst % n << "] = " << c[found.worst]
         << ", which should be " << reference.exact[found.worst];
}

TEST_F(Chapter14, Todo4And5EachBlockOfKHasItsOwnScaleFactor) {
  ASSERT_NO_FATAL_FAILURE(expect_own_scale_factors<Mxfp8>());
  ASSERT_NO_FATAL_FAILURE(expect_own_scale_factors<Mxfp4>());
  ASSERT_NO_FATAL_FAILURE(expect_own_scale_factors<Nvfp4>());
}

TEST_F(Chapter14, Todo4And5TheScaleFactorsOfAllColumnsAreThere) {
  ASSERT_NO_FATAL_FAILURE(expect_product<Nvfp4>(128, 256, 256, 1));
}

TEST_F(Chapter14, Todo4And5TheStagesOfTheRingAreUsedAgain) {
  for (const size_t k_tiles : {2, 4, 5, 9}) {
    ASSERT_NO_FATAL_FAILURE(expect_product<Mxfp8>(128, 128, 128 * k_tiles, 1));
  }
  ASSERT_NO_FATAL_FAILURE(expect_product<Mxfp4>(128, 128, 256 * 6, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product<Nvfp4>(128, 256, 256 * 6, 1));
}

TEST_F(Chapter14, EveryTileOfCIsSomeBlocks) {
  ASSERT_NO_FATAL_FAILURE(expect_product<Mxfp8>(1, 1, 16, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product<Mxfp8>(300, 300, 272, 2));
  ASSERT_NO_FATAL_FAILURE(expect_product<Mxfp4>(257, 130, 352, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product<Nvfp4>(200, 520, 288, 2));
}

// ---- TODO 6 to 8: blockwise scales ----------------------------------------------------------------------------------

void expect_blockwise_product(size_t m, size_t n, size_t k, int blocks) {
  const uint64_t seed = std::random_device{}();
  const BlockwiseMatrix a = quantise_blockwise<__nv_fp8_e4m3>(random_uneven_values(m, k, seed), m, k, 1, 128);
  const BlockwiseMatrix b = quantise_blockwise<__nv_fp8_e4m3>(random_uneven_values(n, k, ~seed), n, k, 128, 128);
  const BlockwiseBuffers there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<float> there(m * n, "C");
  there.poison();
  launch_blockwise_answer(there_a.elements.data(), there_a.scales.data(), static_cast<int64_t>(a.scales_in_row),
                          there_b.elements.data(), there_b.scales.data(), static_cast<int64_t>(b.scales_in_row),
                          there.data(), static_cast<int64_t>(m), static_cast<int64_t>(n), static_cast<int64_t>(k),
                          blocks);
  finish_kernel("multiply_blockwise");
  const std::vector<float> c = there.to_host();
  const ScaledProduct reference = scaled_product(a.values, b.values, m, n, k);
  const Comparison found = compare_scaled(c, reference, k, /*mma_k=*/32, /*extra_units=*/1);
  if (found.wrong == 0) return;
  const ProductShape shape{.m = static_cast<int>(m),
                           .n = static_cast<int>(n),
                           .k = static_cast<int>(k),
                           .tile_m = 128,
                           .tile_n = 128,
                           .tile_k = 128,
                           .mma_k = 32};
  FAIL() << "blockwise, C of " << m << " x " << n << " x " << k << " on " << blocks << " block(s), seed " << seed
         << ": " << found.wrong << " of " << c.size() << " elements are wrong"
         << likely_mistake_of(c, reference, a.values, b.values, parts_of(a, 1), parts_of(b, 128), shape,
                              /*extra_units=*/1)
         << "\nfor example C[" << found.worst / n << "][" << found.worst % n << "] = " << c[found.worst]
         << ", which should be " << reference.exact[found.worst];
}

TEST_F(Chapter14, Todo6To8OneKTile) { expect_blockwise_product(128, 128, 128, 1); }

TEST_F(Chapter14, Todo6To8EachKTileIsScaledSeparately) {
  for (const size_t k_tiles : {2, 4, 5, 9}) {
    ASSERT_NO_FATAL_FAILURE(expect_blockwise_product(128, 128, 128 * k_tiles, 1));
  }
}

TEST_F(Chapter14, Todo6To8EveryTileOfCHasItsScales) {
  ASSERT_NO_FATAL_FAILURE(expect_blockwise_product(1, 1, 16, 1));
  ASSERT_NO_FATAL_FAILURE(expect_blockwise_product(300, 300, 272, 2));
  ASSERT_NO_FATAL_FAILURE(expect_blockwise_product(257, 390, 400, 1));
}

}  // namespace
