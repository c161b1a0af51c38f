#include <gtest/gtest.h>

#include <set>

#include "stagecraft/pipeline_state.hpp"
#include "stagecraft/swizzle.hpp"
#include "stagecraft/umma_descriptors.hpp"

namespace stagecraft {
namespace {

TEST(PipelineStateTest, TurnsItsPhaseWhenTheRingHasGoneRound) {
  PipelineState<3> state;
  for (uint32_t step = 0; step < 20; ++step) {
    EXPECT_EQ(state.index(), step % 3);
    EXPECT_EQ(state.phase(), step / 3 % 2);
    state.step();
  }
}

TEST(PipelineStateTest, TurnsItsPhaseAtEveryStepOfARingOfOne) {
  PipelineState<1> state(0, 1);
  for (uint32_t step = 0; step < 6; ++step) {
    EXPECT_EQ(state.index(), 0u);
    EXPECT_EQ(state.phase(), (step + 1) % 2);
    state.step();
  }
}

TEST(SwizzleTest, ExchangesTheBitsThatItsNameSays) {
  for (const uint32_t address : {0u, 0x80u, 0x1f0u, 0x3a4u, 0x7ffffu, 0x12345u}) {
    EXPECT_EQ(swizzled(address, Swizzle::none), address);
    EXPECT_EQ(swizzled(address, Swizzle::bytes_32), address ^ (address >> 3 & 0x10));
    EXPECT_EQ(swizzled(address, Swizzle::bytes_64), address ^ (address >> 3 & 0x30));
    EXPECT_EQ(swizzled(address, Swizzle::bytes_128), address ^ (address >> 3 & 0x70));
  }
}

TEST(SwizzleTest, SpreadsAColumnOverAllBanks) {
  std::set<uint32_t> chunks;
  for (uint32_t row = 0; row < 8; ++row) chunks.insert(swizzled(row * 128, Swizzle::bytes_128) % 128);
  EXPECT_EQ(chunks.size(), 8u);
}

TEST(SwizzleTest, TellsTheWidthOfARow) {
  EXPECT_EQ(swizzle_span(Swizzle::none), 16u);
  EXPECT_EQ(swizzle_span(Swizzle::bytes_32), 32u);
  EXPECT_EQ(swizzle_span(Swizzle::bytes_64), 64u);
  EXPECT_EQ(swizzle_span(Swizzle::bytes_128), 128u);
}

// The words were put together by hand from the bit fields of the PTX ISA.
TEST(SharedMemoryDescriptorTest, PutsEveryFieldInItsPlace) {
  constexpr uint64_t kConstantOne = uint64_t{1} << 46;
  EXPECT_EQ(SharedMemoryDescriptor{}.encode(), kConstantOne);
  EXPECT_EQ(SharedMemoryDescriptor{.start_address = 0x400}.encode(), kConstantOne | 0x40);
  EXPECT_EQ(SharedMemoryDescriptor{.leading_byte_offset = 0x2000}.encode(), kConstantOne | uint64_t{0x200} << 16);
  EXPECT_EQ(SharedMemoryDescriptor{.stride_byte_offset = 1024}.encode(), kConstantOne | uint64_t{64} << 32);
  EXPECT_EQ(SharedMemoryDescriptor{.base_offset = 5}.encode(), kConstantOne | uint64_t{5} << 49);
  EXPECT_EQ(SharedMemoryDescriptor{.swizzle = Swizzle::bytes_128}.encode(), kConstantOne | uint64_t{2} << 61);
  EXPECT_EQ(SharedMemoryDescriptor{.swizzle = Swizzle::bytes_64}.encode(), kConstantOne | uint64_t{4} << 61);
  EXPECT_EQ(SharedMemoryDescriptor{.swizzle = Swizzle::bytes_32}.encode(), kConstantOne | uint64_t{6} << 61);
}

TEST(SharedMemoryDescriptorTest, LeavesTheBlockRankOutOfTheAddress) {
  EXPECT_EQ(SharedMemoryDescriptor{.start_address = 0x3000400}.encode(),
            SharedMemoryDescriptor{.start_address = 0x400}.encode());
}

TEST(SharedMemoryDescriptorTest, AdvancesItsStartAlone) {
  const SharedMemoryDescriptor tile{.start_address = 0x8400, .stride_byte_offset = 1024, .swizzle = Swizzle::bytes_128};
  SharedMemoryDescriptor next = tile;
  next.start_address += 96;
  EXPECT_EQ(advance_descriptor(tile.encode(), 96), next.encode());
}

TEST(InstructionDescriptorTest, PutsEveryFieldInItsPlace) {
  constexpr uint32_t kF32 = 1u << 4, kBf16 = 1u << 7 | 1u << 10;
  EXPECT_EQ((instruction_descriptor<Mma{.m = 128, .n = 128}>()), kF32 | kBf16 | 16u << 17 | 8u << 24);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 64, .n = 8}>()), kF32 | kBf16 | 1u << 17 | 4u << 24);
  EXPECT_EQ(
      (instruction_descriptor<Mma{
           .m = 128, .n = 256, .a = ElementFormat::f16, .b = ElementFormat::f16, .accumulator = AccumulatorFormat::f16}>()),
      32u << 17 | 8u << 24);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 128, .n = 16, .a_major = Major::mn, .negate_b = true}>()),
            kF32 | kBf16 | 1u << 14 | 1u << 15 | 2u << 17 | 8u << 24);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 128, .n = 16, .b_major = Major::mn, .negate_a = true}>()),
            kF32 | kBf16 | 1u << 13 | 1u << 16 | 2u << 17 | 8u << 24);
}

}  // namespace
}  // namespace stagecraft
