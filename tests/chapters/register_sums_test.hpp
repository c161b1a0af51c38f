// What the tests of chapters 15 and 19 share, whose sums are in registers: known sums through the answer's writer, and
// random products with a bias.
#pragma once

#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"

namespace stagecraft::chapters {

inline float known_sum(int row, int column) { return static_cast<float>((row + 3 * column) % 251); }
inline float known_bias(int column) { return static_cast<float>(column % 5); }

/// A mistake of a writer, and the element that it makes of the known numbers.
struct Misplacement {
  std::string what;
  float (*element)(int row, int column);
};

/// What the answer's writer makes of known sums. @param own  misplacements of this chapter alone.
inline void expect_known(void (*launch)(__nv_bfloat16* d, const float* bias, int m, int n, int tiles), int m, int n,
                         int tiles, const std::vector<Misplacement>& own) {
  std::vector<float> bias(n);
  for (int column = 0; column < n; ++column) bias[column] = known_bias(column);
  const harness::DeviceBuffer<float> there_bias(bias, "the bias");
  harness::DeviceBuffer<__nv_bfloat16> d(size_t(m) * n, "D");
  d.poison();
  launch(d.data(), there_bias.data(), m, n, tiles);
  harness::finish_kernel("write_known");
  const std::vector<__nv_bfloat16> got = d.to_host();
  const auto first_that_is_not = [&](auto element) {
    int i = 0;
    while (i < m * n && static_cast<float>(got[i]) == element(i / n, i % n)) ++i;
    return i;
  };
  const int wrong = first_that_is_not([](int row, int column) { return known_sum(row, column) + known_bias(column); });
  if (wrong == m * n) return;
  std::vector<Misplacement> mistakes = {
      {"these are the sums alone. Are the operations applied?", known_sum},
      {"rows have changed places with those eight below. Which of a thread's sums are in which?",
       [](int row, int column) { return known_sum(row ^ 8, column) + known_bias(column); }},
      {"neighbouring columns have changed places",
       [](int row, int column) { return known_sum(row, column ^ 1) + known_bias(column); }},
      {"chunks of 16 bytes have changed places. Does each go where the swizzle has it?",
       [](int row, int column) {  // a line of a slice is 128 bytes, eight chunks of eight columns
         const int from = column / 64 * 64 + (column / 8 % 8 ^ row % 8) * 8 + column % 8;
         return known_sum(row, from) + known_bias(from);
       }}};
  mistakes.insert(mistakes.end(), own.begin(), own.end());
  std::string likely;
  for (const Misplacement& each : mistakes) {
    if (likely.empty() && first_that_is_not(each.element) == m * n) likely = ": " + each.what;
  }
  const int row = wrong / n, column = wrong % n;
  FAIL() << "D[" << row << "][" << column << "] of " << m << " x " << n << " is " << static_cast<float>(got[wrong])
         << ", which should be " << known_sum(row, column) + known_bias(column) << likely;
}

/// Fresh random operands through the answer's kernel, which adds a bias; every element must be right.
/// @param where   what it runs on, in a message.
/// @param launch  the kernel, from A, B, the bias and D.
inline void expect_product(
    harness::ProductShape shape, const std::string& where,
    const std::function<void(const __nv_bfloat16*, const __nv_bfloat16*, const float*, __nv_bfloat16*)>& launch) {
  using Bf16 = __nv_bfloat16;
  const int m = shape.m, n = shape.n, k = shape.k;
  const uint64_t seed = std::random_device{}();
  const std::vector<Bf16> a = harness::random_values<Bf16>(size_t(m) * k, seed),
                          b = harness::random_values<Bf16>(size_t(n) * k, ~seed);
  const std::vector<float> bias = harness::random_values<float>(n, seed + 1);
  const harness::DeviceBuffer<Bf16> there_a(a, "A"), there_b(b, "B");
  const harness::DeviceBuffer<float> there_bias(bias, "the bias");
  harness::DeviceBuffer<Bf16> there_d(size_t(m) * n, "D");
  there_d.poison();
  launch(there_a.data(), there_b.data(), there_bias.data(), there_d.data());
  harness::finish_kernel("gemm");
  const std::vector<Bf16> d = there_d.to_host();
  const std::vector<double> product = harness::reference_product<Bf16>(a, b, m, n, k);
  std::vector<double> reference = product;
  for (size_t i = 0; i < reference.size(); ++i) reference[i] += bias[i % n];
  const harness::ProductTolerance tolerance{.k = static_cast<size_t>(k)};
  const harness::Comparison found = harness::compare<Bf16>(d, reference, tolerance);
  if (found.wrong == 0) return;
  shape.result = 'D';
  const auto add_bias = [&](const harness::Guess& sum, int row, int column) { return sum(row, column) + bias[column]; };
  FAIL() << "D of " << m << " x " << n << " x " << k << " on " << where << ", seed " << seed << ": " << found.wrong
         << " of " << d.size() << " elements are wrong"
         << harness::likely_mistake<Bf16, Bf16>(d, product, a, b, shape, tolerance, add_bias) << "\nfor example D["
         << found.worst / n << "][" << found.worst % n << "] = " << static_cast<float>(d[found.worst])
         << ", which should be " << reference[found.worst];
}

}  // namespace stagecraft::chapters
