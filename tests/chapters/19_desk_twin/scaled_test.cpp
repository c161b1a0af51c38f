// Tests of chapter 19's second part: block-scaled types, in the order of their TODOs.
#include "scaled.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "desk_test.hpp"
#include "harness/block_scaling.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/scaled_mistakes.hpp"

using namespace stagecraft;
using namespace stagecraft::harness;

namespace {

using Chapter19Scaled = chapters::DeskTest;
using Bf16 = __nv_bfloat16;

// ---- Scale factors in registers -------------------------------------------------------------------------------------

/// Rows of 32 in the order in which lanes must have them. Counted out, so that a failing test does not print the
/// formula.
std::vector<int> rows_of_lanes() {
  std::vector<int> rows(32);
  int lane = 0;
  for (int quad = 0; quad < 8; ++quad) {
    for (int row = quad; row < 32; row += 8) rows[lane++] = row;
  }
  return rows;
}

constexpr int kTileBlocks = 16;

/// The bytes of a word say where it is: row, operand and blocks.
uint8_t known_factor(int operand, int row, int block) {
  const int bytes[] = {row, 16 * operand + block / 4, 0x5a, 0xa5};
  return static_cast<uint8_t>(bytes[block % 4]);
}

std::vector<uint8_t> known_tile(int operand) {
  std::vector<uint8_t> tile(size_t{kScaleTileRows} * kTileBlocks);
  for (int row = 0; row < kScaleTileRows; ++row) {
    for (int block = 0; block < kTileBlocks; ++block) {
      tile[scale_factor_offset(row, block, kTileBlocks)] = known_factor(operand, row, block);
    }
  }
  return tile;
}

uint32_t known_word(int operand, int row, int word) {
  uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) bytes |= uint32_t{known_factor(operand, row, 4 * word + i)} << 8 * i;
  return bytes;
}

/// Which row's and which blocks' word that is.
std::string place_of_word(int operand, uint32_t bytes) {
  for (int row = 0; row < kScaleTileRows; ++row) {
    for (int word = 0; word < kTileBlocks / 4; ++word) {
      if (known_word(operand, row, word) == bytes) {
        return "the factors of row " + std::to_string(row) + ", blocks " + std::to_string(4 * word) + " to " +
               std::to_string(4 * word + 3);
      }
    }
  }
  return "bytes that are not the four factors of any row";
}

TEST_F(Chapter19Scaled, Todo10EachLaneHasTheFactorsOfItsRows) {
  const DeviceBuffer<uint8_t> sfa(known_tile(0), "A's scale factors"), sfb(known_tile(1), "B's scale factors");
  const std::vector<int> rows = rows_of_lanes();
  for (int word = 0; word < kTileBlocks / 4; ++word) {
    DeviceBuffer<KnownScales> found(32, "the registers");
    found.poison();
    launch_load_scales(sfa.data(), sfb.data(), word, found.data());
    finish_kernel("load_scales");
    const std::vector<KnownScales> got = found.to_host();
    const auto expect = [&](const char* name, int operand, int i, int lane, int first, uint32_t bytes) {
      const int row = first + 32 * i + rows[lane];
      ASSERT_EQ(bytes, known_word(operand, row, word))
          << name << "[" << i << "] of lane " << lane << " has " << place_of_word(operand, bytes)
          << ", and must have those of row " << row << ", blocks " << 4 * word << " to " << 4 * word + 3;
    };
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < kScaledRowsOfA / 32; ++i) {
        ASSERT_NO_FATAL_FAILURE(expect("a", 0, i, lane, kFirstScaledRowOfA, got[lane].a[i]));
      }
      for (int i = 0; i < kScaledRowsOfB / 32; ++i) {
        ASSERT_NO_FATAL_FAILURE(expect("b", 1, i, lane, kFirstScaledRowOfB, got[lane].b[i]));
      }
    }
  }
}

void expect_selectors(ScaledKind kind, const char* name) {
  DeviceBuffer<KnownSelectors> found(1, "the selectors");
  launch_select_scales(kind, found.data());
  finish_kernel("select");
  const KnownSelectors got = found.to_host()[0];
  for (int slice = 0; slice < kScaledSlices; ++slice) {
    const int byte = kind == ScaledKind::mxfp8 ? slice : 0;
    const auto expect = [&](const char* operand, const auto& selectors, int fragments_of_32_rows) {
      for (int fragment = 0, thread = 0; fragment < kSelectedFragments; ++fragment, ++thread) {
        if (thread == fragments_of_32_rows) thread = 0;
        const std::string which = std::string(" of fragment ") + std::to_string(fragment) + " of " + operand +
                                  ", slice " + std::to_string(slice) + ", " + name;
        ASSERT_EQ(selectors[fragment].byte, byte) << "the byte" << which;
        ASSERT_EQ(selectors[fragment].thread, thread) << "the thread" << which;
      }
    };
    ASSERT_NO_FATAL_FAILURE(expect("A", got.a[slice], 2));
    ASSERT_NO_FATAL_FAILURE(expect("B", got.b[slice], 4));
  }
}

TEST_F(Chapter19Scaled, Todo11AFragmentHasItsLanesAndASliceItsBytes) {
  ASSERT_NO_FATAL_FAILURE(expect_selectors(ScaledKind::mxfp8, "mxfp8"));
  ASSERT_NO_FATAL_FAILURE(expect_selectors(ScaledKind::nvfp4, "nvfp4"));
}

// ---- A product of ones ----------------------------------------------------------------------------------------------

/// A scale factor for a row of A or B and a block of K: neighbours have others.
float factor_of(ScaledKind kind, int row, int block) {
  if (kind == ScaledKind::mxfp8) return std::ldexp(1.0f, (row * 4 + block) % 61 - 30);
  return std::ldexp(static_cast<float>(8 + (row * 3 + block) % 8), (row / 8 + block) % 5 - 6);
}

uint8_t bits_of_factor(ScaledKind kind, float factor) {
  return kind == ScaledKind::mxfp8 ? static_cast<uint8_t>(127 + std::ilogb(factor)) : __nv_fp8_e4m3(factor).__x;
}

void expect_products_of_ones(ScaledKind kind) {
  constexpr float kFirst = 0;
  constexpr int kRowsOfB = 1000;  // other factors than A's
  const std::vector<int> rows = rows_of_lanes();
  std::vector<KnownScales> scales(32);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      for (int half = 0; half < kScaledRowsOfA / 32; ++half) {
        scales[lane].a[half] |= uint32_t{bits_of_factor(kind, factor_of(kind, 32 * half + rows[lane], i))} << 8 * i;
      }
      for (int half = 0; half < kScaledRowsOfB / 32; ++half) {
        scales[lane].b[half] |= uint32_t{bits_of_factor(kind, factor_of(kind, kRowsOfB + 32 * half + rows[lane], i))}
                                << 8 * i;
      }
    }
  }
  const DeviceBuffer<KnownScales> there(scales, "the registers");
  DeviceBuffer<float> sums(size_t{kScaledSlices} * kScaledRowsOfA * kScaledRowsOfB, "the sums");
  sums.poison();
  launch_multiply_ones(kind, there.data(), sums.data(), kFirst);
  finish_kernel("multiply_ones");
  const std::vector<float> got = sums.to_host();
  for (int slice = 0; slice < kScaledSlices; ++slice) {
    for (int row = 0; row < kScaledRowsOfA; ++row) {
      for (int column = 0; column < kScaledRowsOfB; ++column) {
        const int first = kind == ScaledKind::mxfp8 ? slice : 0, last = kind == ScaledKind::mxfp8 ? slice : 3;
        const float in_block = kind == ScaledKind::mxfp8 ? 32 : 16;
        float expected = kFirst;
        for (int block = first; block <= last; ++block) {
          expected += in_block * factor_of(kind, row, block) * factor_of(kind, kRowsOfB + column, block);
        }
        const float sum = got[(slice * kScaledRowsOfA + row) * kScaledRowsOfB + column];
        ASSERT_EQ(sum, expected) << (kind == ScaledKind::mxfp8 ? "mxfp8" : "nvfp4") << ", slice " << slice << ": row "
                                 << row << ", column " << column << " of the sums. Which register, which lanes and "
                                 << "which bytes have the scale factors of that row of A, and of that row of B?";
      }
    }
  }
}

TEST_F(Chapter19Scaled, Todo12EachFragmentIsMultipliedByItsFactors) {
  ASSERT_NO_FATAL_FAILURE(expect_products_of_ones(ScaledKind::mxfp8));
  ASSERT_NO_FATAL_FAILURE(expect_products_of_ones(ScaledKind::nvfp4));
}

// ---- The kernel -----------------------------------------------------------------------------------------------------

/// Fresh random operands through the answer's kernel; every element must be right.
template <typename Type>
void expect_product(size_t m, size_t n, size_t k, uint32_t blocks) {
  constexpr bool kMxfp8 = std::is_same_v<Type, Mxfp8>;
  constexpr int kElementBits = element_bits<typename Type::Element>;
  const uint64_t seed = std::random_device{}();
  const BlockScaledMatrix a = quantise<Type>(random_uneven_values(m, k, seed), m, k);
  const BlockScaledMatrix b = quantise<Type>(random_uneven_values(n, k, ~seed), n, k);
  const BlockScaledBuffers there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<Bf16> there_d(m * n, "D");
  there_d.poison();
  launch_scaled_gemm(kMxfp8 ? ScaledKind::mxfp8 : ScaledKind::nvfp4, there_a.elements.data(),
                     there_a.scale_factors.data(), there_b.elements.data(), there_b.scale_factors.data(),
                     there_d.data(), static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), blocks);
  finish_kernel("scaled_gemm");
  const std::vector<Bf16> d = there_d.to_host();
  const ScaledProduct reference = scaled_product(a.values, b.values, m, n, k);
  const Comparison found = compare_scaled(d, reference, k, 256 / kElementBits);
  if (found.wrong == 0) return;
  const ProductShape shape{.m = static_cast<int>(m),
                           .n = static_cast<int>(n),
                           .k = static_cast<int>(k),
                           .tile_m = 128,
                           .tile_n = 128,
                           .tile_k = 1024 / kElementBits,
                           .mma_k = 256 / kElementBits};
  FAIL() << (kMxfp8 ? "mxfp8" : "nvfp4") << ", D of " << m << " x " << n << " x " << k << ", seed " << seed << ": "
         << found.wrong << " of " << d.size() << " elements are wrong"
         << likely_mistake_of(d, reference, a.values, b.values, parts_of<Type>(a), parts_of<Type>(b), shape,
                              /*extra_units=*/0)
         << "\nfor example D[" << found.worst / n << "][" << found.worst % n
         << "] = " << static_cast<float>(d[found.worst]) << ", which should be " << reference.exact[found.worst];
}

TEST_F(Chapter19Scaled, Todo13And14OneKTile) {
  ASSERT_NO_FATAL_FAILURE(expect_product<Mxfp8>(128, 128, 128, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product<Nvfp4>(128, 128, 256, 1));
}

TEST_F(Chapter19Scaled, Todo13And14TheStagesOfTheRingAreUsedAgain) {
  for (const size_t k_tiles : {2, 3, 5}) {
    ASSERT_NO_FATAL_FAILURE(expect_product<Mxfp8>(128, 128, 128 * k_tiles, 1));
  }
  ASSERT_NO_FATAL_FAILURE(expect_product<Nvfp4>(128, 128, 256 * 4, 1));
}

TEST_F(Chapter19Scaled, EveryTileOfDIsSomeBlocks) {
  ASSERT_NO_FATAL_FAILURE(expect_product<Mxfp8>(1, 8, 16, 1));
  ASSERT_NO_FATAL_FAILURE(expect_product<Mxfp8>(300, 264, 272, 2));
  ASSERT_NO_FATAL_FAILURE(expect_product<Nvfp4>(200, 328, 288, 2));
}

}  // namespace
