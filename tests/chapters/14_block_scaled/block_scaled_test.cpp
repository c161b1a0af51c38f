// The finished kernels, for every type and both widths of tiles, over shapes that no tile divides.
#include "block_scaled.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/block_scaling.hpp"
#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "tcgen05_test.hpp"

namespace stagecraft {
namespace {

using namespace harness;

/// K in units of 16 bytes of a row, what a tensor map asks for.
struct Shape {
  size_t m, n, k_chunks;
  int blocks = 0;
};

const Shape kShapes[] = {
    // Whole tiles, and tiles that hang over an edge.
    {1, 1, 1},
    {128, 128, 8},
    {127, 256, 8},
    {129, 257, 9},
    {300, 1, 1},
    {33, 131, 3},
    {130, 250, 41},
    // Fewer k-tiles than stages, as many, and more.
    {64, 64, 24},
    {64, 64, 32},
    {64, 64, 40},
    {64, 64, 133},
    // Several tiles of C for each block, and blocks without any.
    {384, 128, 3, 1},
    {300, 600, 17, 1},
    {260, 390, 33, 2},
    {128, 128, 8, 4},
};

/// What `launch(c)` writes, in a C between poisoned guards.
template <typename Launch>
std::vector<float> product_of(size_t elements, Launch launch) {
  constexpr size_t kGuard = 1000;  // elements before and after C
  DeviceBuffer<float> guarded(elements + 2 * kGuard, "C");
  guarded.poison();
  launch(guarded.data() + kGuard);
  check(cudaDeviceSynchronize(), "finish the kernel");
  const std::vector<float> all = guarded.to_host();
  for (size_t i = 0; i < kGuard; ++i) {
    if (!std::isnan(all[i]) || !std::isnan(all[all.size() - 1 - i])) {
      ADD_FAILURE() << "the kernel wrote outside of C, " << kGuard - i << " elements from it";
      break;
    }
  }
  return {all.begin() + kGuard, all.end() - kGuard};
}

template <typename Type>
std::vector<float> multiply(const BlockScaledMatrix& a, const BlockScaledMatrix& b, int tile_n, int blocks) {
  const BlockScaledBuffers there_a(a, "A"), there_b(b, "B");
  return product_of(a.rows * b.rows, [&](float* c) {
    launch_block_scaled<Type>({there_a.elements.data(), there_a.scale_factors.data()},
                              {there_b.elements.data(), there_b.scale_factors.data()}, c, static_cast<int64_t>(a.rows),
                              static_cast<int64_t>(b.rows), static_cast<int64_t>(a.columns), tile_n, blocks);
  });
}

std::vector<float> multiply(const BlockwiseMatrix& a, const BlockwiseMatrix& b, int blocks) {
  const BlockwiseBuffers there_a(a, "A"), there_b(b, "B");
  const auto operand = [](const BlockwiseMatrix& matrix, const BlockwiseBuffers& there) {
    return BlockwiseOperand{reinterpret_cast<const __nv_fp8_e4m3*>(there.elements.data()), there.scales.data(),
                            static_cast<int64_t>(matrix.scales_in_row)};
  };
  return product_of(a.rows * b.rows, [&](float* c) {
    launch_blockwise(operand(a, there_a), operand(b, there_b), c, static_cast<int64_t>(a.rows),
                     static_cast<int64_t>(b.rows), static_cast<int64_t>(a.columns), blocks);
  });
}

void expect_close(const std::vector<float>& c, const ScaledProduct& reference, size_t n, size_t k, size_t mma_k,
                  double extra_units = 0) {
  const Comparison found = compare_scaled(c, reference, k, mma_k, extra_units);
  EXPECT_EQ(found.wrong, 0u) << "the worst is C[" << found.worst / n << "][" << found.worst % n << "], "
                             << c[found.worst] << " instead of " << reference.exact[found.worst];
}

template <typename Type>
class BlockScaledTypes : public chapters::Tcgen05Test {};
using Types = testing::Types<Mxfp8, Mxfp4, Nvfp4>;
TYPED_TEST_SUITE(BlockScaledTypes, Types);

TYPED_TEST(BlockScaledTypes, AgreeWithTheReferenceInEveryElement) {
  constexpr size_t kBits = element_bits<typename TypeParam::Element>;
  for (const auto& [m, n, k_chunks, blocks] : kShapes) {
    const size_t k = k_chunks * (128 / kBits);
    const uint64_t seed = std::random_device{}();
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + ", blocks " +
                 std::to_string(blocks) + ", seed " + std::to_string(seed));
    const auto a = quantise<TypeParam>(random_uneven_values(m, k, seed), m, k);
    const auto b = quantise<TypeParam>(random_uneven_values(n, k, ~seed), n, k);
    const ScaledProduct reference = scaled_product(a.values, b.values, m, n, k);
    for (const int tile_n : {128, 256}) {
      expect_close(multiply<TypeParam>(a, b, tile_n, blocks), reference, n, k, 256 / kBits);
    }
  }
}

TYPED_TEST(BlockScaledTypes, GiveTheSameBitsTwice) {
  const size_t m = 150, n = 290, k = 17 * 32;
  const auto a = quantise<TypeParam>(random_uneven_values(m, k, 7), m, k);
  const auto b = quantise<TypeParam>(random_uneven_values(n, k, 8), n, k);
  const auto first = multiply<TypeParam>(a, b, 128, 0);
  for (const auto& other : {multiply<TypeParam>(a, b, 128, 1), multiply<TypeParam>(a, b, 256, 0)}) {
    EXPECT_EQ(std::memcmp(first.data(), other.data(), first.size() * sizeof first[0]), 0);
  }
}

TYPED_TEST(BlockScaledTypes, NeedRowsOf16Bytes) {
  try {
    launch_block_scaled<TypeParam>({}, {}, nullptr, 1, 1, 8);
    FAIL() << "K = 8 is accepted";
  } catch (const IllegalProblem& error) {
    EXPECT_NE(std::string(error.what()).find("Pad K to"), std::string::npos) << error.what();
  }
}

using Blockwise = chapters::Tcgen05Test;

TEST_F(Blockwise, AgreesWithTheReferenceInEveryElement) {
  for (const auto& [m, n, k_chunks, blocks] : kShapes) {
    const size_t k = k_chunks * 16;
    const uint64_t seed = std::random_device{}();
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + ", blocks " +
                 std::to_string(blocks) + ", seed " + std::to_string(seed));
    const auto a = quantise_blockwise<__nv_fp8_e4m3>(random_uneven_values(m, k, seed), m, k, 1, 128);
    const auto b = quantise_blockwise<__nv_fp8_e4m3>(random_uneven_values(n, k, ~seed), n, k, 128, 128);
    expect_close(multiply(a, b, blocks), scaled_product(a.values, b.values, m, n, k), n, k, /*mma_k=*/32,
                 /*extra_units=*/1);
  }
}

}  // namespace
}  // namespace stagecraft
