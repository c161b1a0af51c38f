// Allocation of tensor memory, and which block may use which columns.
#include "fixtures/tensor_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

struct TensorMemoryTest : ::testing::Test {
  TensorMemory memory;
  machine::Block block, other;

  uint32_t allocate(machine::Block& owner, uint32_t columns) { return memory.allocate(owner, columns).value().column; }
};

TEST_F(TensorMemoryTest, GivesTheWholeMemoryInUnitsOf32Columns) {
  std::vector<bool> taken(kTensorColumns);
  for (int i = 0; i < 16; ++i) {
    const uint32_t column = allocate(block, 32);
    ASSERT_EQ(column % 32, 0u);
    for (uint32_t offset = 0; offset < 32; ++offset) {
      ASSERT_FALSE(taken[column + offset]);
      taken[column + offset] = true;
    }
  }
  EXPECT_FALSE(memory.allocate(block, 32).has_value());
}

TEST_F(TensorMemoryTest, StartsAtColumnZero) { EXPECT_EQ(allocate(block, 512), 0u); }

TEST_F(TensorMemoryTest, LetsAnotherBlockWaitUntilColumnsAreFree) {
  const uint32_t first = allocate(block, 256);
  allocate(block, 128);
  EXPECT_FALSE(memory.allocate(other, 256).has_value());
  memory.release(block, address_of({0, first}), 256);
  EXPECT_EQ(allocate(other, 256), first);
}

TEST_F(TensorMemoryTest, RefusesNumbersOfColumnsThatAreNeverLegal) {
  for (const uint32_t columns : {0u, 1u, 16u, 31u, 33u, 96u, 513u, 1024u, 0xffffffffu}) {
    EXPECT_FAULT(memory.allocate(block, columns), "legal: 32, 64, 128, 256 or 512 columns");
  }
}

TEST_F(TensorMemoryTest, RefusesAllocationsThatGrow) {
  allocate(block, 64);
  EXPECT_FAULT(memory.allocate(block, 128), "tcgen05.alloc of 128 columns after one of 64");
  allocate(other, 128);  // another block has its own order
  allocate(block, 64);
}

TEST_F(TensorMemoryTest, RefusesAllocationAfterRelinquish) {
  const uint32_t column = allocate(block, 64);
  memory.relinquish(block);
  EXPECT_FAULT(memory.allocate(block, 32), "after tcgen05.relinquish_alloc_permit");
  memory.release(block, address_of({0, column}), 64);
  allocate(other, 64);
}

TEST_F(TensorMemoryTest, ReleasesOnlyWhatWasAllocated) {
  const uint32_t column = allocate(block, 64);
  EXPECT_FAULT(memory.release(block, address_of({0, column}), 32), "which is no allocation of this block");
  EXPECT_FAULT(memory.release(block, address_of({0, column + 32}), 32), "columns 0 to 63");
  EXPECT_FAULT(memory.release(block, address_of({1, column}), 64), "which is no allocation of this block");
  EXPECT_FAULT(memory.release(other, address_of({0, column}), 64), "the block has no tensor memory allocated");
  memory.release(block, address_of({0, column}), 64);
  EXPECT_FAULT(memory.release(block, address_of({0, column}), 64), "which is no allocation of this block");
}

TEST_F(TensorMemoryTest, PoisonsWhatItGives) {
  const uint32_t column = allocate(block, 32);
  memory.cell({5, column + 3}) = 7;
  memory.release(block, address_of({0, column}), 32);
  ASSERT_EQ(allocate(other, 32), column);
  EXPECT_EQ(memory.cell({5, column + 3}), TensorMemory::kPoison);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(TensorMemory::kPoison)));
  EXPECT_TRUE(std::isnan(from_f16(TensorMemory::kPoison & 0xffff)));
}

TEST_F(TensorMemoryTest, ReportsAndFreesWhatABlockLeavesBehind) {
  allocate(block, 256);
  allocate(block, 32);
  const std::vector<std::string> leaks = memory.leaks(block);
  ASSERT_EQ(leaks.size(), 2u);
  EXPECT_NE(leaks[0].find("256 columns of tensor memory (columns 0 to 255) were still allocated"), std::string::npos);
  memory.forget(block);
  EXPECT_EQ(allocate(other, 512), 0u);
  EXPECT_TRUE(memory.leaks(block).empty());
  memory.release(other, 0, 512);
  EXPECT_TRUE(memory.leaks(other).empty());
}

TEST_F(TensorMemoryTest, NamesThePlaceOfAnAccessToUnallocatedColumns) {
  EXPECT_FAULT(memory.require(block, {32, 7}, 32, 1, "tcgen05.ld"), "the block has no tensor memory allocated");
  allocate(block, 64);
  allocate(other, 32);
  memory.require(block, {0, 0}, 128, 64, "tcgen05.ld");
  memory.require(block, {32, 63}, 32, 1, "tcgen05.ld");
  EXPECT_FAULT(memory.require(block, {32, 60}, 32, 8, "tcgen05.ld"),
               "tcgen05.ld: 8 columns from address 0x20003c (lane 32, column 60): column 64 belongs to another block\n"
               "the block has allocated columns 0 to 63");
  EXPECT_FAULT(memory.require(block, {0, 100}, 32, 8, "tcgen05.st"), "column 100 is not allocated");
  EXPECT_FAULT(memory.require(block, {112, 0}, 32, 8, "tcgen05.st"), "tensor memory has lanes 0 to 127");
  EXPECT_FAULT(memory.require(block, {0, 508}, 32, 8, "tcgen05.st"), "tensor memory has columns 0 to 511");
  EXPECT_FAULT(memory.require(block, {0xffff, 0xffff}, 1, 1, "tcgen05.st"), "leave tensor memory");
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
