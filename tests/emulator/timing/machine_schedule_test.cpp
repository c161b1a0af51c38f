#include "emulator/timing/machine_schedule.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

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

/// The costs that tests/silicon/register_banks.cu measured.
class RegisterBanksTest : public MachineScheduleTest {
 protected:
  using Reads = std::array<uint8_t, 2>;
  /// Cycles of an instruction, and how long it keeps others of the sub-partition from issuing, if they read this in
  /// turn.
  CodePart part_of(const std::vector<Reads>& turn, uint8_t stall = 1) {
    constexpr uint32_t kTurns = 240;
    code.clear();
    machine_code.clear();
    const uint32_t add = ptx(InstructionClass::float32, true);
    for (uint32_t i = 0; i < kTurns; ++i) machine(add, InstructionClass::float32, stall).reads = turn[i % turn.size()];
    const CodeSchedule pieces(code, chip);
    const MachineSchedule schedule(code, machine_code, pieces, chip);
    CodePart part = schedule.block_of(add)->parts.at(0).code;
    part.cycles /= kTurns;
    for (double& pipe : part.pipes) pipe /= kTurns;
    return part;
  }
};

TEST_F(RegisterBanksTest, ABankReadsOneRegisterACycle) {
  constexpr double kNear = 0.02;
  EXPECT_NEAR(part_of({{1, 1}}).cycles, 1, kNear);
  EXPECT_NEAR(part_of({{2, 1}}).cycles, 2, kNear);
  EXPECT_NEAR(part_of({{2, 0}}).cycles, 2, kNear);
  EXPECT_NEAR(part_of({{3, 0}}).cycles, 3, kNear);
  EXPECT_NEAR(part_of({{1, 1}, {3, 0}}).cycles, 2, kNear);
}

TEST_F(RegisterBanksTest, NeighboursShareTheBanksOnlyInTheirLastCycle) {
  constexpr double kNear = 0.02;
  EXPECT_NEAR(part_of({{2, 1}, {1, 2}}).cycles, 1.5, kNear);
  EXPECT_NEAR(part_of({{2, 0}, {0, 2}}).cycles, 1, kNear);
  EXPECT_NEAR(part_of({{2, 0}, {2, 0}, {0, 2}, {0, 2}}).cycles, 1.5, kNear);
  EXPECT_NEAR(part_of({{2, 0}, {2, 0}, {2, 0}, {2, 0}, {0, 2}, {0, 2}, {0, 2}, {0, 2}}).cycles, 1.75, kNear);
}

TEST_F(RegisterBanksTest, OthersCannotIssueMeanwhile) {
  const CodePart part = part_of({{2, 1}}, /*stall=*/4);
  EXPECT_EQ(part.cycles, 4);
  EXPECT_NEAR(part.pipes[static_cast<size_t>(Pipe::issue)], 2, 0.02);
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

// Additions of words are one instruction.
TEST_F(MachineScheduleTest, NoLoadMovesOverTheLoopOfAnAdditionOfFloatsInSharedMemory) {
  ptx(InstructionClass::float32, true);
  const uint32_t addition = ptx(InstructionClass::memory), load = ptx(InstructionClass::memory);
  code[addition].shared = true;
  code[load].plain_load = true;
  EXPECT_EQ(CodeSchedule(code, chip).earliest(load), 0u);
  code[addition].floating = true;
  const CodeSchedule pieces(code, chip);
  EXPECT_EQ(pieces.earliest(load), load);
  EXPECT_EQ(pieces.piece(addition), addition);
  EXPECT_EQ(pieces.piece(load), load);
}

TEST_F(MachineScheduleTest, ALoadThatServesSeveralCopiesHidesNone) {
  const uint32_t load = ptx(InstructionClass::memory, true), add = ptx(InstructionClass::float32);
  const uint32_t back = ptx(InstructionClass::control);
  machine(load, InstructionClass::memory, 1).result = 0;
  for (uint32_t copy = 0; copy < 4; ++copy) machine(add, InstructionClass::float32, 1);
  MachineInstruction& branch = machine(back, InstructionClass::control, 5);
  branch.branches = true;
  branch.target = 0;
  const CodeSchedule pieces(code, chip);
  const MachineSchedule schedule(code, machine_code, pieces, chip);
  EXPECT_EQ(schedule.copies_of(load), 4u);
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

TEST_F(MachineScheduleTest, APieceBelongsToItsProductsRatherThanToTheBranchBehindThem) {
  const uint32_t skip = ptx(InstructionClass::control, true);
  const uint32_t products = ptx(InstructionClass::warp_matrix, true);
  const uint32_t branch = ptx(InstructionClass::control);
  MachineInstruction& forth = machine(skip, InstructionClass::control, 5);
  forth.branches = true;
  forth.target = 4;  // so a block begins there, between the products and their branch
  for (int i = 0; i < 3; ++i) machine(products, InstructionClass::warp_matrix, 1);
  MachineInstruction& back = machine(branch, InstructionClass::control, 5);
  back.branches = true;
  back.target = 1;
  const CodeSchedule pieces(code, chip);
  const MachineSchedule schedule(code, machine_code, pieces, chip);
  const auto matrix = static_cast<size_t>(Pipe::matrix);
  EXPECT_EQ(schedule.block_of(products)->sum[0].code.pipes[matrix],
            3 * chip.costs[static_cast<size_t>(InstructionClass::warp_matrix)].interval);
}

}  // namespace
}  // namespace stagecraft::emulator::timing
