#include "emulator/checks/global_memory/read_log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace stagecraft::emulator::checks {
namespace {

using Addresses = std::array<uint64_t, machine::kWarpSize>;

TEST(ReadLogTest, ReturnsWhatWasAdded) {
  std::mt19937 engine(1);
  const auto random = [&engine] { return static_cast<uint32_t>(engine()); };
  ReadLog log;
  EXPECT_TRUE(log.is_empty());
  std::vector<std::pair<LoggedRead, Addresses>> added;
  for (uint32_t round = 0; round < 2000; ++round) {
    const uint32_t bytes = 1u << engine() % 5;
    const LoggedRead read{
        .reader = round / 7, .site = random(), .lanes = random() | 1, .bytes = bytes, .allocation = 3};
    // From one row to places of which hardly two belong together.
    const uint32_t scattered = round % 32;
    Addresses addresses{(uint64_t{1} << 40) + engine() % 4096};
    for (uint32_t lane = 1; lane < machine::kWarpSize; ++lane) {
      const bool jumps = engine() % 32 < scattered;
      addresses[lane] = jumps ? (uint64_t{1} << 40) + engine() : addresses[lane - 1] + (round % 2 == 0 ? bytes : 0);
    }
    log.add(read, addresses.data(), layout_of(addresses.data(), bytes));
    added.emplace_back(read, addresses);
  }
  size_t next = 0;
  log.for_each([&](const LoggedRead& read, const uint64_t* addresses) {
    ASSERT_LT(next, added.size());
    const auto& [was, places] = added[next++];
    ASSERT_EQ(read.reader, was.reader);
    ASSERT_EQ(read.site, was.site);
    ASSERT_EQ(read.lanes, was.lanes);
    ASSERT_EQ(read.bytes, was.bytes);
    ASSERT_EQ(read.allocation, was.allocation);
    ASSERT_TRUE(std::equal(places.begin(), places.end(), addresses)) << next;
  });
  EXPECT_EQ(next, added.size());
}

TEST(ReadLogTest, TakesLittleForARow) {
  ReadLog log;
  Addresses row;
  for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) row[lane] = 4096 + 4 * lane;
  constexpr uint64_t kReads = 100000;
  for (uint64_t i = 0; i < kReads; ++i) {
    log.add({.reader = 0, .site = 1, .lanes = machine::kAllLanes, .bytes = 4, .allocation = 1}, row.data(),
            layout_of(row.data(), 4));
  }
  EXPECT_LT(log.bytes(), kReads * 48);
}

}  // namespace
}  // namespace stagecraft::emulator::checks
