// Tests of no kernel, for advice_test.py: which one fails, and which files are the answer's, is in the environment.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "answer.hpp"

namespace stagecraft::chapters {

const char* const kSourceRoot = std::getenv("ADVICE_ROOT");
const char* const kChapter = "07_sample";
const char* const kAnswerFiles = "answer.cu";

}  // namespace stagecraft::chapters

namespace {

void fail_if_asked(const char* test) {
  const char* const failing = std::getenv("ADVICE_FAILS");
  if (failing != nullptr && std::string(failing) == test) FAIL() << "as asked";
}

TEST(Chapter07, Todo1First) { fail_if_asked("1"); }
TEST(Chapter07, Todo2To3Second) { fail_if_asked("2"); }
TEST(Chapter07, WithoutANumber) { fail_if_asked("none"); }
TEST(Chapter07, Todo4Last) { fail_if_asked("4"); }

}  // namespace
