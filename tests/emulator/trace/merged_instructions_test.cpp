#include "emulator/trace/merged_instructions.hpp"

#include <string>
#include <vector>

#include "emulator/machine/instruction_set.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/parser.hpp"

namespace stagecraft::emulator::trace {
namespace {

class MergedInstructionsTest : public ::testing::Test {
 protected:
  /// The numbers of the instructions that are merged, with a store of %r9, %rd9 or %p9 after them where it is named.
  static std::vector<uint32_t> merged(const std::string& body) {
    const ptx::Module module = ptx::parse(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
        ".reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n.reg .pred %p<10>;\n" +
        body + "\n}");
    std::vector<uint32_t> numbers;
    const ptx::Function& function = module.functions.back();
    const std::vector<bool> is_merged = merged_instructions(function, machine::instruction_set().traits_of(function));
    for (uint32_t i = 0; i < is_merged.size(); ++i) {
      if (is_merged[i]) numbers.push_back(i);
    }
    return numbers;
  }
  using Numbers = std::vector<uint32_t>;
};

TEST_F(MergedInstructionsTest, HalvesOfARegisterPairCostNothing) {
  EXPECT_EQ(merged("shr.u64 %rd1, %rd0, 32; and.b64 %rd2, %rd0, 4294967295; shl.b64 %rd3, %rd0, 32;"),
            (Numbers{0, 1, 2}));
  EXPECT_EQ(merged("shr.u64 %rd1, %rd0, 31; and.b64 %rd2, %rd0, 65535; shr.s64 %rd3, %rd0, 32;"), Numbers{});
}

TEST_F(MergedInstructionsTest, LogicOfThreeOperandsIsOneInstruction) {
  EXPECT_EQ(merged("xor.b32 %r3, %r0, %r1; xor.b32 %r4, %r3, %r2; st.global.b32 [%rd0], %r4;"), Numbers{0});
  // It takes two for five operands.
  EXPECT_EQ(merged("xor.b32 %r5, %r0, %r1; and.b32 %r6, %r5, %r2; or.b32 %r7, %r6, %r3; or.b32 %r8, %r7, %r4;"),
            (Numbers{0, 2}));
  // It takes one number, not two.
  EXPECT_EQ(merged("and.b32 %r3, %r0, 15; or.b32 %r4, %r3, 32;"), Numbers{});
}

TEST_F(MergedInstructionsTest, SumsOfThreeAndShiftedOperandsAreOneInstruction) {
  EXPECT_EQ(merged("add.s32 %r3, %r0, %r1; sub.s32 %r4, %r3, %r2;"), Numbers{0});
  EXPECT_EQ(merged("shl.b32 %r3, %r0, 2; add.s32 %r4, %r3, %r2;"), Numbers{0});
  EXPECT_EQ(merged("shl.b64 %rd3, %rd0, 2; add.s64 %rd4, %rd1, %rd3;"), Numbers{0});
  EXPECT_EQ(merged("add.s32 %r3, %r0, %r1; min.s32 %r4, %r3, %r2;"), Numbers{0});
  EXPECT_EQ(merged("add.s64 %rd3, %rd0, %rd1; add.s64 %rd4, %rd3, %rd2;"), Numbers{});
}

TEST_F(MergedInstructionsTest, AnAddressIsTheProductsSum) {
  EXPECT_EQ(merged("mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1; ld.global.b32 %r1, [%rd2];"), Numbers{1});
}

TEST_F(MergedInstructionsTest, ComparisonsCombineTheirPredicates) {
  EXPECT_EQ(merged("setp.lt.s32 %p0, %r0, 4; setp.gt.s32 %p1, %r1, 0; and.pred %p2, %p0, %p1; @%p2 exit; ret;"),
            Numbers{2});
}

TEST_F(MergedInstructionsTest, WhatIsUsedTwiceOrInALoopStaysAnInstruction) {
  EXPECT_EQ(merged("xor.b32 %r3, %r0, %r1; xor.b32 %r4, %r3, %r2; st.global.b32 [%rd0], %r3;"), Numbers{});
  EXPECT_EQ(merged("xor.b32 %r3, %r0, %r1; L: xor.b32 %r4, %r3, %r4; bra L;"), Numbers{});
  EXPECT_EQ(merged("{ xor.b32 %r3, %r0, %r1; L: xor.b32 %r4, %r3, %r4; bra L; }"), Numbers{});
  EXPECT_EQ(merged("@%p0 xor.b32 %r3, %r0, %r1; xor.b32 %r4, %r3, %r2;"), Numbers{});
}

}  // namespace
}  // namespace stagecraft::emulator::trace
