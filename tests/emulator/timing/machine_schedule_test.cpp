#include "emulator/timing/machine_schedule.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace stagecraft::emulator::timing {
namespace {

/// PTX code and the machine code of it, which the tests make up.
class MachineScheduleTest : public testing::Test {
 protected:
  Code code;
  MachineCode machine_code;
  ChipModel chip = *find_chip_model("H200");

  uint32_t ptx(InstructionClass kind, bool first = false) {
    Instruction made;
    made.kind = kind;
    made.first = first;
    made.begin = static_cast<uint32_t>(code.size());
    code.push_back(made);
    return made.begin;
  }
  MachineInstruction& machine(uint32_t pc, InstructionClass kind, uint8_t stall) {
    MachineInstruction made;
    made.pc = pc;
    made.kind = kind;
    made.stall = stall;
    made.accesses = kind == InstructionClass::memory;
    return machine_code.emplace_back(made);
  }
  static double cycles_of(const MachineBlock& block) {
    return std::accumulate(block.parts.begin(), block.parts.end(), 0.,
                           [](double sum, const MachinePart& part) { return sum + part.code.cycles; });
  }
};

TEST_F(MachineScheduleTest, ABlockIsDividedWhereItLoadsAndWhereItWaitsForThat) {
  const uint32_t load = ptx(InstructionClass::memory, true), add = ptx(InstructionClass::float32);
  machine(load, InstructionClass::memory, 4).result = 2;
  machine(add, InstructionClass::float32, 3);
  machine(add, InstructionClass::float32, 5).waits = 1 << 2;
  const CodeSchedule pieces(code, chip);
  const MachineSchedule schedule(code, machine_code, pieces, chip);
  const MachineBlock* const block = schedule.block_of(load);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(schedule.block_of(add), block);
  ASSERT_EQ(block->parts.size(), 3u);
  EXPECT_EQ(block->parts[0].access, load);
  EXPECT_EQ(block->parts[0].result, 2);
  EXPECT_EQ(block->parts[1].waits, 0);
  EXPECT_EQ(block->parts[2].waits, 1 << 2);
  EXPECT_EQ(cycles_of(*block), 4 + 3 + 5);
}

TEST_F(MachineScheduleTest, AScoreboardThatNoAccessHoldsDividesNothing) {
  const uint32_t root = ptx(InstructionClass::special, true), add = ptx(InstructionClass::float32);
  machine(root, InstructionClass::special, 1).result = 0;
  machine(add, InstructionClass::float32, 4).waits = 1;
  const CodeSchedule pieces(code, chip);
  const MachineSchedule schedule(code, machine_code, pieces, chip);
  const MachineBlock& block = *schedule.block_of(root);
  ASSERT_EQ(block.parts.size(), 1u);
  EXPECT_EQ(block.parts[0].code.cycles, chip.costs[static_cast<size_t>(InstructionClass::special)].latency + 4);
}

TEST_F(MachineScheduleTest, AnUnrolledLoopHasSeveralCopiesOfItsPiece) {
  const uint32_t load = ptx(InstructionClass::memory, true), back = ptx(InstructionClass::control);
  for (uint32_t copy = 0; copy < 4; ++copy) machine(load, InstructionClass::memory, 1).result = 0;
  MachineInstruction& branch = machine(back, InstructionClass::control, 5);
  branch.branches = true;
  branch.target = 0;
  const CodeSchedule pieces(code, chip);
  const MachineSchedule schedule(code, machine_code, pieces, chip);
  EXPECT_EQ(schedule.copies_of(load), 4u);
  EXPECT_DOUBLE_EQ(schedule.share_of(load), 0.25);
}

TEST_F(MachineScheduleTest, TheFunctionOfADivisionIsBranchedAround) {
  const uint32_t divide = ptx(InstructionClass::divide_float, true);
  machine(divide, InstructionClass::float32, 4);
  MachineInstruction& around = machine(divide, InstructionClass::control, 6);
  around.branches = true;
  around.target = 3;
  machine(divide, InstructionClass::control, 15).calls = true;
  machine(divide, InstructionClass::float32, 4);
  const CodeSchedule pieces(code, chip);
  const MachineSchedule schedule(code, machine_code, pieces, chip);
  EXPECT_LT(cycles_of(*schedule.block_of(divide)), 15);
}

TEST_F(MachineScheduleTest, APieceBelongsToTheBlockThatHasMostOfIt) {
  const uint32_t before = ptx(InstructionClass::float32, true);
  const uint32_t branch = ptx(InstructionClass::control);
  const uint32_t after = ptx(InstructionClass::float32, true);
  machine(before, InstructionClass::float32, 1);
  machine(after, InstructionClass::float32, 1);  // moved up
  MachineInstruction& jump = machine(branch, InstructionClass::control, 5);
  jump.branches = true;
  jump.target = 3;
  for (int i = 0; i < 3; ++i) machine(after, InstructionClass::float32, 2);
  const CodeSchedule pieces(code, chip);
  const MachineSchedule schedule(code, machine_code, pieces, chip);
  EXPECT_EQ(schedule.block_of(before), schedule.block_of(branch));
  EXPECT_NE(schedule.block_of(after), schedule.block_of(before));
  EXPECT_EQ(cycles_of(*schedule.block_of(after)), 6);
}

}  // namespace
}  // namespace stagecraft::emulator::timing
