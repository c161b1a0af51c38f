// A product on random operands, compared with a plain one on the host: the `main` of a kernel that is one file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/random.hpp"

namespace stagecraft::harness {

/// C (m x n) = A (m x k) * B (n x k) transposed, all row-major.
struct ProductSizes {
  int m;  ///< rows of A and C
  int n;  ///< rows of B, columns of C
  int k;  ///< columns of A and B
};

/// What main does: `check`, which says whether all is right, for the sizes on the command line, or for 512 x 512 x 512.
template <typename Check>
int check_sizes(int argc, char** argv, Check check) try {
  ProductSizes sizes{512, 512, 512};
  if (argc == 4) sizes = {std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3])};
  if ((argc != 1 && argc != 4) || std::min({sizes.m, sizes.n, sizes.k}) < 1) {
    std::fprintf(stderr, "usage: %s [M N K]\n", argv[0]);
    return 2;
  }
  return check(sizes) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

/// Has the kernel multiply, and compares with sums in double: every element, or where the host would need too long for
/// that, as many at random as 2^28 multiplications give. Prints the verdict.
/// @param launch    starts C = A * B transposed, of these sizes: launch(a, b, c).
/// @param expected  what the kernel makes of a sum: expected(sum, column).
template <typename Element, typename Launch, typename Expected>
bool check_product(ProductSizes sizes, Launch launch, Expected expected) {
  const size_t m = sizes.m, n = sizes.n, k = sizes.k;
  const auto a = random_values<Element>(m * k, 1), b = random_values<Element>(n * k, 2);
  const DeviceBuffer<Element> there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<Element> there_c(m * n, "C");
  there_c.poison();
  launch(there_a.data(), there_b.data(), there_c.data());
  const std::vector<Element> c = there_c.to_host();

  const size_t compared = std::min(m * n, (size_t{1} << 28) / k + 1);
  Random random(3);
  std::vector<Element> actual(compared);
  std::vector<double> reference(compared);
  for (size_t i = 0; i < compared; ++i) {
    const size_t element = compared == m * n ? i : random.bits() % (m * n), row = element / n, column = element % n;
    double sum = 0;
    for (size_t j = 0; j < k; ++j) {
      sum += static_cast<double>(static_cast<float>(a[row * k + j])) * static_cast<float>(b[column * k + j]);
    }
    actual[i] = c[element];
    reference[i] = expected(sum, column);
  }
  const size_t wrong = compare<Element>(actual, reference, {.k = k, .output_epsilon = kRounding<Element>}).wrong;
  std::printf("%d x %d x %d: %zu of %zu elements compared with the host's, %zu wrong\n", sizes.m, sizes.n, sizes.k,
              compared, m * n, wrong);
  return wrong == 0;
}

/// The same for a kernel that stores the sums as they are.
template <typename Element, typename Launch>
bool check_product(ProductSizes sizes, Launch launch) {
  return check_product<Element>(sizes, launch, [](double sum, size_t) { return sum; });
}

}  // namespace stagecraft::harness
