#include "harness/unwritten.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace stagecraft::harness {
namespace {

TEST(UnwrittenTest, TellsWhatNobodyWroteFromWhatWasComputedFromIt) {
  EXPECT_STREQ(spell_unwritten(0), "");
  EXPECT_STREQ(spell_unwritten(std::numeric_limits<float>::infinity()), "");
  const std::string poisoned = spell_unwritten(std::bit_cast<float>(0xffffffffu));
  EXPECT_NE(poisoned.find("nothing has been written here"), std::string::npos) << poisoned;
  const std::string computed = spell_unwritten(std::bit_cast<float>(0x7fffffffu));
  EXPECT_NE(computed.find("with memory that nobody wrote"), std::string::npos) << computed;
}

}  // namespace
}  // namespace stagecraft::harness
