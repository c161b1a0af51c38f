// Numbers on the command line, and what is wrong with them in words.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace stagecraft::harness {

/// The parts of a list with commas: "5," has two, the second of which is empty. An empty text has none.
inline std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Reads a whole number from `minimum` to `maximum`.
/// @param name  how the reader knows it: "M" or "--seed".
/// @throws std::invalid_argument  saying what is legal.
inline uint64_t parse_number(const std::string& name, const std::string& text, uint64_t minimum, uint64_t maximum) {
  const std::string legal = " Legal are " + std::to_string(minimum) + " to " + std::to_string(maximum) + ".";
  const char* begin = text.data();
  const char* end = begin + text.size();
  const bool negative = begin != end && *begin == '-';
  uint64_t value = 0;
  const auto [rest, error] = std::from_chars(begin + (negative ? 1 : 0), end, value);
  if (rest != end || error == std::errc::invalid_argument) {
    throw std::invalid_argument(name + " = \"" + text + "\" is not a whole number." + legal);
  }
  if (negative || error == std::errc::result_out_of_range || value < minimum || value > maximum) {
    const bool small = negative || (error == std::errc() && value < minimum);
    throw std::invalid_argument(name + " = " + text + " is too " + (small ? "small." : "large.") + legal);
  }
  return value;
}

}  // namespace stagecraft::harness
