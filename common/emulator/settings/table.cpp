#include "emulator/settings/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace stagecraft::emulator::settings {

void illegal(Setting setting, std::string_view value) {
  throw std::invalid_argument(
      fmt::format("{} is \"{}\", but must be {}", row(setting).name, value, row(setting).must_be));
}

void check_word(Setting setting, std::string_view value) {
  for (std::string_view rest = row(setting).words; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find('|'));
    if (value == word) return;
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  illegal(setting, value);
}

std::string_view value_of(Setting setting, const char* (*get_variable)(const char* name)) {
  const char* const value = get_variable(row(setting).name);
  return value == nullptr || *value == '\0' ? row(setting).standard : value;
}

std::string_view word_of(Setting setting) {
  const std::string_view value = value_of(setting, [](const char* name) -> const char* { return std::getenv(name); });
  try {
    if (!value.empty()) check_word(setting, value);
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "stagecraft: {}\n", error.what());
    std::exit(1);
  }
  return value;
}

}  // namespace stagecraft::emulator::settings
