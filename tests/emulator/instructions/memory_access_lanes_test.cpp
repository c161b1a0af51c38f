// The handlers of loads and stores in every variant, on a warp made by hand: with any pattern of addresses the result
// is that of one lane after the other.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "emulator/host/isa_level.hpp"
#include "emulator/instructions/memory_access.hpp"

namespace stagecraft::emulator::machine {
namespace {

constexpr uint32_t kBufferBytes = 8192;
constexpr RegisterOffset kBase = 0;      // 32 addresses of 8 bytes
constexpr RegisterOffset kNarrow = 256;  // 32 addresses of 4 bytes
constexpr RegisterOffset kValues = 512;  // eight registers of up to 16 bytes per lane
constexpr uint32_t kRegisterBytes = kValues + 8 * 512;

struct Variant {
  const char* name;
  int level;
  AccessHandlers (*handlers)();
};

#define STAGECRAFT_VARIANT(level, isa, ...) {"level " #level, level, isa::access_handlers},
std::vector<Variant> variants() {
  std::vector<Variant> built{STAGECRAFT_EACH_ISA(STAGECRAFT_VARIANT, )};
  std::erase_if(built, [](const Variant& variant) { return variant.level > isa_level(); });
  return built;
}
#undef STAGECRAFT_VARIANT

class AccessLanesTest : public ::testing::TestWithParam<Variant> {
 protected:
  AccessLanesTest() : buffer(memory.allocate(kBufferBytes, AllocationKind::device).value()) {
    request.parameters.resize(64);
    grid.memory = &memory;
    grid.request = &request;
    cluster.grid = &grid;
    cluster.blocks.push_back(std::make_unique<Block>());
    Block& block = *cluster.blocks[0];
    block.cluster = &cluster;
    block.shared.resize(kSharedReservedBytes + kBufferBytes);
    warp.block = &block;
    warp.grid = &grid;
    warp.registers = registers;
    warp.local = local;
    warp.local_stride = 256;
    warp.live = kAllLanes;
    fragment.registers = registers;
    fragment.warp = &warp;
    fragment.effects = &grid.effects;
    fragment.mask = kAllLanes;
  }

  std::byte* memory_start(AccessSpace space) {
    return space == AccessSpace::shared ? cluster.blocks[0]->shared.data() + kSharedReservedBytes
                                        : DeviceMemory::host(buffer);
  }

  AccessDetail detail_of(AccessSpace space, bool store, const AccessShape& shape) {
    const AccessHandlers handlers = GetParam().handlers();
    AccessDetail access;
    access.name = "access";
    access.space = space;
    access.verb = store ? AccessVerb::writes : AccessVerb::reads;
    access.wide = space != AccessSpace::shared;
    access.base = access.wide ? kBase : kNarrow;
    access.offset = 0;
    access.element_bytes = shape.element_bytes;
    access.count = shape.count;
    access.bytes = access.alignment = shape.element_bytes * shape.count;
    for (uint32_t i = 0; i < shape.count; ++i) {
      access.registers[i] = kValues + i * 512;
      access.moves[i] = handlers.move(store, shape);
      EXPECT_NE(access.moves[i], nullptr);
    }
    access.locate = handlers.locate(space, true, access.wide);
    return access;
  }

  void set_addresses(AccessSpace space, const std::function<uint32_t(uint32_t)>& place, uint32_t bytes) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const uint64_t address =
          (space == AccessSpace::shared ? kSharedReservedBytes : buffer) + uint64_t{place(lane)} * bytes;
      const auto narrow = static_cast<uint32_t>(address);
      std::memcpy(registers + kBase + 8 * lane, &address, 8);
      std::memcpy(registers + kNarrow + 4 * lane, &narrow, 4);
    }
  }

  /// Runs one access with both kinds of handler and compares with what each lane alone would do.
  void check(AccessSpace space, bool store, const AccessShape& shape, LaneMask mask,
             const std::function<uint32_t(uint32_t)>& place) {
    std::mt19937 random(shape.element_bytes * 100 + shape.count);
    std::byte* const bytes = memory_start(space);
    const AccessDetail access = detail_of(space, store, shape);
    set_addresses(space, place, access.bytes);
    for (uint32_t i = 0; i < kBufferBytes; ++i) bytes[i] = static_cast<std::byte>(random());
    for (uint32_t i = kValues; i < kRegisterBytes; ++i) registers[i] = static_cast<std::byte>(random());

    std::vector<std::byte> expected_memory(bytes, bytes + kBufferBytes);
    std::vector<std::byte> expected_registers(registers, registers + kRegisterBytes);
    for_each_lane(mask, [&](uint32_t lane) {
      for (uint32_t i = 0; i < shape.count; ++i) {
        std::byte* const in_memory = expected_memory.data() + place(lane) * access.bytes + i * shape.element_bytes;
        std::byte* const in_register = expected_registers.data() + kValues + i * 512 + lane * shape.register_bytes;
        if (store) {
          std::memcpy(in_memory, in_register, shape.element_bytes);
        } else {
          const bool negative =
              shape.sign_extend && (std::to_integer<uint8_t>(in_memory[shape.element_bytes - 1]) & 0x80) != 0;
          std::memset(in_register, negative ? 0xff : 0, shape.register_bytes);
          std::memcpy(in_register, in_memory, shape.element_bytes);
        }
      }
    });

    const AccessHandlers handlers = GetParam().handlers();
    Handler handler = handlers.any(store);
    const Handler special =
        mask == kAllLanes ? handlers.full(space, store, shape) : handlers.masked(space, store, shape);
    if (special != nullptr) handler = special;
    Op op;
    op.a = access.base;
    op.immediate = 0;
    op.detail = &access;
    EXPECT_EQ(handler(fragment, op, mask), Outcome::next);
    EXPECT_EQ(std::memcmp(bytes, expected_memory.data(), kBufferBytes), 0);
    EXPECT_EQ(std::memcmp(registers + kValues, expected_registers.data() + kValues, kRegisterBytes - kValues), 0);
  }

  DeviceMemory memory{1ull << 26};
  uint64_t buffer;
  LaunchRequest request;
  Grid grid;
  Cluster cluster;
  Warp warp;
  Fragment fragment;
  alignas(64) std::byte registers[kRegisterBytes] = {};
  alignas(64) std::byte local[kWarpSize * 256] = {};
};

const AccessShape kShapes[] = {
    {1, 2, false, 1},   {1, 2, true, 1},  {1, 4, false, 1}, {1, 4, true, 1},  {1, 8, false, 1},
    {1, 8, true, 1},    {2, 2, false, 1}, {2, 4, false, 1}, {2, 4, true, 1},  {2, 8, false, 1},
    {2, 8, true, 1},    {4, 4, false, 1}, {4, 8, false, 1}, {4, 8, true, 1},  {8, 8, false, 1},
    {16, 16, false, 1}, {1, 2, false, 2}, {1, 2, false, 4}, {2, 2, false, 2}, {2, 2, false, 4},
    {4, 4, false, 2},   {4, 4, false, 4}, {4, 4, false, 8}, {8, 8, false, 2}, {8, 8, false, 4},
};

const std::function<uint32_t(uint32_t)> kPatterns[] = {
    [](uint32_t) { return 5u; },                                  // one place
    [](uint32_t lane) { return lane; },                           // consecutive
    [](uint32_t lane) { return lane < 16 ? lane : 100 + lane; },  // two rows
    [](uint32_t lane) { return lane < 16 ? 7u : 9u; },            // two places
    [](uint32_t lane) { return lane < 16 ? 3u : lane; },          // a place and a row
    [](uint32_t lane) { return 31 - lane; },                      // backwards
    [](uint32_t lane) { return lane * 3 % 128; },                 // strided
    [](uint32_t lane) { return lane / 4; },                       // groups of four
    [](uint32_t lane) { return lane == 13 ? 60u : lane; },        // all but one
    [](uint32_t lane) { return lane == 1    ? 1u
                               : lane == 17 ? 2u
                                            : lane * 7 % 61; },
};

TEST_P(AccessLanesTest, LoadsEveryPatternAsLaneByLane) {
  for (const AccessSpace space : {AccessSpace::global, AccessSpace::shared}) {
    for (const AccessShape& shape : kShapes) {
      for (size_t pattern = 0; pattern < std::size(kPatterns); ++pattern) {
        SCOPED_TRACE(testing::Message() << "element " << shape.element_bytes << " register " << shape.register_bytes
                                        << " signed " << shape.sign_extend << " count " << shape.count << " pattern "
                                        << pattern << " space " << static_cast<int>(space));
        check(space, false, shape, kAllLanes, kPatterns[pattern]);
        check(space, false, shape, 0x80f0'1235, kPatterns[pattern]);
      }
    }
  }
}

TEST_P(AccessLanesTest, StoresEveryPatternAsLaneByLane) {
  for (const AccessSpace space : {AccessSpace::global, AccessSpace::shared}) {
    for (const AccessShape& shape : kShapes) {
      if (shape.sign_extend) continue;
      for (size_t pattern = 0; pattern < std::size(kPatterns); ++pattern) {
        SCOPED_TRACE(testing::Message() << "element " << shape.element_bytes << " register " << shape.register_bytes
                                        << " count " << shape.count << " pattern " << pattern << " space "
                                        << static_cast<int>(space));
        check(space, true, shape, kAllLanes, kPatterns[pattern]);
        check(space, true, shape, 0x0000'8001, kPatterns[pattern]);
      }
    }
  }
}

TEST_P(AccessLanesTest, RefusesEveryAddressThatLeavesTheAllocation) {
  const AccessShape shape{4, 4, false, 1};
  const AccessHandlers handlers = GetParam().handlers();
  const AccessDetail access = detail_of(AccessSpace::global, false, shape);
  Op op;
  op.a = access.base;
  op.detail = &access;
  const Handler full = handlers.full(AccessSpace::global, false, shape);
  set_addresses(
      AccessSpace::global, [](uint32_t lane) { return lane; }, 4);
  full(fragment, op, kAllLanes);  // fills the cache of this access
  // One lane is out of bounds, in patterns that the fast way recognises and in some that it does not.
  for (const uint64_t address : {uint64_t{0}, buffer - 4, buffer + kBufferBytes, buffer + (uint64_t{1} << 63),
                                 ~uint64_t{3}, (uint64_t{1} << 63) - 4, kSharedWindow + 0x400, kLocalWindow}) {
    for (const uint32_t lane : {0u, 1u, 15u, 16u, 17u, 31u}) {
      set_addresses(
          AccessSpace::global, [](uint32_t each) { return each; }, 4);
      std::memcpy(registers + kBase + 8 * lane, &address, 8);
      try {
        full(fragment, op, kAllLanes);
        ADD_FAILURE() << "no fault for address " << address << " in lane " << lane;
      } catch (const Fault& fault) {
        EXPECT_EQ(fault.kind, FaultKind::illegal_address);
        EXPECT_EQ(fault.lanes, 1u << lane);
      }
    }
  }
  // Rows that begin inside and end outside, and rows that wrap around.
  for (const uint64_t start : {buffer + kBufferBytes - 64, buffer - 64, ~uint64_t{0} - 63, uint64_t{0}}) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const uint64_t address = start + 4 * lane;
      std::memcpy(registers + kBase + 8 * lane, &address, 8);
    }
    EXPECT_THROW(full(fragment, op, kAllLanes), Fault) << start;
  }
}

TEST_P(AccessLanesTest, NoticesThatAnAllocationWasFreed) {
  const AccessShape shape{4, 4, false, 1};
  const AccessDetail access = detail_of(AccessSpace::global, false, shape);
  Op op;
  op.a = access.base;
  op.detail = &access;
  const Handler full = GetParam().handlers().full(AccessSpace::global, false, shape);
  set_addresses(
      AccessSpace::global, [](uint32_t lane) { return lane; }, 4);
  EXPECT_EQ(full(fragment, op, kAllLanes), Outcome::next);
  EXPECT_EQ(full(fragment, op, kAllLanes), Outcome::next);
  memory.release(buffer);
  EXPECT_THROW(full(fragment, op, kAllLanes), Fault);
}

TEST_P(AccessLanesTest, KeepsSharedAccessesOutOfTheReservedKilobyteAndWithinTheBlock) {
  const AccessShape shape{8, 8, false, 1};
  const AccessDetail access = detail_of(AccessSpace::shared, false, shape);
  Op op;
  op.a = access.base;
  op.detail = &access;
  const Handler full = GetParam().handlers().full(AccessSpace::shared, false, shape);
  for (const uint32_t bad : {0u, kSharedReservedBytes - 8, kSharedReservedBytes + kBufferBytes, 0x1000400u, ~7u}) {
    set_addresses(
        AccessSpace::shared, [](uint32_t lane) { return lane; }, 8);
    std::memcpy(registers + kNarrow + 4 * 20, &bad, 4);
    try {
      full(fragment, op, kAllLanes);
      ADD_FAILURE() << "no fault for shared address " << bad;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind, FaultKind::illegal_address);
      EXPECT_EQ(fault.lanes, 1u << 20);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, AccessLanesTest, testing::ValuesIn(variants()),
                         [](const auto& info) { return "Level" + std::to_string(info.param.level); });

}  // namespace
}  // namespace stagecraft::emulator::machine
