#include "emulator/instructions/device_printf.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace stagecraft::emulator::machine {
namespace {

/// Arguments as the compiler lays them out: promoted, at their natural alignment.
class Buffer {
 public:
  template <typename T>
  Buffer& add(T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

std::string format(std::string_view text, const Buffer& arguments = {}) {
  return format_device_printf(text, arguments.bytes(), [](uint64_t address) -> std::optional<std::string> {
    if (address == 0x100) return "hello";
    return std::nullopt;
  });
}

TEST(DevicePrintfTest, PrintsPlainTextAndPercentSigns) {
  EXPECT_EQ(format(""), "");
  EXPECT_EQ(format("no arguments\n"), "no arguments\n");
  EXPECT_EQ(format("100%% of %d", Buffer().add(7)), "100% of 7");
}

TEST(DevicePrintfTest, PrintsIntegersOfEveryLength) {
  EXPECT_EQ(format("%d %i %u %x %X %o", Buffer().add(-3).add(4).add(5u).add(255u).add(255u).add(8u)),
            "-3 4 5 ff FF 10");
  EXPECT_EQ(format("%u", Buffer().add(-1)), "4294967295");
  EXPECT_EQ(format("%lld %llu %ld", Buffer().add(-(int64_t{1} << 40)).add(~uint64_t{0}).add(int64_t{7})),
            "-1099511627776 18446744073709551615 7");
  EXPECT_EQ(format("%zu %d", Buffer().add(uint64_t{1} << 33).add(5)), "8589934592 5");
  EXPECT_EQ(format("%hhd %hhu %hd %hu", Buffer().add(300).add(-1).add(70000).add(-1)), "44 255 4464 65535");
}

TEST(DevicePrintfTest, AlignsArgumentsNaturally) {
  EXPECT_EQ(format("%d %lld %d %f", Buffer().add(1).add(int64_t{2}).add(3).add(4.5)), "1 2 3 4.500000");
}

TEST(DevicePrintfTest, PrintsFloatingPointCharactersStringsAndPointers) {
  EXPECT_EQ(format("%5.2f|%e|%g|%a", Buffer().add(2.5).add(1.5).add(1e10).add(1.0)), " 2.50|1.500000e+00|1e+10|0x1p+0");
  EXPECT_EQ(format("%c%c", Buffer().add(int{'o'}).add(int{'k'})), "ok");
  EXPECT_EQ(format("[%s] [%8s] [%-8s] [%.2s]",
                   Buffer().add(uint64_t{0x100}).add(uint64_t{0x100}).add(uint64_t{0x100}).add(uint64_t{0x100})),
            "[hello] [   hello] [hello   ] [he]");
  EXPECT_EQ(format("%p", Buffer().add(uint64_t{0x1234})), "0x1234");
}

TEST(DevicePrintfTest, TakesFlagsWidthAndPrecision) {
  EXPECT_EQ(format("%-5d|%05d|%+d|% d|%#x|%.3d", Buffer().add(7).add(42).add(5).add(5).add(255).add(5)),
            "7    |00042|+5| 5|0xff|005");
  EXPECT_EQ(format("%*d|%-*d|%.*f", Buffer().add(4).add(7).add(4).add(7).add(1).add(2.25)), "   7|7   |2.2");
  EXPECT_EQ(format("%*d|", Buffer().add(-4).add(7)), "7   |");
}

TEST(DevicePrintfTest, SaysWhereABadStringPoints) {
  EXPECT_EQ(format("%s", Buffer().add(uint64_t{0})), "(null)");
  EXPECT_EQ(format("%s", Buffer().add(uint64_t{0xbad})), "(no string at 0xbad)");
}

TEST(DevicePrintfTest, LeavesWhatItCannotPrintAsItStands) {
  EXPECT_EQ(format("%d and %d", Buffer().add(1)), "1 and %d");
  EXPECT_EQ(format("%q %", Buffer().add(1)), "%q %");
  EXPECT_EQ(format("100%"), "100%");
  EXPECT_EQ(format("%5.3"), "%5.3");
  EXPECT_EQ(format("%s"), "%s");
  EXPECT_EQ(format("[%n] %jd", Buffer().add(uint64_t{0x100})), "[%n] %jd");
}

TEST(DevicePrintfTest, BoundsWidthsThatWouldFillTheMemory) {
  EXPECT_EQ(format("%999999999d", Buffer().add(1)).size(), 4096u);
  EXPECT_EQ(format("%*d", Buffer().add(INT32_MIN).add(1)).size(), 4096u);
  EXPECT_LE(format("%.999999999f", Buffer().add(1.0)).size(), 4096u + 8);
}

TEST(DevicePrintfTest, SurvivesAnyFormat) {
  std::mt19937 random(3);
  constexpr std::string_view kAlphabet = "%%%%dfsxplhzc*.0123456789-+# nqe";
  Buffer arguments;
  for (int index = 0; index < 8; ++index) arguments.add(static_cast<uint32_t>(random()));
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint32_t length = random() % 20; length > 0; --length) text += kAlphabet[random() % kAlphabet.size()];
    format(text, arguments);
  }
}

}  // namespace
}  // namespace stagecraft::emulator::machine
