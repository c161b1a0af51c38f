#include "harness/options.hpp"

#include <gtest/gtest.h>

#include <string>

namespace stagecraft::harness {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_number("M", text, 1, 1000);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ParseNumberTest, AcceptsBothEnds) {
  EXPECT_EQ(parse_number("M", "1", 1, 1000), 1u);
  EXPECT_EQ(parse_number("M", "1000", 1, 1000), 1000u);
  EXPECT_EQ(parse_number("--seed", "18446744073709551615", 0, UINT64_MAX), UINT64_MAX);
}

TEST(ParseNumberTest, SaysWhatIsLegal) {
  EXPECT_EQ(refusal("0"), "M = 0 is too small. Legal are 1 to 1000.");
  EXPECT_EQ(refusal("-7"), "M = -7 is too small. Legal are 1 to 1000.");
  EXPECT_EQ(refusal("1001"), "M = 1001 is too large. Legal are 1 to 1000.");
  EXPECT_EQ(refusal("99999999999999999999999"), "M = 99999999999999999999999 is too large. Legal are 1 to 1000.");
}

TEST(ParseNumberTest, RefusesWhatIsNoNumber) {
  for (const char* text : {"", "-", "abc", "1.5", "12x", " 3", "0x10", "+5"}) {
    EXPECT_EQ(refusal(text), "M = \"" + std::string(text) + "\" is not a whole number. Legal are 1 to 1000.") << text;
  }
}

}  // namespace
}  // namespace stagecraft::harness
