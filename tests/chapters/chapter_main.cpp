// The main function of every chapter's test. When a test fails and the exercise still has TODOs, it says that this is
// expected, and where they are.
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <regex>
#include <string>

#include "answer.hpp"

namespace {

/// Prints every line of the answer's files that has a TODO. Returns how many there are.
int list_open_todos() {
  static const std::regex todo(R"((TODO \d+: .*))");
  int found = 0;
  for (const std::string& file : stagecraft::chapters::answer_files()) {
    std::ifstream text(stagecraft::chapters::source_root() + "/" + file);
    int number = 0;
    for (std::string line; std::getline(text, line);) {
      ++number;
      std::smatch match;
      if (!std::regex_search(line, match, todo)) continue;
      if (found++ == 0) std::cout << "\nThis is expected: the exercise is not solved yet. Open is\n";
      std::cout << "  " << file << ":" << number << ": " << match[1] << "\n";
    }
  }
  return found;
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
