#include "emulator/ptx/modifiers.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace stagecraft::emulator::ptx {
namespace {

Instruction instruction(std::string opcode, std::vector<std::string> modifiers) {
  Instruction instruction;
  instruction.opcode = std::move(opcode);
  instruction.modifiers = std::move(modifiers);
  instruction.position = {12, 3};
  return instruction;
}

std::string failure(const std::function<void()>& action) {
  try {
    action();
  } catch (const UnsupportedInstruction& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(ModifiersTest, TakesModifiersInAnyOrder) {
  const Instruction load = instruction("ld", {"v2", "global", "volatile", "u32"});
  Modifiers modifiers(load);
  EXPECT_TRUE(modifiers.take("volatile"));
  EXPECT_FALSE(modifiers.take("volatile"));
  EXPECT_TRUE(modifiers.has("v2"));
  EXPECT_EQ(modifiers.take_one_of({"shared", "global"}), "global");
  EXPECT_EQ(modifiers.take_one_of({"v2", "v4"}), "v2");
  EXPECT_EQ(modifiers.take_type(), Type::u32);
  EXPECT_EQ(modifiers.take_type(), std::nullopt);
  EXPECT_NO_THROW(modifiers.finish());
}

TEST(ModifiersTest, TakesTwoOfAKindInTheOrderOfTheText) {
  const Instruction convert = instruction("cvt", {"rn", "f16", "f32"});
  Modifiers modifiers(convert);
  EXPECT_EQ(modifiers.take_type(), Type::f16);
  EXPECT_EQ(modifiers.take_type(), Type::f32);
  const Instruction copy = instruction("cp", {"async", "bulk", "shared::cluster", "shared::cta"});
  Modifiers spaces(copy);
  EXPECT_EQ(spaces.take_one_of({"shared::cta", "shared::cluster"}), "shared::cluster");
  EXPECT_EQ(spaces.take_one_of({"shared::cta", "shared::cluster"}), "shared::cta");
}

TEST(ModifiersTest, RefusesWhatNobodyTook) {
  const Instruction multiply = instruction("mul", {"weird", "s32"});
  Modifiers modifiers(multiply);
  modifiers.take("lo");
  modifiers.take("wide");
  modifiers.take_type();
  EXPECT_EQ(failure([&] { modifiers.finish(); }),
            "line 12, column 3: `mul.weird.s32`: modifier `.weird` is not implemented; legal here: .lo, .wide");
}

TEST(ModifiersTest, NamesTheTypesThatAreLegal) {
  const Instruction add = instruction("add", {"f64"});
  Modifiers modifiers(add);
  EXPECT_EQ(failure([&] {
              modifiers.require_type({Type::s32, Type::u32});
            }),
            "line 12, column 3: `add.f64`: type `.f64` is not implemented; legal here: .s32, .u32");
  const Instruction bare = instruction("add", {});
  EXPECT_EQ(failure([&] { Modifiers(bare).require_type({Type::s32}); }),
            "line 12, column 3: `add`: a type is missing; legal here: .s32");
}

TEST(ModifiersTest, RequiresWhatMustBeThere) {
  const Instruction vote = instruction("vote", {"all", "pred"});
  Modifiers modifiers(vote);
  EXPECT_EQ(modifiers.require_one_of({"any", "all"}), "all");
  EXPECT_EQ(failure([&] { modifiers.require("sync"); }),
            "line 12, column 3: `vote.all.pred`: modifier `.pred` is not implemented; legal here: .sync");
  modifiers.take_type();
  EXPECT_EQ(failure([&] { modifiers.require("sync"); }),
            "line 12, column 3: `vote.all.pred`: modifier `.sync` is missing");
  EXPECT_EQ(failure([&] { modifiers.require_one_of({"b32"}); }),
            "line 12, column 3: `vote.all.pred`: a modifier is missing; legal here: .b32");
}

TEST(ModifiersTest, RefusesMoreModifiersThanItCanTellApart) {
  const Instruction endless = instruction("x", std::vector<std::string>(65, "y"));
  EXPECT_NE(failure([&] { Modifiers{endless}; }).find("too many modifiers"), std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::ptx
