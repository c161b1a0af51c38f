// The register maps of tcgen05.ld and tcgen05.st, and the maps of tcgen05.cp.
#include <map>
#include <set>

#include "emulator/engines/tensor_core/tcgen05/tcgen05_copy.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_fragment.hpp"
#include "fixtures/tensor_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

const std::vector<FragmentShape> kShapes{FragmentShape::s32x32b, FragmentShape::s16x64b, FragmentShape::s16x128b,
                                         FragmentShape::s16x256b, FragmentShape::s16x32bx2};

// A warp's registers, one word per lane each.
struct Registers {
  std::vector<uint32_t> words;
  std::vector<uint32_t> offsets;

  explicit Registers(uint32_t count) : words(count * 32), offsets(count) {
    // They are not in order, because a vector operand can have any registers.
    for (uint32_t i = 0; i < count; ++i) offsets[i] = (i * 5 % count) * 128;
  }
  uint32_t& at(uint32_t index, uint32_t thread) { return words[offsets[index] / 4 + thread]; }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(words.data()); }
};

TEST(Tcgen05AccessTest, CoversEachCellOfEveryShapeOnce) {
  for (const FragmentShape shape : kShapes) {
    for (uint32_t times = 1; times <= repetitions_of(shape); times *= 2) {
      std::set<uint32_t> cells;
      for (uint32_t index = 0; index < times * registers_of(shape); ++index) {
        for (uint32_t thread = 0; thread < 32; ++thread) {
          const TensorCell cell = fragment_cell(shape, thread, index, times);
          EXPECT_LT(cell.lane, lanes_of(shape));
          EXPECT_LT(cell.column, times * columns_of(shape) * (shape == FragmentShape::s16x32bx2 ? 2 : 1));
          EXPECT_TRUE(cells.insert(address_of(cell)).second);
        }
      }
      EXPECT_EQ(cells.size(), times * registers_of(shape) * 32);
    }
  }
}

TEST(Tcgen05AccessTest, PutsElementsWhereTheManualHasThem) {
  // 16x128b and 16x256b are the fragments of mma.m16n8: thread 5 is in row 1, with the second pair of columns.
  EXPECT_EQ(fragment_cell(FragmentShape::s16x256b, 5, 0), (TensorCell{1, 2}));
  EXPECT_EQ(fragment_cell(FragmentShape::s16x256b, 5, 1), (TensorCell{1, 3}));
  EXPECT_EQ(fragment_cell(FragmentShape::s16x256b, 5, 2), (TensorCell{9, 2}));
  EXPECT_EQ(fragment_cell(FragmentShape::s16x256b, 5, 7), (TensorCell{9, 11}));
  EXPECT_EQ(fragment_cell(FragmentShape::s16x128b, 5, 3), (TensorCell{9, 5}));
  EXPECT_EQ(fragment_cell(FragmentShape::s16x64b, 3, 1), (TensorCell{8, 3}));
  EXPECT_EQ(fragment_cell(FragmentShape::s16x32bx2, 17, 2, 64), (TensorCell{1, 66}));
  EXPECT_EQ(fragment_cell(FragmentShape::s32x32b, 31, 127), (TensorCell{31, 127}));
}

TEST(Tcgen05AccessTest, LoadsWhatItStoredInEveryShape) {
  std::mt19937 random(3);
  for (const FragmentShape shape : kShapes) {
    for (uint32_t times = 1; times <= repetitions_of(shape); times *= 2) {
      for (const bool packed : {false, true}) {
        SCOPED_TRACE(::testing::Message() << static_cast<int>(shape) << " x" << times << " packed " << packed);
        TensorBlock bench;
        bench.allocate(512);
        const uint32_t split = packed ? 2 * times : times;
        const Tcgen05Fragment access(shape, times, packed, split);
        const uint32_t warp = 6;
        // The widest packed forms take all columns.
        const uint32_t column = times * columns_of(shape) * (shape == FragmentShape::s16x32bx2 ? 2 : 1) > 128 ? 0 : 200;
        const uint32_t address = address_of({shape == FragmentShape::s32x32b ? 64u : 80u, column});
        Registers out(access.register_count()), in(access.register_count());
        for (uint32_t& word : out.words) word = random();

        ASSERT_EQ(access.approve(bench.memory, bench.block, warp, address, "tcgen05.st"), address);
        access.store(bench.memory, address, out.bytes(), out.offsets.data());
        access.load(bench.memory, address, in.bytes(), in.offsets.data());
        EXPECT_EQ(out.words, in.words);

        std::map<uint32_t, uint32_t> expected;
        for (uint32_t index = 0; index < access.register_count(); ++index) {
          for (uint32_t thread = 0; thread < 32; ++thread) {
            TensorCell cell = fragment_cell(shape, thread, index, packed ? 0 : split);
            if (packed) {
              cell.column = 2 * cell.column + (shape == FragmentShape::s16x32bx2 && thread >= 16 ? split : 0);
              expected[address + address_of(cell)] = out.at(index, thread) & 0xffff;
              ++cell.column;
              expected[address + address_of(cell)] = out.at(index, thread) >> 16;
            } else {
              expected[address + address_of(cell)] = out.at(index, thread);
            }
          }
        }
        for (uint32_t column = 0; column < kTensorColumns; ++column) {
          for (uint32_t lane = 0; lane < kTensorLanes; ++lane) {
            const auto found = expected.find(address_of({lane, column}));
            ASSERT_EQ(bench.memory.cell({lane, column}),
                      found == expected.end() ? TensorMemory::kPoison : found->second)
                << "lane " << lane << " column " << column;
          }
        }
      }
    }
  }
}

TEST(Tcgen05AccessTest, TakesEachWarpToItsQuarterOfTheLanes) {
  TensorBlock bench;
  bench.allocate(64);
  const Tcgen05Fragment whole(FragmentShape::s32x32b, 8, false);
  const Tcgen05Fragment half(FragmentShape::s16x64b, 4, false);
  const auto check = [&](const Tcgen05Fragment& access, uint32_t warp, uint32_t lane, uint32_t column = 0) {
    return access.approve(bench.memory, bench.block, warp, address_of({lane, column}), "tcgen05.ld");
  };
  EXPECT_EQ(check(whole, 0, 0, 3), address_of({0, 3}));
  EXPECT_EQ(check(whole, 5, 32), address_of({32, 0}));
  EXPECT_EQ(check(half, 3, 112), address_of({112, 0}));
  // Addresses of other quarters, as in DeepGEMM.
  EXPECT_EQ(check(whole, 7, 0, 8), address_of({96, 8}));
  EXPECT_EQ(check(half, 1, 80), address_of({48, 0}));
  // Addresses in a pair's 256 rows, in its second block.
  EXPECT_EQ(check(whole, 2, 128 + 64, 8), address_of({64, 8}));
  EXPECT_EQ(check(half, 2, 128 + 80), address_of({80, 0}));
  EXPECT_FAULT(check(whole, 1, 8), "tcgen05.ld: address 0x80000 is in lane 8, where no access of this shape may begin");
  EXPECT_FAULT(check(whole, 1, 8), "warp 1 may access lanes 32 to 63");
  EXPECT_FAULT(check(whole, 0, 256), "is in lane 256, where");
  EXPECT_FAULT(check(whole, 0, 16), "legal lane of the address: 0");
  EXPECT_FAULT(check(half, 0, 8), "legal lanes of the address: 0 and 16");
  EXPECT_FAULT(check(whole, 0, 0, 60), "the block has allocated columns 0 to 63");
  EXPECT_FAULT(check(whole, 3, 0, 96 + 8), "warp 3's lanes begin at 96: was the lane added without a shift?");
  EXPECT_FAULT(check(whole, 3, 0, 96 + 8), "lane << 16 | column, here 0x600008");
  EXPECT_FAULT(check(whole, 1, 0, 60), "from address 0x3c (lane 0, column 60): column 64 is not allocated");
  const Tcgen05Fragment split(FragmentShape::s16x32bx2, 8, false, 60);
  EXPECT_FAULT(check(split, 0, 0), "8 columns from address 0x0 (lane 0, column 0; the second half from column 60)");
}

// ---- tcgen05.cp ----------------------------------------------------------------------------------------------------

const std::vector<CopyShape> kCopies{CopyShape::c128x256b,      CopyShape::c128x128b, CopyShape::c64x128b_02_13,
                                     CopyShape::c64x128b_01_23, CopyShape::c32x128b,  CopyShape::c4x256b};

TEST(Tcgen05CopyTest, WritesEachLaneOnce) {
  for (const CopyShape shape : kCopies) {
    std::set<uint32_t> lanes;
    for (uint32_t row = 0; row < rows_of(shape); ++row) {
      for (uint32_t copy = 0; copy < copies_of(shape); ++copy) {
        EXPECT_LT(copy_lane(shape, row, copy), kTensorLanes);
        EXPECT_TRUE(lanes.insert(copy_lane(shape, row, copy)).second);
      }
    }
    EXPECT_EQ(lanes.size(), shape == CopyShape::c4x256b ? 4u : 128u);
  }
}

TEST(Tcgen05CopyTest, CopiesEveryShapeFromEverySwizzle) {
  std::mt19937 random(5);
  for (const CopyShape shape : kCopies) {
    for (const uint32_t swizzle : {0u, 6u, 4u, 2u}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(shape) << " swizzle " << swizzle);
      TensorBlock bench;
      bench.allocate(64);
      const uint32_t rows = rows_of(shape), bytes = row_bytes_of(shape);
      const uint32_t stride = swizzle == 0 ? 128 : 8 * span(swizzle), leading = swizzle == 0 ? 4096 : 0;
      std::vector<uint8_t> source(rows * bytes);
      for (uint8_t& byte : source) byte = static_cast<uint8_t>(random());
      for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t byte = 0; byte < bytes; ++byte) {
          const uint32_t offset = swizzle == 0 ? row / 8 * stride + row % 8 * 16 + byte / 16 * leading + byte % 16
                                               : row / 8 * stride + row % 8 * span(swizzle) + byte;
          bench.shared(place(swizzle, 8192 + offset)) = source[row * bytes + byte];
        }
      }
      Tcgen05Copy operation{shape, std::nullopt, address_of({shape == CopyShape::c4x256b ? 31u : 0u, 12}), {}};
      operation.source = decode_shared_descriptor(shared_descriptor(8192, leading, stride, swizzle), "copy");
      check(operation, {bench.block, bench.memory});
      execute(operation, {bench.block, bench.memory});
      for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t copy = 0; copy < copies_of(shape); ++copy) {
          const uint32_t lane = copy_lane(shape, row, copy) + cell_at(operation.address).lane;
          for (uint32_t column = 0; column < bytes / 4; ++column) {
            uint32_t word;
            std::memcpy(&word, &source[row * bytes + column * 4], 4);
            ASSERT_EQ(bench.memory.cell({lane, 12 + column}), word) << "lane " << lane << " column " << column;
          }
        }
      }
    }
  }
}

TEST(Tcgen05CopyTest, UnpacksNarrowElementsToBytes) {
  TensorBlock bench;
  bench.allocate(32);
  for (uint32_t i = 0; i < 128 * 16; ++i) bench.shared(2048 + i) = static_cast<uint8_t>(i * 7);
  Tcgen05Copy operation{CopyShape::c128x128b, ElementFormat::e2m1, 0, {}};
  operation.source = decode_shared_descriptor(shared_descriptor(2048, 0, 128, 0), "copy");
  execute(operation, {bench.block, bench.memory});
  for (uint32_t row = 0; row < 128; ++row) {
    for (uint32_t element = 0; element < 16; ++element) {
      const uint32_t code = bench.shared(2048 + row * 16 + element / 2) >> element % 2 * 4 & 15;
      EXPECT_EQ(bench.memory.cell({row, element / 4}) >> element % 4 * 8 & 0xff, code << 2);
    }
  }
  operation.unpacked = ElementFormat::e2m3;
  execute(operation, {bench.block, bench.memory});
  for (uint32_t row = 0; row < 128; ++row) {
    for (uint32_t element = 0; element < 16; ++element) {
      uint32_t code = 0;
      for (uint32_t bit = 0; bit < 6; ++bit) {
        const uint32_t index = element * 6 + bit;
        code |= (bench.shared(2048 + row * 16 + index / 8) >> index % 8 & 1u) << bit;
      }
      EXPECT_EQ(bench.memory.cell({row, element / 4}) >> element % 4 * 8 & 0xff, code);
    }
  }
}

TEST(Tcgen05CopyTest, RefusesPlacesThatDoNotExist) {
  TensorBlock bench;
  bench.allocate(32);
  const auto run = [&](CopyShape shape, TensorCell cell, uint32_t start) {
    Tcgen05Copy operation{shape, std::nullopt, address_of(cell), {}};
    operation.source = decode_shared_descriptor(shared_descriptor(start, 2048, 128, 0), "tcgen05.cp, descriptor");
    check(operation, {bench.block, bench.memory});
  };
  run(CopyShape::c4x256b, {31, 24}, 4096);
  EXPECT_FAULT(run(CopyShape::c4x256b, {32, 0}, 4096), "legal for 4x256b: lanes 0 to 31");
  EXPECT_FAULT(run(CopyShape::c128x256b, {1, 0}, 4096), "legal: lane 0");
  EXPECT_FAULT(run(CopyShape::c128x256b, {0, 28}, 4096), "column 32 is not allocated");
  EXPECT_FAULT(run(CopyShape::c128x256b, {0, 0}, kSharedBytes - 1024), "beyond the block's shared memory");
  EXPECT_FAULT(run(CopyShape::c128x256b, {0, 0}, 512), "which the system reserves");
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
