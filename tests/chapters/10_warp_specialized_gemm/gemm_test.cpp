#include "gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"

namespace stagecraft {
namespace {

using namespace harness;
using Element = __nv_bfloat16;

struct Sizes {
  int64_t m, n, k;
};

std::ostream& operator<<(std::ostream& out, const Sizes& sizes) {
  return out << sizes.m << "x" << sizes.n << "x" << sizes.k;
}

/// What the kernel makes of A and B, in a C that lay between poisoned guards.
std::vector<Element> multiply(const std::vector<Element>& a, const std::vector<Element>& b, const Sizes& sizes) {
  constexpr size_t kGuard = 1000;  // elements before and after C
  const DeviceBuffer<Element> device_a(a, "A"), device_b(b, "B");
  DeviceBuffer<Element> guarded(sizes.m * sizes.n + 2 * kGuard, "C");
  guarded.poison();
  launch_gemm(device_a.data(), device_b.data(), guarded.data() + kGuard, sizes.m, sizes.n, sizes.k);
  check(cudaDeviceSynchronize(), "finish the kernel");

  const std::vector<Element> all = guarded.to_host();
  for (size_t i = 0; i < kGuard; ++i) {
    for (const size_t at : {i, all.size() - 1 - i}) {
      uint16_t bits;
      std::memcpy(&bits, &all[at], sizeof bits);
      if (bits != 0xffff) ADD_FAILURE() << "the kernel wrote outside of C, " << i + 1 << " elements from it";
    }
  }
  return {all.begin() + kGuard, all.end() - kGuard};
}

class GemmTest : public testing::TestWithParam<Sizes> {};

TEST_P(GemmTest, AgreesWithTheReferenceInEveryElement) {
  const auto [m, n, k] = GetParam();
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::vector<Element> a = random_values<Element>(m * k, seed), b = random_values<Element>(n * k, ~seed);
  const std::vector<Element> c = multiply(a, b, GetParam());
  const std::vector<double> reference = reference_product<Element>(a, b, m, n, k);
  const Comparison found = compare<Element>(c, reference, {.k = static_cast<size_t>(k)});
  EXPECT_EQ(found.wrong, 0u) << "the worst is element " << found.worst << ", " << static_cast<float>(c[found.worst])
                             << " instead of " << reference[found.worst];
}

INSTANTIATE_TEST_SUITE_P(WholeTiles, GemmTest,
                         testing::Values(Sizes{128, 128, 64}, Sizes{256, 128, 128}, Sizes{128, 384, 192}));
INSTANTIATE_TEST_SUITE_P(TilesThatHangOverAnEdge, GemmTest,
                         testing::Values(Sizes{1, 1, 8}, Sizes{1, 1, 64}, Sizes{127, 128, 64}, Sizes{128, 127, 64},
                                         Sizes{129, 129, 72}, Sizes{1, 300, 56}, Sizes{300, 1, 8}, Sizes{200, 136, 40},
                                         Sizes{33, 31, 24}, Sizes{257, 3, 200}, Sizes{130, 250, 328}));
// Fewer tiles along K than stages, as many, and more: the ring is not filled, filled, and goes round.
INSTANTIATE_TEST_SUITE_P(RoundsOfTheRing, GemmTest,
                         testing::Values(Sizes{64, 64, 192}, Sizes{64, 64, 256}, Sizes{64, 64, 264}, Sizes{64, 64, 320},
                                         Sizes{64, 64, 512}, Sizes{64, 64, 2088}));

TEST(GemmTest, GivesTheSameBitsTwice) {
  const Sizes sizes{150, 90, 136};
  const std::vector<Element> a = random_values<Element>(sizes.m * sizes.k, 7);
  const std::vector<Element> b = random_values<Element>(sizes.n * sizes.k, 8);
  const std::vector<Element> first = multiply(a, b, sizes), second = multiply(a, b, sizes);
  EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(Element)), 0);
}

TEST(GemmTest, LetsAnInfinityReachItsRowAlone) {
  const Sizes sizes{10, 12, 16};
  std::vector<Element> a = random_values<Element>(sizes.m * sizes.k, 7);
  const std::vector<Element> b(sizes.n * sizes.k, Element(0.5f));
  a[3 * sizes.k + 5] = Element(std::numeric_limits<float>::infinity());
  const std::vector<Element> c = multiply(a, b, sizes);
  for (int64_t i = 0; i < sizes.m * sizes.n; ++i) {
    EXPECT_EQ(std::isinf(static_cast<float>(c[i])), i / sizes.n == 3) << i;
  }
}

std::string refusal(const Sizes& sizes) {
  try {
    launch_gemm(nullptr, nullptr, nullptr, sizes.m, sizes.n, sizes.k);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(GemmTest, RefusesAKThatTheTensorMapCannotAddress) {
  EXPECT_EQ(refusal({16, 16, 7}),
            "K = 7 is not a multiple of 8: a bf16 row would start off a 16-byte boundary, which the tensor map cannot "
            "address. Pad K to 8.");
  EXPECT_EQ(refusal({16, 16, 1001}),
            "K = 1001 is not a multiple of 8: a bf16 row would start off a 16-byte boundary, which the tensor map "
            "cannot address. Pad K to 1008.");
}

TEST(GemmTest, RefusesSizesThatAreTooSmallOrTooLarge) {
  EXPECT_EQ(refusal({0, 16, 8}), "M = 0 is too small. Legal are 1 to 8388480.");
  EXPECT_EQ(refusal({16, -1, 8}), "N = -1 is too small. Legal are 1 to 8388480.");
  EXPECT_EQ(refusal({16, 16, 0}), "K = 0 is too small. Legal are 1 to 8388480.");
  EXPECT_EQ(refusal({8388481, 16, 8}), "M = 8388481 is too large. Legal are 1 to 8388480.");
}

TEST(GemmTest, RefusesAMatrixThatStartsOffA16ByteBoundary) {
  const DeviceBuffer<Element> matrix(64, "a matrix");
  try {
    launch_gemm(matrix.data() + 1, matrix.data(), matrix.data(), 1, 1, 8);
    ADD_FAILURE() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "tensor map: the tensor does not start on a 16-byte boundary");
  }
}

}  // namespace
}  // namespace stagecraft
