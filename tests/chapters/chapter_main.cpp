// The main function of every chapter's test. When a test fails and the exercise still has TODOs, it says that this is
// expected, and where they are.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <string>

#include "answer.hpp"

namespace {

/// Prints every line of the answer's files that has a TODO, by their numbers. Returns how many there are.
size_t list_open_todos() {
  static const std::regex pattern(R"(TODO (\d+): .*)");
  std::multimap<int, std::string> todos;
  for (const std::string& file : stagecraft::chapters::answer_files()) {
    std::ifstream text(stagecraft::chapters::source_root() + "/" + file);
    if (!text) std::cout << "\n" << file << " is not here, so its TODOs are not known.\n";
    int number = 0;
    for (std::string line; std::getline(text, line);) {
      ++number;
      std::smatch match;
      if (!std::regex_search(line, match, pattern)) continue;
      todos.emplace(std::stoi(match[1]), file + ":" + std::to_string(number) + ": " + match.str());
    }
  }
  if (!todos.empty()) std::cout << "\nThis is expected: the exercise is not solved yet. Open is\n";
  for (const auto& [number, todo] : todos) std::cout << "  " << todo << "\n";
  return todos.size();
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // One failure at a time: the tests of a chapter go from simple to complete, and a kernel that was stopped leaves the
  // device unusable for those after it.
  GTEST_FLAG_SET(fail_fast, true);
  const int status = RUN_ALL_TESTS();
  if (status == 0) return 0;
  const std::string again = "./stagecraft test " + stagecraft::chapters::chapter_number();
  if (list_open_todos() > 0) {
    std::cout << "Do the first of them, take its TODO comment away, and run " << again
              << " again.\nThe lesson is chapters/" << stagecraft::chapters::chapter() << "/README.md.\n";
  } else {
    std::cout << "\nNo TODO is left, so this is about your code: the report above, if there is one, begins with "
                 "\"stagecraft:\".\nThe lesson's \"What goes wrong\" shows what the usual mistakes look like. Then "
              << again << " again.\n";
  }
  std::cout.flush();
  return status;
}
