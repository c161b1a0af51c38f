// What a wrong product is, where a usual mistake makes just that: "C is the product of the first k-tile alone". A
// number that is wrong says little; this says which line to look at.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/comparison.hpp"

namespace stagecraft::chapters {

/// Sizes of C (m x n) = A (m x k) * B (n x k) transposed, and of the tiles that a kernel computes it from.
struct ProductShape {
  int m, n, k;
  int tile_m, tile_n, tile_k;
  int load_columns = 32;  ///< columns that a storing warp loads at a time
  bool in_pairs = false;  ///< two blocks compute a tile, and each brings half of the rows of its tile of B
};

namespace detail {

/// An element as some mistake makes it, from the row and the column of C.
using Guess = std::function<double(int row, int column)>;

template <typename Output>
bool agrees(std::span<const Output> got, int columns, const harness::ProductTolerance& tolerance, const Guess& guess) {
  for (size_t i = 0; i < got.size(); ++i) {
    const double value = guess(static_cast<int>(i) / columns, static_cast<int>(i) % columns);
    if (!(std::abs(double{static_cast<float>(got[i])} - value) <= tolerance(value))) return false;
  }
  return true;
}

}  // namespace detail

/// Returns ": " and what C is, or which tiles of C are wrong; empty if nothing is known.
/// @param got        C as the kernel left it, at least one element of it wrong.
/// @param reference  the right C.
template <typename Output, typename Operand>
std::string likely_mistake(std::span<const Output> got, std::span<const double> reference, std::span<const Operand> a,
                           std::span<const Operand> b, const ProductShape& shape,
                           const harness::ProductTolerance& tolerance) {
  const auto [m, n, k, tile_m, tile_n, tile_k, load_columns, in_pairs] = shape;
  // The sum over [first, last) of K of a row of A with a row of B; rows that do not exist are zero, as the copy engine
  // brings them.
  const auto dot = [&, m = m, n = n, k = k](int row_of_a, int row_of_b, int first, int last) {
    double sum = 0;
    if (row_of_a >= m || row_of_b >= n) return sum;
    for (int i = first; i < std::min(last, k); ++i) {
      sum += double{static_cast<float>(a[size_t(row_of_a) * k + i])} *
             double{static_cast<float>(b[size_t(row_of_b) * k + i])};
    }
    return sum;
  };
  const int k_tiles = (k + tile_k - 1) / tile_k, last_k = (k_tiles - 1) * tile_k;
  const struct {
    const char* what;
    detail::Guess guess;
  } guesses[] = {
      {"every element is 0. Is anything multiplied, or stored, at all?", [](int, int) { return 0.0; }},
      {"C is the product of the first k-tile alone. Are the others multiplied?",
       [&](int r, int c) { return dot(r, c, 0, tile_k); }},
      {"C is the product of the last k-tile alone. Each k-tile has overwritten the sums of those before it",
       [&](int r, int c) { return dot(r, c, last_k, k); }},
      {"C is the product of the first k-tile, once for each k-tile. Do the copies move on along K?",
       [&](int r, int c) { return k_tiles * dot(r, c, 0, tile_k); }},
      {"the rows of B are those that belong to the rows of this tile of C. Which of them belong to its columns?",
       [&](int r, int c) { return dot(r, r / tile_m * tile_m + c % tile_n, 0, k); }},
      {"the rows of A are those that belong to the columns of this tile of C. Which of them belong to its rows?",
       [&](int r, int c) { return dot(c / tile_n * tile_n + r % tile_m, c, 0, k); }},
      {"every tile of C is the product of the first tiles of A and B",
       [&](int r, int c) { return dot(r % tile_m, c % tile_n, 0, k); }},
      {"the first columns of each tile of C are repeated. Does each load begin at a column of its own?",
       [&](int r, int c) { return dot(r, c / tile_n * tile_n + c % tile_n % load_columns, 0, k); }},
      {"rows and columns of C have changed places", [&](int r, int c) { return dot(c, r, 0, k); }},
      {"the rows of B are read as if they were N elements long, and not K. Which size does its tensor map name first?",
       [&, n = n, k = k](int r, int c) {
         double sum = 0;
         for (int i = 0; i < std::min(k, n); ++i) {
           const size_t place = size_t(c) * n + i;
           if (c < k) sum += double{static_cast<float>(a[size_t(r) * k + i])} * double{static_cast<float>(b[place])};
         }
         return sum;
       }},
  };
  if (in_pairs && detail::agrees(got, n, tolerance, [&](int r, int c) {
        return dot(r, c / tile_n * tile_n + c % tile_n % (tile_n / 2), 0, k);
      })) {
    return ": the second half of the columns of each tile of C is the first half again. Do both blocks bring the same "
           "half of B?";
  }
  for (const auto& [what, guess] : guesses) {
    if (detail::agrees(got, n, tolerance, guess)) return std::string(": ") + what;
  }
  // Not one of them: in which tiles of C the wrong elements are, if not in all.
  std::vector<std::string> wrong_tiles;
  const int across = (n + tile_n - 1) / tile_n, down = (m + tile_m - 1) / tile_m;
  for (int tile = 0; tile < down * across; ++tile) {
    const int first_row = tile / across * tile_m, first_column = tile % across * tile_n;
    bool wrong = false;
    for (int r = first_row; r < std::min(m, first_row + tile_m); ++r) {
      for (int c = first_column; c < std::min(n, first_column + tile_n); ++c) {
        const double right = reference[size_t(r) * n + c];
        wrong |= !(std::abs(double{static_cast<float>(got[size_t(r) * n + c])} - right) <= tolerance(right));
      }
    }
    if (wrong) wrong_tiles.push_back("(" + std::to_string(tile / across) + ", " + std::to_string(tile % across) + ")");
  }
  if (static_cast<int>(wrong_tiles.size()) == down * across || wrong_tiles.size() > 4) return "";
  std::string list;
  for (const std::string& tile : wrong_tiles) list += (list.empty() ? "" : ", ") + tile;
  return ": only in " + std::string(wrong_tiles.size() == 1 ? "tile " : "tiles ") + list + " (row, column) of C";
}

}  // namespace stagecraft::chapters
