#include "emulator/ptx/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace stagecraft::emulator::ptx {
namespace {

std::string sentence(const std::string& message, TextPosition position, const std::string& legal) {
  std::string text;
  if (position.line != 0) text = fmt::format("line {}, column {}: ", position.line, position.column);
  text += message;
  if (!legal.empty()) text += fmt::format("; legal here: {}", legal);
  return text;
}

/// Levenshtein distance: how many characters to insert, delete or replace.
size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

Error::Error(std::string message, TextPosition position, std::string legal)
    : std::runtime_error(""),
      text_(sentence(message, position, legal)),
      message_(std::move(message)),
      legal_(std::move(legal)),
      position_(position) {}

void Error::add_source(const std::string& line) {
  if (!line.empty()) text_ = fmt::format("{}, in the PTX {}", line, text_);
}

std::string_view closest_name(std::string_view name, const std::vector<std::string_view>& candidates) {
  // Only the beginnings of long mangled names are compared, and only some of them: a message must not take seconds.
  constexpr size_t kLongest = 200;
  constexpr size_t kMost = 2000;
  if (name.size() > kLongest) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (size_t i = 0; i < std::min(kMost, candidates.size()); ++i) {
    const std::string_view candidate = candidates[i];
    const size_t longer = std::max(candidate.size(), name.size());
    const size_t shorter = std::min(candidate.size(), name.size());
    if (candidate.size() > kLongest || longer - shorter >= best_distance) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace stagecraft::emulator::ptx
