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

TEST_F(MachineCodeTest, ProductsOfAWarpHaveTheClassesOfTheirSumsAndDepth) {
  struct Product {
    uint64_t low, high;
    timing::InstructionClass kind;
  };
  using enum timing::InstructionClass;
  // What ptxas 13.0 makes of mma.sync for sm_120a; the comments are nvdisasm's.
  const std::vector<Product> products = {
      {0x0000000c0804723c, 0x000fde00000418ff, warp_matrix},              // HMMA.16816.F32.BF16
      {0x0000000c0804723c, 0x000fde0000041004, warp_matrix_short},        // HMMA.1688.F32.BF16
      {0x0000000c0804723c, 0x000fde00000008ff, warp_matrix_quick},        // HMMA.16816.F16
      {0x0000000c0804723c, 0x000fde0000081004, warp_matrix},              // HMMA.1688.F32.TF32
      {0x0000000c0804723c, 0x000fde0000085004, warp_matrix_short},        // HMMA.1684.F32.TF32
      {0x0000000c0804727a, 0x000fde0000002c04, warp_matrix},              // QMMA.16832.F32.E4M3.E4M3
      {0x0000000c0804727a, 0x000fde0000002404, warp_matrix_short},        // QMMA.16816.F32.E4M3.E4M3
      {0x0000000c0814727a, 0x000fde0000000c04, warp_matrix_quick},        // QMMA.16832.F16.E4M3.E4M3
      {0x0000000c0814727a, 0x000fde000028cc14, warp_matrix},              // QMMA.16832.F16.E2M1.E2M1
      {0x70f0000c0804747a, 0x008fde0000003e04, warp_matrix_quick},        // QMMA.SF.16832.F32.E4M3.E4M3.E8
      {0x70f0000c0810747a, 0x000fde000014fe04, warp_matrix},              // QMMA.SF.16832.F32.E3M2.E3M2.E8
      {0x70b00008040c747a, 0x000fde000000fe0c, warp_matrix_quick},        // QMMA.SF.16832.F32.E5M2.E5M2.E8
      {0x0000000c08047237, 0x000fde0000405cff, warp_matrix_quick},        // IMMA.16832.S8.S8
      {0x0000000c08047237, 0x000fde0000405404, warp_matrix_quick_short},  // IMMA.16816.S8.S8
      {0x70f0000c0810747f, 0x000fd80000043e10, warp_matrix_quick},        // OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X
  };
  for (const Product& each : products) kernel.machine_code.push_back({each.low, each.high, 0});
  const timing::MachineCode described = describe_machine_code(kernel);
  ASSERT_EQ(described.size(), products.size());
  for (size_t i = 0; i < products.size(); ++i) EXPECT_EQ(described[i].kind, products[i].kind) << i;
}

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
