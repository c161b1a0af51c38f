// What is said about environment variables agrees with what the emulated GPU reads: in its code, in docs/emulator.md
// and in `./stagecraft run`.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "emulator/fatbin/selection.hpp"
#include "emulator/runtime/model/settings.hpp"

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
  const std::regex pattern(expression, std::regex::ECMAScript | std::regex::multiline);
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

std::set<std::string> known_names(bool settings_only = false) {
  std::set<std::string> names;
  for (const EnvironmentVariable& variable : environment_variables()) {
    if (variable.is_setting || !settings_only) names.insert(variable.name);
  }
  return names;
}

/// "STAGECRAFT_REPORT_FILE" to "report-file".
std::string option_of(std::string name) {
  name.erase(0, std::string("STAGECRAFT_").size());
  for (char& letter : name) letter = letter == '_' ? '-' : static_cast<char>(std::tolower(letter));
  return name;
}

std::set<std::string> known_options() {
  std::set<std::string> options;
  for (const std::string& name : known_names(/*settings_only=*/true)) options.insert(option_of(name));
  return options;
}

/// The words among the legal values, such as b200 and h200; empty where a value is a number or a name.
std::set<std::string> words_of(const std::string& legal) {
  if (legal.find("number") != std::string::npos || legal.find("name of a file in") != std::string::npos) return {};
  const std::set<std::string> grammar = {"or",   "a",    "list", "of", "the", "name",
                                         "file", "that", "ends", "in", "svg", "txt"};
  std::set<std::string> words;
  for (const std::string& word : matches(legal, R"((\w+))")) {
    if (!grammar.contains(word)) words.insert(word);
  }
  return words;
}

std::string usage_of_run() {
  const std::string command = text_of(kRoot / "stagecraft");
  const size_t begin = command.find("run_usage() {");
  return begin == std::string::npos ? "" : command.substr(begin, command.find("\n}\n", begin) - begin);
}

TEST(EnvironmentTest, TheListHasEveryVariableThatTheEmulatorReads) {
  std::set<std::string> read;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot / "common" / "emulator")) {
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".hpp") {
      read.merge(matches(text_of(entry.path()), R"re("(STAGECRAFT_[A-Z_]+)")re"));
    }
  }
  EXPECT_EQ(read, known_names());
}

TEST(EnvironmentTest, TheDocumentationDescribesEachVariable) {
  const std::string page = text_of(kRoot / "docs" / "emulator.md");
  EXPECT_EQ(matches(page, R"re(^\| `(STAGECRAFT_[A-Z_]+)` \|)re"), known_names());
  for (const EnvironmentVariable& variable : environment_variables()) {
    const std::string row = page.substr(std::min(page.find(fmt::format("| `{}` |", variable.name)), page.size()));
    const std::string description = row.substr(0, row.find('\n'));
    for (const std::string& word : words_of(variable.legal)) {
      EXPECT_TRUE(std::regex_search(description, std::regex("\\b" + word + "\\b"))) << variable.name << ": " << word;
    }
  }
}

TEST(EnvironmentTest, TheCommandHasAnOptionForEachVariable) {
  const std::string usage = usage_of_run();
  ASSERT_NE(usage, "");
  EXPECT_EQ(matches(usage, R"(^  --([a-z-]+)\b)"), known_options());
  const std::string command = text_of(kRoot / "stagecraft");
  const size_t begin = command.find("\nrun_program() {");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(matches(command.substr(begin), R"(^ +--([a-z-]+)\) )"), known_options());
}

TEST(EnvironmentTest, TheCommandNamesTheLegalWords) {
  const std::string usage = usage_of_run();
  for (const EnvironmentVariable& variable : environment_variables()) {
    if (!variable.is_setting) continue;
    const std::string option = "\n  --" + option_of(variable.name);
    const size_t begin = std::min(usage.find(option + " "), usage.find(option + "["));  // its value may be left out
    ASSERT_NE(begin, std::string::npos) << variable.name;
    const std::string description = usage.substr(begin, usage.find("\n  --", begin + 1) - begin);
    for (const std::string& word : words_of(variable.legal)) {
      EXPECT_TRUE(std::regex_search(description, std::regex("\\b" + word + "\\b"))) << variable.name << ": " << word;
    }
  }
}

TEST(EnvironmentTest, TheCommandAdvisesTheGencodeThatTheRuntimeAdvises) {
  const std::set<std::string> advised = {fatbin::gencode_option(machine::b200())};
  EXPECT_EQ(matches(text_of(kRoot / "stagecraft"), R"re((-gencode "[^"]*"))re"), advised);
  EXPECT_EQ(matches(text_of(kRoot / "docs" / "emulator.md"), R"re((-gencode "[^"]*"))re"), advised);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
