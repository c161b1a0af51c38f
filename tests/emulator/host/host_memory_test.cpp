#include "emulator/host/host_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace stagecraft::emulator::machine {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kGiB = 1ull << 30;

/// A folder with the files of a host that has 32 GiB, of which 16 GiB are available and 1 GiB is swap space.
class HostMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) / ("host_memory_test." + std::to_string(getpid()));
    write("proc/meminfo", "MemTotal:       33554432 kB\nMemAvailable:   16777216 kB\nSwapFree:        1048576 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  uint64_t room() const { return HostMemory(root_).room(); }

 private:
  std::filesystem::path root_;
};

TEST_F(HostMemoryTest, KeepsAReserveForTheHost) {
  EXPECT_EQ(room(), 17 * kGiB - kGiB);
  write("proc/meminfo", "MemTotal:  33554432 kB\nMemAvailable:  1024 kB\nSwapFree:  0 kB\n");
  EXPECT_EQ(room(), 0u);
}

TEST_F(HostMemoryTest, GivesEverythingWhereNothingIsKnown) {
  write("proc/meminfo", "");
  EXPECT_EQ(room(), ~uint64_t{0});
}

TEST_F(HostMemoryTest, KeepsToTheLimitsOfItsControlGroups) {
  write("proc/self/cgroup", "0::/users/one\n");
  write("sys/fs/cgroup/users/one/memory.max", "max\n");
  write("sys/fs/cgroup/users/memory.max", "4294967296\n");
  write("sys/fs/cgroup/users/memory.current", "2147483648\n");
  write("sys/fs/cgroup/users/memory.stat", "anon 5\ninactive_file 536870912\nactive_file 536870912\n");
  // A 32nd of the limit is the reserve; pages of files are given up when memory is short.
  EXPECT_EQ(room(), 4 * kGiB - kGiB - 128 * kMiB + kGiB);  // and all of the swap space may be used
  write("sys/fs/cgroup/users/memory.swap.max", "268435456\n");
  write("sys/fs/cgroup/users/memory.swap.current", "0\n");
  EXPECT_EQ(room(), 4 * kGiB - kGiB - 128 * kMiB + 256 * kMiB);
}

TEST_F(HostMemoryTest, KnowsTheFirstVersionOfControlGroups) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(room(), 16 * kGiB);
  // A container sees its own group where the host has the root of all.
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 536870912\n");
  EXPECT_EQ(room(), 2 * kGiB - 512 * kMiB - 64 * kMiB);
}

TEST_F(HostMemoryTest, LooksAtSmallPiecesTogether) {
  HostMemory memory;
  EXPECT_TRUE(memory.must_look(64 * kMiB));
  EXPECT_FALSE(memory.must_look(6 * kMiB));
  EXPECT_FALSE(memory.must_look(6 * kMiB));
  EXPECT_TRUE(memory.must_look(6 * kMiB));
  EXPECT_FALSE(memory.must_look(6 * kMiB));
}

TEST_F(HostMemoryTest, LooksAgainBeforeItsRoomCanBeUsedUp) {
  HostMemory memory;
  EXPECT_TRUE(memory.is_time_to_look());
  EXPECT_TRUE(memory.has_room_now());
  memory.limit(1);  // of a process that has more than a byte
  EXPECT_FALSE(memory.has_room_now());
  EXPECT_FALSE(memory.is_time_to_look());
  usleep(5000);
  EXPECT_TRUE(memory.is_time_to_look());
}

TEST_F(HostMemoryTest, KnowsWhichPagesAreInMemory) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* const bytes = static_cast<char*>(pages);
  EXPECT_EQ(absent_bytes(bytes, 4 * page), 4 * page);
  bytes[page] = 1;
  EXPECT_EQ(absent_bytes(bytes, 4 * page), 3 * page);
  EXPECT_EQ(absent_bytes(bytes + page + 8, page), page);
  munmap(pages, 4 * page);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
