// The main function of every chapter's test. It stops at the first failure and prints little, so that the report of the
// emulated GPU stands out. When the exercise still has TODOs, it says that a failure is expected, and where the TODOs
// are.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "answer.hpp"

namespace {

/// TODOs from one number to another.
struct Todos {
  int first, last;

  bool has(int number) const { return first <= number && number <= last; }
};

/// The TODOs that a test is about, by its name: those of Todo2To5RowsGoAround are 2 to 5.
std::optional<Todos> todos_of(std::string_view test) {
  static const std::regex pattern(R"(Todo(\d+)(?:(?:And|To)(\d+))?.*)");
  std::cmatch match;
  if (!std::regex_match(test.data(), test.data() + test.size(), match, pattern)) return std::nullopt;
  const int first = std::stoi(match[1]);
  return Todos{first, match[2].matched ? std::stoi(match[2]) : first};
}

/// What the tests of this run say about TODOs.
struct Outcome {
  Todos failed{0, INT_MAX};   ///< of the first test that failed; all, where its name has none
  std::vector<Todos> passed;  ///< of those that passed

  /// Whether there were tests of a TODO, and all of them have passed.
  bool has_passed(int number) const {
    return !failed.has(number) &&
           std::any_of(passed.begin(), passed.end(), [=](const Todos& todos) { return todos.has(number); });
  }
};

Outcome outcome() {
  Outcome found;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int suite = 0; suite < all.total_test_suite_count(); ++suite) {
    for (int i = 0; i < all.GetTestSuite(suite)->total_test_count(); ++i) {
      const testing::TestInfo& test = *all.GetTestSuite(suite)->GetTestInfo(i);
      if (!test.should_run()) continue;
      const auto todos = todos_of(test.name());
      if (todos && test.result()->Failed()) found.failed = *todos;
      if (todos && test.result()->Passed()) found.passed.push_back(*todos);
    }
  }
  return found;
}

/// Every TODO of the answer's files, with its number and its place.
std::multimap<int, std::string> open_todos() {
  static const std::regex pattern(R"(TODO (\d+): .*)"), continuation(R"(\s*//( (?!TODO \d).*))");
  std::multimap<int, std::string> todos;
  std::istringstream files(stagecraft::chapters::kAnswerFiles);
  for (std::string file; files >> file;) {
    std::ifstream text(std::string(stagecraft::chapters::kSourceRoot) + "/" + file);
    if (!text) std::cout << "\n" << file << " is not here, so its TODOs are not known.\n";
    int number = 0;
    auto todo = todos.end();  // the one whose comment goes on
    for (std::string line; std::getline(text, line);) {
      ++number;
      std::smatch match;
      if (std::regex_search(line, match, pattern)) {
        todo = todos.emplace(std::stoi(match[1]), file + ":" + std::to_string(number) + ": " + match.str());
      } else if (todo != todos.end() && std::regex_match(line, match, continuation)) {
        todo->second += match[1];
      } else {
        todo = todos.end();
      }
    }
  }
  return todos;
}

/// Says what the first failure is about, a TODO that is open or code that was written, and what to do next.
void advise() {
  const std::multimap<int, std::string> todos = open_todos();
  const Outcome tests = outcome();
  const std::string number = std::string(stagecraft::chapters::kChapter, 2);
  const std::string again = "./stagecraft test " + number;
  const bool is_expected =
      std::any_of(todos.begin(), todos.end(), [&](const auto& todo) { return tests.failed.has(todo.first); });
  if (is_expected) {
    std::cout << "\nThis is expected: the exercise is not solved yet. Still open:\n";
  } else if (!todos.empty()) {
    std::cout << "\nThis is about your code for TODO " << tests.failed.first << ". Still open:\n";
  }
  for (const auto& [_, todo] : todos) std::cout << "  " << todo << "\n";
  for (auto todo = todos.begin(); todo != todos.end(); todo = todos.upper_bound(todo->first)) {
    if (!tests.has_passed(todo->first)) continue;
    std::cout << "The tests of TODO " << todo->first << " pass. Where you have solved it, delete its comment.\n";
  }
  if (is_expected) {
    std::cout << "Do the first of them, delete its TODO comment (this list is made from those comments), and run "
              << again << " again.\nThe lesson, with a hint for each, is chapters/" << stagecraft::chapters::kChapter
              << "/README.md.\n";
  } else {
    if (todos.empty()) std::cout << "\nNo TODO is left, so this is about your code. ";
    std::cout << "\"What goes wrong\" in chapters/" << stagecraft::chapters::kChapter
              << "/README.md shows what the usual mistakes look like. Then " << again << " again.\n";
  }
}

/// Prints the failure of an assertion in the words of the test. GoogleTest's five lines about two values become one.
void print_failure(const testing::TestPartResult& result) {
  static const std::regex equal(
      R"(Expected equality of these values:\n  (.*)\n(?:    Which is: (.*)\n)?  (.*)(?:\n    Which is: (.*))?)");
  static const std::regex near(
      R"(The difference .*, where\n(.*) evaluates to (.*),\n(.*) evaluates to (.*), and\n.* evaluates to (.*)\.)");
  static const std::regex trace(R"(\n(?:Google Test trace:\n)?\.\./tests/\S+:\d+: )");
  std::string message = result.message();
  // An assertion around a helper repeats that one in the helper has failed.
  if (message.find("doesn't generate new fatal failures") != std::string::npos) return;
  std::smatch match;
  const auto first_match = std::regex_constants::match_continuous;
  if (std::regex_search(message, match, equal, first_match) || std::regex_search(message, match, near, first_match)) {
    const bool is_near = match.size() > 5;
    std::string line = match[2].matched ? match.str(1) + " is " + match.str(2) : match.str(1);
    // Results are poisoned with bits that are a negative NaN; one that a kernel computes is positive.
    if (match.str(2).find("-nan") != std::string::npos) {
      line += ", which memory holds before anybody writes,";
    } else if (match.str(2).find("nan") != std::string::npos) {
      line += ", which the kernel has computed,";
    }
    line += " and should be " + match.str(match[4].matched ? 4 : 3);
    if (is_near) line += ", with an error of " + match.str(5) + " at most";
    message = line + match.suffix().str();
  } else if (message.rfind("Failed\n", 0) == 0) {
    message.erase(0, message.find('\n') + 1);
  }
  message = std::regex_replace(message, trace, "\n");
  std::string file = result.file_name() == nullptr ? "" : result.file_name();
  if (file.rfind("../", 0) == 0) file.erase(0, 3);  // Meson's path, from the build folder
  std::cout << file << ":" << result.line_number() << ": " << message << std::endl;
}

/// Prints as GoogleTest does, less what a learner need not read: the tests after the first failure, which are skipped,
/// and the summary. An exception of the harness is printed in its own words.
class ShortPrinter : public testing::EmptyTestEventListener {
 public:
  /// @param printer  GoogleTest's own.
  explicit ShortPrinter(testing::TestEventListener* printer) : printer_(printer) {}

  void OnTestIterationStart(const testing::UnitTest& all, int iteration) override {
    printer_->OnTestIterationStart(all, iteration);
  }

  void OnTestStart(const testing::TestInfo& test) override {
    if (!has_failed_) printer_->OnTestStart(test);
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (has_failed_ && result.skipped()) return;
    static constexpr std::string_view kException = "C++ exception with description \"";
    std::string_view message = result.message();
    if (!result.failed()) return printer_->OnTestPartResult(result);
    if (message.substr(0, kException.size()) != kException) return print_failure(result);
    message.remove_prefix(kException.size());
    message = message.substr(0, message.rfind('"'));
    std::cout << message << "\n";
    if (message.substr(0, 14) == "cannot finish ") {
      std::cout
          << "The kernel was stopped. On the emulated GPU, the report that begins with \"stagecraft:\" says where "
             "and why.\n";
    }
    std::cout.flush();
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    if (!has_failed_) printer_->OnTestEnd(test);
    has_failed_ = has_failed_ || test.result()->Failed();
  }

 private:
  std::unique_ptr<testing::TestEventListener> printer_;
  bool has_failed_ = false;
};

/// The last line, as that of `./stagecraft test`. After a failure the rest is skipped: it builds on what failed.
void print_count() {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (all.failed_test_count() > 0 && all.skipped_test_count() > 0) {
    std::cout << "The tests after the one that failed were skipped.\n";
  }
  std::cout << all.successful_test_count() << " passed, " << all.failed_test_count() << " failed";
  if (all.skipped_test_count() > 0) std::cout << ", " << all.skipped_test_count() << " skipped";
  std::cout << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // One failure at a time: the tests of a chapter go from simple to complete, and a kernel that was stopped leaves the
  // device unusable for those after it.
  GTEST_FLAG_SET(fail_fast, true);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  listeners.Append(new ShortPrinter(listeners.Release(listeners.default_result_printer())));
  const int status = RUN_ALL_TESTS();
  if (status == 0) {
    print_count();
    return 0;
  }
  advise();
  print_count();
  return status;
}
