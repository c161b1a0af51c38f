// Descriptors against words put together by hand from the bit fields of the PTX ISA. Every literal below was worked out
// on paper; nothing here calls the code under test to know what to expect.
#include <cuda_fp4.h>
#include <gtest/gtest.h>

#include <vector>

#include "stagecraft/mma_instruction.hpp"
#include "stagecraft/pipeline_state.hpp"
#include "stagecraft/umma_descriptors.hpp"

namespace stagecraft {
namespace {

using Bf16 = __nv_bfloat16;
using E4m3 = __nv_fp8_e4m3;
using E5m2 = __nv_fp8_e5m2;
using E2m1 = __nv_fp4_e2m1;
constexpr Swizzle kNone = Swizzle::none, k32 = Swizzle::bytes_32, k64 = Swizzle::bytes_64, k128 = Swizzle::bytes_128;
constexpr Swizzle kAtom32 = Swizzle::bytes_128_atom_32;

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

// ---- Shared memory descriptors --------------------------------------------------------------------------------------

TEST(SharedMemoryDescriptorTest, PutsEveryFieldInItsPlace) {
  constexpr uint64_t kConstantOne = uint64_t{1} << 46;
  EXPECT_EQ(SharedMemoryDescriptor{}.encode(), kConstantOne);
  EXPECT_EQ(SharedMemoryDescriptor{.start_address = 0x400}.encode(), kConstantOne | 0x40);
  EXPECT_EQ(SharedMemoryDescriptor{.leading_byte_offset = 0x2000}.encode(), kConstantOne | uint64_t{0x200} << 16);
  EXPECT_EQ(SharedMemoryDescriptor{.stride_byte_offset = 1024}.encode(), kConstantOne | uint64_t{64} << 32);
  EXPECT_EQ(SharedMemoryDescriptor{.base_offset = 5}.encode(), kConstantOne | uint64_t{5} << 49);
  EXPECT_EQ(SharedMemoryDescriptor{.swizzle = kAtom32}.encode(), kConstantOne | uint64_t{1} << 61);
  EXPECT_EQ(SharedMemoryDescriptor{.swizzle = k128}.encode(), kConstantOne | uint64_t{2} << 61);
  EXPECT_EQ(SharedMemoryDescriptor{.swizzle = k64}.encode(), kConstantOne | uint64_t{4} << 61);
  EXPECT_EQ(SharedMemoryDescriptor{.swizzle = k32}.encode(), kConstantOne | uint64_t{6} << 61);
}

TEST(SharedMemoryDescriptorTest, FillsEveryFieldToItsLastBit) {
  // Start 0x3fff in bits 13:0, leading 0x3fff in 29:16, stride 0x3fff in 45:32, version 1 in 48:46, base 7 in 51:49.
  EXPECT_EQ((shared_memory_descriptor<0x3fff0, 0x3fff0, 0x3fff0, 7, k32>()), 0xc00e'7fff'3fff'3fff);
  EXPECT_EQ((shared_memory_descriptor<0, 0, 0, 0, kNone>()), 0x0000'4000'0000'0000);
  EXPECT_EQ((shared_memory_descriptor<0x12340, 0x100, 0x400, 1, k128>()), 0x4002'4040'0010'1234);
}

TEST(SharedMemoryDescriptorTest, LeavesTheBlockRankOutOfTheAddress) {
  EXPECT_EQ(SharedMemoryDescriptor{.start_address = 0x3000400}.encode(),
            SharedMemoryDescriptor{.start_address = 0x400}.encode());
}

TEST(SharedMemoryDescriptorTest, AdvancesItsStartAlone) {
  EXPECT_EQ(advance_descriptor(0x4000'4040'0000'0840, 96), 0x4000'4040'0000'0846);
}

// K-major: leading (bits 29:16) is a box, in units of 16 bytes, without a swizzle, and 0 with one; stride (45:32) is 8
// lines.
TEST(TileDescriptorTest, DescribesTilesContiguousAlongK) {
  EXPECT_EQ((tile_descriptor<Tile<Bf16, 128, 64, kNone>>()), 0x0000'4008'0080'0000);
  EXPECT_EQ((tile_descriptor<Tile<Bf16, 64, 16, k32>>()), 0xc000'4010'0000'0000);
  EXPECT_EQ((tile_descriptor<Tile<Bf16, 64, 32, k64>>()), 0x8000'4020'0000'0000);
  EXPECT_EQ((tile_descriptor<Tile<Bf16, 128, 64, k128>>()), 0x4000'4040'0000'0000);
  EXPECT_EQ((tile_descriptor<Tile<__half, 256, 128, k128>>()), 0x4000'4040'0000'0000);
  EXPECT_EQ((tile_descriptor<Tile<tf32, 64, 16, kNone>>()), 0x0000'4008'0040'0000);
  EXPECT_EQ((tile_descriptor<Tile<tf32, 128, 32, k128>>()), 0x4000'4040'0000'0000);
  EXPECT_EQ((tile_descriptor<Tile<E4m3, 8, 64, kNone>>()), 0x0000'4008'0008'0000);
  EXPECT_EQ((tile_descriptor<Tile<E5m2, 128, 64, k64>>()), 0x8000'4020'0000'0000);
  EXPECT_EQ((tile_descriptor<Tile<E2m1, 128, 256, k128>>()), 0x4000'4040'0000'0000);
  EXPECT_EQ((tile_descriptor<Tile<E2m1, 128, 64, k32>>()), 0xc000'4010'0000'0000);
}

// MN-major: with a swizzle, leading is a box and stride is 8 lines (4 of chunks of 32 bytes); without one, they change
// places.
TEST(TileDescriptorTest, DescribesTilesContiguousAlongMOrN) {
  constexpr Major kMn = Major::mn;
  EXPECT_EQ((tile_descriptor<Tile<Bf16, 128, 64, kNone, kMn>>()), 0x0000'4040'0008'0000);
  EXPECT_EQ((tile_descriptor<Tile<Bf16, 128, 64, k32, kMn>>()), 0xc000'4010'0080'0000);
  EXPECT_EQ((tile_descriptor<Tile<Bf16, 128, 64, k64, kMn>>()), 0x8000'4020'0100'0000);
  EXPECT_EQ((tile_descriptor<Tile<Bf16, 128, 64, k128, kMn>>()), 0x4000'4040'0200'0000);
  EXPECT_EQ((tile_descriptor<Tile<__half, 64, 16, k128, kMn>>()), 0x4000'4040'0080'0000);
  EXPECT_EQ((tile_descriptor<Tile<E4m3, 128, 32, kNone, kMn>>()), 0x0000'4020'0008'0000);
  EXPECT_EQ((tile_descriptor<Tile<E5m2, 256, 64, k128, kMn>>()), 0x4000'4040'0200'0000);
  EXPECT_EQ((tile_descriptor<Tile<tf32, 64, 32, kAtom32, kMn>>()), 0x2000'4020'0100'0000);
  EXPECT_EQ((tile_descriptor<Tile<tf32, 128, 8, kAtom32, kMn>>()), 0x2000'4020'0040'0000);
}

// Every type that an MMA can read, 128 bytes of K in 128 rows: all that matters is the swizzle, because fields count
// bytes.
template <typename Element>
class TileDescriptorOf : public testing::Test {};
using OperandTypes = testing::Types<Bf16, __half, tf32, E4m3, E5m2, E2m1>;
TYPED_TEST_SUITE(TileDescriptorOf, OperandTypes);

TYPED_TEST(TileDescriptorOf, EverySwizzle) {
  constexpr int kColumns = 1024 / element_bits<TypeParam>;
  EXPECT_EQ((tile_descriptor<Tile<TypeParam, 128, kColumns, kNone>>()), 0x0000'4008'0080'0000);
  EXPECT_EQ((tile_descriptor<Tile<TypeParam, 128, kColumns, k32>>()), 0xc000'4010'0000'0000);
  EXPECT_EQ((tile_descriptor<Tile<TypeParam, 128, kColumns, k64>>()), 0x8000'4020'0000'0000);
  EXPECT_EQ((tile_descriptor<Tile<TypeParam, 128, kColumns, k128>>()), 0x4000'4040'0000'0000);
}

// The same along M or N, of 64 columns. tf32 has a swizzle of its own there, and 4-bit elements cannot be stored so.
template <typename Element>
class MnMajorTileDescriptorOf : public testing::Test {};
using MnMajorTypes = testing::Types<Bf16, __half, E4m3, E5m2>;
TYPED_TEST_SUITE(MnMajorTileDescriptorOf, MnMajorTypes);

TYPED_TEST(MnMajorTileDescriptorOf, EverySwizzle) {
  constexpr Major kMn = Major::mn;
  EXPECT_EQ((tile_descriptor<Tile<TypeParam, 128, 64, kNone, kMn>>()), 0x0000'4040'0008'0000);
  EXPECT_EQ((tile_descriptor<Tile<TypeParam, 128, 64, k32, kMn>>()), 0xc000'4010'0080'0000);
  EXPECT_EQ((tile_descriptor<Tile<TypeParam, 128, 64, k64, kMn>>()), 0x8000'4020'0100'0000);
  EXPECT_EQ((tile_descriptor<Tile<TypeParam, 128, 64, k128, kMn>>()), 0x4000'4040'0200'0000);
}

// One MMA takes 32 bytes of K: side by side in a swizzled line, two boxes of 16 bytes apart without a swizzle; and 16,
// 8, 32 or 64 lines on where they run along K.
TEST(TileDescriptorTest, FindsEverySliceOfK) {
  const auto offsets = []<typename T>(T*) {
    return std::vector<uint32_t>{slice_offset<T>(0), slice_offset<T>(1), slice_offset<T>(2), slice_offset<T>(3)};
  };
  using Offsets = std::vector<uint32_t>;
  constexpr Major kMn = Major::mn;
  EXPECT_EQ(offsets((Tile<Bf16, 128, 64, k128>*)nullptr), (Offsets{0, 32, 64, 96}));
  EXPECT_EQ(offsets((Tile<Bf16, 128, 64, k64>*)nullptr), (Offsets{0, 32, 8192, 8224}));
  EXPECT_EQ(offsets((Tile<Bf16, 128, 64, k32>*)nullptr), (Offsets{0, 4096, 8192, 12288}));
  EXPECT_EQ(offsets((Tile<Bf16, 128, 64, kNone>*)nullptr), (Offsets{0, 4096, 8192, 12288}));
  EXPECT_EQ(offsets((Tile<E4m3, 64, 128, k128>*)nullptr), (Offsets{0, 32, 64, 96}));
  EXPECT_EQ(offsets((Tile<tf32, 64, 32, k128>*)nullptr), (Offsets{0, 32, 64, 96}));
  EXPECT_EQ(offsets((Tile<E2m1, 64, 256, k128>*)nullptr), (Offsets{0, 32, 64, 96}));
  EXPECT_EQ(offsets((Tile<Bf16, 128, 64, k128, kMn>*)nullptr), (Offsets{0, 2048, 4096, 6144}));
  EXPECT_EQ(offsets((Tile<Bf16, 128, 64, k32, kMn>*)nullptr), (Offsets{0, 512, 1024, 1536}));
  EXPECT_EQ(offsets((Tile<Bf16, 128, 64, kNone, kMn>*)nullptr), (Offsets{0, 256, 512, 768}));
  EXPECT_EQ(offsets((Tile<E4m3, 128, 128, k128, kMn>*)nullptr), (Offsets{0, 4096, 8192, 12288}));
  EXPECT_EQ(offsets((Tile<tf32, 64, 32, kAtom32, kMn>*)nullptr), (Offsets{0, 1024, 2048, 3072}));
}

// ---- Instruction descriptors ----------------------------------------------------------------------------------------

// D: f32 0x10. A: bits 9:7, B: 12:10. Negations 0x2000 and 0x4000, majors 0x8000 and 0x10000. N / 8 from bit 17, M / 16
// from bit 24.
TEST(InstructionDescriptorTest, IsRightForKindF16) {
  EXPECT_EQ((instruction_descriptor<Mma{.m = 128, .n = 128}>()), 0x0820'0490u);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 64, .n = 8}>()), 0x0402'0490u);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 128, .n = 256, .a = ElementFormat::f16, .b = ElementFormat::f16}>()),
            0x0840'0010u);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 128,
                                        .n = 256,
                                        .a = ElementFormat::f16,
                                        .b = ElementFormat::f16,
                                        .accumulator = AccumulatorFormat::f16}>()),
            0x0840'0000u);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 128, .n = 16, .a = ElementFormat::f16}>()), 0x0804'0410u);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 128, .n = 16, .a_major = Major::mn, .negate_b = true}>()), 0x0804'c490u);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 128, .n = 16, .b_major = Major::mn, .negate_a = true}>()), 0x0805'2490u);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 256, .n = 256, .cta_group = 2}>()), 0x1040'0490u);
  EXPECT_EQ((instruction_descriptor<Mma{.m = 128, .n = 16, .cta_group = 2}>()), 0x0804'0490u);
}

TEST(InstructionDescriptorTest, IsRightForKindTf32) {
  constexpr Mma kMma{.kind = MmaKind::tf32, .m = 128, .n = 256, .a = ElementFormat::tf32, .b = ElementFormat::tf32};
  EXPECT_EQ(instruction_descriptor<kMma>(), 0x0840'0910u);
  EXPECT_EQ((instruction_descriptor<Mma{.kind = MmaKind::tf32,
                                        .m = 64,
                                        .n = 24,
                                        .a = ElementFormat::tf32,
                                        .b = ElementFormat::tf32,
                                        .a_major = Major::mn,
                                        .b_major = Major::mn}>()),
            0x0407'8910u);
}

TEST(InstructionDescriptorTest, IsRightForKindF8f6f4) {
  constexpr MmaKind kKind = MmaKind::f8f6f4;
  using enum ElementFormat;
  EXPECT_EQ((instruction_descriptor<Mma{.kind = kKind, .m = 64, .n = 64, .a = e4m3, .b = e4m3}>()), 0x0410'0010u);
  EXPECT_EQ((instruction_descriptor<Mma{.kind = kKind, .m = 128, .n = 16, .a = e5m2, .b = e4m3}>()), 0x0804'0090u);
  EXPECT_EQ((instruction_descriptor<Mma{.kind = kKind, .m = 128, .n = 16, .a = e4m3, .b = e5m2}>()), 0x0804'0410u);
  EXPECT_EQ((instruction_descriptor<Mma{.kind = kKind, .m = 128, .n = 16, .a = e2m3, .b = e3m2}>()), 0x0804'1190u);
  EXPECT_EQ((instruction_descriptor<Mma{.kind = kKind, .m = 128, .n = 16, .a = e2m1, .b = e2m1}>()), 0x0804'1690u);
  EXPECT_EQ((instruction_descriptor<Mma{.kind = kKind,
                                        .m = 128,
                                        .n = 16,
                                        .a = e4m3,
                                        .b = e4m3,
                                        .accumulator = AccumulatorFormat::f16,
                                        .b_major = Major::mn}>()),
            0x0805'0000u);
  EXPECT_EQ((instruction_descriptor<Mma{
                 .kind = kKind, .m = 256, .n = 32, .a = e4m3, .b = e4m3, .b_major = Major::mn, .cta_group = 2}>()),
            0x1009'0010u);
}

// Bit 23: the scale factors are ue8m0. B's id in bits 5:4, A's in 30:29.
TEST(InstructionDescriptorTest, IsRightForTheBlockScaledKinds) {
  using enum ElementFormat;
  EXPECT_EQ((instruction_descriptor<Mma{.kind = MmaKind::mxf8f6f4, .m = 128, .n = 128, .a = e4m3, .b = e4m3}>()),
            0x08a0'0000u);
  EXPECT_EQ((instruction_descriptor<Mma{
                 .kind = MmaKind::mxf8f6f4, .m = 128, .n = 8, .a = e5m2, .b = e4m3, .sfa_id = 3, .sfb_id = 2}>()),
            0x6882'00a0u);
  EXPECT_EQ((instruction_descriptor<Mma{.kind = MmaKind::mxf4, .m = 128, .n = 128, .a = e2m1, .b = e2m1}>()),
            0x08a0'0480u);
  EXPECT_EQ((instruction_descriptor<Mma{
                 .kind = MmaKind::mxf4, .m = 128, .n = 128, .a = e2m1, .b = e2m1, .sfa_id = 2, .sfb_id = 2}>()),
            0x48a0'04a0u);
  EXPECT_EQ((instruction_descriptor<Mma{.kind = MmaKind::mxf4nvf4,
                                        .m = 128,
                                        .n = 256,
                                        .a = e2m1,
                                        .b = e2m1,
                                        .scale_block = 16,
                                        .scale_format = ScaleFormat::ue4m3}>()),
            0x0840'0480u);
  EXPECT_EQ(
      (instruction_descriptor<Mma{
           .kind = MmaKind::mxf4nvf4, .m = 256, .n = 256, .a = e2m1, .b = e2m1, .cta_group = 2, .scale_block = 16}>()),
      0x10c0'0480u);
  EXPECT_EQ(with_scale_factor_ids(0x08a0'0000, 3, 2), 0x68a0'0020u);
  EXPECT_EQ(with_scale_factor_ids(0x68a0'0020, 0, 1), 0x08a0'0010u);
}

TEST(InstructionDescriptorTest, FollowsFromTheTypesOfTheTiles) {
  EXPECT_EQ((instruction_descriptor<mma_of<Tile<Bf16, 128, 64>, Tile<Bf16, 256, 64>>()>()), 0x0840'0490u);
  EXPECT_EQ((instruction_descriptor<mma_of<Tile<E5m2, 64, 64, k64>, Tile<E4m3, 32, 64, k32, Major::mn>>()>()),
            0x0409'0090u);
  EXPECT_EQ((instruction_descriptor<mma_of<Tile<tf32, 128, 32, kAtom32, Major::mn>, Tile<tf32, 16, 32>>()>()),
            0x0804'8910u);
  EXPECT_EQ((instruction_descriptor<mma_of<Tile<__half, 128, 64>, Tile<__half, 64, 64>, 2>()>()), 0x1020'0010u);
  using Scales = ScaleFactorTile<__nv_fp8_e8m0, 128, 8>;
  using FineScales = ScaleFactorTile<E4m3, 128, 16>;
  using Fp4 = Tile<E2m1, 128, 256>;
  using Fp8 = Tile<E4m3, 128, 256>;
  EXPECT_EQ((instruction_descriptor<scaled_mma_of<Fp8, Fp8, Scales>()>()), 0x08a0'0000u);
  EXPECT_EQ((instruction_descriptor<scaled_mma_of<Fp4, Fp4, Scales>()>()), 0x08a0'0480u);
  EXPECT_EQ((instruction_descriptor<scaled_mma_of<Fp4, Fp4, FineScales>()>()), 0x0820'0480u);
}

}  // namespace
}  // namespace stagecraft
