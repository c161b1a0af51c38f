// What a wrong product is, where a usual mistake makes just that: "C is the product of the first k-tile alone". A
// number that is wrong says little; this says which line to look at.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace stagecraft::chapters {

/// Sizes of C (m x n) = A (m x k) * B (n x k) transposed, and of the tiles that a kernel computes it from.
struct ProductShape {
  int m, n, k;
  int tile_m, tile_n, tile_k;
  int load_columns = 32;  ///< columns that a storing warp loads at a time
  bool in_pairs = false;  ///< two blocks compute a tile, and each brings half of the rows of its tile of B
  int mma_k = 16;         ///< elements along K that one MMA takes
  int k_group = 1;        ///< k-tiles in a stage
  int pieces = 1;         ///< of each tile along K, as even as possible, the longer ones first
};

/// An element of the product as some mistake makes it, from its row and column.
using Guess = std::function<double(int row, int column)>;

namespace detail {

/// A number of any type that converts to float without loss, or of double.
template <typename Number>
double wide(Number number) {
  if constexpr (std::same_as<Number, double>) {
    return number;
  } else {
    return double{static_cast<float>(number)};
  }
}

/// What is guessed about a product, and the words for it.
struct Hypothesis {
  std::string what;
  Guess guess;
};

inline std::string row_and_column(int row, int column) {
  return "(" + std::to_string(row) + ", " + std::to_string(column) + ")";
}

}  // namespace detail

/// Sums of products of rows of A with rows of B, right ones and wrong ones. It refers to A and B.
template <typename Operand>
class Sums {
 public:
  Sums(std::span<const Operand> a, std::span<const Operand> b, const ProductShape& shape)
      : a_(a), b_(b), m_(shape.m), n_(shape.n), k_(shape.k) {}

  /// The sum over [first, last) of K, of those elements for which `counts` is true. Rows that do not exist are zero, as
  /// TMA brings them.
  template <typename Counts>
  double of(int row_of_a, int row_of_b, int first, int last, Counts counts) const {
    double sum = 0;
    if (row_of_a >= m_ || row_of_b >= n_) return sum;
    for (int i = first; i < std::min(last, k_); ++i) {
      if (counts(i)) sum += detail::wide(a_[size_t(row_of_a) * k_ + i]) * detail::wide(b_[size_t(row_of_b) * k_ + i]);
    }
    return sum;
  }
  double of(int row_of_a, int row_of_b, int first, int last) const {
    return of(row_of_a, row_of_b, first, last, [](int) { return true; });
  }
  double of(int row_of_a, int row_of_b) const { return of(row_of_a, row_of_b, 0, k_); }

  /// As if the rows of B were N elements long.
  double with_short_rows_of_b(int row, int column) const {
    double sum = 0;
    for (int i = 0; i < std::min(k_, n_); ++i) {
      const size_t place = size_t(column) * n_ + i;
      if (column < k_) sum += detail::wide(a_[size_t(row) * k_ + i]) * detail::wide(b_[place]);
    }
    return sum;
  }

 private:
  std::span<const Operand> a_, b_;
  int m_, n_, k_;
};

namespace detail {

/// The mistakes that a product by tiles can have as a whole.
template <typename Operand>
std::vector<Hypothesis> hypotheses(const Sums<Operand>& sums, const ProductShape& s) {
  const int k_tiles = (s.k + s.tile_k - 1) / s.tile_k, slices = s.tile_k / s.mma_k;
  const int last_k = (k_tiles - 1) * s.tile_k, last_stage = (k_tiles - 1) / s.k_group * s.k_group * s.tile_k;
  const auto begin_of = [s](int row) { return row / s.tile_m * s.tile_m; };
  const auto begin_across = [s](int column) { return column / s.tile_n * s.tile_n; };
  const auto in_first_slice = [s](int i) { return i % s.tile_k < s.mma_k; };
  std::vector<Hypothesis> all{
      {"every element is 0. Is anything multiplied, or stored, at all?", [](int, int) { return 0.0; }},
      {"C is the product of the first k-tile alone. Are the others multiplied, and by what?",
       [=](int r, int c) { return sums.of(r, c, 0, s.tile_k); }},
      {"C is the product of the last k-tile alone. Each k-tile has overwritten the sums of those before it",
       [=](int r, int c) { return sums.of(r, c, last_k, s.k); }},
      {"C is the product of the first k-tile, once for each k-tile. Do the copies move on along K?",
       [=](int r, int c) { return k_tiles * sums.of(r, c, 0, s.tile_k); }},
      {"C lacks the last k-tile. Does the loop over K end one turn early?",
       [=](int r, int c) { return sums.of(r, c, 0, last_k); }},
      {"C is the product of the first slice of each k-tile alone. How many MMAs does a k-tile take?",
       [=](int r, int c) { return sums.of(r, c, 0, s.k, in_first_slice); }},
      {"C is the product of the first slice of each k-tile, once for each slice. Do the descriptors move on along K?",
       [=](int r, int c) { return slices * sums.of(r, c, 0, s.k, in_first_slice); }},
      {"C is the product of the last slice of K alone. Each MMA has overwritten the sums of those before it",
       [=](int r, int c) { return sums.of(r, c, last_k + s.tile_k - s.mma_k, s.k); }},
      {"the rows of B are those that belong to the rows of this tile of C. Which of them belong to its columns?",
       [=](int r, int c) { return sums.of(r, begin_of(r) + c % s.tile_n); }},
      {"the rows of A are those that belong to the columns of this tile of C. Which of them belong to its rows?",
       [=](int r, int c) { return sums.of(begin_across(c) + r % s.tile_m, c); }},
      {"every tile of C is the product of the first tiles of A and B",
       [=](int r, int c) { return sums.of(r % s.tile_m, c % s.tile_n); }},
      {"the first columns of each tile of C are repeated. Does each load begin at a column of its own?",
       [=](int r, int c) { return sums.of(r, begin_across(c) + c % s.tile_n % s.load_columns); }},
      {"the second half of the rows of each tile of C is the first half again. Which rows of A does each half take?",
       [=](int r, int c) { return sums.of(begin_of(r) + r % s.tile_m % (s.tile_m / 2), c); }},
      {"rows 0 to 31 of each tile of C are repeated. Which rows does each warp have?",
       [=](int r, int c) { return sums.of(begin_of(r) + r % s.tile_m % 32, c); }},
      {"rows and columns of C have changed places", [=](int r, int c) { return sums.of(c, r); }},
      {"the rows of B are read as if they were N elements long, and not K. Which size does its tensor map name first?",
       [=](int r, int c) { return sums.with_short_rows_of_b(r, c); }},
  };
  if (s.k_group > 1) {
    all.insert(all.begin(),
               {"C is the product of the last stage alone. Each stage has overwritten the sums of those before it",
                [=](int r, int c) { return sums.of(r, c, last_stage, s.k); }});
  }
  if (s.in_pairs) {  // before the hypothesis about loads: half a tile may be as wide as a load
    all.insert(all.begin(),
               {"the second half of the columns of each tile of C is the first half again. Do both blocks "
                "bring the same half of B?",
                [=](int r, int c) { return sums.of(r, begin_across(c) + c % s.tile_n % (s.tile_n / 2)); }});
  }
  for (int piece = 0, first = 0; s.pieces > 1 && piece < s.pieces; ++piece) {
    const int last = first + (k_tiles / s.pieces + (piece < k_tiles % s.pieces)) * s.tile_k;
    if (piece == 0) {
      all.push_back({"C is the first piece along K, once for each piece. Where does each piece begin?",
                     [=](int r, int c) { return s.pieces * sums.of(r, c, first, last); }});
    }
    all.push_back({"C is the sum of piece " + std::to_string(piece) + " of " + std::to_string(s.pieces) +
                       " along K alone. Which block goes on with the sum of all pieces?",
                   [=](int r, int c) { return sums.of(r, c, first, last); }});
    first = last;
  }
  return all;
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

/// What a kernel that only multiplies makes of sums: `of_sums(sum, row, column)` is the element of C where
/// `sum(row, column)` is that of the product.
struct TheSum {
  double operator()(const Guess& sum, int row, int column) const { return sum(row, column); }
};

/// Whether each element of `got` is what is guessed about the sums.
/// @param columns    of C.
/// @param tolerance  the error that is allowed at an element, from its value, or from its value, row and column.
template <typename Output, typename Tolerance, typename OfSums = TheSum>
bool agrees(std::span<const Output> got, int columns, const Tolerance& tolerance, const Guess& guess,
            const OfSums& of_sums = {}) {
  for (size_t i = 0; i < got.size(); ++i) {
    const int row = static_cast<int>(i) / columns, column = static_cast<int>(i) % columns;
    const double value = of_sums(guess, row, column);
    if (!(std::abs(detail::wide(got[i]) - value) <= detail::allowed(tolerance, value, row, column))) return false;
  }
  return true;
}

/// Returns ": " and in which tiles of C the wrong elements are; empty where they are in all of them, or in many.
/// @param is_wrong  of the element in a row and a column.
inline std::string only_in_tiles(int rows, int columns, int tile_rows, int tile_columns,
                                 const std::function<bool(int row, int column)>& is_wrong) {
  std::vector<std::string> wrong;
  const int down = (rows + tile_rows - 1) / tile_rows, across = (columns + tile_columns - 1) / tile_columns;
  for (int tile = 0; tile < down * across; ++tile) {
    const int first_row = tile / across * tile_rows, first_column = tile % across * tile_columns;
    bool found = false;
    for (int r = first_row; r < std::min(rows, first_row + tile_rows); ++r) {
      for (int c = first_column; c < std::min(columns, first_column + tile_columns); ++c) found |= is_wrong(r, c);
    }
    if (found) wrong.push_back(detail::row_and_column(tile / across, tile % across));
  }
  if (wrong.empty() || static_cast<int>(wrong.size()) == down * across || wrong.size() > 4) return "";
  std::string list;
  for (const std::string& tile : wrong) list += (list.empty() ? "" : ", ") + tile;
  return ": only in " + std::string(wrong.size() == 1 ? "tile " : "tiles ") + list + " (row, column) of C";
}

/// Returns ": " and what C is, or which tiles of C are wrong; empty if nothing is known.
/// @param got        C as the kernel left it, at least one element of it wrong. Its rows are shorter than N where the
///                   kernel makes one element of several sums.
/// @param reference  the right C.
/// @param tolerance  as for `agrees`.
/// @param of_sums    what the kernel makes of the sums.
template <typename Output, typename Operand, typename Tolerance, typename OfSums = TheSum>
std::string likely_mistake(std::span<const Output> got, std::span<const double> reference, std::span<const Operand> a,
                           std::span<const Operand> b, const ProductShape& shape, const Tolerance& tolerance,
                           const OfSums& of_sums = {}) {
  const int columns = static_cast<int>(got.size()) / shape.m;
  const bool all_nan =
      std::all_of(got.begin(), got.end(), [](Output element) { return std::isnan(detail::wide(element)); });
  if (all_nan) return ": no element was written, or all sums are what tensor memory held before";
  for (const auto& [what, guess] : detail::hypotheses(Sums<Operand>(a, b, shape), shape)) {
    if (agrees(got, columns, tolerance, guess, of_sums)) return ": " + what;
  }
  return only_in_tiles(shape.m, columns, shape.tile_m, shape.tile_n / (shape.n / columns), [&](int row, int column) {
    const size_t at = size_t(row) * columns + column;
    return !(std::abs(detail::wide(got[at]) - reference[at]) <= detail::allowed(tolerance, reference[at], row, column));
  });
}

}  // namespace stagecraft::chapters
