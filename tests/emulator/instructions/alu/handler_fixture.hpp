// Runs arithmetic handlers on a register file made by the test, at every x86-64 level that is built.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "emulator/host/isa_level.hpp"
#include "emulator/instructions/alu/handlers.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine::alu {

class HandlerTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() > isa_level()) GTEST_SKIP() << "this processor has no x86-64-v" << GetParam();
  }

  Handlers find(Operation operation, ptx::Type type, unsigned variant = 0) {
    const Handlers handlers = catalog_of_level(GetParam()).find(operation, type, static_cast<uint16_t>(variant));
    EXPECT_NE(handlers.full, nullptr) << "operation " << int(operation) << " type " << ptx::name_of(type);
    return handlers;
  }

  static constexpr size_t kSlot = 64 * 16;
  alignas(64) std::array<std::byte, 8 * kSlot> file{};
  std::mt19937_64 random{20251120};

  /// Returns the results of the handler for inputs of any length. Runs the full handler, and the masked one with random
  /// masks and the destination equal to the first source; checks that both agree and that other lanes are unchanged.
  template <typename R, int PerLane = 1, typename A, typename... More>
  std::vector<R> apply(Handlers handlers, uint64_t immediate, const std::vector<A>& first,
                       const std::vector<More>&... more) {
    constexpr size_t kElements = 32 * PerLane;
    std::vector<R> results(first.size());
    if (handlers.full == nullptr) return results;
    Fragment fragment;
    fragment.registers = file.data();
    Op op;
    op.destination = 0;
    op.a = kSlot;
    op.b = 2 * kSlot;
    op.c = 3 * kSlot;
    op.immediate = sizeof...(More) == 3 ? 4 * kSlot : immediate;
    for (size_t begin = 0; begin < first.size(); begin += kElements) {
      const size_t count = std::min(kElements, first.size() - begin);
      const auto load = [&](size_t slot, const auto& values) {
        std::memset(file.data() + slot * kSlot, 0, kSlot);
        std::memcpy(file.data() + slot * kSlot, values.data() + begin, count * sizeof values[0]);
      };
      size_t slot = 0;
      load(++slot, first);
      (load(++slot, more), ...);
      handlers.full(fragment, op, kAllLanes);
      std::memcpy(results.data() + begin, file.data(), count * sizeof(R));

      std::array<R, kElements> full, masked, before;
      std::memcpy(full.data(), file.data(), sizeof full);
      const bool in_place = sizeof(R) == sizeof(A);
      Op second = op;
      if (in_place) second.destination = op.a;
      for (std::byte& byte : std::span(file).first(kSlot)) byte = static_cast<std::byte>(random());
      std::memcpy(before.data(), file.data() + second.destination, sizeof before);
      LaneMask mask = static_cast<LaneMask>(random());
      if (mask == 0) mask = 1;
      handlers.masked(fragment, second, mask);
      std::memcpy(masked.data(), file.data() + second.destination, sizeof masked);
      for (size_t i = 0; i < kElements; ++i) {
        const R expected = (mask >> (i / PerLane) & 1) != 0 ? full[i] : before[i];
        EXPECT_EQ(std::memcmp(&masked[i], &expected, sizeof(R)), 0) << "element " << i << ", mask " << mask;
      }
    }
    return results;
  }

  /// Does the same as `apply` for handlers that write a predicate: one bit per element.
  template <typename A, typename... More>
  std::vector<bool> test(Handlers handlers, uint64_t immediate, const std::vector<A>& first,
                         const std::vector<More>&... more) {
    std::vector<bool> results(first.size());
    if (handlers.full == nullptr) return results;
    Fragment fragment;
    fragment.registers = file.data();
    Op op;
    op.destination = 0;
    op.a = kSlot;
    op.b = 2 * kSlot;
    op.immediate = immediate;
    for (size_t begin = 0; begin < first.size(); begin += 32) {
      const size_t count = std::min<size_t>(32, first.size() - begin);
      size_t slot = 0;
      const auto load = [&](const auto& values) {
        std::memcpy(file.data() + ++slot * kSlot, values.data() + begin, count * sizeof values[0]);
      };
      load(first);
      (load(more), ...);
      LaneMask bits = 0;
      handlers.full(fragment, op, kAllLanes);
      std::memcpy(&bits, file.data(), 4);
      for (size_t i = 0; i < count; ++i) results[begin + i] = (bits >> i & 1) != 0;
      const LaneMask old = static_cast<LaneMask>(random()), mask = static_cast<LaneMask>(random()) | 1;
      std::memcpy(file.data(), &old, 4);
      handlers.masked(fragment, op, mask);
      LaneMask masked = 0;
      std::memcpy(&masked, file.data(), 4);
      EXPECT_EQ(masked, (old & ~mask) | (bits & mask));
    }
    return results;
  }

  /// Returns random bits, most of them near the ends of ranges, where errors are likely.
  template <typename T>
  std::vector<T> integers(size_t count) {
    std::vector<T> values(count);
    constexpr int kBits = 8 * sizeof(T);
    for (T& value : values) {
      const uint64_t bits = random();
      switch (bits % 8) {
        case 0: value = static_cast<T>(static_cast<int>(bits >> 8 & 15) - 8); break;
        case 1: value = static_cast<T>((uint64_t{1} << (bits >> 8) % kBits) - (bits >> 20 & 1)); break;
        case 2: value = static_cast<T>((uint64_t{1} << (kBits - 1)) + (bits >> 8 & 3) - 2); break;
        case 3: value = static_cast<T>(random() & 0xff); break;
        default: value = static_cast<T>(random()); break;
      }
    }
    return values;
  }

  /// Returns random floats: every exponent, specials, and numbers close to one another.
  std::vector<float> floats(size_t count) {
    std::vector<float> values(count);
    constexpr uint32_t kSpecial[] = {0u,          0x80000000u, 1u,          0x80000001u, 0x007fffffu, 0x00800000u,
                                     0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc12345u, 0x7f800001u,
                                     0x3f800000u, 0xbf800000u, 0x3f7fffffu, 0x4f000000u, 0x4effffffu, 0xcf000000u,
                                     0x4f800000u, 0x5f000000u, 0x5f800000u, 0x7e800000u, 0x7e800001u, 0x477fe000u,
                                     0x477ff000u, 0x33000000u, 0x33000001u, 0x00400000u};
    for (float& value : values) {
      const uint64_t bits = random();
      auto pattern = static_cast<uint32_t>(bits);
      if (bits >> 60 == 0) pattern = kSpecial[(bits >> 32) % std::size(kSpecial)];
      if ((bits >> 60 & 12) == 4) pattern = (pattern & 0x80ffffffu) | 0x3f000000u;
      if ((bits >> 60 & 12) == 8) pattern &= 0xfffff000u;
      value = std::bit_cast<float>(pattern);
    }
    return values;
  }
  std::vector<double> doubles(size_t count) {
    std::vector<double> values(count);
    const std::vector<float> simple = floats(count);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = random();
      values[i] = bits % 3 == 0 ? static_cast<double>(simple[i]) : std::bit_cast<double>(bits);
      if (bits % 3 == 1) values[i] = std::bit_cast<double>((bits & 0x8fffffffffffffffu) | 0x3000000000000000u);
    }
    return values;
  }
};

inline std::string level_name(const ::testing::TestParamInfo<int>& info) {
  return "level" + std::to_string(info.param);
}

#define STAGECRAFT_VALUE(level, isa, ...) level,
constexpr int kBuiltLevels[] = {STAGECRAFT_EACH_ISA(STAGECRAFT_VALUE, )};
#undef STAGECRAFT_VALUE
#define STAGECRAFT_ALL_LEVELS(Suite) \
  INSTANTIATE_TEST_SUITE_P(Levels, Suite, ::testing::ValuesIn(kBuiltLevels), level_name)

/// Whether two values have the same bits, or are both NaN if `any_nan`.
template <typename T>
bool same_bits(T left, T right) {
  return std::memcmp(&left, &right, sizeof(T)) == 0;
}

}  // namespace stagecraft::emulator::machine::alu
