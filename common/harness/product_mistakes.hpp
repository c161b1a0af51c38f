// What a wrong product is, where a usual mistake makes just that: "C is the product of the first k-tile alone". A
// number that is wrong says little; this says which line to look at.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/comparison.hpp"

namespace stagecraft::harness {

/// Sizes of C (m x n) = A (m x k) * B (n x k) transposed, and of the tiles that a kernel computes it from.
struct ProductShape {
  int m;                  ///< rows of C
  int n;                  ///< columns of C
  int k;                  ///< elements of a sum
  int tile_m;             ///< rows of a tile of C
  int tile_n;             ///< its columns
  int tile_k;             ///< elements along K that are brought at a time
  int load_columns = 32;  ///< columns that a storing warp loads at a time
  bool in_pairs = false;  ///< two blocks compute a tile, and each brings half of the rows of its tile of B
  int mma_k = 16;         ///< elements along K that one MMA takes: 32 bytes
  int k_group = 1;        ///< k-tiles in a stage
  int pieces = 1;         ///< of each tile along K, as even as possible, the longer ones first
  bool a_along_k = true;  ///< rows of A's tiles are contiguous in shared memory; else its columns are
  bool b_along_k = true;  ///< the same of B
  char result = 'C';      ///< its name in messages
};

/// An element of the product as some mistake makes it, from its row and column; NaN where it cannot be said.
using Guess = std::function<double(int row, int column)>;

/// What a kernel makes of sums: the element of C where `sum(row, column)` is that of the product.
using OfSums = std::function<double(const Guess& sum, int row, int column)>;

/// A mistake of one kernel: another `of_sums`.
struct WrongEpilogue {
  std::string what;  ///< a sentence without its beginning and end
  OfSums of_sums;    ///< what the kernel makes of sums then
};

/// An operand with scales, each given for each element, row-major.
struct ScaledValues {
  std::span<const double> elements;  ///< without their scales
  std::span<const double> scales;    ///< of each element
  int block;                         ///< elements along K that share a scale
};

/// A product, at least one element of it wrong, and what it was made of. All matrices are row-major.
struct WrongProduct {
  ProductShape shape;            ///< of the matrices and tiles
  std::span<const double> a;     ///< m x k, what was to be multiplied
  std::span<const double> b;     ///< n x k, the same
  std::span<const double> sums;  ///< m x n: their product
  /// C as the kernel left it, with -NAN where nothing was written. Its rows are shorter than N where the kernel makes
  /// one element of several sums.
  std::span<const double> got;
  std::function<double(double value, int row, int column)> allowed;  ///< the error that is allowed at an element
  OfSums of_sums;                                                    ///< empty for a kernel that only multiplies
  int output_bits = 24;                    ///< of C's type: its mantissa, the implicit bit included
  std::vector<WrongEpilogue> also{};       ///< mistakes of this kernel, tried first
  const ScaledValues* scaled_a = nullptr;  ///< null where A has no scales
  const ScaledValues* scaled_b = nullptr;  ///< the same of B
};

/// Tries usual mistakes: computes what each would give, and compares. Returns ": ", the mistake that makes at least 95%
/// of the wrong elements, better than every other one, or that none does; and on a line of its own which elements are
/// wrong, unless they are in all rows and columns. Takes some milliseconds.
std::string explain_product(const WrongProduct& wrong);

namespace detail {

/// A number of any type that converts to float without loss, or of double. One that is poison becomes -NAN, another
/// NaN becomes NAN.
template <typename Number>
double wide(Number number) {
  double value = 0;
  if constexpr (std::same_as<Number, double>) {
    value = number;
  } else {
    value = double{static_cast<float>(number)};
  }
  if (!std::isnan(value)) return value;
  const auto bytes = std::bit_cast<std::array<unsigned char, sizeof number>>(number);
  const bool poison = std::ranges::all_of(bytes, [](unsigned char byte) { return byte == 0xff; });
  return std::copysign(NAN, poison ? -1.0 : 1.0);
}

/// The error that is allowed at an element: from its value, or from its value, row and column.
template <typename Tolerance>
double allowed(const Tolerance& tolerance, double value, int row, int column) {
  if constexpr (std::invocable<Tolerance, double, int, int>) {
    return tolerance(value, row, column);
  } else {
    return tolerance(value);
  }
}

}  // namespace detail

/// The numbers as `WrongProduct` takes them.
template <typename Number>
std::vector<double> wide_all(std::span<const Number> numbers) {
  std::vector<double> result(numbers.size());
  std::ranges::transform(numbers, result.begin(), detail::wide<Number>);
  return result;
}

/// What a kernel that only multiplies makes of sums.
struct TheSum {
  /// The sum itself.
  double operator()(const Guess& sum, int row, int column) const { return sum(row, column); }
};

/// Whether each element of `got` is what is guessed about the sums.
/// @param columns    of C.
/// @param tolerance  the error that is allowed at an element, from its value, or from its value, row and column.
template <typename Output, typename Tolerance, typename Sums = TheSum>
bool agrees(std::span<const Output> got, int columns, const Tolerance& tolerance, const Guess& guess,
            const Sums& of_sums = {}) {
  for (size_t i = 0; i < got.size(); ++i) {
    const int row = static_cast<int>(i) / columns, column = static_cast<int>(i) % columns;
    const double value = of_sums(guess, row, column);
    if (!(std::abs(detail::wide(got[i]) - value) <= detail::allowed(tolerance, value, row, column))) return false;
  }
  return true;
}

/// `explain_product` for a product of any types.
/// @param sums       m x n: the exact product.
/// @param tolerance  as for `agrees`.
/// @param also       mistakes of this kernel.
template <typename Output, typename Operand, typename Tolerance, typename Sums = TheSum>
std::string likely_mistake(std::span<const Output> got, std::span<const double> sums, std::span<const Operand> a,
                           std::span<const Operand> b, const ProductShape& shape, const Tolerance& tolerance,
                           const Sums& of_sums = {}, std::vector<WrongEpilogue> also = {}) {
  const std::vector<double> wide_a = wide_all(a), wide_b = wide_all(b), wide_got = wide_all(got);
  constexpr double kUnit = kRounding<Output>;
  WrongProduct wrong{
      .shape = shape,
      .a = wide_a,
      .b = wide_b,
      .sums = sums,
      .got = wide_got,
      .allowed = [&](double value, int row, int column) { return detail::allowed(tolerance, value, row, column); },
      .of_sums = {},
      .output_bits = kUnit == 0 ? 4 : -std::ilogb(kUnit),
      .also = std::move(also)};
  if constexpr (!std::same_as<Sums, TheSum>) wrong.of_sums = of_sums;
  return explain_product(wrong);
}

}  // namespace stagecraft::harness
