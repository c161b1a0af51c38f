// Descriptors of operands and of instructions: which are legal, and the messages about those that are not. Number
// formats.
#include <set>

#include "fixtures/tensor_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

TEST(Tcgen05DescriptorTest, ReadsTheFieldsOfAnOperand) {
  const SharedDescriptor found =
      decode_shared_descriptor(shared_descriptor(0x12340, 0x100, 0x400, 4) | uint64_t{5} << 49, "A");
  EXPECT_EQ(found.start, 0x12340u);
  EXPECT_EQ(found.leading, 0x100u);
  EXPECT_EQ(found.stride, 0x400u);
  EXPECT_EQ(found.base_offset, 5u);
  EXPECT_EQ(found.swizzle, Swizzle::bytes64);
}

TEST(Tcgen05DescriptorTest, NamesTheFieldOfAnOperandThatIsWrong) {
  const uint64_t good = shared_descriptor(4096, 16, 1024, 2);
  const auto decode = [](uint64_t bits) { decode_shared_descriptor(bits, "tcgen05.mma, descriptor of A"); };
  decode(good);
  EXPECT_FAULT(decode(good & ~(uint64_t{1} << 46)), "tcgen05.mma, descriptor of A 0x4000004000010100: bits 48:46");
  EXPECT_FAULT(decode(good | uint64_t{1} << 14),
               "bits 15:14 (reserved; an addition to the start address may have carried");
  EXPECT_FAULT(decode(good | uint64_t{1} << 30), "bits 31:30 (reserved) is 1");
  EXPECT_FAULT(decode(good | uint64_t{1} << 52), "bit 52");
  EXPECT_FAULT(decode(good | uint64_t{0xb0} << 53), "bits 60:53 (reserved) is 176");
  for (const uint64_t code : {3, 5, 7}) {
    EXPECT_FAULT(decode((good & ~(uint64_t{7} << 61)) | code << 61), "legal: 0 none, 1 128 bytes in atoms of 32");
  }
  EXPECT_FAULT(decode(shared_descriptor(4096 + 16, 0, 512, 1)), "a start address that is a multiple of 32");
  // Without a swizzle the base offset has no meaning, and Triton leaves 4 in it.
  EXPECT_EQ(decode_shared_descriptor(shared_descriptor(4096, 0, 512, 0) | uint64_t{4} << 49, "test").base_offset, 0u);
  EXPECT_EQ(decode_shared_descriptor(shared_descriptor(4096, 0, 512, 2) | uint64_t{4} << 49, "test").base_offset, 4u);
}

void decode(const Instruction& instruction, MmaKind kind = MmaKind::f16, bool ws = false) {
  decode_instruction_descriptor(instruction.bits(), kind, ws);
}
void decode(uint32_t bits, MmaKind kind = MmaKind::f16) { decode_instruction_descriptor(bits, kind, false); }

TEST(Tcgen05DescriptorTest, KnowsTheShapesOfEveryKind) {
  for (uint32_t m = 0; m <= 496; m += 16) {
    for (uint32_t n = 0; n <= 504; n += 8) {
      const bool m_good = m == 64 || m == 128;
      const bool n_good = n >= 8 && n <= 256;
      const bool n_good_i8 = n == 8 || n == 16 || n == 24 || n == 32 || (n >= 48 && n <= 256 && n % 16 == 0);
      const bool ws_good = (m == 32 || m == 64 || m == 128) && (n == 64 || n == 128 || n == 256);
      const auto is_legal = [&](MmaKind kind, Instruction instruction, bool ws = false) {
        instruction.m = m, instruction.n = n;
        return fault_text([&] { decode(instruction, kind, ws); }).empty();
      };
      EXPECT_EQ(is_legal(MmaKind::f16, {}), m_good && n_good) << m << " " << n;
      EXPECT_EQ(is_legal(MmaKind::tf32, {.a_code = 2, .b_code = 2}), m_good && n_good) << m << " " << n;
      EXPECT_EQ(is_legal(MmaKind::f8f6f4, {}), m_good && n_good) << m << " " << n;
      EXPECT_EQ(is_legal(MmaKind::i8, {.d_code = 2}), m_good && n_good_i8) << m << " " << n;
      EXPECT_EQ(is_legal(MmaKind::f16, {}, true), ws_good) << m << " " << n;
    }
  }
  EXPECT_FAULT(decode({.m = 96}),
               "M (bits 28:24, in units of 16) is 96 for kind::f16 with cta_group::1\nlegal: M 64 or 128");
  EXPECT_FAULT(decode({.m = 256}), "legal: M 64 or 128");
  EXPECT_FAULT(decode({.n = 40, .d_code = 2}, MmaKind::i8),
               "legal: N 8, 16, 24, 32, and from 48 to 256 in steps of 16");
}

TEST(Tcgen05DescriptorTest, KnowsTheTypesOfEveryKind) {
  for (uint32_t d = 0; d < 4; ++d) {
    for (uint32_t a = 0; a < 8; ++a) {
      for (uint32_t b = 0; b < 8; ++b) {
        const auto is_legal = [&](MmaKind kind) {
          return fault_text([&] { decode({.d_code = d, .a_code = a, .b_code = b}, kind); }).empty();
        };
        const auto narrow = [](uint32_t code) { return code <= 5 && code != 2; };
        EXPECT_EQ(is_legal(MmaKind::f16), a <= 1 && b <= 1 && (d == 1 || (d == 0 && a == 0 && b == 0)));
        EXPECT_EQ(is_legal(MmaKind::tf32), a == 2 && b == 2 && d == 1);
        EXPECT_EQ(is_legal(MmaKind::f8f6f4), narrow(a) && narrow(b) && d <= 1);
        EXPECT_EQ(is_legal(MmaKind::i8), a <= 1 && b <= 1 && d == 2);
      }
    }
  }
  EXPECT_FAULT(decode({.d_code = 0, .a_code = 1, .b_code = 1}),
               "format of D (bits 5:4) is 0 for kind::f16\nlegal: 1 f32");
  EXPECT_FAULT(decode({.a_code = 2}, MmaKind::f8f6f4), "format of A (bits 9:7) is 2\nlegal: 0 e4m3, 1 e5m2, 3 e2m3");
}

TEST(Tcgen05DescriptorTest, RefusesReservedBitsAndWhatAKindDoesNotHave) {
  const uint32_t good = Instruction{}.bits();
  EXPECT_FAULT(decode(good | 1u << 2), "bit 2 (sparse A");
  EXPECT_FAULT(decode(good | 1u << 0), "bits 1:0 (sparsity selector");
  EXPECT_FAULT(decode(good | 1u << 3), "bit 3 (saturation, of kind::i8 only)");
  EXPECT_FAULT(decode(good | 1u << 6), "bit 6 (reserved)");
  EXPECT_FAULT(decode(good | 1u << 23), "bit 23 (reserved)");
  EXPECT_FAULT(decode(good | 1u << 29), "bit 29 (reserved)");
  EXPECT_FAULT(decode(good | 1u << 30), "bits 31:30 (largest shift of B, of .ws only)");
  EXPECT_FAULT(decode({.d_code = 2, .negate_a = true}, MmaKind::i8), "bits 14:13 (negation of A and B");
  EXPECT_FAULT(decode({.a_code = 5, .a_mn = true}, MmaKind::f8f6f4), "bit 15 makes A MN-major");
  EXPECT_FAULT(decode({.b_code = 3, .b_mn = true}, MmaKind::f8f6f4), "K-major (0) for 4- and 6-bit elements");
  EXPECT_FAULT(decode({.n = 24, .b_mn = true}, MmaKind::f8f6f4), "N from 16 to 256 in steps of 16");
}

TEST(Tcgen05DescriptorTest, ReadsScaleFactorIds) {
  // kind::mxf8f6f4: e5m2 by e2m1, N 64, ue8m0, M 128, ids 2 for A and 3 for B.
  const uint32_t bits = 3u << 4 | 1u << 7 | 5u << 10 | 8u << 17 | 1u << 23 | 1u << 27 | 2u << 29;
  const InstructionDescriptor found = decode_instruction_descriptor(bits, MmaKind::mxf8f6f4, false);
  EXPECT_EQ(found.scale_id_a, 2u);
  EXPECT_EQ(found.scale_id_b, 3u);
  EXPECT_EQ(found.a, ElementFormat::e5m2);
  EXPECT_EQ(found.b, ElementFormat::e2m1);
  EXPECT_EQ(found.m, 128u);
  EXPECT_FALSE(found.scale_ue4m3);
  EXPECT_FAULT(decode(bits & ~(1u << 23), MmaKind::mxf8f6f4), "bit 23 (type of the scale factors) is 0, ue4m3");
  EXPECT_FAULT(decode((bits & ~(3u << 27)) | 2u << 27, MmaKind::mxf8f6f4), "legal: M 128");
  EXPECT_FAULT(decode(1u << 7 | 1u << 10 | 8u << 17 | 1u << 23 | 1u << 27 | 1u << 31, MmaKind::mxf4), "K of 96");
}

// ---- Maps ----------------------------------------------------------------------------------------------------------

TEST(TensorLayoutTest, SwizzlesAreOneToOneAndKeepSixteenBytes) {
  for (const Swizzle swizzle :
       {Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128, Swizzle::bytes128_atom32}) {
    for (uint32_t base_offset = 0; base_offset < 8; ++base_offset) {
      std::set<uint32_t> addresses;
      for (uint32_t address = 0; address < 2048; ++address) {
        const uint32_t found = swizzled(swizzle, address, base_offset);
        EXPECT_EQ(found % 16, address % 16);
        EXPECT_EQ(found / span_of(swizzle), address / span_of(swizzle));
        EXPECT_TRUE(addresses.insert(found).second);
      }
    }
  }
}

TEST(TensorLayoutTest, SwizzlesAsTheTmaUnitDoes) {
  for (const auto& [swizzle, code] : {std::pair{Swizzle::bytes32, 6u}, std::pair{Swizzle::bytes64, 4u},
                                      std::pair{Swizzle::bytes128, 2u}, std::pair{Swizzle::bytes128_atom32, 1u}}) {
    for (uint32_t address = 0; address < 4096; address += 8)
      EXPECT_EQ(swizzled(swizzle, address), place(code, address));
  }
}

TEST(TensorLayoutTest, AccumulatorsFillTheirLanesOnce) {
  const auto check = [](AccumulatorLayout layout, uint32_t rows, uint32_t columns) {
    std::set<uint32_t> cells;
    for (uint32_t m = 0; m < rows; ++m) {
      for (uint32_t n = 0; n < columns; ++n) {
        const TensorCell cell = accumulator_cell(layout, m, n, columns);
        EXPECT_LT(cell.lane, kTensorLanes);
        EXPECT_LT(cell.column, columns / column_groups(layout));
        EXPECT_TRUE(cells.insert(address_of(cell)).second);
      }
    }
  };
  check(AccumulatorLayout::d, 128, 256);
  check(AccumulatorLayout::f, 64, 256);
  check(AccumulatorLayout::e, 64, 128);
  check(AccumulatorLayout::g, 32, 256);
}

// ---- Number formats ------------------------------------------------------------------------------------------------

TEST(NarrowFloatTest, DecodesEveryCode) {
  for (uint32_t code = 0; code < 256; ++code) {
    if ((code & 0x7f) != 0x7f) {
      EXPECT_EQ(from_e4m3(code), worth(code, 4, 3, 7));
    }
    if ((code & 0x7c) != 0x7c) {
      EXPECT_EQ(from_e5m2(code), worth(code, 5, 2, 15));
    }
    if (code < 64) {
      EXPECT_EQ(from_e2m3(code), worth(code, 2, 3, 1));
    }
    if (code < 64) {
      EXPECT_EQ(from_e3m2(code), worth(code, 3, 2, 3));
    }
    if (code < 16) {
      EXPECT_EQ(from_e2m1(code), worth(code, 2, 1, 1));
    }
    if (code < 255) {
      EXPECT_EQ(from_ue8m0(code), std::ldexp(1.0, static_cast<int>(code) - 127));
    }
  }
  EXPECT_TRUE(std::isnan(from_e4m3(0x7f)) && std::isnan(from_e4m3(0xff)) && std::isnan(from_e5m2(0x7d)));
  EXPECT_EQ(from_e4m3(0x7e), 448.0f);
  EXPECT_EQ(from_e5m2(0xfc), -INFINITY);
  EXPECT_TRUE(std::isnan(from_ue8m0(0xff)));
}

TEST(NarrowFloatTest, RoundsToF16ToNearestEven) {
  for (uint32_t code = 0; code < 0x7c00; ++code) {
    const double value = worth(code, 5, 10, 15), next = worth(code + 1, 5, 10, 15);
    ASSERT_EQ(from_f16(code), value);
    ASSERT_EQ(to_f16(static_cast<float>(value)), code);
    ASSERT_EQ(to_f16(static_cast<float>(-value)), code | 0x8000);
    if (code == 0x7bff) break;
    const float middle = static_cast<float>((value + next) / 2);
    ASSERT_EQ(to_f16(middle), code + (code & 1)) << code;
    ASSERT_EQ(to_f16(std::nextafter(middle, 0.0f)), code);
    ASSERT_EQ(to_f16(std::nextafter(middle, INFINITY)), code + 1);
  }
  EXPECT_EQ(to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(to_f16(-INFINITY), 0xfc00);
  EXPECT_TRUE(std::isnan(from_f16(to_f16(NAN))));
  EXPECT_EQ(to_f16(1e-30f), 0);
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
