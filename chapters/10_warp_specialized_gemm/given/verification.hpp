// What products are checked with, on the host: random operands, and how far a result may be off.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "gemm.hpp"
#include "harness/comparison.hpp"
#include "harness/random.hpp"

namespace stagecraft {

/// `size` values within [-1, 1] that Element represents exactly, so that they have one exact product only: the bits of
/// an f32 that tf32 does not have are zero.
template <typename Element>
std::vector<GemmOperand<Element>> random_operand(size_t size, uint64_t seed) {
  auto values = harness::random_values<GemmOperand<Element>>(size, seed);
  if constexpr (std::is_same_v<Element, tf32>) {
    constexpr uint32_t kMissing = 0x1fff;
    for (float& value : values) value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & ~kMissing);
  }
  return values;
}

/// How far an element of the product of such operands may be from the exact one.
template <typename Element>
harness::ProductTolerance gemm_tolerance(int64_t k) {
  return {.k = static_cast<size_t>(k),
          .output_epsilon = harness::kRounding<GemmOutput<Element>>,
          .mma_k = 32 / sizeof(Element)};
}

}  // namespace stagecraft
