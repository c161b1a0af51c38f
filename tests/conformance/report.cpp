#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>

namespace stagecraft::conformance {
namespace {

constexpr size_t kPerLine = 8;
constexpr size_t kPerChecksum = 32;
constexpr size_t kDifferencesShown = 20;

const unsigned char* element(const void* values, size_t index, size_t size) {
  return static_cast<const unsigned char*>(values) + index * size;
}

/// Most significant digit first, as the value would be written in a program.
std::string hexadecimal(const unsigned char* value, size_t size) {
  std::string text;
  for (size_t i = size; i-- > 0;) text += fmt::format("{:02x}", value[i]);
  return text;
}

/// FNV-1a.
uint32_t checksum(const unsigned char* data, size_t size) {
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < size; ++i) sum = (sum ^ data[i]) * 16777619u;
  return sum;
}

int compare(const std::vector<std::string>& lines, const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    fmt::print("cannot open {}\n", path);
    return 1;
  }
  std::vector<std::string> expected;
  for (std::string text; std::getline(file, text);) {
    if (!text.starts_with('#')) expected.push_back(text);  // '#': when and where it was recorded
  }
  size_t differences = 0;
  std::string section;
  for (size_t i = 0; i < std::max(lines.size(), expected.size()); ++i) {
    const std::string here = i < lines.size() ? lines[i] : "(nothing)";
    const std::string there = i < expected.size() ? expected[i] : "(nothing)";
    if (here[0] != ' ') section = here;
    if (here == there) continue;
    if (++differences <= kDifferencesShown) fmt::print("{}\n  expected {}\n  got      {}\n", section, there, here);
  }
  if (differences == 0) return 0;
  fmt::print("{} of {} lines differ from {}\n", differences, lines.size(), path);
  return 1;
}

}  // namespace

void Report::section(const std::string& name, const void* values, size_t count, size_t size) {
  lines_.push_back(fmt::format("{}: {} values of {} bytes", name, count, size));
  const size_t shown = all_values_ ? count : std::min(count, kPerChecksum);
  for (size_t i = 0; i < shown; ++i) {
    if (i % kPerLine == 0) lines_.push_back(" ");
    lines_.back() += ' ';
    lines_.back() += hexadecimal(element(values, i, size), size);
  }
  if (count == shown) return;
  for (size_t i = 0; i < count; i += kPerChecksum) {
    if (i / kPerChecksum % kPerLine == 0) lines_.push_back("  sums");
    const size_t group = std::min(kPerChecksum, count - i);
    lines_.back() += fmt::format(" {:08x}", checksum(element(values, i, size), group * size));
  }
}

int run(int argc, char** argv, const std::function<void(Report&)>& sections) {
  uint64_t seed = 1;
  std::string expected;
  bool all_values = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const bool has_value = i + 1 < argc;
    if (option == "--seed" && has_value) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--compare" && has_value) {
      expected = argv[++i];
    } else if (option == "--all") {
      all_values = true;
    } else {
      fmt::print(stderr, "usage: {} [--seed NUMBER] [--compare FILE] [--all]\n", argv[0]);
      return 2;
    }
  }
  try {
    Report report(seed, all_values);
    sections(report);
    if (!expected.empty()) return compare(report.lines(), expected);
    for (const std::string& text : report.lines()) fmt::print("{}\n", text);
    return 0;
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}

}  // namespace stagecraft::conformance
