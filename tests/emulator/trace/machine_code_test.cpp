#include "emulator/trace/machine_code.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace stagecraft::emulator::trace {
namespace {

using Reads = std::array<uint8_t, 2>;

/// Machine code that the tests encode as ptxas does.
class MachineCodeTest : public testing::Test {
 protected:
  static constexpr uint64_t kFfma = 0x223, kFfmaOfImmediate = 0x823, kFadd = 0x221, kLoadShared = 0x984;
  static constexpr uint32_t kReuseA = 1, kReuseB = 2, kZero = 255;

  machine::Kernel kernel;

  void add(uint64_t opcode, uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint64_t reuse = 0) {
    constexpr uint64_t kGuardedByNothing = 7 << 12;
    kernel.machine_code.push_back(
        {opcode | kGuardedByNothing | uint64_t{to} << 16 | uint64_t{a} << 24 | uint64_t{b} << 32, c | reuse << 58, 0});
  }
  std::vector<Reads> reads() const {
    std::vector<Reads> all;
    for (const timing::MachineInstruction& each : describe_machine_code(kernel)) all.push_back(each.reads);
    return all;
  }
};

TEST_F(MachineCodeTest, RegistersAreReadFromTheBankOfTheirLastBit) {
  add(kFfma, 9, 2, 4, 5);
  add(kFfma, 9, 2, 4, 6);
  add(kFfma, 9, 1, 3, kZero);
  add(kFfma, 8, 2, 2, 2);
  EXPECT_EQ(reads(), (std::vector<Reads>{{2, 1}, {3, 0}, {0, 2}, {1, 0}}));
}

TEST_F(MachineCodeTest, WhatIsNoRegisterIsNotRead) {
  add(kFfmaOfImmediate, 9, 2, 4, 5);  // the second is part of a number
  add(kFadd, 9, 2, 4, 6);             // there is no third
  add(kLoadShared, 9, 2, 4, 6);
  EXPECT_EQ(reads(), (std::vector<Reads>{{1, 1}, {2, 0}, {0, 0}}));
}

TEST_F(MachineCodeTest, WhatTheInstructionBeforeKeepsOfTheSameOperandIsNotReadAgain) {
  add(kFfma, 8, 2, 4, 8, kReuseB);
  add(kFfma, 9, 4, 4, 9, kReuseB);  // as the first operand it is read, but only once
  add(kFfma, 10, 6, 4, 10);
  add(kFfma, 12, 6, 4, 12);
  EXPECT_EQ(reads(), (std::vector<Reads>{{3, 0}, {1, 1}, {2, 0}, {3, 0}}));
}

TEST_F(MachineCodeTest, AnOtherRegisterThanTheOneThatIsKeptIsRead) {
  add(kFfma, 8, 2, 5, 8, kReuseA);
  add(kFfma, 8, 4, 7, 8);
  EXPECT_EQ(reads(), (std::vector<Reads>{{2, 1}, {2, 1}}));
}

}  // namespace
}  // namespace stagecraft::emulator::trace
