// Translation of instructions: operands are in the right order, every modifier has its effect, illegal forms are
// refused.
#include <gtest/gtest.h>

#include "emulator/ptx/diagnostics.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

struct Case {
  const char* code;  ///< must leave its result in %r0 (32 bits) or %rd0 (64 bits)
  uint64_t expected;
  bool wide = false;
};

class ArithmeticTranslationTest : public KernelTest {
 protected:
  void expect(const Case& test) {
    SCOPED_TRACE(test.code);
    const char* const store = test.wide ? "st.global.b64 [%out], %rd0;" : "st.global.b32 [%out], %r0;";
    const Kernel* kernel = nullptr;
    try {
      kernel = &compile_body(std::string(test.code) + "\n" + store);
    } catch (const ptx::Error& error) {
      FAIL() << error.what();
    }
    const uint64_t out = allocate<uint64_t>(1);
    const LaunchResult result = launch(*kernel, {1, 1, 1}, {1, 1, 1}, out);
    ASSERT_FALSE(result.fault) << message_of(result);
    EXPECT_EQ(read<uint64_t>(out, 1)[0], test.expected) << std::hex << read<uint64_t>(out, 1)[0];
  }
  template <size_t N>
  void expect_all(const Case (&tests)[N]) {
    for (const Case& test : tests) expect(test);
  }
};

TEST_F(ArithmeticTranslationTest, ExtremesOfThreeMagnitudes) {
  const Case tests[] = {
      // -3, 2 and -1
      {"mov.f32 %f1, 0fC0400000; mov.f32 %f2, 0f40000000; mov.f32 %f3, 0fBF800000; max.abs.f32 %f0, %f1, %f2, %f3; "
       "mov.b32 %r0, %f0;",
       0x40400000u},
      {"mov.f32 %f1, 0fC0400000; mov.f32 %f2, 0f40000000; mov.f32 %f3, 0fBF800000; min.abs.f32 %f0, %f1, %f2, %f3; "
       "mov.b32 %r0, %f0;",
       0x3f800000u},
      {"mov.f32 %f1, 0fC0400000; mov.f32 %f2, 0fFFC00000; min.NaN.abs.f32 %f0, %f1, %f2, %f1; mov.b32 %r0, %f0;",
       0x7fffffffu},
      {"mov.f32 %f1, 0f80000001; mov.f32 %f2, 0fC0000000; min.ftz.abs.f32 %f0, %f1, %f2, %f2; mov.b32 %r0, %f0;", 0u},
  };
  expect_all(tests);
}

// These are cases that tests/conformance/video.cu does not compare with the chip.
TEST_F(ArithmeticTranslationTest, VideoInstructions) {
  const Case tests[] = {
      {"mov.u32 %r1, 0x01ff8003; mov.u32 %r2, 0x00010102; vabsdiff4.u32.u32.u32 %r0, %r1, %r2, 0;", 0x01fe7f01u},
      {"mov.u32 %r1, 0x01ff8003; mov.u32 %r2, 0x00010102; mov.u32 %r3, 5; vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, "
       "%r3;",
       1u + 254 + 127 + 1 + 5},
      {"mov.u32 %r1, 0x000080ff; mov.u32 %r2, 0x00020000; vadd.s32.s32.s32.sat %r0, %r1.b1, %r2.h1;", 0xffffff82u},
      {"mov.u32 %r1, 0x000080ff; mov.u32 %r3, 0x11223344; vadd.s32.s32.s32.sat %r0.b2, %r1.b1, %r1.b1, %r3;",
       0x11803344u},
  };
  expect_all(tests);
  const auto refusal = [&](const char* instruction) -> std::string {
    try {
      compile_body(instruction);
    } catch (const ptx::Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refusal("vadd.s32.s32.s32 %r0, %r1.b4, %r2;").find("`.b4` is no part of a register"), std::string::npos);
  EXPECT_NE(refusal("vmad.s32.s32.s32.shr7 %r0, %r1, %r2, %r3;").find("the scaling of vmad"), std::string::npos);
  EXPECT_NE(refusal("vshl.u32.u32.u32.sat.clamp %r0, %r1, %r2;").find(".sat of a shift"), std::string::npos);
  EXPECT_NE(refusal("vadd2.s32.s32.s32 %r0, %r1.h14, %r2, %r3;").find("selects nothing"), std::string::npos);
  EXPECT_NE(refusal("add.s32 %r0, %r1.b0, %r2;").find("only video instructions can"), std::string::npos);
  EXPECT_NE(refusal("vadd.s32.s32.s32 %r0, -%r1, %r2;").find("only `vmad` can"), std::string::npos);
}

TEST_F(ArithmeticTranslationTest, Integers) {
  const Case tests[] = {
      {"mov.u32 %r1, 7; sub.s32 %r0, %r1, 10;", 0xfffffffdu},
      {"mov.u32 %r1, 0x7fffffff; add.sat.s32 %r0, %r1, 1;", 0x7fffffffu},
      {"mov.u32 %r1, 0x80000000; sub.sat.s32 %r0, %r1, 1;", 0x80000000u},
      {"mov.u32 %r1, 0xffff0001; mov.u32 %r2, 0x00010002; add.u16x2 %r0, %r1, %r2;", 0x00000003u},
      {"mov.u32 %r1, 0xffff0001; mov.u32 %r2, 0x00010002; max.s16x2 %r0, %r1, %r2;", 0x00010002u},
      {"mov.u32 %r1, 0xffff0001; mov.u32 %r2, 0x00010002; min.relu.s16x2 %r0, %r1, %r2;", 0x00000001u},
      {"mov.u32 %r1, -5; min.s32 %r0, %r1, 3;", 0xfffffffbu},
      {"mov.u32 %r1, -5; min.u32 %r0, %r1, 3;", 3},
      {"mov.u32 %r1, -5; max.relu.s32 %r0, %r1, -7;", 0},
      {"mov.u32 %r1, -5; mul.wide.s32 %rd0, %r1, 3;", 0xfffffffffffffff1u, true},
      {"mov.u32 %r1, 0xffffffff; mul.wide.u32 %rd0, %r1, 3;", 0x2fffffffdu, true},
      {"mov.u32 %r1, 0xffffffff; mul.hi.u32 %r0, %r1, 3;", 2},
      {"mov.u32 %r1, 5; mad.lo.s32 %r0, %r1, 6, 7;", 37},
      {"mov.u32 %r1, 5; mov.u64 %rd1, 7; mad.wide.s32 %rd0, %r1, -6, %rd1;", 0xffffffffffffffe9u, true},
      {"mov.u64 %rd1, 0x8000000000000000; mul.hi.u64 %rd0, %rd1, 6;", 3, true},
      {"mov.u32 %r1, -7; div.s32 %r0, %r1, 2;", 0xfffffffdu},
      {"mov.u32 %r1, -7; rem.s32 %r0, %r1, 2;", 0xffffffffu},
      {"mov.u32 %r1, 0x80000000; div.s32 %r0, %r1, -1;", 0x80000000u},
      {"mov.u32 %r1, 5; mov.u32 %r2, 0; div.u32 %r0, %r1, %r2;", 0xffffffffu},
      {"mov.u64 %rd1, 0x8000000000000000; div.s64 %rd0, %rd1, -1;", 0x8000000000000000u, true},
      {"mov.u64 %rd1, 5; mov.u64 %rd2, 0; rem.u64 %rd0, %rd1, %rd2;", 0xffffffffffffffffu, true},
      {"mov.u32 %r1, -7; abs.s32 %r0, %r1;", 7},
      {"mov.u64 %rd1, 7; neg.s64 %rd0, %rd1;", 0xfffffffffffffff9u, true},
      {"mov.u32 %r1, 3; sad.u32 %r0, %r1, 10, 100;", 107},
      {"mov.u32 %r1, 0x01ffffff; mul24.lo.u32 %r0, %r1, 2;", 0x01fffffeu},
      {"mov.u32 %r1, 0x800000; mul24.hi.s32 %r0, %r1, 0x100;", 0xffff8000u},
      {"mov.u32 %r1, 0xff020304; mov.u32 %r2, 0x01010101; dp4a.s32.u32 %r0, %r1, %r2, 100;", 108},
      {"mov.u32 %r1, 0xff020304; mov.u32 %r2, 0x01010101; dp4a.u32.u32 %r0, %r1, %r2, 100;", 364},
      {"mov.u32 %r1, 0xffff0003; mov.u32 %r2, 0x0a0b0201; dp2a.lo.s32.u32 %r0, %r1, %r2, 100;", 101},
      {"mov.u32 %r1, 0xffff0003; mov.u32 %r2, 0x0a0b0201; dp2a.hi.s32.u32 %r0, %r1, %r2, 100;", 123},
      {"mov.b16 %h1, 0x8000; abs.s16 %h2, %h1; cvt.u32.u16 %r0, %h2;", 0x8000},
      {"mov.b16 %h1, 300; mul.lo.u16 %h2, %h1, %h1; cvt.u32.u16 %r0, %h2;", 90000 & 0xffff},
  };
  expect_all(tests);
}

TEST_F(ArithmeticTranslationTest, TheCarryFlagLinksInstructions) {
  const Case tests[] = {
      {"mov.u32 %r1, 0xffffffff; mov.u32 %r2, 5; add.cc.u32 %r3, %r1, 1; addc.u32 %r4, %r2, 0; mov.b64 %rd0, {%r3, "
       "%r4};",
       0x600000000u, true},
      {"mov.u32 %r1, 0; mov.u32 %r2, 5; sub.cc.u32 %r3, %r1, 1; subc.u32 %r4, %r2, 0; mov.b64 %rd0, {%r3, %r4};",
       0x4ffffffffu, true},
      {"mov.u32 %r1, 0x10000; mad.lo.cc.u32 %r3, %r1, 0xffff, 0x10000; madc.hi.u32 %r4, %r1, 0xffff, 7; mov.b64 %rd0, "
       "{%r3, %r4};",
       0x800000000u, true},
      {"mov.u64 %rd1, -1; add.cc.u64 %rd2, %rd1, %rd1; addc.cc.u64 %rd3, %rd1, 0; addc.u64 %rd0, %rd1, 5;", 5, true},
  };
  expect_all(tests);
}

TEST_F(ArithmeticTranslationTest, Bits) {
  const Case tests[] = {
      {"mov.u32 %r1, 0xf0f0; mov.u32 %r2, 0xff00; mov.u32 %r3, 0xaaaa; lop3.b32 %r0, %r1, %r2, %r3, 0x96;",
       0xf0f0 ^ 0xff00 ^ 0xaaaa},
      {"mov.u32 %r1, 0xf0f0; mov.u32 %r2, 0xff00; mov.u32 %r3, 0xaaaa; lop3.b32 %r0, %r1, %r2, %r3, 0xe2;",
       (0xf0f0 & 0xff00) | (0xaaaa & ~0xff00)},
      {"mov.u32 %r1, 1; setp.eq.u32 %p2, %r1, 2; lop3.or.b32 %r3|%p1, %r1, %r1, %r1, 0x80, %p2; selp.u32 %r0, 10, 20, "
       "%p1;",
       10},
      {"mov.u32 %r1, 1; setp.eq.u32 %p2, %r1, 2; lop3.and.b32 _|%p1, %r1, %r1, %r1, 0x80, !%p2; selp.u32 %r0, 10, 20, "
       "%p1;",
       10},
      {"mov.u32 %r1, 3; shl.b32 %r0, %r1, 33;", 0},
      {"mov.u32 %r1, 0x80000000; shr.s32 %r0, %r1, 99;", 0xffffffffu},
      {"mov.u32 %r1, 0x80000000; shr.b32 %r0, %r1, 31;", 1},
      {"mov.u32 %r1, 0x11111111; mov.u32 %r2, 0x22222222; shf.l.wrap.b32 %r0, %r1, %r2, 36;", 0x22222221u},
      {"mov.u32 %r1, 0x11111111; mov.u32 %r2, 0x22222222; shf.r.clamp.b32 %r0, %r1, %r2, 36;", 0x22222222u},
      {"mov.u32 %r1, 0x33221100; mov.u32 %r2, 0x77665544; prmt.b32 %r0, %r1, %r2, 0x7410;", 0x77441100u},
      {"mov.u32 %r1, 0x33228100; mov.u32 %r2, 0; prmt.b32 %r0, %r1, %r2, 0x9999;", 0xffffffffu},
      {"mov.u32 %r1, 0x33221100; mov.u32 %r2, 0x77665544; prmt.b32.f4e %r0, %r1, %r2, 1;", 0x44332211u},
      {"mov.u32 %r1, 0x33221100; mov.u32 %r2, 0x77665544; prmt.b32.b4e %r0, %r1, %r2, 1;", 0x66770011u},
      {"mov.u32 %r1, 0x33221100; prmt.b32.rc8 %r0, %r1, %r1, 2;", 0x22222222u},
      {"mov.u32 %r1, 0x33221100; prmt.b32.ecl %r0, %r1, %r1, 1;", 0x33221111u},
      {"mov.u32 %r1, 0x33221100; prmt.b32.ecr %r0, %r1, %r1, 1;", 0x11111100u},
      {"mov.u32 %r1, 0x33221100; prmt.b32.rc16 %r0, %r1, %r1, 1;", 0x33223322u},
      {"mov.u64 %rd1, 0xff00000000000001; popc.b64 %r0, %rd1;", 9},
      {"mov.u64 %rd1, 1; clz.b64 %r0, %rd1;", 63},
      {"mov.u32 %r1, -3; bfind.s32 %r0, %r1;", 1},
      {"mov.u32 %r1, 0x100; bfind.shiftamt.u32 %r0, %r1;", 23},
      {"mov.u32 %r1, 1; brev.b32 %r0, %r1;", 0x80000000u},
      {"mov.u32 %r1, 0x12345678; bfe.u32 %r0, %r1, 8, 8;", 0x56},
      {"mov.u32 %r1, 0x12348678; bfe.s32 %r0, %r1, 8, 8;", 0xffffff86u},
      {"mov.u32 %r1, 0x80000000; bfe.s32 %r0, %r1, 31, 5;", 0xffffffffu},
      {"mov.u32 %r1, 0xabcd; mov.u32 %r2, 0xffffffff; bfi.b32 %r0, %r1, %r2, 8, 12;", 0xfffbcdffu},
      {"mov.u32 %r1, 4; bmsk.clamp.b32 %r0, %r1, 8;", 0xff0},
      {"mov.u32 %r1, 0xf80; szext.wrap.s32 %r0, %r1, 8;", 0xffffff80u},
      {"mov.u32 %r1, 0xb0; fns.b32 %r0, %r1, 0, 2;", 5},
      {"mov.u32 %r1, 0xb0; fns.b32 %r0, %r1, 31, -1;", 7},
      {"mov.u32 %r1, 0; cnot.b32 %r0, %r1;", 1},
      {"mov.u32 %r1, 1; setp.eq.u32 %p1, %r1, 1; setp.eq.u32 %p2, %r1, 2; and.pred %p3, %p1, !%p2; not.pred %p4, %p3; "
       "selp.u32 %r2, 1, 0, %p3; selp.u32 %r3, 2, 0, %p4; or.b32 %r0, %r2, %r3;",
       1},
  };
  expect_all(tests);
}

TEST_F(ArithmeticTranslationTest, Comparisons) {
  const Case tests[] = {
      {"mov.u32 %r1, -1; setp.lt.s32 %p1, %r1, 0; selp.u32 %r0, 1, 0, %p1;", 1},
      {"mov.u32 %r1, -1; setp.lo.u32 %p1, %r1, 0; selp.u32 %r0, 1, 0, %p1;", 0},
      {"mov.u32 %r1, -1; setp.hs.u32 %p1, %r1, 0; selp.u32 %r0, 1, 0, %p1;", 1},
      {"mov.u32 %r1, 5; setp.gt.s32 %p1|%p2, %r1, 4; selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 2, 0, %p2; add.u32 %r0, "
       "%r2, %r3;",
       1},
      {"mov.u32 %r1, 5; setp.eq.s32 %p3, %r1, 5; setp.gt.and.s32 %p1|%p2, %r1, 4, !%p3; selp.u32 %r2, 1, 0, %p1; "
       "selp.u32 %r3, 2, 0, %p2; add.u32 %r0, %r2, %r3;",
       0},
      {"mov.u32 %r1, 5; setp.eq.s32 %p3, %r1, 5; setp.ne.xor.s32 %p1, %r1, 4, %p3; selp.u32 %r0, 1, 0, %p1;", 0},
      {"mov.b32 %f1, 0f7fc00000; setp.lt.f32 %p1, %f1, 0f00000000; selp.u32 %r0, 1, 0, %p1;", 0},
      {"mov.b32 %f1, 0f7fc00000; setp.ltu.f32 %p1, %f1, 0f00000000; selp.u32 %r0, 1, 0, %p1;", 1},
      {"mov.b32 %f1, 0f7fc00000; setp.ne.f32 %p1, %f1, 0f00000000; selp.u32 %r0, 1, 0, %p1;", 0},
      {"mov.b32 %f1, 0f7fc00000; setp.neu.f32 %p1, %f1, 0f00000000; selp.u32 %r0, 1, 0, %p1;", 1},
      {"mov.b32 %f1, 0f7fc00000; setp.nan.f32 %p1, %f1, %f1; selp.u32 %r0, 1, 0, %p1;", 1},
      {"mov.b32 %f1, 0f3f800000; setp.geu.f32 %p1, %f1, 0f40000000; selp.u32 %r0, 1, 0, %p1;", 0},
      {"mov.b32 %f1, 0f00000001; setp.gt.ftz.f32 %p1, %f1, 0f00000000; selp.u32 %r0, 1, 0, %p1;", 0},
      {"mov.b32 %f1, 0f3f800000; set.ge.f32.f32 %f2, %f1, %f1; mov.b32 %r0, %f2;", 0x3f800000u},
      {"mov.u32 %r1, 3; set.lt.u32.s32 %r0, %r1, 4;", 0xffffffffu},
      {"mov.u32 %r1, 0x3c004000; mov.u32 %r2, 0x40003c00; set.gt.f16x2.f16x2 %r0, %r1, %r2;", 0x00003c00u},
      {"mov.u32 %r1, 0x3c004000; mov.u32 %r2, 0x40003c00; set.ltu.u32.f16x2 %r0, %r1, %r2;", 0xffff0000u},
      {"mov.u32 %r1, 0x3f804000; mov.u32 %r2, 0x40003f80; setp.gt.bf16x2 %p1|%p2, %r1, %r2; selp.u32 %r3, 1, 0, %p1; "
       "selp.u32 %r4, 2, 0, %p2; add.u32 %r0, %r3, %r4;",
       1},
      {"mov.u32 %r1, 10; mov.u32 %r2, 20; slct.b32.s32 %r0, %r1, %r2, -1;", 20},
      {"mov.u32 %r1, 10; mov.u32 %r2, 20; mov.b32 %f1, 0f80000000; slct.b32.f32 %r0, %r1, %r2, %f1;", 10},
      {"mov.b32 %f1, 0f00000001; testp.subnormal.f32 %p1, %f1; selp.u32 %r0, 1, 0, %p1;", 1},
      {"mov.b32 %f1, 0fbf800000; mov.b32 %f2, 0f40000000; copysign.f32 %f3, %f1, %f2; mov.b32 %r0, %f3;", 0xc0000000u},
  };
  expect_all(tests);
}

TEST_F(ArithmeticTranslationTest, FloatingPoint) {
  const Case tests[] = {
      {"mov.b32 %f1, 0f3f800000; add.f32 %f2, %f1, 0f33800000; mov.b32 %r0, %f2;", 0x3f800000u},
      {"mov.b32 %f1, 0f3f800000; add.rp.f32 %f2, %f1, 0f33800000; mov.b32 %r0, %f2;", 0x3f800001u},
      {"mov.b32 %f1, 0f3f800000; sub.rm.f32 %f2, %f1, 0f00000001; mov.b32 %r0, %f2;", 0x3f7fffffu},
      {"mov.b32 %f1, 0f00000001; mul.ftz.f32 %f2, %f1, 0f4f000000; mov.b32 %r0, %f2;", 0},
      {"mov.b32 %f1, 0f40000000; fma.rn.sat.f32 %f2, %f1, %f1, %f1; mov.b32 %r0, %f2;", 0x3f800000u},
      {"mov.b32 %f1, 0f7f800000; sub.f32 %f2, %f1, %f1; mov.b32 %r0, %f2;", 0x7fffffffu},
      {"mov.b32 %f1, 0f3f800000; div.rn.f32 %f2, %f1, 0f40400000; mov.b32 %r0, %f2;", 0x3eaaaaabu},
      {"mov.b32 %f1, 0f3f800000; div.rz.f32 %f2, %f1, 0f40400000; mov.b32 %r0, %f2;", 0x3eaaaaaau},
      {"mov.b32 %f1, 0f40000000; div.approx.f32 %f2, %f1, 0f7f000000; mov.b32 %r0, %f2;", 0},
      {"mov.b32 %f1, 0f40000000; div.full.f32 %f2, %f1, 0f7f000000; mov.b32 %r0, %f2;", 0x00800000u},
      {"mov.b32 %f1, 0f40000000; rcp.approx.ftz.f32 %f2, %f1; mov.b32 %r0, %f2;", 0x3f000000u},
      {"mov.b32 %f1, 0f40800000; sqrt.rn.f32 %f2, %f1; mov.b32 %r0, %f2;", 0x40000000u},
      {"mov.b32 %f1, 0f40800000; rsqrt.approx.f32 %f2, %f1; mov.b32 %r0, %f2;", 0x3f000000u},
      {"mov.b32 %f1, 0f40800000; ex2.approx.ftz.f32 %f2, %f1; mov.b32 %r0, %f2;", 0x41800000u},
      {"mov.b32 %f1, 0f41800000; lg2.approx.f32 %f2, %f1; mov.b32 %r0, %f2;", 0x40800000u},
      {"mov.b32 %f1, 0f00000000; cos.approx.f32 %f2, %f1; mov.b32 %r0, %f2;", 0x3f800000u},
      {"mov.b32 %f1, 0f7fc00000; max.f32 %f2, %f1, 0f3f800000; mov.b32 %r0, %f2;", 0x3f800000u},
      {"mov.b32 %f1, 0f7fc00000; max.NaN.f32 %f2, %f1, 0f3f800000; mov.b32 %r0, %f2;", 0x7fffffffu},
      {"mov.b32 %f1, 0f80000000; min.f32 %f2, 0f00000000, %f1; mov.b32 %r0, %f2;", 0x80000000u},
      {"mov.b32 %f1, 0fc0000000; max.xorsign.abs.f32 %f2, %f1, 0f3f800000; mov.b32 %r0, %f2;", 0xc0000000u},
      {"mov.b32 %f1, 0f40000000; mov.b32 %f3, 0f40400000; max.f32 %f2, %f1, %f3, 0f3f800000; mov.b32 %r0, %f2;",
       0x40400000u},
      {"mov.b32 %f1, 0fc0000000; abs.f32 %f2, %f1; neg.f32 %f2, %f2; mov.b32 %r0, %f2;", 0xc0000000u},
      {"mov.b64 %rd1, 0x3ff0000000000000; mov.b64 %rd2, 0x4008000000000000; div.rp.f64 %rd0, %rd1, %rd2;",
       0x3fd5555555555556u, true},
      {"mov.b64 %rd1, 0x4008000000000000; fma.rn.f64 %rd0, %rd1, %rd1, %rd1;", 0x4028000000000000u, true},
      {"mov.b64 %rd1, 0x4000000012345678; rcp.approx.ftz.f64 %rd0, %rd1;", 0x3fe0000000000000u, true},
      // .ftz has no effect here: 2^-1023 stays 2^-1023, and its reciprocal is not infinite.
      {"mov.b64 %rd1, 0x7fe0000000000000; rcp.rn.ftz.f64 %rd0, %rd1;", 0x0008000000000000u, true},
      {"mov.b64 %rd1, 0x0008000000000000; rcp.rz.ftz.f64 %rd0, %rd1;", 0x7fe0000000000000u, true},
      {"mov.b64 %rd1, 0x3f80000040000000; fma.rn.f32x2 %rd0, %rd1, %rd1, %rd1;", 0x4000000040c00000u, true},
      {"mov.b64 %rd1, 0x3f80000040000000; sub.rz.f32x2 %rd0, %rd1, %rd1;", 0, true},
      {"mov.u32 %r1, 0x3c004000; add.f16x2 %r0, %r1, %r1;", 0x40004400u},
      {"mov.u32 %r1, 0x3f804000; fma.rn.bf16x2 %r0, %r1, %r1, %r1;", 0x400040c0u},
      {"mov.b16 %h1, 0xc000; fma.rn.relu.f16 %h2, %h1, %h1, %h1; cvt.u32.u16 %r0, %h2;", 0x4000},
      {"mov.b16 %h1, 0x3f81; mov.b16 %h3, 0x3bc0; fma.rz.bf16 %h2, %h1, %h1, %h3; cvt.u32.u16 %r0, %h2;", 0x3f82},
      {"mov.b16 %h1, 0xc000; mul.sat.f16 %h2, %h1, %h1; cvt.u32.u16 %r0, %h2;", 0x3c00},
      {"mov.b16 %h1, 0x4000; mov.b32 %f1, 0f3f800000; add.f32.bf16 %f2, %h1, %f1; mov.b32 %r0, %f2;", 0x40400000u},
      {"mov.b16 %h1, 0x4000; mov.b32 %f1, 0f3f800000; sub.f32.f16 %f2, %h1, %f1; mov.b32 %r0, %f2;", 0x3f800000u},
      {"mov.b16 %h1, 0x4000; mov.b32 %f1, 0f3f800000; fma.rn.f32.f16 %f2, %h1, %h1, %f1; mov.b32 %r0, %f2;",
       0x40a00000u},
      {"mov.u32 %r1, 0x3c004000; ex2.approx.f16x2 %r0, %r1;", 0x40004400u},
      {"mov.u32 %r1, 0x80000000; tanh.approx.bf16x2 %r0, %r1;", 0x80000000u},
      {"mov.b16 %h1, 0x3c00; neg.f16 %h2, %h1; cvt.u32.u16 %r0, %h2;", 0xbc00},
  };
  expect_all(tests);
}

TEST_F(ArithmeticTranslationTest, Conversions) {
  const Case tests[] = {
      {"mov.u32 %r1, 0x1234ff80; cvt.s32.s8 %r0, %r1;", 0xffffff80u},
      {"mov.u32 %r1, 0x1234ff80; cvt.u8.u32 %r0, %r1;", 0x80},
      {"mov.u32 %r1, 0x1234ff80; cvt.s16.s8 %h1, %r1; cvt.u32.u16 %r0, %h1;", 0xff80},
      {"mov.u32 %r1, -5; cvt.s64.s32 %rd0, %r1;", 0xfffffffffffffffbu, true},
      {"mov.u32 %r1, -5; cvt.u64.u32 %rd0, %r1;", 0xfffffffbu, true},
      {"mov.u32 %r1, -5; cvt.u16.s8 %r0, %r1;", 0xfffbu},
      {"mov.u32 %r1, 300; cvt.sat.u8.s32 %r0, %r1;", 255},
      {"mov.u32 %r1, -300; cvt.sat.s8.s32 %r0, %r1;", 0xffffff80u},
      {"mov.u64 %rd1, -3; cvt.sat.u64.s64 %rd0, %rd1;", 0, true},
      {"mov.u64 %rd1, 0x8000000000000000; cvt.sat.s32.u64 %r0, %rd1;", 0x7fffffffu},
      {"mov.u32 %r1, 16777217; cvt.rn.f32.u32 %f1, %r1; mov.b32 %r0, %f1;", 0x4b800000u},
      {"mov.u32 %r1, 16777217; cvt.rp.f32.s32 %f1, %r1; mov.b32 %r0, %f1;", 0x4b800001u},
      {"mov.u32 %r1, 0xff; cvt.rn.f32.s8 %f1, %r1; mov.b32 %r0, %f1;", 0xbf800000u},
      {"mov.b16 %h1, 3; cvt.rn.f16.u16 %h2, %h1; cvt.u32.u16 %r0, %h2;", 0x4200},
      {"mov.u64 %rd1, 3; cvt.rn.bf16.s64 %h2, %rd1; cvt.u32.u16 %r0, %h2;", 0x4040},
      {"mov.u32 %r1, 3; cvt.rn.sat.f32.s32 %f1, %r1; mov.b32 %r0, %f1;", 0x3f800000u},
      {"mov.b32 %f1, 0fc0200000; cvt.rzi.s32.f32 %r0, %f1;", 0xfffffffeu},
      {"mov.b32 %f1, 0fc0200000; cvt.rmi.s32.f32 %r0, %f1;", 0xfffffffdu},
      {"mov.b32 %f1, 0fc0200000; cvt.rzi.u32.f32 %r0, %f1;", 0},
      {"mov.b32 %f1, 0f43960000; cvt.rni.u8.f32 %r0, %f1;", 255},
      {"mov.b32 %f1, 0f7fc00000; cvt.rzi.s32.f32 %r0, %f1;", 0},
      {"mov.b32 %f1, 0f7fc00000; cvt.rzi.s64.f32 %rd0, %f1;", 0x8000000000000000u, true},
      {"mov.b32 %f1, 0f00000001; cvt.rpi.ftz.s32.f32 %r0, %f1;", 0},
      {"mov.b16 %h1, 0x4200; cvt.rzi.s32.f16 %r0, %h1;", 3},
      {"mov.b16 %h1, 0x4040; cvt.rzi.u16.bf16 %h2, %h1; cvt.u32.u16 %r0, %h2;", 3},
      {"mov.b32 %f1, 0f40200000; cvt.rni.f32.f32 %f2, %f1; mov.b32 %r0, %f2;", 0x40000000u},
      {"mov.b16 %h1, 0x4100; cvt.rpi.f16.f16 %h2, %h1; cvt.u32.u16 %r0, %h2;", 0x4200},
      {"mov.b32 %f1, 0f3f801000; cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r0, %h1;", 0x3c00},
      {"mov.b32 %f1, 0f3f801000; cvt.rp.f16.f32 %h1, %f1; cvt.u32.u16 %r0, %h1;", 0x3c01},
      {"mov.b32 %f1, 0fbf800000; cvt.rn.relu.bf16.f32 %h1, %f1; cvt.u32.u16 %r0, %h1;", 0},
      {"mov.b32 %f1, 0f7f800000; cvt.rn.satfinite.f16.f32 %h1, %f1; cvt.u32.u16 %r0, %h1;", 0x7bff},
      {"mov.b32 %f1, 0f40000000; cvt.sat.f32.f32 %f2, %f1; mov.b32 %r0, %f2;", 0x3f800000u},
      {"mov.b16 %h1, 0x3c00; cvt.f32.f16 %f1, %h1; mov.b32 %r0, %f1;", 0x3f800000u},
      {"mov.b16 %h1, 0x3c00; cvt.f64.f16 %rd0, %h1;", 0x3ff0000000000000u, true},
      {"mov.b16 %h1, 0x3f80; cvt.f32.bf16 %f1, %h1; mov.b32 %r0, %f1;", 0x3f800000u},
      {"mov.b16 %h1, 0x3f80; cvt.rn.f16.bf16 %h2, %h1; cvt.u32.u16 %r0, %h2;", 0x3c00},
      {"mov.b64 %rd1, 0x3ff0000010000000; cvt.rn.f32.f64 %f1, %rd1; mov.b32 %r0, %f1;", 0x3f800000u},
      {"mov.b64 %rd1, 0x3ff0000010000001; cvt.rz.f32.f64 %f1, %rd1; mov.b32 %r0, %f1;", 0x3f800000u},
      {"mov.b64 %rd1, 0x3ff0020000000001; cvt.rn.f16.f64 %h1, %rd1; cvt.u32.u16 %r0, %h1;", 0x3c01},
      {"mov.b32 %f1, 0f3f800000; mov.b32 %f2, 0f40000000; cvt.rn.f16x2.f32 %r0, %f1, %f2;", 0x3c004000u},
      {"mov.b32 %f1, 0fbf800000; mov.b32 %f2, 0f40000000; cvt.rz.relu.bf16x2.f32 %r0, %f1, %f2;", 0x00004000u},
      {"mov.b32 %f1, 0f3f801000; cvt.rna.tf32.f32 %r0, %f1;", 0x3f802000u},
      {"mov.b32 %f1, 0f3f800000; mov.b32 %f2, 0fc0000000; cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r0, "
       "%h1;",
       0x38c0},
      {"mov.u32 %r1, 0x3c00c000; cvt.rn.satfinite.relu.e5m2x2.f16x2 %h1, %r1; cvt.u32.u16 %r0, %h1;", 0x3c00},
      {".reg .b8 %b1; mov.u32 %r1, 0x46003c00; cvt.rn.satfinite.e2m1x2.f16x2 %b1, %r1; cvt.rn.f16x2.e2m1x2 %r0, %b1;",
       0x46003c00u},
      {"mov.b16 %h1, 0x38c0; cvt.rn.f16x2.e4m3x2 %r0, %h1;", 0x3c00c000u},
      {".reg .b8 %b1, %b2; mov.b32 %f1, 0f40c00000; mov.b32 %f2, 0f3f800000; cvt.rn.satfinite.e2m1x2.f32 %b1, %f1, "
       "%f2; "
       "cvt.rn.f16x2.e2m1x2 %r0, %b1;",
       0x46003c00u},
      {"mov.b32 %f1, 0f40c00000; mov.b32 %f2, 0f3f800000; cvt.rp.ue8m0x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r0, %h1;",
       0x827f},
      {"mov.u32 %r1, 0x40c03f80; cvt.rz.ue8m0x2.bf16x2 %h1, %r1; cvt.u32.u16 %r0, %h1;", 0x817f},
      {"mov.b16 %h1, 0x807f; cvt.rn.bf16x2.ue8m0x2 %r0, %h1;", 0x40003f80u},
      // Halfway, with random bits that are just enough and just not enough; 1 and -2 are exact.
      {"mov.b32 %f1, 0f3f801000; mov.b32 %r1, 0x10000fff; cvt.rs.f16x2.f32 %r0, %f1, %f1, %r1;", 0x3c013c00u},
      {"mov.b32 %f1, 0fbf808000; mov.b32 %r1, 0x80007fff; cvt.rs.bf16x2.f32 %r0, %f1, %f1, %r1;", 0xbf81bf80u},
      {"mov.b32 %f1, 0fbf808000; mov.b32 %f2, 0f7f800000; mov.b32 %r1, -1; "
       "cvt.rs.relu.satfinite.bf16x2.f32 %r0, %f1, %f2, %r1;",
       0x00007f7fu},
      {"mov.b32 %f1, 0f3f880000; mov.b32 %f2, 0fc0000000; mov.b32 %r1, 0x00018000; "
       "cvt.rs.satfinite.e4m3x4.f32 %r0, {%f1, %f1, %f1, %f2}, %r1;",
       0x393838c0u},
      {"mov.b32 %f1, 0f3fa00000; mov.b32 %f2, 0fc0000000; mov.b32 %r1, 0x80000080; "
       "cvt.rs.relu.satfinite.e2m1x4.f32 %h1, {%f2, %f1, %f1, %f2}, %r1; cvt.u32.u16 %r0, %h1;",
       0x0320},
      {"mov.u32 %r1, 300; mov.u32 %r2, -300; cvt.pack.sat.s8.s32.b32 %r0, %r1, %r2, 7;", 0x00077f80u},
      {"mov.u32 %r1, 70000; mov.u32 %r2, -3; cvt.pack.sat.u16.s32 %r0, %r1, %r2;", 0xffff0000u},
  };
  expect_all(tests);
}

TEST_F(ArithmeticTranslationTest, IllegalFormsAreRefusedWithTheirName) {
  const char* const tests[] = {
      "add.s16 %r1, %r2, %r3;",
      "add.s32 %h1, %r2, %r3;",
      "add.b32 %r1, %r2, %r3;",
      "sub.u16x2 %r1, %r2, %r3;",
      "add.rn.sat.bf16x2 %r1, %r2, %r3;",
      "add.rz.f16 %h1, %h2, %h3;",
      "add.sat.f32x2 %rd1, %rd2, %rd3;",
      "fma.rn.ftz.bf16 %h1, %h2, %h3, %h4;",
      "min.ftz.bf16 %h1, %h2, %h3;",
      "min.ftz.NaN.xorsign.abs.f32 %f1, %f2, %f3, %f4;",
      "div.f32 %f1, %f2, %f3;",
      "sqrt.f32 %f1, %f2;",
      "sin.f32 %f1, %f2;",
      "mad.lo.sat.s32 %r1, %r2, %r3, %r4;",
      "mul.wide.u64 %rd1, %rd2, %rd3;",
      "setp.lt.b32 %p1, %r1, %r2;",
      "setp.hs.s32 %p1, %r1, %r2;",
      "setp.ltu.s32 %p1, %r1, %r2;",
      "setp.lt.ftz.bf16 %p1, %h1, %h2;",
      "ex2.approx.bf16 %h1, %h2;",
      "cvt.s32.f32 %r1, %f1;",
      "cvt.rn.relu.f16.s32 %h1, %r1;",
      "cvt.ftz.u32.s32 %r1, %r2;",
      "fma.f32 %f1, %f2, %f3, %f4;",
      "cvt.f32.s32 %f1, %r1;",
      "cvt.f16.f32 %h1, %f1;",
      "cvt.rn.e4m3x2.f32 %h1, %f1, %f2;",
      "cvt.rn.ue8m0x2.f32 %h1, %f1, %f2;",
      "cvt.rs.f16x2.f32 %r1, %f1, %f2;",
      "cvt.rs.e4m3x4.f32 %r1, {%f1, %f2, %f3, %f4}, %r2;",
      "cvt.rs.satfinite.e4m3x4.f32 %r1, {%f1, %f2}, %r2;",
      "rcp.approx.f64 %rd1, %rd2;",
      "sqrt.rn.ftz.f64 %rd1, %rd2;",
      "lop3.b32 %r1, %r2, %r3, %r4, 256;",
      "add.s32 %r1, %r2;",
      "frobnicate.b32 %r1, %r2;",
  };
  for (const char* test : tests) {
    SCOPED_TRACE(test);
    try {
      compile_body(test);
      ADD_FAILURE() << "accepted";
    } catch (const ptx::Error& error) {
      EXPECT_GT(error.position().line, 0u);
      const std::string opcode = std::string(test).substr(0, std::string(test).find_first_of(". "));
      const std::string said = error.what(), spelled = std::string(test).substr(0, std::string(test).find(' ')) + "`";
      EXPECT_NE(said.find(opcode), std::string::npos) << said;
      EXPECT_EQ(said.find(spelled), said.rfind(spelled)) << said << ": the instruction is named twice";
    }
  }
}

}  // namespace
}  // namespace stagecraft::emulator::machine
