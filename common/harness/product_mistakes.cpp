#include "harness/product_mistakes.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <regex>
#include <span>
#include <utility>

#include "harness/random.hpp"
#include "harness/reference_product.hpp"

namespace stagecraft::harness {
namespace {

constexpr size_t kLeast = 12;         // wrong elements that must agree: fewer could by chance
constexpr double kEnough = 0.95;      // of the wrong elements
constexpr size_t kSample = 512;       // wrong elements that are looked at, and right ones
constexpr size_t kMostWeights = 160;  // that are solved for at a time

std::string number(int64_t value) { return std::to_string(value); }

/// "1, 3 to 5", of indices in ascending order.
std::string list_of(const std::vector<int>& indices) {
  std::string text;
  for (size_t i = 0, parts = 0; i < indices.size(); ++i, ++parts) {
    if (parts == 8) return text + " and so on";
    const size_t first = i;
    while (i + 1 < indices.size() && indices[i + 1] == indices[i] + 1) ++i;
    text += (text.empty() ? "" : ", ") + number(indices[first]);
    if (i > first) text += (i == first + 1 ? " and " : " to ") + number(indices[i]);
  }
  return text;
}

/// What an index is taken for; negative or beyond the matrix: nothing is there.
struct IndexMap {
  std::string what;
  std::function<int(int)> from;
};

/// The usual mistakes with an index of rows or columns.
/// @param size  of the matrix, along the index.
/// @param tile  of a tile.
/// @param noun  "row" or "column".
std::vector<IndexMap> index_maps(int size, int tile, const std::string& noun) {
  std::vector<IndexMap> maps;
  const std::string letter = noun.substr(0, 1), one = noun + " " + letter;
  const auto add = [&](std::string what, std::function<int(int)> from) {
    maps.push_back({std::move(what), std::move(from)});
  };
  const auto begin = [tile](int i) { return i / tile * tile; };
  add("every tile has what belongs to the " + noun + "s of the first one", [=](int i) { return i % tile; });
  add("every tile has what belongs to the " + noun + "s of the tile twice as far on",
      [=](int i) { return begin(i) + i; });
  add("every tile has what belongs to the " + noun + "s of the tile half as far on",
      [=](int i) { return i / tile / 2 * tile + i % tile; });
  for (int part = tile / 2; part >= 1; part /= 2) {
    add(part == 1 ? "the first " + noun + " of each tile is repeated"
                  : noun + "s 0 to " + number(part - 1) + " of each tile are repeated",
        [=](int i) { return begin(i) + i % tile % part; });
    if (part > 1) {
      add("the first of " + number(part) + " " + noun + "s stands for all of them",
          [=](int i) { return i / part * part; });
    }
    add(noun + "s " + number(part) + " to " + number(2 * part - 1) + " of each tile are repeated",
        [=](int i) { return begin(i) + part + i % tile % part; });
    for (int step = 1; part > 1 && step < tile; step *= 2) {
      if (step == part) continue;
      add("groups of " + number(part) + " " + noun + "s are taken " + number(step) + " apart",
          [=](int i) { return begin(i) + i % tile / part * step + i % part; });
    }
    add(one + " of each tile has what belongs to " + noun + " " + letter + " % " + number(part) + " * " +
            number(tile / part) + " + " + letter + " / " + number(part),
        [=](int i) { return begin(i) + i % tile % part * (tile / part) + i % tile / part; });
  }
  add("the " + noun + "s of each tile are in the reverse order", [=](int i) { return begin(i) + tile - 1 - i % tile; });
  for (int other = 1; other < tile; ++other) {
    add(one + " has what belongs to " + noun + " " + letter + " ^ " + number(other), [=](int i) { return i ^ other; });
  }
  for (int far = 1; far < size; ++far) {
    for (const int by : {far, -far}) {
      const std::string where = (by > 0 ? " + " : " - ") + number(far);
      add(one + " has what belongs to " + noun + " " + letter + where + (far % tile == 0 ? ", of another tile" : ""),
          [=](int i) { return i + by; });
    }
  }
  const int tiles = (size + tile - 1) / tile;
  for (int by = 1; by < tiles; ++by) {
    add("each tile has what belongs to the " + noun + "s of the tile " + number(by) +
            " after it, the last ones to the first",
        [=](int i) { return (i + by * tile) % (tiles * tile); });
  }
  for (int by = 1; by < tile; ++by) {
    add(one + " of each tile has what belongs to " + noun + " (" + letter + " + " + number(by) + ") % " + number(tile),
        [=](int i) { return begin(i) + (i + by) % tile; });
  }
  return maps;
}

// ---- How the tensor core reads a tile in shared memory --------------------------------------------------------------

/// A tile as copies leave it: lines of at most 128 bytes, swizzled. `along_k`: rows are lines; else columns are, in
/// boxes of as many rows as a line holds.
struct TileLayout {
  int rows, columns, bits, line;
  bool along_k;

  int in_line() const { return line * 8 / bits; }
};

/// What a descriptor says about a tile, in bytes, and how far it moves from one MMA to the next.
struct Reading {
  int swizzle, stride, leading, step, start;
  bool along_k;
  int written_swizzle;  // by the tensor map
};

/// Exchanges the chunks of 16 bytes of an address, as a swizzle of 32, 64 or 128 bytes does.
int swizzled(int address, int span) { return address ^ ((address >> 7 & (span / 16 - 1)) * 16); }

/// Which element an MMA takes for (row, k) of a tile; nothing where that is outside of the tile.
/// Source: PTX ISA, "Tensorcore 5th Generation Instructions: shared memory layout and swizzling".
std::optional<std::pair<int, int>> read_at(const TileLayout& tile, const Reading& reading, int mma_k, int row, int k) {
  const int of_slice = k % mma_k, per_line = reading.swizzle * 8 / tile.bits;
  int address = reading.start + k / mma_k * reading.step, bit = 0;
  if (reading.along_k) {
    bit = of_slice * tile.bits;
    address += row / 8 * reading.stride + row % 8 * reading.swizzle;
    if (reading.swizzle == 16) {  // no swizzle: chunks along K lie apart
      address += bit / 128 * reading.leading;
      bit %= 128;
    }
  } else {
    bit = row % per_line * tile.bits;
    address += of_slice / 8 * reading.stride + of_slice % 8 * reading.swizzle + row / per_line * reading.leading;
  }
  address = swizzled(swizzled(address + bit / 8, reading.swizzle), reading.written_swizzle);
  const int lines = tile.along_k ? tile.rows : tile.columns, box = address / (lines * tile.line);
  const int boxes = tile.along_k ? 1 : tile.rows / tile.in_line();
  if (address < 0 || box >= boxes) return std::nullopt;
  const int line = address / tile.line % lines, index = (address % tile.line * 8 + bit % 8) / tile.bits;
  if (tile.along_k) return std::pair{line, index};
  return std::pair{box * tile.in_line() + index, line};
}

/// The reading that fits the tile.
Reading right_reading(const TileLayout& tile) {
  Reading reading{.swizzle = tile.line,
                  .stride = 8 * tile.line,
                  .leading = tile.along_k ? 0 : tile.columns * tile.line,
                  .step = 32,
                  .start = 0,
                  .along_k = tile.along_k,
                  .written_swizzle = tile.line};
  if (!tile.along_k) reading.step = 256 / tile.bits * tile.line;
  return reading;
}

struct WrongReading {
  std::string what;  // begins after "tiles of A "
  Reading reading;
};

/// The usual mistakes with descriptors and tensor maps.
std::vector<WrongReading> wrong_readings(const TileLayout& tile) {
  const Reading right = right_reading(tile);
  std::vector<WrongReading> all;
  const auto bytes = [](int count) { return number(count) + " bytes"; };
  const auto name = [](int span) {
    return span == 16 ? std::string("no swizzle") : "a swizzle of " + number(span) + " bytes";
  };
  const auto with = [&](auto change) {
    Reading reading = right;
    change(reading);
    return reading;
  };
  for (const int step : {0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}) {
    if (step == right.step) continue;
    all.push_back({"are read by each MMA " + bytes(step) + " after the one before it, and the next slice begins " +
                       bytes(right.step) + " further on. How far does the descriptor move?",
                   with([&](Reading& reading) { reading.step = step; })});
  }
  for (int span = 128; span >= 16; span /= 2) {
    if (span == tile.line) continue;
    all.push_back(
        {"are written with " + name(span) + " and read with " + name(tile.line) + ". What does the tensor map say?",
         with([&](Reading& reading) { reading.written_swizzle = span; })});
    for (const int stride : {right.stride, 8 * span}) {
      all.push_back({"are read with " + name(span) + " and a stride of " + bytes(stride) + ", and written with " +
                         name(tile.line) + ". What does the descriptor say?",
                     with([&](Reading& reading) {
                       reading.swizzle = span;
                       reading.stride = stride;
                     })});
    }
  }
  // Without a swizzle the leading offset counts, and where rows are contiguous.
  for (const int offset : {0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}) {
    if (offset != right.stride) {
      all.push_back({"are read with a stride of " + bytes(offset) + " from eight lines to the next, which are " +
                         bytes(right.stride) + " apart. What does the descriptor say?",
                     with([&](Reading& reading) { reading.stride = offset; })});
    }
    if (offset != right.leading && !tile.along_k) {
      all.push_back({"are read with a leading offset of " + bytes(offset) + ", and should be with " +
                         bytes(right.leading) + ". What does the descriptor say?",
                     with([&](Reading& reading) { reading.leading = offset; })});
    }
    all.push_back({std::string("are read as if they were contiguous along ") +
                       (tile.along_k ? "their rows, and they are along K" : "K, and they are along their rows") +
                       ": they come transposed, eight lines at a time. Which major does the instruction name?",
                   with([&](Reading& reading) {
                     reading.along_k = !tile.along_k;
                     reading.leading = offset;
                   })});
  }
  all.push_back({"are read with leading offset and stride exchanged. What does the descriptor say?",
                 with([&](Reading& reading) { std::swap(reading.leading, reading.stride); })});
  for (const int start : {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, -16, -32, -64, -128, -1024}) {
    all.push_back({"are read from byte " + number(start) + " on. Where does the descriptor begin?",
                   with([&](Reading& reading) { reading.start = start; })});
  }
  return all;
}

// ---- How the tensor core reads an element ---------------------------------------------------------------------------

/// An element of one format, read as one of another of as many bits; NaN where that is infinite, and nothing where the
/// value is not one of the first.
template <typename Written, typename Read>
std::optional<double> read_as(double value) {
  const Written written(static_cast<float>(value));
  if (!std::isfinite(value) || static_cast<float>(written) != value) return std::nullopt;
  const double read = static_cast<float>(std::bit_cast<Read>(written));
  return std::isinf(read) ? NAN : read;
}

struct FormatMistake {
  const char *written, *read;  ///< formats
  std::optional<double> (*value)(double);
};
constexpr FormatMistake kFormatMistakes16[] = {{"bf16", "f16", read_as<__nv_bfloat16, __half>},
                                               {"f16", "bf16", read_as<__half, __nv_bfloat16>}};
constexpr FormatMistake kFormatMistakes8[] = {{"e4m3", "e5m2", read_as<__nv_fp8_e4m3, __nv_fp8_e5m2>},
                                              {"e5m2", "e4m3", read_as<__nv_fp8_e5m2, __nv_fp8_e4m3>}};

// ---- Searching ------------------------------------------------------------------------------------------------------

class Search {
 public:
  explicit Search(const WrongProduct& wrong)
      : w_(wrong), s_(wrong.shape), columns_(static_cast<int>(wrong.got.size()) / s_.m) {
    sum_ = [this](int r, int c) { return sum_of(r, c); };
    for (size_t i = 0; i < w_.got.size(); ++i) {
      const double value = right(row_of(i), column_of(i));
      if (std::abs(w_.got[i] - value) <= w_.allowed(value, row_of(i), column_of(i))) {
        right_.push_back(i);
      } else {
        wrong_.push_back(i);
        if (!std::isnan(w_.got[i])) sample_.push_back(i);
      }
    }
    Random random(1);
    for (std::vector<size_t>* all : {&right_, &sample_}) {
      for (size_t i = 0; i < std::min(all->size(), kSample); ++i) {
        std::swap((*all)[i], (*all)[i + random.bits() % (all->size() - i)]);
      }
    }
    is_affine_ = columns_ == s_.n;
    for (size_t i = 0; i < std::min<size_t>(sample_.size(), 16) && is_affine_; ++i) {
      const auto [offset, factor] = affine(row_of(sample_[i]), column_of(sample_[i]));
      const double at_five = element_of([](int, int) { return 5.0; }, row_of(sample_[i]), column_of(sample_[i]));
      is_affine_ = factor != 0 && std::abs(at_five - offset - 5 * factor) <= 1e-6 * (1 + std::abs(at_five));
    }
  }

  std::string text() {
    if (wrong_.empty()) return "";
    std::string said = nans();
    if (sample_.empty()) return said + pattern();
    const auto zero = [](int, int) { return 0.0; };
    if (right_.empty())
      try_element(
          "every element is 0. Is anything multiplied, or stored, at all? Copies from outside of a matrix bring zeros",
          zero);
    for (const auto& mistake : w_.also) {
      try_element(mistake.what, [&](int r, int c) { return mistake.of_sums(sum_, r, c); });
    }
    parts_of_k();
    places();
    moved_tiles();
    of_places_ = best_ && best_->what.starts_with("of C");
    descriptors();
    of_places_ = false;
    scales();
    epilogue();
    formats();
    conversion();
    weights();
    if (!best_) moved_parts();
    // Where all are 0, whatever misses the matrix fits. Only what explains the right ones, too, says more.
    if ((!best_ || !best_->right_fits) && std::ranges::all_of(sample_, [&](size_t i) { return w_.got[i] == 0; })) {
      best_ = {
          "every wrong element is 0. Is anything multiplied, or stored, there? Copies from outside of a matrix bring "
          "zeros",
          1, true};
    }
    if (!best_) {
      return said + (said.empty() ? ": " : "; ") + "none of the usual mistakes makes these numbers" + pattern();
    }
    const bool others_too = best_->right_fits;
    return said + (said.empty() ? ": " : "; ") + best_->what +
           (others_too ? "" : " (So it is where C is wrong, and only there.)") + pattern();
  }

 private:
  int row_of(size_t i) const { return static_cast<int>(i) / columns_; }
  int column_of(size_t i) const { return static_cast<int>(i) % columns_; }
  double sum_of(int r, int c) const {
    return r < 0 || c < 0 || r >= s_.m || c >= s_.n ? 0 : w_.sums[size_t(r) * s_.n + c];
  }
  double element_of(const Guess& sum, int r, int c) const { return w_.of_sums ? w_.of_sums(sum, r, c) : sum(r, c); }
  double right(int r, int c) const { return element_of(sum_, r, c); }
  double right_or_unknown(int r, int c) const {
    return r < 0 || c < 0 || r >= s_.m || c >= columns_ ? NAN : right(r, c);
  }
  /// What is added to a multiple of the sum, and the multiple.
  std::pair<double, double> affine(int r, int c) const {
    const double offset = element_of([](int, int) { return 0.0; }, r, c);
    return {offset, element_of([](int, int) { return 1.0; }, r, c) - offset};
  }

  // ---- Trying one mistake ----

  struct Found {
    std::string what;
    double score;
    bool right_fits;
  };

  /// Takes note of a mistake if it is better than the best so far.
  /// @param exact  the element itself must be right, not only within what is allowed.
  void try_element(const std::string& what, const Guess& element, bool exact = false) {
    size_t fits = 0, misses = 0, unknown = 0;
    const auto agrees_at = [&](size_t i) -> std::optional<bool> {
      const double guess = element(row_of(i), column_of(i));
      if (std::isnan(guess)) return std::nullopt;
      return std::abs(w_.got[i] - guess) <= (exact ? 0 : w_.allowed(guess, row_of(i), column_of(i)));
    };
    const size_t count = std::min(sample_.size(), kSample);
    for (size_t i = 0; i < count; ++i) {
      const std::optional<bool> agrees = agrees_at(sample_[i]);
      ++(!agrees ? unknown : *agrees ? fits : misses);
      if (misses > 2 && static_cast<double>(misses) > 0.15 * static_cast<double>(i + 1 - unknown)) return;
      if (i >= 64 && fits + misses == 0) return;
    }
    const auto share = [&](size_t of) { return static_cast<double>(of) / static_cast<double>(count); };
    if (fits < std::min(kLeast, w_.got.size()) || share(fits + misses) < 0.1) return;
    if (static_cast<double>(fits) < kEnough * static_cast<double>(fits + misses)) return;
    size_t others = 0, contradicted = 0;
    for (size_t i = 0; i < std::min(right_.size(), kSample); ++i) {
      const std::optional<bool> agrees = agrees_at(right_[i]);
      others += agrees.has_value();
      contradicted += agrees && !*agrees;
    }
    const bool right_fits = static_cast<double>(contradicted) <= 0.05 * static_cast<double>(others);
    if (!right_fits && share(unknown) > 0.05) return;  // neither the right ones nor all wrong ones
    const double score = share(fits) + share(unknown) / 2 + (right_fits ? 0.1 : 0);
    if (!best_ || score > best_->score + 0.01) {
      best_ = {what, score, right_fits};
    } else if (of_places_ && score > best_->score - 0.01) {
      best_->what += " Or: " + what;
      of_places_ = false;
    }
  }

  /// The same for a mistake in the sums; one that is NaN is not known.
  void try_sums(const std::string& what, const Guess& sum) {
    if (!w_.of_sums) return try_element(what, sum);
    bool unknown = false;
    const Guess watched = [&](int r, int c) {
      const double value = sum(r, c);
      unknown |= std::isnan(value);
      return value;
    };
    try_element(what, [&](int r, int c) {
      unknown = false;
      const double value = w_.of_sums(watched, r, c);
      return unknown ? NAN : value;
    });
  }

  // ---- Which products are summed ----

  double a(int r, int k) const { return w_.a[size_t(r) * s_.k + k]; }
  double b(int c, int k) const { return w_.b[size_t(c) * s_.k + k]; }

  /// The sum over [first, last) of K, of those elements for which `counts` is true. Rows that do not exist are zero, as
  /// TMA brings them.
  template <typename Counts>
  double sum_over(int r, int c, int first, int last, Counts counts) const {
    double sum = 0;
    if (r >= s_.m || c >= s_.n) return sum;
    for (int i = first; i < std::min(last, s_.k); ++i) {
      if (counts(i)) sum += a(r, i) * b(c, i);
    }
    return sum;
  }
  double sum_over(int r, int c, int first, int last) const {
    return sum_over(r, c, first, last, [](int) { return true; });
  }

  int k_tiles() const { return (s_.k + s_.tile_k - 1) / s_.tile_k; }

  void parts_of_k() {
    const int last_k = (k_tiles() - 1) * s_.tile_k, last_stage = (k_tiles() - 1) / s_.k_group * s_.k_group * s_.tile_k;
    const auto in_first_slice = [this](int i) { return i % s_.tile_k < s_.mma_k; };
    const auto part = [&](int first, int last) {
      return [=, this](int r, int c) { return sum_over(r, c, first, last); };
    };
    if (s_.k_group > 1) {
      try_sums("C is the product of the last stage alone. Each stage has overwritten the sums of those before it",
               part(last_stage, s_.k));
    }
    if (k_tiles() > 1) {
      try_sums("C is the product of the first k-tile alone. Are the others multiplied, and by what?",
               part(0, s_.tile_k));
      try_sums("C is the product of the last k-tile alone. Each k-tile has overwritten the sums of those before it",
               part(last_k, s_.k));
      try_sums("C is the product of the first k-tile, once for each k-tile. Do the copies move on along K?",
               [&](int r, int c) { return k_tiles() * sum_over(r, c, 0, s_.tile_k); });
      try_sums("C lacks the last k-tile. Does the loop over K end one turn early?", part(0, last_k));
    }
    try_sums("C is the product of the first slice of each k-tile alone. How many MMAs does a k-tile take?",
             [&](int r, int c) { return sum_over(r, c, 0, s_.k, in_first_slice); });
    try_sums(
        "C is the product of the first slice of each k-tile, once for each slice. Do the descriptors move on along K?",
        [&](int r, int c) { return s_.tile_k / s_.mma_k * sum_over(r, c, 0, s_.k, in_first_slice); });
    try_sums("C is the product of the last slice of K alone. Each MMA has overwritten the sums of those before it",
             part(last_k + s_.tile_k - s_.mma_k, s_.k));
    for (int piece = 0, first = 0; s_.pieces > 1 && piece < s_.pieces; ++piece) {
      const int last = first + (k_tiles() / s_.pieces + (piece < k_tiles() % s_.pieces)) * s_.tile_k;
      if (piece == 0) {
        try_sums("C is the first piece along K, once for each piece. Where does each piece begin?",
                 [&](int r, int c) { return s_.pieces * sum_over(r, c, first, last); });
      }
      try_sums("C is the sum of piece " + number(piece) + " of " + number(s_.pieces) +
                   " along K alone. Which block goes on with the sum of all pieces?",
               part(first, last));
      first = last;
    }
  }

  // ---- Which rows and columns they belong to ----

  void places() {
    const auto begin_of = [this](int r) { return r / s_.tile_m * s_.tile_m; };
    const auto begin_across = [this](int c) { return c / s_.tile_n * s_.tile_n; };
    if (s_.in_pairs) {  // before the hypothesis about loads: half a tile may be as wide as a load
      try_sums(
          "the second half of the columns of each tile of C is the first half again. Do both blocks bring the same "
          "half of B?",
          [=, this](int r, int c) { return sum_of(r, begin_across(c) + c % s_.tile_n % (s_.tile_n / 2)); });
    }
    try_sums("the rows of B are those that belong to the rows of this tile of C. Which of them belong to its columns?",
             [=, this](int r, int c) { return sum_of(r, begin_of(r) + c % s_.tile_n); });
    try_sums("the rows of A are those that belong to the columns of this tile of C. Which of them belong to its rows?",
             [=, this](int r, int c) { return sum_of(begin_across(c) + r % s_.tile_m, c); });
    try_sums("every tile of C is the product of the first tiles of A and B",
             [=, this](int r, int c) { return sum_of(r % s_.tile_m, c % s_.tile_n); });
    try_sums("the first columns of each tile of C are repeated. Does each load begin at a column of its own?",
             [=, this](int r, int c) { return sum_of(r, begin_across(c) + c % s_.tile_n % s_.load_columns); });
    try_sums(
        "the second half of the rows of each tile of C is the first half again. Which rows of A does each half take?",
        [=, this](int r, int c) { return sum_of(begin_of(r) + r % s_.tile_m % (s_.tile_m / 2), c); });
    try_sums("rows 0 to 31 of each tile of C are repeated. Which rows does each warp have?",
             [=, this](int r, int c) { return sum_of(begin_of(r) + r % s_.tile_m % 32, c); });
    try_sums("rows and columns of C have changed places", [this](int r, int c) { return sum_of(c, r); });
    try_sums("each tile of C is transposed",
             [=, this](int r, int c) { return sum_of(begin_of(r) + c % s_.tile_n, begin_across(c) + r % s_.tile_m); });
    try_sums("the row and the column of each tile of C have changed places", [=, this](int r, int c) {
      return sum_of(c / s_.tile_n * s_.tile_m + r % s_.tile_m, r / s_.tile_m * s_.tile_n + c % s_.tile_n);
    });
    for (const bool of_a : {true, false}) {
      const std::string whose = of_a ? "A" : "B", size = of_a ? "M" : "N";
      const std::span<const double> matrix = of_a ? w_.a : w_.b;
      const int rows = of_a ? s_.m : s_.n;
      const auto with_elements = [&](const std::string& what, auto element) {
        try_sums(what, [&](int r, int c) {
          double sum = 0;
          for (int k = 0; k < s_.k; ++k) sum += element(of_a ? r : c, k) * (of_a ? b(c, k) : a(r, k));
          return sum;
        });
      };
      const auto at = [&](int64_t place) { return place < std::ssize(matrix) ? matrix[place] : 0; };
      // A tensor map has its sizes exchanged: rows as many elements long as there were rows, and as many as columns.
      with_elements("the rows of " + whose + " are read as if they were " + size +
                        " elements long, and not K. Which size does its tensor map name first?",
                    [&](int row, int k) { return row < s_.k && k < rows ? matrix[size_t(row) * rows + k] : 0; });
      for (const int apart : {s_.tile_k / 8, s_.tile_k / 4, s_.tile_k / 2, 2 * s_.tile_k, 4 * s_.tile_k}) {
        with_elements("of " + whose + ", k-tiles are taken " + number(apart) + " columns apart, and are " +
                          number(s_.tile_k) + " wide. Do the copies move on along K by elements?",
                      [&](int row, int k) {
                        const int from = k / s_.tile_k * apart + k % s_.tile_k;
                        return from < s_.k ? matrix[size_t(row) * s_.k + from] : 0;
                      });
      }
      for (const int far : {1, 8, s_.mma_k, s_.tile_k, 2 * s_.tile_k}) {
        for (const int by : {far, -far}) {
          with_elements(
              "all k-tiles of " + whose + " are taken " + number(far) + " columns too " + (by > 0 ? "late" : "early") +
                  ", with zeros beyond the edge",
              [&](int row, int k) { return k + by >= 0 && k + by < s_.k ? matrix[size_t(row) * s_.k + k + by] : 0; });
        }
      }
      for (const int length : {rows, s_.tile_m, s_.tile_n}) {
        with_elements(whose + " is read as if its columns were contiguous, " + number(length) +
                          " elements long, and its rows are. Which index runs first?",
                      [&](int row, int k) { return at(int64_t{k} * length + row); });
      }
      for (const int pitch : {s_.m, s_.n, s_.tile_k, s_.k + 1, (s_.k + s_.tile_k - 1) / s_.tile_k * s_.tile_k}) {
        if (pitch == s_.k) continue;
        with_elements("the rows of " + whose + " are read as if they were " + number(pitch) + " elements apart",
                      [&](int row, int k) { return at(int64_t{row} * pitch + k); });
      }
    }
    const std::vector<IndexMap> of_rows = index_maps(s_.m, s_.tile_m, "row");
    for (const auto& map : of_rows) {
      try_sums("of C, " + map.what + ". Which rows of A are multiplied, and where is each row of sums stored?",
               [&](int r, int c) { return sum_of(map.from(r), c); });
    }
    const std::vector<IndexMap> of_columns = index_maps(s_.n, s_.tile_n, "column");
    for (const auto& map : of_columns) {
      try_sums("of C, " + map.what + ". Which rows of B are multiplied, and where is each column of sums stored?",
               [&](int r, int c) { return sum_of(r, map.from(c)); });
    }
    if (w_.of_sums) {
      for (const auto& map : of_rows) {
        try_element("of the finished C, " + map.what + ". Where is each row stored?",
                    [&](int r, int c) { return right_or_unknown(map.from(r), c); });
      }
      for (const auto& map : of_columns) {
        try_element("of the finished C, " + map.what + ". Where is each column stored?",
                    [&](int r, int c) { return right_or_unknown(r, map.from(c)); });
      }
    }
    for (const int chunk : {4, 8, 16}) {
      for (const int chunks : {8, 4, 2}) {
        try_element(
            "chunks of " + number(chunk) + " columns of C have changed places. Does each go where the swizzle has it?",
            [&](int r, int c) {
              return right_or_unknown(r, c ^ ((r >> (chunks == 8 ? 0 : chunks == 4 ? 1 : 2)) & (chunks - 1)) * chunk);
            });
      }
    }
    for (const int pitch :
         {s_.m, s_.k, s_.tile_n, (columns_ + 7) / 8 * 8, (columns_ + s_.tile_n - 1) / s_.tile_n * s_.tile_n}) {
      if (pitch == columns_) continue;
      try_element(
          "the rows of C are stored " + number(pitch) + " elements apart, and they are " + number(columns_) + " long",
          [&](int r, int c) {
            const int64_t at = int64_t{r} * columns_ + c;
            return right_or_unknown(static_cast<int>(at / pitch), static_cast<int>(at % pitch));
          });
    }
  }

  // ---- Tiles that hold what belongs elsewhere ----

  int down() const { return (s_.m + s_.tile_m - 1) / s_.tile_m; }
  int tile_columns() const { return std::max(1, static_cast<int>(int64_t{s_.tile_n} * columns_ / s_.n)); }
  int across() const { return (columns_ + tile_columns() - 1) / tile_columns(); }
  int tile_at(int r, int c) const { return r / s_.tile_m * across() + c / tile_columns(); }
  std::string name_of_tile(int tile) const {
    return "(" + number(tile / across()) + ", " + number(tile % across()) + ")";
  }

  void moved_tiles() {
    if (down() * across() < 2) return;
    std::vector<std::vector<size_t>> of_tile(down() * across());  // wrong elements
    for (size_t i = 0; i < sample_.size(); ++i) {
      std::vector<size_t>& elements = of_tile[tile_at(row_of(sample_[i]), column_of(sample_[i]))];
      if (elements.size() < 32) elements.push_back(sample_[i]);
    }
    const auto moved = [this](int r, int c, int tile, auto value) {
      const int from_row = tile / across() * s_.tile_m + r % s_.tile_m,
                from_column = tile % across() * tile_columns() + c % tile_columns();
      return from_row >= s_.m || from_column >= columns_ ? NAN : value(from_row, from_column);
    };
    const Guess plain = [&](int r, int c) { return right(r, c); };
    const Guess of_got = [&](int r, int c) {
      const double value = w_.got[size_t(r) * columns_ + c];
      return value == 0 ? NAN : value;  // two tiles that are 0 need not be the same
    };
    const Guess nothing = [](int, int) { return 0.0; };
    struct Way {
      const char *what, *question;
      const Guess &here, &there;  // the two are added
      bool as_sums;
    };
    const Way ways[] = {{"tiles of C hold what belongs to others", "Which tile do the storing warps take it for?",
                         nothing, plain, false},
                        {"tiles of C hold what others hold, too",
                         "Which accumulator is read, and has it been filled again?", nothing, of_got, false},
                        {"the sums of other tiles of C have been added",
                         "Does the first MMA of each tile overwrite the accumulator?", sum_, sum_, true},
                        {"what is in other tiles of C has been added",
                         "Does the first MMA of each tile overwrite the accumulator?", plain, of_got, false}};
    for (const Way& way : ways) {
      if (way.as_sums && columns_ != s_.n) continue;
      const auto guess = [&](int r, int c, int tile) {
        const auto value = [&](int row, int column) {
          return way.here(row, column) + moved(row, column, tile, way.there);
        };
        return way.as_sums ? element_of(value, r, c) : value(r, c);
      };
      std::vector<int> from(of_tile.size(), -1);
      std::string said;
      for (int tile = 0, named = 0; tile < std::ssize(of_tile); ++tile) {
        for (int other = 0; other < std::ssize(of_tile) && from[tile] < 0 && !of_tile[tile].empty(); ++other) {
          if (other == tile) continue;
          size_t fits = 0, misses = 0;
          for (const size_t i : of_tile[tile]) {
            const double value = guess(row_of(i), column_of(i), other);
            if (std::isnan(value)) continue;
            ++(std::abs(w_.got[i] - value) <= w_.allowed(value, row_of(i), column_of(i)) ? fits : misses);
            if (misses > 2) break;
          }
          if (misses <= 2 && fits > 10 * misses && fits >= std::min(kLeast, of_tile[tile].size())) from[tile] = other;
        }
        if (from[tile] < 0 || ++named > 3) continue;
        said += (said.empty() ? ": in tile " : ", in tile ") + name_of_tile(tile) + " that of tile " +
                name_of_tile(from[tile]);
      }
      size_t all = 0, unexplained = 0;
      for (size_t tile = 0; tile < of_tile.size(); ++tile) {
        all += of_tile[tile].size();
        if (from[tile] < 0) unexplained += of_tile[tile].size();
      }
      if (said.empty() || unexplained * 20 > all) continue;
      try_element(way.what + said + ". " + way.question, [&](int r, int c) {
        const int tile = from[tile_at(r, c)];
        return tile < 0 ? NAN : guess(r, c, tile);
      });
    }
  }

  /// Parts of the rows or columns, each of which may have what belongs to any other.
  void moved_parts() {
    for (const bool of_rows : {true, false}) {
      const int size = of_rows ? s_.m : s_.n, tile = of_rows ? s_.tile_m : s_.tile_n;
      if (!of_rows && columns_ != s_.n) return;
      for (int part = tile; part >= 8 && !best_; part /= 2) {
        std::vector<int> from((size + part - 1) / part, -1);
        std::vector<std::vector<size_t>> in_part(from.size());
        for (size_t i = 0; i < std::min<size_t>(sample_.size(), 8 * kSample); ++i) {
          auto& elements = in_part[(of_rows ? row_of(sample_[i]) : column_of(sample_[i])) / part];
          if (elements.size() < 2 * kLeast) elements.push_back(sample_[i]);
        }
        const auto taken_from = [&](int r, int c, int other) {
          const auto moved = [&](int index) { return other * part + index % part; };
          const auto sum = [&](int row, int column) {
            return of_rows ? sum_of(moved(row), column) : sum_of(row, moved(column));
          };
          return element_of(sum, r, c);
        };
        std::string said;
        int named = 0;
        bool all = true;
        for (int at = 0; at < std::ssize(from) && all; ++at) {
          const std::vector<size_t>& elements = in_part[at];
          if (elements.size() < kLeast) from[at] = at;
          for (int other = 0; other < std::ssize(from) && from[at] < 0; ++other) {
            const auto agrees = [&](size_t i) {
              const double value = taken_from(row_of(i), column_of(i), other);
              return std::abs(w_.got[i] - value) <= w_.allowed(value, row_of(i), column_of(i));
            };
            if (std::ranges::all_of(elements, agrees)) from[at] = other;
          }
          all = from[at] >= 0;
          if (!all || from[at] == at || ++named > 3) continue;
          const auto name = [&](int which) { return number(which * part) + " to " + number((which + 1) * part - 1); };
          said += (said.empty() ? "" : ", ") + name(at) + " have what belongs to " + name(from[at]);
        }
        if (!all) continue;
        const std::string noun = of_rows ? "rows " : "columns ", operand = of_rows ? "A" : "B";
        try_sums("of C, " + noun + said + (named > 3 ? " and so on" : "") + ". Which rows of " + operand +
                     " do the copies bring?",
                 [&](int r, int c) {
                   const auto moved = [&](int index) { return from[index / part] * part + index % part; };
                   return of_rows ? sum_of(moved(r), c) : sum_of(r, moved(c));
                 });
      }
    }
  }

  // ---- How operands are read from shared memory ----

  void descriptors() {
    const int bits = 256 / s_.mma_k, row_bytes = s_.tile_k * bits / 8;
    const auto layout = [&](bool along_k, int rows) {
      const int line = along_k ? row_bytes : std::min(128, rows * bits / 8);
      return TileLayout{.rows = rows, .columns = s_.tile_k, .bits = bits, .line = line, .along_k = along_k};
    };
    const TileLayout of_a = layout(s_.a_along_k, std::min(s_.tile_m, 128));
    const TileLayout of_b = layout(s_.b_along_k, s_.in_pairs ? s_.tile_n / 2 : s_.tile_n);
    for (const TileLayout& tile : {of_a, of_b}) {
      if (tile.line > 128 || tile.line < 32 || (tile.line & (tile.line - 1)) != 0 || tile.rows % 8 != 0) return;
    }
    // Scales do not come with the elements.
    const auto read_as = [this](bool of_a, std::pair<int, int> from, std::pair<int, int> at) {
      const auto index = [this](std::pair<int, int> place) { return size_t(place.first) * s_.k + place.second; };
      const ScaledValues* const scaled = of_a ? w_.scaled_a : w_.scaled_b;
      if (scaled != nullptr) return at.second < s_.k ? scaled->elements[index(from)] * scaled->scales[index(at)] : NAN;
      return (of_a ? w_.a : w_.b)[index(from)];
    };
    const auto read_wrongly = [&](const Reading* for_a, const Reading* for_b, int r, int c) {
      double sum = 0;
      for (int tile = 0; tile < s_.k; tile += s_.tile_k) {
        for (int i = 0; i < s_.tile_k; ++i) {
          // A row or a column beyond the matrix is zero, and makes the other factor unimportant.
          const auto place = [&](const TileLayout& layout, const Reading* reading,
                                 int row) -> std::optional<std::pair<int, int>> {
            if (reading == nullptr) return std::pair{row, tile + i};
            const auto in_tile = read_at(layout, *reading, s_.mma_k, row % layout.rows, i);
            if (!in_tile) return std::nullopt;
            return std::pair{row / layout.rows * layout.rows + in_tile->first, tile + in_tile->second};
          };
          const auto from_a = place(of_a, for_a, r), from_b = place(of_b, for_b, c);
          if (!from_a || !from_b) return static_cast<double>(NAN);
          if (from_a->first >= s_.m || from_b->first >= s_.n || from_a->second >= s_.k || from_b->second >= s_.k)
            continue;
          sum += (for_a ? read_as(true, *from_a, {r, tile + i}) : a(r, tile + i)) *
                 (for_b ? read_as(false, *from_b, {c, tile + i}) : b(c, tile + i));
        }
      }
      return sum;
    };
    const std::vector<WrongReading> all_of_a = wrong_readings(of_a), all_of_b = wrong_readings(of_b);
    for (const auto& wrong : all_of_a) {
      try_sums("tiles of A " + wrong.what, [&](int r, int c) { return read_wrongly(&wrong.reading, nullptr, r, c); });
    }
    for (const auto& wrong : all_of_b) {
      try_sums("tiles of B " + wrong.what, [&](int r, int c) { return read_wrongly(nullptr, &wrong.reading, r, c); });
    }
    for (size_t i = 0; i < std::min(all_of_a.size(), all_of_b.size()); ++i) {
      if (all_of_a[i].what != all_of_b[i].what) continue;
      try_sums("tiles of A and of B " + all_of_a[i].what,
               [&](int r, int c) { return read_wrongly(&all_of_a[i].reading, &all_of_b[i].reading, r, c); });
    }
  }

  // ---- Scales ----

  void scales() {
    if (w_.scaled_a == nullptr || w_.scaled_b == nullptr) return;
    /// Whose scale multiplies an element.
    struct Place {
      bool of_a;
      int row, k;
    };
    /// From the element's place, and the row of the other operand that it meets; nothing: no scale.
    using Places = std::function<std::optional<Place>(Place at, int other)>;
    const auto scaled = [this](const Places& places, Place at, int other) {
      const double element = (at.of_a ? w_.scaled_a : w_.scaled_b)->elements[size_t(at.row) * s_.k + at.k];
      const std::optional<Place> from = places(at, other);
      if (!from) return element;
      const bool exists = from->row >= 0 && from->k >= 0 && from->row < (from->of_a ? s_.m : s_.n) && from->k < s_.k;
      const ScaledValues& of = *(from->of_a ? w_.scaled_a : w_.scaled_b);
      return exists ? element * of.scales[size_t(from->row) * s_.k + from->k] : NAN;
    };
    const auto attempt = [&](const std::string& what, const Places& places, bool for_a, bool for_b) {
      try_sums(std::string("the scales of ") +
                   (for_a && for_b ? "A and B"
                    : for_a        ? "A"
                                   : "B") +
                   " are " + what,
               [&](int r, int c) {
                 double sum = 0;
                 for (int k = 0; k < s_.k; ++k) {
                   sum += (for_a ? scaled(places, {true, r, k}, c) : a(r, k)) *
                          (for_b ? scaled(places, {false, c, k}, r) : b(c, k));
                 }
                 return sum;
               });
    };
    const auto for_each = [&](const std::string& what, const Places& places) {
      attempt(what, places, true, false);
      attempt(what, places, false, true);
      attempt(what, places, true, true);
    };
    const auto tile_of = [this](bool of_a) { return of_a ? s_.tile_m : s_.tile_n; };
    const auto in_row = [](Place at, int row) { return Place{at.of_a, row, at.k}; };
    for_each("not applied", [](Place, int) { return std::nullopt; });
    for_each("those of the first k-tile, for each k-tile", [this](Place at, int) {
      return Place{at.of_a, at.row, at.k % s_.tile_k};
    });
    for_each("those of the first four blocks of each k-tile, for all of its blocks", [this](Place at, int) {
      const int four = 4 * (at.of_a ? w_.scaled_a : w_.scaled_b)->block;
      return Place{at.of_a, at.row, at.k / s_.tile_k * s_.tile_k + at.k % s_.tile_k % four};
    });
    for_each("those of the first tile's rows, for each tile of C",
             [&](Place at, int) { return in_row(at, at.row % tile_of(at.of_a)); });
    for_each("those of the first row of each tile, for all of its rows",
             [&](Place at, int) { return in_row(at, at.row / tile_of(at.of_a) * tile_of(at.of_a)); });
    for_each("those of the other operand", [](Place at, int) { return Place{!at.of_a, at.row, at.k}; });
    for_each("those that belong to the place of this tile of C along the other operand", [&](Place at, int other) {
      return in_row(at, other / tile_of(!at.of_a) * tile_of(!at.of_a) + at.row % tile_of(at.of_a));
    });
    for (const bool is_a : {true, false}) {
      const int block = (is_a ? w_.scaled_a : w_.scaled_b)->block, blocks = (s_.k + block - 1) / block;
      for (const auto& map : index_maps(blocks, std::clamp(s_.tile_k / block, 1, blocks), "block")) {
        attempt(
            "those of other blocks along K: " + map.what,
            [&](Place at, int) {
              return Place{at.of_a, at.row, map.from(at.k / block) * block};
            },
            is_a, !is_a);
      }
      for (const auto& map : index_maps(is_a ? s_.m : s_.n, tile_of(is_a), "row")) {
        attempt(
            "those of other rows: " + map.what, [&](Place at, int) { return in_row(at, map.from(at.row)); }, is_a,
            !is_a);
      }
    }
  }

  // ---- What is made of the sums ----

  void epilogue() {
    if (!w_.of_sums || columns_ != s_.n) return;
    try_element("C is the product itself, of which nothing more is made. Are the operations applied?", sum_);
    const auto with = [&](int r, int c, int other_row, int other_column) {
      if (other_row < 0 || other_column < 0 || other_row >= s_.m || other_column >= s_.n)
        return static_cast<double>(NAN);
      return w_.of_sums([&](int, int) { return sum_of(r, c); }, other_row, other_column);
    };
    for (const auto& map : index_maps(s_.n, s_.tile_n, "column")) {
      try_element("the sums are right, and what is added to them or multiplies them is of other columns: " + map.what,
                  [&](int r, int c) { return with(r, c, r, map.from(c)); });
    }
    for (const auto& map : index_maps(s_.m, s_.tile_m, "row")) {
      try_element("the sums are right, and what is added to them or multiplies them is of other rows: " + map.what,
                  [&](int r, int c) { return with(r, c, map.from(r), c); });
    }
  }

  /// Elements of one format that are taken for those of another.
  void formats() {
    std::span<const FormatMistake> mistakes;
    if (s_.mma_k == 16) mistakes = kFormatMistakes16;
    if (s_.mma_k == 32) mistakes = kFormatMistakes8;
    for (const FormatMistake& mistake : mistakes) {
      const auto taken = [&](std::span<const double> elements) {
        std::vector<double> all;
        for (const double element : elements) {
          const std::optional<double> value = mistake.value(element);
          if (!value) return std::vector<double>();
          all.push_back(*value);
        }
        return all;
      };
      const std::vector<double> taken_a = taken(w_.a), taken_b = taken(w_.b);
      for (const int which : {1, 2, 3}) {
        const bool of_a = (which & 1) != 0, of_b = (which & 2) != 0;
        if ((of_a && taken_a.empty()) || (of_b && taken_b.empty())) continue;
        const std::string whose = !of_b ? "A" : !of_a ? "B" : "A and B";
        try_sums("the elements of " + whose + " are " + mistake.written + ", and are read as " + mistake.read +
                     ". Which format does the instruction descriptor name?",
                 [&](int r, int c) {
                   if (r >= s_.m || c >= s_.n) return 0.0;
                   double sum = 0;
                   for (int k = 0; k < s_.k; ++k) {
                     sum += (of_a ? taken_a[size_t(r) * s_.k + k] : a(r, k)) *
                            (of_b ? taken_b[size_t(c) * s_.k + k] : b(c, k));
                   }
                   return sum;
                 });
      }
    }
  }

  void conversion() {
    const auto rounded = [](double value, int bits, auto round) {
      int exponent = 0;
      const double mantissa = std::frexp(value, &exponent);
      return std::ldexp(round(std::ldexp(mantissa, bits)), exponent - bits);
    };
    const auto cut = [](double value) { return std::trunc(value); };
    const auto nearest = [](double value) { return std::nearbyint(value); };
    try_element(
        "each element is cut off towards zero, and should be rounded to the nearest number",
        [&](int r, int c) { return rounded(right(r, c), w_.output_bits, cut); }, /*exact=*/true);
    for (const int bits : {8, 11}) {
      const char* const name = bits == 8 ? "bf16" : "f16 or tf32";
      if (bits >= w_.output_bits) continue;
      try_element(
          std::string("each element has only the bits of ") + name + ". Where is it converted on its way?",
          [&](int r, int c) { return rounded(right(r, c), bits, nearest); }, /*exact=*/true);
      try_element(
          std::string("each element has only the bits of ") + name +
              ", the others cut off. Where is it converted on its way?",
          [&](int r, int c) { return rounded(right(r, c), bits, cut); }, /*exact=*/true);
      const auto with_operands = [&](auto round, bool of_a, bool of_b, int r, int c) {
        double sum = 0;
        for (int k = 0; k < s_.k; ++k) {
          sum += (of_a ? rounded(a(r, k), bits, round) : a(r, k)) * (of_b ? rounded(b(c, k), bits, round) : b(c, k));
        }
        return sum;
      };
      for (const int which : {1, 2, 3}) {
        const bool of_a = (which & 1) != 0, of_b = (which & 2) != 0;
        const char* const whose = !of_b ? "A" : !of_a ? "B" : "A and B";
        try_sums(
            std::string("the elements of ") + whose + " have only the bits of " + name + ". Where are they converted?",
            [&](int r, int c) { return with_operands(nearest, of_a, of_b, r, c); });
        try_sums(std::string("the elements of ") + whose + " have only the bits of " + name +
                     ", the others cut off. Where are they converted?",
                 [&](int r, int c) { return with_operands(cut, of_a, of_b, r, c); });
      }
    }
  }

  // ---- How often each part along K counts ----

  /// Solves for how often each of `count` parts of the sums counts, and tries the solution.
  /// @param parts     of a sum: parts(row, column) is a vector of `count`.
  /// @param describe  the weights, in words; empty: they say nothing.
  template <typename Parts, typename Describe>
  void solve(size_t count, const Parts& parts, const Describe& describe) {
    const size_t samples = std::min(sample_.size(), 2 * count + 64);
    if (count == 0 || count > kMostWeights || samples < count + count / 2 + kLeast) return;
    std::vector<double> equations(count * (count + 1));  // normal equations, the right side last
    for (size_t at = 0; at < samples; ++at) {
      const int r = row_of(sample_[at]), c = column_of(sample_[at]);
      const auto [offset, factor] = affine(r, c);
      const double wanted = (w_.got[sample_[at]] - offset) / factor;
      const std::vector<double> x = parts(r, c);
      for (size_t i = 0; i < count; ++i) {
        for (size_t j = 0; j < count; ++j) equations[i * (count + 1) + j] += x[i] * x[j];
        equations[i * (count + 1) + count] += x[i] * wanted;
      }
    }
    std::vector<double> weights(count);
    const auto cell = [&](size_t i, size_t j) -> double& { return equations[i * (count + 1) + j]; };
    double largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, cell(i, i));
    for (size_t i = 0; i < count; ++i) cell(i, i) += 1e-12 * largest + (cell(i, i) == 0 ? 1 : 0);
    for (size_t i = 0; i < count; ++i) {  // positive definite: no pivoting
      if (cell(i, i) <= 0) return;
      for (size_t below = i + 1; below < count; ++below) {
        const double times = cell(below, i) / cell(i, i);
        for (size_t j = i; times != 0 && j <= count; ++j) cell(below, j) -= times * cell(i, j);
      }
    }
    for (size_t i = count; i-- > 0;) {
      double rest = cell(i, count);
      for (size_t j = i + 1; j < count; ++j) rest -= cell(i, j) * weights[j];
      weights[i] = rest / cell(i, i);
    }
    for (double& weight : weights) {
      if (count == 1 && std::abs(weight - std::round(weight)) > 0.02) continue;
      if (std::abs(weight - std::round(weight)) > 0.2) return;
      weight = std::round(weight);
    }
    const std::string what = describe(weights);
    if (what.empty()) return;
    try_sums(what, [&](int r, int c) {
      const std::vector<double> x = parts(r, c);
      return std::inner_product(x.begin(), x.end(), weights.begin(), 0.0);
    });
  }

  /// "slice 1 is left out, slice 2 counts 2 times", of weights other than 1.
  static std::string counts(const std::vector<double>& weights, const std::string& noun) {
    std::string text;
    std::vector<double> values(weights);
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (const double value : values) {
      if (value == 1) continue;
      std::vector<int> indices;
      for (size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] == value) indices.push_back(static_cast<int>(i));
      }
      const bool many = indices.size() > 1;
      text += (text.empty() ? "" : ", ") + noun + (many ? "s " : " ") + list_of(indices) +
              (value == 0 ? (many ? " are left out" : " is left out")
                          : (many ? " count " : " counts ") + number(static_cast<int64_t>(value)) + " times");
    }
    return text;
  }

  void weights() {
    if (!is_affine_) return;
    const int tiles = k_tiles(), tile_k = s_.tile_k, slices = tile_k / s_.mma_k;
    solve(
        1, [&](int r, int c) { return std::vector{sum_of(r, c)}; },
        [this](const std::vector<double>& weights) -> std::string {
          if (weights[0] == 1) return "";
          char text[100];
          const double factor = affine(row_of(sample_[0]), column_of(sample_[0])).second;
          std::snprintf(text, sizeof text, "every sum is multiplied by %.4g, and should be by %.4g",
                        factor * weights[0], factor);
          return text;
        });
    const auto grouped = [&](size_t count, auto group_of) {
      return [=, this](int r, int c) {
        std::vector<double> parts(count);
        for (int k = 0; k < s_.k; ++k) parts[group_of(k)] += a(r, k) * b(c, k);
        return parts;
      };
    };
    solve(tiles, grouped(tiles, [=](int k) { return k / tile_k; }),
          [&](const std::vector<double>& weights) -> std::string {
            const std::string text = counts(weights, "k-tile");
            return text.empty() ? "" : "of the k-tiles 0 to " + number(tiles - 1) + ", " + text;
          });
    if (slices > 1) {
      solve(slices, grouped(slices, [=, this](int k) { return k % tile_k / s_.mma_k; }),
            [&](const std::vector<double>& weights) -> std::string {
              const std::string text = counts(weights, "slice");
              return text.empty() ? "" : "of the slices 0 to " + number(slices - 1) + " of each k-tile, " + text;
            });
      solve(size_t(tiles) * slices, grouped(size_t(tiles) * slices, [=, this](int k) { return k / s_.mma_k; }),
            [&](const std::vector<double>& weights) -> std::string {
              const std::string text = counts(weights, "slice");
              return text.empty() ? "" : "of the slices of " + number(s_.mma_k) + " along K, " + text;
            });
    }
    solve(tile_k, grouped(tile_k, [=](int k) { return k % tile_k; }),
          [&](const std::vector<double>& weights) -> std::string {
            const std::string text = counts(weights, "column");
            return text.empty() ? "" : "of the columns 0 to " + number(tile_k - 1) + " of each tile along K, " + text;
          });
    // Parts of A that meet other parts of B.
    const auto crossed = [&](int period, int part) {
      const int count = period / part;
      return [=, this](int r, int c) {
        std::vector<double> parts(size_t(count) * count);
        for (int first = 0; first < s_.k; first += period) {
          for (int i = 0; i < count; ++i) {
            for (int j = 0; j < count; ++j) {
              for (int k = 0; k < part; ++k) {
                const int of_a = first + i * part + k, of_b = first + j * part + k;
                if (of_a < s_.k && of_b < s_.k) parts[i * count + j] += a(r, of_a) * b(c, of_b);
              }
            }
          }
        }
        return parts;
      };
    };
    const auto pairs = [](const std::string& nouns, const std::string& where, int count) {
      return [=](const std::vector<double>& weights) -> std::string {
        std::string text;
        bool right = true;
        int named = 0;
        for (int i = 0; i < count * count; ++i) {
          right &= weights[i] == (i / count == i % count ? 1 : 0);
          if (weights[i] == 0 || ++named > 8) continue;
          text += (text.empty() ? "" : ", ") + number(i / count) + " with " + number(i % count);
          if (weights[i] != 1) text += " " + number(static_cast<int64_t>(weights[i])) + " times";
        }
        if (right || named > 2 * count) return "";
        return nouns + " of A meet other " + nouns + " of B" + where + ": " + text + (named > 8 ? ", and so on" : "") +
               ". Does one operand move on along K where the other does not?";
      };
    };
    const auto cross = [&](int period, int part, const char* nouns, const char* where) {
      const int count = part == 0 ? 0 : period / part;
      if (count > 1) solve(size_t(count) * count, crossed(period, part), pairs(nouns, where, count));
    };
    cross(tile_k, s_.mma_k, "slices", " in each k-tile");
    cross(tile_k, s_.mma_k / 2, "chunks of 16 bytes", " in each k-tile");
    cross(tiles * tile_k, tile_k, "k-tiles", "");
  }

  // ---- Which elements are wrong ----

  /// What is known about elements that are no number.
  std::string nans() const {
    size_t unwritten = 0, nan = 0;
    for (const size_t i : wrong_) {
      if (std::isnan(w_.got[i])) ++(std::signbit(w_.got[i]) ? unwritten : nan);
    }
    if (unwritten == w_.got.size()) return ": no element was written";
    std::string text;
    if (unwritten > 0) text = ": to " + number(static_cast<int64_t>(unwritten)) + " of them nothing was written";
    if (nan == 0) return text;
    return text + (text.empty() ? ": " : ", and ") +
           (nan == w_.got.size() ? "all" : number(static_cast<int64_t>(nan)) + " of them") +
           " are NaN that the kernel has stored: it has computed with what nobody wrote, in tensor memory or "
           "elsewhere, or with "
           "infinities";
  }

  /// In words, which indices of a tile are wrong: "rows 8 to 15 of each 16"; empty where all are, or where there is no
  /// pattern.
  static std::string describe(const std::vector<bool>& exists, const std::vector<bool>& is_wrong,
                              const std::string& noun) {
    const int size = static_cast<int>(exists.size());
    for (int period = 1; period <= size; ++period) {
      if (size % period != 0) continue;
      std::vector<int> state(period, -1);
      bool holds = true;
      for (int i = 0; i < size && holds; ++i) {
        if (!exists[i]) continue;
        int& known = state[i % period];
        holds = known < 0 || known == is_wrong[i];
        known = is_wrong[i];
      }
      if (!holds) continue;
      std::vector<int> wrong;
      for (int i = 0; i < period; ++i) {
        if (state[i] == 1) wrong.push_back(i);
      }
      const std::string list = list_of(wrong);
      if (period == 1 || list.size() > 40) return "";
      return noun + (wrong.size() == 1 ? " " : "s ") + list +
             (period == size ? " of each tile" : " of each " + number(period));
    }
    return "";
  }

  std::string pattern() const {
    if (wrong_.size() == w_.got.size()) return "";
    const int width = tile_columns();
    std::vector<bool> rows_exist(s_.tile_m), columns_exist(width), rows(s_.tile_m), columns(width),
        tiles(size_t(down()) * across());
    for (const size_t i : wrong_) tiles[tile_at(row_of(i), column_of(i))] = true;
    size_t in_tiles = 0;
    for (size_t i = 0; i < w_.got.size(); ++i) {
      if (!tiles[tile_at(row_of(i), column_of(i))]) continue;
      rows_exist[row_of(i) % s_.tile_m] = columns_exist[column_of(i) % width] = true;
      ++in_tiles;
    }
    for (const size_t i : wrong_) rows[row_of(i) % s_.tile_m] = columns[column_of(i) % width] = true;
    size_t there = 0;
    for (size_t i = 0; i < w_.got.size(); ++i) {
      there += tiles[tile_at(row_of(i), column_of(i))] && rows[row_of(i) % s_.tile_m] && columns[column_of(i) % width];
    }
    std::vector<std::string> parts;
    const auto add = [&](std::string text) {
      if (!text.empty()) parts.push_back(std::move(text));
    };
    add(describe(rows_exist, rows, "row"));
    add(describe(columns_exist, columns, "column"));
    const size_t wrong_tiles = std::ranges::count(tiles, true);
    if (wrong_tiles <= 4 && wrong_tiles < tiles.size()) {
      std::string list;
      for (size_t tile = 0; tile < tiles.size(); ++tile) {
        if (tiles[tile]) list += (list.empty() ? "" : ", ") + name_of_tile(static_cast<int>(tile));
      }
      add("only in " + std::string(wrong_tiles == 1 ? "tile " : "tiles ") + list + " (row, column) of C");
    } else if (wrong_tiles < tiles.size()) {
      add(number(static_cast<int64_t>(wrong_tiles)) + " of " + number(std::ssize(tiles)) + " tiles of C");
    }
    const double share = static_cast<double>(wrong_.size()) / static_cast<double>(there);
    if (share < 0.9) {
      char text[60];
      std::snprintf(text, sizeof text, share < 0.01 ? "%.1g%% of the elements there" : "%.0f%% of the elements there",
                    100 * share);
      add(text);
    }
    if (parts.empty()) return "";
    std::string text = "\nwrong are: ";
    for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ", ") + parts[i];
    return text;
  }

  const WrongProduct& w_;
  const ProductShape& s_;
  int columns_;
  Guess sum_;
  std::vector<size_t> wrong_, sample_, right_;  // sample_: wrong and finite, the first ones drawn
  bool is_affine_ = false;
  std::optional<Found> best_;
  bool of_places_ = false;  // the best moves rows or columns: a descriptor that does the same is named beside it
};

}  // namespace

std::string explain_product(const WrongProduct& wrong) {
  return std::regex_replace(Search(wrong).text(), std::regex("\\bC\\b"), std::string(1, wrong.shape.result));
}

}  // namespace stagecraft::harness
