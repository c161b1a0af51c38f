// The finished kernel and its earlier versions, over shapes that no tile divides, for every type of operands.
#include "gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "harness/reference_product.hpp"
#include "tcgen05_test.hpp"
#include "verification.hpp"
#include "versions.hpp"

namespace stagecraft {
namespace {

using namespace harness;

/// K in units of 16 bytes of a row, what a tensor map asks for: 8 elements of 16 bits, 4 of tf32, 16 of 8 bits.
struct Shape {
  int64_t m, n, k_chunks;
  int blocks = 0;
};

/// What a kernel makes of A and B, in a C between poisoned guards. `launch(a, b, c)` starts it.
template <typename Element, typename Launch>
std::vector<GemmOutput<Element>> multiply(std::span<const GemmOperand<Element>> a,
                                          std::span<const GemmOperand<Element>> b, int64_t elements, Launch launch) {
  using Output = GemmOutput<Element>;
  constexpr size_t kGuard = 1000;  // elements before and after C
  const DeviceBuffer<GemmOperand<Element>> device_a(a, "A"), device_b(b, "B");
  DeviceBuffer<Output> guarded(elements + 2 * kGuard, "C");
  guarded.poison();
  launch(device_a.data(), device_b.data(), guarded.data() + kGuard);
  check(cudaDeviceSynchronize(), "finish the kernel");

  const std::vector<Output> all = guarded.to_host();
  for (size_t i = 0; i < kGuard; ++i) {
    for (const size_t at : {i, all.size() - 1 - i}) {
      uint16_t bits;  // of a number of any type, two bytes of poison make none
      std::memcpy(&bits, &all[at], sizeof bits);
      if (bits != 0xffff) ADD_FAILURE() << "the kernel wrote outside of C, " << kGuard - i << " elements from it";
    }
  }
  return {all.begin() + kGuard, all.end() - kGuard};
}

/// Fresh random operands, and every element of the product within the tolerance.
template <typename Element, typename Launch>
void expect_agreement(const Shape& shape, Launch launch) {
  using Operand = GemmOperand<Element>;
  const auto [m, n, k_chunks, blocks] = shape;
  const int64_t k = k_chunks * kGemmMultipleOfK<Element>;
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " + GemmType<Element>::name +
               ", blocks " + std::to_string(blocks) + ", seed " + std::to_string(seed));
  const std::vector<Operand> a = random_operand<Element>(m * k, seed), b = random_operand<Element>(n * k, ~seed);
  const auto c = multiply<Element>(
      a, b, m * n, [&](auto* a, auto* b, auto* c) { launch(a, b, c, int64_t{m}, int64_t{n}, k, int{blocks}); });
  const std::vector<double> reference = reference_product<Operand>(a, b, m, n, k);
  const Comparison found = compare<GemmOutput<Element>>(c, reference, gemm_tolerance<Element>(k));
  EXPECT_EQ(found.wrong, 0u) << "the worst is element " << found.worst << ", " << static_cast<float>(c[found.worst])
                             << " instead of " << reference[found.worst];
}

const Shape kShapes[] = {
    // Whole tiles, and tiles that hang over an edge.
    {1, 1, 1},
    {1, 1, 8},
    {128, 128, 8},
    {256, 128, 16},
    {127, 128, 8},
    {128, 127, 8},
    {129, 129, 9},
    {1, 300, 7},
    {300, 1, 1},
    {33, 31, 3},
    {257, 3, 25},
    {130, 250, 41},
    // Fewer k-tiles than stages, as many, and more: the ring is not filled, filled, and used again.
    {64, 64, 24},
    {64, 64, 32},
    {64, 64, 33},
    {64, 64, 40},
    {64, 64, 64},
    {64, 64, 261},
    // Several tiles of C for each block, one and more than one for each accumulator, blocks with fewer than others, and
    // more blocks than tiles.
    {256, 128, 9, 1},
    {384, 128, 3, 1},
    {300, 300, 17, 1},
    {260, 390, 33, 2},
    {640, 130, 8, 3},
    {400, 400, 1, 5},
    {128, 128, 8, 4},
};

template <typename Element>
class GemmTypes : public chapters::Tcgen05Test {};
using Elements = testing::Types<__nv_bfloat16, __half, tf32, __nv_fp8_e4m3, __nv_fp8_e5m2>;
struct ElementName {
  template <typename Element>
  static std::string GetName(int) {
    return GemmType<Element>::name;
  }
};
TYPED_TEST_SUITE(GemmTypes, Elements, ElementName);

TYPED_TEST(GemmTypes, AgreeWithTheReferenceInEveryElement) {
  for (const Shape& shape : kShapes) {
    expect_agreement<TypeParam>(shape, [](auto... arguments) { launch_gemm<TypeParam>(arguments...); });
  }
}

TYPED_TEST(GemmTypes, GiveTheSameBitsTwice) {
  const int64_t m = 150, n = 290, k = 17 * kGemmMultipleOfK<TypeParam>;
  const auto a = random_operand<TypeParam>(m * k, 7), b = random_operand<TypeParam>(n * k, 8);
  const auto run = [&](int blocks) {
    return multiply<TypeParam>(a, b, m * n,
                               [&](auto* a, auto* b, auto* c) { launch_gemm<TypeParam>(a, b, c, m, n, k, blocks); });
  };
  const auto first = run(0), second = run(0), by_one_block = run(1);
  EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof first[0]), 0);
  EXPECT_EQ(std::memcmp(first.data(), by_one_block.data(), first.size() * sizeof first[0]), 0);
}

using GemmProducts = chapters::Tcgen05Test;

// The bits that tf32 does not have are removed before the product: TMA rounds.
TEST_F(GemmProducts, MultiplyFloatsAsTf32) {
  const int64_t k = 4;
  const std::vector<float> a{1 + 0x1p-11f + 0x1p-20f, 1 + 0x1p-13f, 0, 0}, b{1, 1, 1, 1};
  const auto c = multiply<tf32>(a, b, 1, [&](auto* a, auto* b, auto* c) { launch_gemm<tf32>(a, b, c, 1, 1, k); });
  EXPECT_EQ(c[0], (1 + 0x1p-10f) + 1);
}

TEST_F(GemmProducts, LetAnInfinityReachItsRowAlone) {
  using Element = __nv_bfloat16;
  const int64_t m = 10, n = 12, k = 16;
  std::vector<Element> a = random_operand<Element>(m * k, 7);
  const std::vector<Element> b(n * k, Element(0.5f));
  a[3 * k + 5] = Element(std::numeric_limits<float>::infinity());
  const auto c =
      multiply<Element>(a, b, m * n, [&](auto* a, auto* b, auto* c) { launch_gemm<Element>(a, b, c, m, n, k); });
  for (int64_t i = 0; i < m * n; ++i) EXPECT_EQ(std::isinf(static_cast<float>(c[i])), i / n == 3) << i;
}

// ---- The versions ---------------------------------------------------------------------------------------------------

class GemmVersions : public chapters::Tcgen05Test, public testing::WithParamInterface<GemmVersion> {};

TEST_P(GemmVersions, AgreeWithTheReferenceInEveryElement) {
  for (const Shape& shape : kShapes) {
    expect_agreement<__nv_bfloat16>(shape, [](auto... arguments) { launch_version(GetParam(), arguments...); });
  }
}

const char* name_of(const testing::TestParamInfo<GemmVersion>& info) {
  switch (info.param) {
    case GemmVersion::one_warp: return "OneWarp";
    case GemmVersion::two_warps: return "TwoWarps";
    case GemmVersion::store_warps: return "StoreWarps";
    case GemmVersion::two_accumulators: return "TwoAccumulators";
  }
  return "";
}
INSTANTIATE_TEST_SUITE_P(Chapter10, GemmVersions,
                         testing::Values(GemmVersion::one_warp, GemmVersion::two_warps, GemmVersion::store_warps,
                                         GemmVersion::two_accumulators),
                         name_of);

/// What the device takes for three tiles of C, of eight k-tiles each, by one block.
float milliseconds(GemmVersion version) {
  const int64_t m = 384, n = 128, k = 512;
  const DeviceBuffer<__nv_bfloat16> a(random_operand<__nv_bfloat16>(m * k, 1), "A"),
      b(random_operand<__nv_bfloat16>(n * k, 2), "B");
  DeviceBuffer<__nv_bfloat16> c(m * n, "C");
  cudaEvent_t start, end;
  check(cudaEventCreate(&start), "create an event");
  check(cudaEventCreate(&end), "create an event");
  check(cudaEventRecord(start), "record an event");
  launch_version(version, a.data(), b.data(), c.data(), m, n, k, 1);
  check(cudaEventRecord(end), "record an event");
  check(cudaEventSynchronize(end), "finish the kernel");
  float elapsed = 0;
  check(cudaEventElapsedTime(&elapsed, start, end), "read the time");
  check(cudaEventDestroy(start), "destroy an event");
  check(cudaEventDestroy(end), "destroy an event");
  return elapsed;
}

using GemmVersionsTest = chapters::Tcgen05Test;

// The second accumulator removes a wait; where the copies take the time, it changes nothing about that.
TEST_F(GemmVersionsTest, RolesTakeLessTime) {
  EXPECT_LT(milliseconds(GemmVersion::two_warps), milliseconds(GemmVersion::one_warp));
  EXPECT_LT(milliseconds(GemmVersion::store_warps), milliseconds(GemmVersion::two_warps));
}

// ---- What is refused ------------------------------------------------------------------------------------------------

template <typename Element = __nv_bfloat16>
std::string refusal(int64_t m, int64_t n, int64_t k) {
  try {
    launch_gemm<Element>(nullptr, nullptr, nullptr, m, n, k);
  } catch (const IllegalProblem& error) {
    return error.what();
  }
  return "accepted";
}

TEST(GemmTest, RefusesAKThatTheTensorMapCannotAddress) {
  EXPECT_EQ(refusal(16, 16, 7),
            "K = 7 is not a multiple of 8: a bf16 row would start off a 16-byte boundary, which the tensor map cannot "
            "address. Pad K to 8.");
  EXPECT_EQ(refusal<__half>(16, 16, 1001),
            "K = 1001 is not a multiple of 8: an f16 row would start off a 16-byte boundary, which the tensor map "
            "cannot address. Pad K to 1008.");
  EXPECT_EQ(refusal<tf32>(16, 16, 6),
            "K = 6 is not a multiple of 4: a tf32 row would start off a 16-byte boundary, which the tensor map cannot "
            "address. Pad K to 8.");
  EXPECT_EQ(refusal<__nv_fp8_e4m3>(16, 16, 8),
            "K = 8 is not a multiple of 16: an e4m3 row would start off a 16-byte boundary, which the tensor map "
            "cannot address. Pad K to 16.");
}

TEST(GemmTest, RefusesSizesThatAreTooSmallOrTooLarge) {
  EXPECT_EQ(refusal(0, 16, 8), "M = 0 is too small. Legal are 1 to 8388480.");
  EXPECT_EQ(refusal(16, -1, 8), "N = -1 is too small. Legal are 1 to 8388480.");
  EXPECT_EQ(refusal(16, 16, 0), "K = 0 is too small. Legal are 1 to 8388480.");
  EXPECT_EQ(refusal(8388481, 16, 8), "M = 8388481 is too large. Legal are 1 to 8388480.");
}

TEST(GemmTest, RefusesAMatrixThatStartsOffA16ByteBoundary) {
  using Element = __nv_bfloat16;
  const DeviceBuffer<Element> matrix(64, "a matrix");
  try {
    launch_gemm<Element>(matrix.data() + 1, matrix.data(), matrix.data(), 1, 1, 8);
    ADD_FAILURE() << "accepted";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "tensor map: the tensor does not start on a 16-byte boundary");
  }
}

}  // namespace
}  // namespace stagecraft
