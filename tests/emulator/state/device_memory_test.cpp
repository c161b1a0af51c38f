#include "emulator/state/device_memory.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace stagecraft::emulator::machine {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kGiB = 1ull << 30;

uint32_t word_at(uint64_t address) {
  uint32_t word = 0;
  std::memcpy(&word, DeviceMemory::host(address), sizeof word);
  return word;
}

uint64_t resident_bytes() {
  unsigned long long total = 0, resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  const bool read = std::fscanf(file, "%llu %llu", &total, &resident) == 2;
  std::fclose(file);
  return read ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

TEST(DeviceMemoryTest, AlignsToWhatTheChipAlignsTo) {
  DeviceMemory memory(kGiB);
  for (const uint64_t size : {1, 3, 4096, 70000}) {
    EXPECT_EQ(memory.allocate(size, AllocationKind::device).value() % 512, 0u);
  }
  EXPECT_EQ(memory.allocate(16, AllocationKind::module, "x", Fill::zero, 4096).value() % 4096, 0u);
}

TEST(DeviceMemoryTest, PutsTheFirstAllocationAtTheSamePlaceInEveryRun) {
  DeviceMemory first(kGiB);
  DeviceMemory second(kGiB);
  const uint64_t address = first.allocate(4, AllocationKind::device).value();
  EXPECT_GE(address, 0x2000'0000'0000u);
  EXPECT_NE(second.allocate(4, AllocationKind::device).value(), address);
}

TEST(DeviceMemoryTest, FillsFreshMemoryWithPoison) {
  DeviceMemory memory(kGiB);
  const uint64_t address = memory.allocate(10007, AllocationKind::device).value();
  for (uint64_t i = 0; i + 4 <= 10007; i += 4) ASSERT_EQ(word_at(address + i), kPoisonPattern);
  EXPECT_EQ(std::to_integer<uint32_t>(*DeviceMemory::host(address + 10006)), kPoisonPattern >> 16 & 0xff);
}

TEST(DeviceMemoryTest, FillsWithZerosOnRequestAlsoWhereSomethingElseWas) {
  DeviceMemory memory(kGiB);
  for (int round = 0; round < 600; ++round) {  // more than are remembered after being freed
    const uint64_t address = memory.allocate(kMiB, AllocationKind::module, "x", Fill::zero).value();
    ASSERT_EQ(word_at(address), 0u);
    ASSERT_EQ(word_at(address + kMiB - 4), 0u);
    std::memset(DeviceMemory::host(address), 0xab, kMiB);
    ASSERT_TRUE(memory.release(address));
  }
}

TEST(DeviceMemoryTest, CostsWhatIsTouchedNotWhatIsAllocated) {
  DeviceMemory memory(192 * kGiB);
  const uint64_t before = resident_bytes();
  const uint64_t address = memory.allocate(150 * kGiB, AllocationKind::device).value();
  EXPECT_LT(resident_bytes() - before, 2 * kPoisonLimit);
  EXPECT_EQ(word_at(address), kPoisonPattern);
  EXPECT_EQ(word_at(address + kPoisonLimit), 0u);
  EXPECT_EQ(word_at(address + 150 * kGiB - 4), kPoisonPattern);
}

TEST(DeviceMemoryTest, RefusesMoreThanTheChipHas) {
  DeviceMemory memory(64 * kMiB);
  EXPECT_FALSE(memory.allocate(65 * kMiB, AllocationKind::device));
  EXPECT_FALSE(memory.allocate(~0ull, AllocationKind::device));
  const auto half = memory.allocate(33 * kMiB, AllocationKind::device, {}, Fill::zero);
  ASSERT_TRUE(half);
  EXPECT_FALSE(memory.allocate(32 * kMiB, AllocationKind::device));
  EXPECT_TRUE(memory.release(*half));
  EXPECT_EQ(memory.used(), 0u);
  EXPECT_TRUE(memory.allocate(64 * kMiB, AllocationKind::device, {}, Fill::zero));
}

TEST(DeviceMemoryTest, UsesFreedAddressesAgainOnceItHasNoOthers) {
  DeviceMemory memory(64 * kMiB);
  for (int round = 0; round < 2000; ++round) {  // 64 GiB in all, of a reservation of some 16
    const auto address = memory.allocate(32 * kMiB, AllocationKind::device, {}, Fill::zero);
    ASSERT_TRUE(address) << round;
    ASSERT_TRUE(memory.release(*address));
  }
}

/// Whether a child process was ended by an access: by the signal, or by a sanitizer that explains it.
bool was_ended(int status) { return WIFSIGNALED(status) || WEXITSTATUS(status) == 1; }

TEST(DeviceMemoryTest, KeepsItsBytesWhereTheHostDoesNotLook) {
  DeviceMemory memory(kGiB);
  const uint64_t address = memory.allocate(4, AllocationKind::device).value();
  EXPECT_EQ(word_at(address), kPoisonPattern);
  EXPECT_EXIT(std::printf("%c", *reinterpret_cast<volatile char*>(address)), was_ended, "");
  EXPECT_TRUE(memory.owns(address + kMiB));
  EXPECT_FALSE(memory.owns(reinterpret_cast<uint64_t>(&memory)));
}

TEST(DeviceMemoryTest, SharesManagedAndPinnedMemoryWithTheHostUntilItIsFreed) {
  DeviceMemory memory(kGiB);
  for (const AllocationKind kind :
       {AllocationKind::managed, AllocationKind::managed_variable, AllocationKind::pinned_host}) {
    const uint64_t address = memory.allocate(5000, kind, {}, Fill::zero).value();
    auto* const byte = reinterpret_cast<volatile char*>(address + 4999);
    EXPECT_EQ(DeviceMemory::host(address), reinterpret_cast<std::byte*>(address));
    *byte = 7;
    EXPECT_EQ(*byte, 7);
    const uint64_t neighbour = memory.allocate(1, kind, {}, Fill::zero).value();
    ASSERT_TRUE(memory.release(address));
    EXPECT_EXIT(*byte = 8, was_ended, "");
    *reinterpret_cast<volatile char*>(neighbour) = 9;
    EXPECT_TRUE(memory.owns(address));
  }
}

TEST(DeviceMemoryTest, UsesFreedPinnedMemoryAgain) {
  DeviceMemory memory(64 * kMiB);
  for (int round = 0; round < 1000; ++round) {  // 32 GiB in all, of a reservation of some 16
    const auto address = memory.allocate(32 * kMiB, AllocationKind::pinned_host, {}, Fill::zero);
    ASSERT_TRUE(address) << round;
    *reinterpret_cast<volatile char*>(*address) = 1;
    ASSERT_TRUE(memory.release(*address));
  }
}

TEST(DeviceMemoryTest, RefusesWhatTheHostCannotHold) {
  DeviceMemory memory(192 * kGiB);
  memory.host_memory().limit(resident_bytes() + 16 * kMiB);
  EXPECT_FALSE(memory.allocate(kGiB, AllocationKind::device));
  EXPECT_EQ(memory.why_none(), NoMemory::host);
  EXPECT_TRUE(memory.allocate(100 * kGiB, AllocationKind::managed, {}, Fill::zero));  // nothing is touched yet
  EXPECT_FALSE(memory.allocate(kGiB, AllocationKind::pinned_host, {}, Fill::zero));
  EXPECT_EQ(memory.why_none(), NoMemory::host);
  EXPECT_FALSE(memory.allocate(193 * kGiB, AllocationKind::device));
  EXPECT_EQ(memory.why_none(), NoMemory::device);
}

TEST(DeviceMemoryTest, FindsWhatHoldsAnAccess) {
  DeviceMemory memory(kGiB);
  const uint64_t first = memory.allocate(100, AllocationKind::device).value();
  const uint64_t second = memory.allocate(100, AllocationKind::device).value();
  ASSERT_NE(memory.find(first), nullptr);
  EXPECT_EQ(memory.find(first)->label, "cudaMalloc #1");
  EXPECT_EQ(memory.find(second + 99)->label, "cudaMalloc #2");
  EXPECT_EQ(memory.find(first + 96, 4)->address, first);
  EXPECT_EQ(memory.find(first + 97, 4), nullptr);
  EXPECT_EQ(memory.find(first + 100), nullptr);
  EXPECT_EQ(memory.find(first - 1), nullptr);
  EXPECT_EQ(memory.find(0), nullptr);
  EXPECT_EQ(memory.find(~0ull, 8), nullptr);
}

TEST(DeviceMemoryTest, LeavesAGapBetweenNeighbours) {
  DeviceMemory memory(kGiB);
  const uint64_t first = memory.allocate(512, AllocationKind::device).value();
  const uint64_t second = memory.allocate(512, AllocationKind::device).value();
  EXPECT_GE(second - (first + 512), kGuardBytes);
}

TEST(DeviceMemoryTest, ReleasesOnlyWhatIsAllocated) {
  DeviceMemory memory(kGiB);
  const uint64_t address = memory.allocate(512, AllocationKind::device).value();
  EXPECT_FALSE(memory.release(address + 1));
  EXPECT_FALSE(memory.release(0));
  EXPECT_TRUE(memory.release(address));
  EXPECT_FALSE(memory.release(address));
}

TEST(DeviceMemoryTest, ChangesItsGenerationWithEveryAllocation) {
  DeviceMemory memory(kGiB);
  const uint64_t before = DeviceMemory::generation();
  const uint64_t address = memory.allocate(4, AllocationKind::device).value();
  const uint64_t between = DeviceMemory::generation();
  memory.release(address);
  EXPECT_NE(before, between);
  EXPECT_NE(between, DeviceMemory::generation());
}

TEST(DeviceMemoryTest, DescribesWhatIsNearAnAddress) {
  DeviceMemory memory(kGiB);
  const uint64_t address = memory.allocate(4096, AllocationKind::device).value();
  const std::string name = "cudaMalloc #1 (4096 bytes at 0x200000000000)";
  ASSERT_EQ(address, 0x2000'0000'0000u);
  EXPECT_EQ(memory.describe(address + 8), "8 bytes into " + name);
  EXPECT_EQ(memory.describe(address + 4096), "just past the end of " + name);
  EXPECT_EQ(memory.describe(address + 4100), "4 bytes past the end of " + name);
  EXPECT_EQ(memory.describe(address - 1), "1 byte before the start of " + name);
  memory.release(address);
  EXPECT_EQ(memory.describe(address + 8), "inside " + name + ", which has been freed");
  EXPECT_EQ(memory.describe(address + 64 * kMiB), "near no allocation");
}

TEST(DeviceMemoryTest, DescribesAddressesThatAreNotOfDeviceMemory) {
  DeviceMemory memory(kGiB);
  EXPECT_EQ(memory.describe(0), "the null pointer");
  EXPECT_EQ(memory.describe(16), "16 bytes past the null pointer");
  EXPECT_EQ(memory.describe(kSharedWindow + 0x2000400),
            "an address of shared memory (offset 0x400 in the block of rank 2)");
  EXPECT_EQ(memory.describe(kLocalWindow + 8), "an address of a thread's local memory (offset 0x8)");
  EXPECT_EQ(memory.describe(0x1002'0000'0010), "the address of a function");
}

TEST(DeviceMemoryTest, NumbersAllocationsByKind) {
  DeviceMemory memory(kGiB);
  memory.release(memory.allocate(8, AllocationKind::parameters, "kernel parameters").value());
  const uint64_t managed = memory.allocate(8, AllocationKind::managed).value();
  const uint64_t device = memory.allocate(8, AllocationKind::device).value();
  EXPECT_EQ(memory.find(managed)->label, "cudaMallocManaged #1");
  EXPECT_EQ(memory.find(device)->label, "cudaMalloc #1");
}

}  // namespace
}  // namespace stagecraft::emulator::machine
