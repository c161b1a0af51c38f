// The table of settings agrees with what the emulated GPU reads and with the chips that it has, and the advice about
// nvcc is the same everywhere.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>

#include "emulator/fatbin/selection.hpp"
#include "emulator/runtime/model/settings.hpp"
#include "emulator/settings/table.hpp"

namespace stagecraft::emulator::runtime {
namespace {

const std::filesystem::path kRoot = STAGECRAFT_SOURCE_ROOT;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// The first group of each match.
std::set<std::string> matches(const std::string& text, const char* expression) {
  const std::regex pattern(expression);
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

std::map<std::string, std::string> environment;

/// What is said about one value of one variable; empty when it is legal.
std::string error_of(const settings::Row& row, const std::string& value) {
  environment = {{row.name, value}};
  try {
    read_settings([](const char* name) -> const char* {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    });
    return {};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

std::string refusal(const settings::Row& row, const std::string& value) {
  return fmt::format("{} is \"{}\", but must be {}", row.name, value, row.must_be);
}

TEST(EnvironmentTest, NoVariableIsReadBesideTheTable) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot / "common" / "emulator")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
    EXPECT_EQ(matches(text_of(entry.path()), R"re("(STAGECRAFT_[A-Z_]+)")re"), std::set<std::string>{}) << entry.path();
  }
}

TEST(EnvironmentTest, StandardsAreLegal) {
  for (const settings::Row& row : settings::kRows) EXPECT_EQ(error_of(row, std::string(row.standard)), "") << row.name;
}

TEST(EnvironmentTest, TheWordsOfTheTableAreLegalAndNoOthers) {
  for (const settings::Row& row : settings::kRows) {
    if (row.words.empty()) continue;
    for (const std::string& word : matches(std::string(row.words), R"((\w+))")) {
      EXPECT_EQ(error_of(row, word), "") << row.name;
      EXPECT_EQ(error_of(row, word + "x"), refusal(row, word + "x"));
    }
  }
}

TEST(EnvironmentTest, NumbersHaveTheRangeOfTheTable) {
  for (const settings::Row& row : settings::kRows) {
    if (row.most == 0) continue;
    for (const uint64_t legal : {row.least, row.most}) EXPECT_EQ(error_of(row, std::to_string(legal)), "") << row.name;
    if (row.least > 0) {
      EXPECT_EQ(error_of(row, std::to_string(row.least - 1)), refusal(row, std::to_string(row.least - 1)));
    }
    const std::string more = row.most == UINT64_MAX ? "18446744073709551616" : std::to_string(row.most + 1);
    EXPECT_EQ(error_of(row, more), refusal(row, more));
  }
}

TEST(EnvironmentTest, TheTableHasEachChip) {
  EXPECT_EQ(settings::row(settings::Setting::device).words,
            fmt::format("{}", fmt::join(machine::architecture_names(), "|")));
}

TEST(EnvironmentTest, TheCommandAdvisesTheGencodeThatTheRuntimeAdvises) {
  const std::set<std::string> advised = {fatbin::gencode_option(machine::b200())};
  EXPECT_EQ(matches(text_of(kRoot / "common" / "tools" / "run_program.py"), R"re((-gencode "[^"]*"))re"), advised);
  EXPECT_EQ(matches(text_of(kRoot / "docs" / "emulator.md"), R"re((-gencode "[^"]*"))re"), advised);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
