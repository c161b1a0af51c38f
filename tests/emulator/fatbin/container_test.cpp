#include "emulator/fatbin/container.hpp"

#include <gtest/gtest.h>

#include <random>

#include "container_builder.hpp"
#include "emulator/chip/architecture.hpp"
#include "emulator/fatbin/cubin.hpp"
#include "emulator/fatbin/locate.hpp"
#include "emulator/fatbin/selection.hpp"

namespace stagecraft::emulator::fatbin {
namespace {

constexpr Target kSm100a{100, TargetKind::exact};
constexpr Target kSm90a{90, TargetKind::exact};

std::string long_text() {
  std::string text = ".version 9.0\n.target sm_100a\n.address_size 64\n";
  for (int line = 0; line < 200; ++line) text += "// line " + std::to_string(line) + "\n";
  return text;
}

/// The message of the Error that `body` throws, or the empty string when it throws none.
template <typename Body>
std::string error_of(Body&& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

class ContainerCompressionTest : public testing::TestWithParam<Compression> {};

TEST_P(ContainerCompressionTest, ReturnsTheTextThatWasEmbedded) {
  const std::string bytes = ContainerBuilder().add(EntryKind::ptx, kSm100a, long_text(), GetParam()).build();
  const std::vector<Entry> entries = read_container(bytes_of(bytes));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].target, kSm100a);
  EXPECT_EQ(read_payload(entries[0]), long_text());
}

TEST_P(ContainerCompressionTest, SurvivesEveryTruncation) {
  const std::string bytes = ContainerBuilder()
                                .add(EntryKind::ptx, kSm90a, "short")
                                .add(EntryKind::ptx, kSm100a, long_text(), GetParam())
                                .build();
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly this size, so that a sanitizer sees a read past its end.
    const std::vector<std::byte> cut(bytes_of(bytes).begin(), bytes_of(bytes).begin() + static_cast<ptrdiff_t>(size));
    EXPECT_THROW(read_container(cut), Error) << size;
    if (size < 16) continue;
    // The same with a header that agrees with the truncation.
    std::vector<std::byte> agreeing = cut;
    const uint64_t rest = size - 16;
    std::memcpy(agreeing.data() + 8, &rest, sizeof rest);
    try {
      for (const Entry& entry : read_container(agreeing)) read_payload(entry);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    }
  }
}

TEST_P(ContainerCompressionTest, SurvivesRandomDamage) {
  const std::string bytes = ContainerBuilder()
                                .add(EntryKind::ptx, kSm100a, long_text(), GetParam())
                                .add(EntryKind::elf, kSm100a, make_cubin({{"kernel", 40}}), GetParam())
                                .build();
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> damaged(bytes_of(bytes).begin(), bytes_of(bytes).end());
    const uint32_t flips = 1 + random() % 4;
    for (uint32_t flip = 0; flip < flips; ++flip) {
      damaged[random() % damaged.size()] ^= static_cast<std::byte>(1u << random() % 8);
    }
    try {
      for (const Entry& entry : read_container(damaged)) {
        const std::string content = read_payload(entry);
        if (entry.kind == EntryKind::elf) read_register_counts(content);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ContainerCompressionTest,
                         testing::Values(Compression::none, Compression::lz4_block, Compression::zstd));

TEST(ContainerTest, SaysHowManyBytesOfAPayloadAreMissing) {
  std::string bytes = ContainerBuilder().add(EntryKind::ptx, kSm100a, "one").add(EntryKind::ptx, kSm90a, "two").build();
  const uint64_t claimed = 4096;
  const size_t second = 16 + 0x50 + 8;
  std::memcpy(bytes.data() + second + 8, &claimed, sizeof claimed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "fat binary: entry 2 says payload 4096 bytes but only 8 remain",
                      error_of([&] { read_container(bytes_of(bytes)); }));
}

TEST(ContainerTest, RefusesAWrongMagicNumberByNamingBoth) {
  std::string bytes = ContainerBuilder().add(EntryKind::ptx, kSm100a, "text").build();
  bytes[0] = 0;
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "0xba55ed00 where 0xba55ed50",
                      error_of([&] { read_container(bytes_of(bytes)); }));
}

TEST(ContainerTest, DoesNotBelieveAnEnormousUncompressedSize) {
  std::string bytes = ContainerBuilder().add(EntryKind::ptx, kSm100a, long_text(), Compression::zstd).build();
  const uint64_t claimed = uint64_t{1} << 60;
  std::memcpy(bytes.data() + 16 + 0x38, &claimed, sizeof claimed);
  const std::vector<Entry> entries = read_container(bytes_of(bytes));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "says it unpacks to 1152921504606846976 bytes",
                      error_of([&] { read_payload(entries[0]); }));
}

TEST(ContainerTest, AllocatesNoMoreThanTheCompressedBytesCanStandFor) {
  // A frame whose own header makes the same claim, and one block, of a byte that is repeated 1000 times.
  const std::string frame("\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x10\x43\x1f\x00x", 13);
  std::string bytes = ContainerBuilder().add(EntryKind::ptx, kSm100a, frame).build();
  const auto compressed = static_cast<uint32_t>(frame.size());
  const uint64_t claimed = uint64_t{1} << 28;
  const uint64_t zstd = 0x8000;
  std::memcpy(bytes.data() + 16 + 0x10, &compressed, sizeof compressed);
  std::memcpy(bytes.data() + 16 + 0x28, &zstd, sizeof zstd);
  std::memcpy(bytes.data() + 16 + 0x38, &claimed, sizeof claimed);
  const std::vector<Entry> entries = read_container(bytes_of(bytes));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "says its 13 bytes of zstd unpack to 268435456",
                      error_of([&] { read_payload(entries[0]); }));
}

TEST(ContainerTest, RefusesAnUnknownCompression) {
  std::string bytes = ContainerBuilder().add(EntryKind::ptx, kSm100a, long_text(), Compression::zstd).build();
  bytes[16 + 0x29] = 0x10;  // flags 0x1011 in place of 0x8011
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "compressed in an unknown way",
                      error_of([&] { read_container(bytes_of(bytes)); }));
}

TEST(ContainerTest, SkipsEntriesOfOtherKinds) {
  const std::string bytes =
      ContainerBuilder().add(static_cast<EntryKind>(8), kSm100a, "ir").add(EntryKind::ptx, kSm100a, "ptx").build();
  const std::vector<Entry> entries = read_container(bytes_of(bytes));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].number, 2u);
}

std::string chosen(const ContainerBuilder& builder, const machine::Architecture& chip) {
  const std::string bytes = builder.build();
  const std::vector<Entry> entries = read_container(bytes_of(bytes));
  return read_payload(choose_ptx(entries, chip));
}

TEST(SelectionTest, TakesTheTextMadeForTheChip) {
  ContainerBuilder builder;
  builder.add(EntryKind::ptx, {80, TargetKind::generic}, "80")
      .add(EntryKind::ptx, kSm90a, "90a")
      .add(EntryKind::ptx, {90, TargetKind::generic}, "90")
      .add(EntryKind::ptx, kSm100a, "100a")
      .add(EntryKind::ptx, {100, TargetKind::family}, "100f")
      .add(EntryKind::ptx, {120, TargetKind::exact}, "120a");
  EXPECT_EQ(chosen(builder, machine::b200()), "100a");
  EXPECT_EQ(chosen(builder, machine::h200()), "90a");
  EXPECT_EQ(chosen(builder, machine::rtx5090()), "120a");
  EXPECT_EQ(chosen(builder, machine::spark()), "90");
}

TEST(SelectionTest, RunsTheFamilysTextOnADgxSpark) {
  ContainerBuilder builder;
  builder.add(EntryKind::ptx, {120, TargetKind::generic}, "120").add(EntryKind::ptx, {120, TargetKind::family}, "120f");
  EXPECT_EQ(chosen(builder, machine::rtx5090()), "120f");
  EXPECT_EQ(chosen(builder, machine::spark()), "120f");
  EXPECT_TRUE(runs_on({121, TargetKind::exact}, machine::spark()));
  EXPECT_FALSE(runs_on({120, TargetKind::exact}, machine::spark()));
  EXPECT_FALSE(runs_on({121, TargetKind::generic}, machine::rtx5090()));
}

TEST(SelectionTest, SaysThatCodeForAB200DoesNotRunOnAnRtx5090) {
  ContainerBuilder builder;
  builder.add(EntryKind::ptx, kSm100a, "100a").add(EntryKind::ptx, {100, TargetKind::family}, "100f");
  EXPECT_PRED_FORMAT2(
      testing::IsSubstring,
      "PTX for sm_100a, sm_100f, but the NVIDIA GeForce RTX 5090 (emulated) runs sm_120a; run it on the "
      "NVIDIA B200 (emulated), with --device b200",
      error_of([&] { chosen(builder, machine::rtx5090()); }));
}

TEST(SelectionTest, PrefersTheFamilyToTheGenericText) {
  ContainerBuilder builder;
  builder.add(EntryKind::ptx, {100, TargetKind::generic}, "100").add(EntryKind::ptx, {100, TargetKind::family}, "100f");
  EXPECT_EQ(chosen(builder, machine::b200()), "100f");
}

TEST(SelectionTest, RunsGenericTextOfOlderChipsOnNewerOnes) {
  ContainerBuilder builder;
  builder.add(EntryKind::ptx, {80, TargetKind::generic}, "80").add(EntryKind::ptx, {90, TargetKind::generic}, "90");
  EXPECT_EQ(chosen(builder, machine::b200()), "90");
  EXPECT_EQ(chosen(builder, machine::h200()), "90");
}

TEST(SelectionTest, SaysWhatWasFoundWhenNoTextSuits) {
  ContainerBuilder builder;
  builder.add(EntryKind::ptx, kSm90a, "90a").add(EntryKind::ptx, {120, TargetKind::generic}, "120");
  const std::string message = error_of([&] { chosen(builder, machine::b200()); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "PTX for sm_90a, sm_120", message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "runs sm_100a", message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "-gencode \"arch=compute_100a,code=[sm_100a,compute_100a]\"", message);
}

TEST(SelectionTest, SaysHowToRebuildAProgramWithMachineCodeOnly) {
  ContainerBuilder builder;
  builder.add(EntryKind::elf, kSm100a, make_cubin({}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "machine code for sm_100a but no PTX",
                      error_of([&] { chosen(builder, machine::b200()); }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "neither PTX nor machine code",
                      error_of([&] { chosen(ContainerBuilder(), machine::b200()); }));
}

TEST(SelectionTest, ReadsTargetNames) {
  EXPECT_EQ(parse_target("sm_100a"), kSm100a);
  EXPECT_EQ(parse_target("sm_90"), (Target{90, TargetKind::generic}));
  EXPECT_EQ(parse_target("sm_103f"), (Target{103, TargetKind::family}));
  for (const char* name : {"", "sm_", "sm_a", "compute_90", "sm_90aa", "sm_99999999999"}) {
    EXPECT_EQ(parse_target(name), std::nullopt) << name;
  }
}

TEST(CubinTest, ReadsTheRegistersOfEachKernel) {
  const auto registers = read_register_counts(make_cubin({{"_Z4gemmv", 168}, {"_Z3addPf", 12}}));
  EXPECT_EQ(registers, (std::map<std::string, uint32_t>{{"_Z4gemmv", 168}, {"_Z3addPf", 12}}));
}

/// An image with a kernel of three instructions and a function behind them. Their lines of PTX are 7, 7 and 5.
std::string cubin_with_lines() {
  ElfBuilder elf;
  std::string text;
  for (uint64_t i = 0; i < 4; ++i) {
    append_number<uint64_t>(text, 100 + i);
    append_number<uint64_t>(text, 200 + i);
  }
  const uint32_t code = elf.add_section(".text._Z3addPf", SHT_PROGBITS, 0, text);
  const uint32_t kernel = elf.add_symbol("_Z3addPf", static_cast<uint16_t>(code), STT_FUNC);
  elf.add_symbol("slow_path", static_cast<uint16_t>(code), STT_FUNC, 48);
  // Version 2, one directory and no file; then: set the address, go on by 6 lines, note; go on by 32 bytes and -2
  // lines, note (special opcode 10 + 5 - 2 + 14 * 0 after an advance); the end.
  std::string program{'\x02', '\x00'};
  const std::string header{'\x01', '\x01', '\xfb', '\x0e', '\x0a', 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0};
  append_number<uint32_t>(program, static_cast<uint32_t>(header.size()));
  program += header;
  program += std::string{'\x00', '\x09', '\x02'};
  const uint64_t address = sizeof(uint32_t) + program.size();
  append_number<uint64_t>(program, 0);
  program += std::string{'\x03', '\x06', '\x01', '\x02', '\x20', '\x0d', '\x00', '\x01', '\x01'};
  std::string unit;
  append_number<uint32_t>(unit, static_cast<uint32_t>(program.size()));
  elf.add_section(".nv_debug_line_sass", SHT_PROGBITS, 0, unit + program);
  Elf64_Rela relocation{};
  relocation.r_offset = address;
  relocation.r_info = ELF64_R_INFO(uint64_t{kernel}, 2);
  std::string relocations;
  append_bytes(relocations, &relocation, sizeof relocation);
  elf.add_section(".rela.nv_debug_line_sass", SHT_RELA, 0, relocations);
  return elf.build();
}

TEST(CubinTest, ReadsTheInstructionsOfAKernelAndTheirLines) {
  const auto code = read_machine_code(cubin_with_lines());
  ASSERT_EQ(code.size(), 1u);
  const machine::MachineCode& kernel = code.at("_Z3addPf");
  ASSERT_EQ(kernel.size(), 3u);
  constexpr uint32_t kLines[] = {7, 7, 5};
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(kernel[i].low, 100 + i);
    EXPECT_EQ(kernel[i].high, 200 + i);
    EXPECT_EQ(kernel[i].line, kLines[i]) << i;
  }
}

TEST(CubinTest, KernelsWithoutLinesHaveNoInstructions) {
  EXPECT_TRUE(read_machine_code(make_cubin({{"kernel", 40}})).empty());
}

TEST(CubinTest, AnInstructionOfTheLineProgramEndsWithinIt) {
  std::string image = cubin_with_lines();
  const size_t at = image.find(std::string{'\x00', '\x09', '\x02'});
  ASSERT_NE(at, std::string::npos);
  // A length of 2^64 - 11 would lead back to the instruction itself, for ever.
  const std::string length{'\xf5', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\x01'};
  image.replace(at + 1, length.size(), length);
  EXPECT_THROW(read_machine_code(image), Error);
}

TEST(CubinTest, DamagedLinesAreRefusedOrReadAsOthers) {
  const std::string image = cubin_with_lines();
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = image;
    for (uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
      damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
    }
    try {
      read_machine_code(damaged);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    }
  }
}

TEST(CubinTest, SurvivesEveryTruncation) {
  const std::string image = make_cubin({{"kernel", 40}});
  for (size_t size = 0; size < image.size(); ++size) {
    const std::vector<char> cut(image.begin(), image.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_THROW(read_register_counts({cut.data(), cut.size()}), Error) << size;
  }
}

TEST(LocateTest, FindsTheContainerBehindAWrapper) {
  const std::string bytes = ContainerBuilder().add(EntryKind::ptx, kSm100a, "text").build();
  struct {
    uint32_t magic = kWrapperMagic, version = 1;
    const void* data;
    void* more = nullptr;
  } wrapper{kWrapperMagic, 1, bytes.data(), nullptr};
  EXPECT_EQ(container_of_wrapper(&wrapper).size(), bytes.size());
  wrapper.data = reinterpret_cast<const void*>(0x10);
  EXPECT_THROW(container_of_wrapper(&wrapper), Error);
  wrapper.magic = 5;
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "0x466243b1 should stand",
                      error_of([&] { container_of_wrapper(&wrapper); }));
  EXPECT_THROW(container_of_wrapper(nullptr), Error);
}

TEST(LocateTest, SaysThatNothingIsReadableAtAWildPointer) {
  EXPECT_TRUE(readable_from(nullptr).empty());
  EXPECT_TRUE(readable_from(reinterpret_cast<const void*>(0x1234)).empty());
  EXPECT_GE(readable_from(&kSm100a).size(), sizeof kSm100a);
}

}  // namespace
}  // namespace stagecraft::emulator::fatbin
