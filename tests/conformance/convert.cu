// Conversions between floating-point formats, and between them and integers.
#include "battery.hpp"

using namespace stagecraft::conformance;

#define TO_INTEGER(INTEGER, KIND)                                      \
  ROUNDED_TO_INTEGER("cvt", ".s" #INTEGER "." #KIND, i##INTEGER, KIND) \
  ROUNDED_TO_INTEGER("cvt", ".u" #INTEGER "." #KIND, i##INTEGER, KIND)
#define FROM_INTEGER(INTEGER, KIND)                                \
  ROUNDED(UNARY, "cvt", "." #KIND ".s" #INTEGER, KIND, i##INTEGER) \
  ROUNDED(UNARY, "cvt", "." #KIND ".u" #INTEGER, KIND, i##INTEGER)
#define TO_AND_FROM_INTEGERS(KIND) \
  TO_INTEGER(16, KIND)             \
  TO_INTEGER(32, KIND)             \
  TO_INTEGER(64, KIND)             \
  FROM_INTEGER(16, KIND)           \
  FROM_INTEGER(32, KIND)           \
  FROM_INTEGER(64, KIND)           \
  ROUNDED_TO_INTEGER("cvt", "." #KIND "." #KIND, KIND, KIND)

TO_AND_FROM_INTEGERS(f32)
TO_AND_FROM_INTEGERS(f64)
TO_AND_FROM_INTEGERS(f16)
TO_INTEGER(32, bf16)
UNARY(bf16, i16, "cvt.rn.bf16.s16")
UNARY(bf16, i16, "cvt.rn.bf16.u16")
UNARY(bf16, i32, "cvt.rn.bf16.s32")
UNARY(bf16, i32, "cvt.rn.bf16.u32")
UNARY(bf16, i64, "cvt.rn.bf16.s64")
UNARY(bf16, i64, "cvt.rn.bf16.u64")
UNARY(i32, f32, "cvt.rzi.ftz.s32.f32")
UNARY(i32, f32, "cvt.rni.sat.u8.f32")
UNARY(i32, f32, "cvt.rzi.s8.f32")
UNARY(f32, f32, "cvt.sat.f32.f32")
UNARY(f32, f32, "cvt.ftz.f32.f32")
UNARY(f32, f32, "cvt.rni.sat.f32.f32")
UNARY(f64, f32, "cvt.f64.f32")
UNARY(f64, f32, "cvt.ftz.f64.f32")
ROUNDED(UNARY, "cvt", ".f32.f64", f32, f64)
UNARY(f32, f64, "cvt.rn.ftz.f32.f64")
UNARY(f32, f64, "cvt.rn.sat.f32.f64")
UNARY(f32, f16, "cvt.f32.f16")
UNARY(f32, f16, "cvt.ftz.f32.f16")
UNARY(f64, f16, "cvt.f64.f16")
UNARY(f32, bf16, "cvt.f32.bf16")
ROUNDED(UNARY, "cvt", ".f16.f32", f16, f32)
UNARY(f16, f32, "cvt.rn.ftz.f16.f32")
UNARY(f16, f32, "cvt.rn.sat.f16.f32")
UNARY(f16, f64, "cvt.rn.f16.f64")
UNARY(bf16, f32, "cvt.rn.bf16.f32")
UNARY(bf16, f32, "cvt.rz.bf16.f32")
UNARY(bf16, f32, "cvt.rn.relu.bf16.f32")
UNARY(f16, f32, "cvt.rn.relu.f16.f32")
BINARY(f16x2, f32, f32, "cvt.rn.f16x2.f32")
BINARY(f16x2, f32, f32, "cvt.rz.f16x2.f32")
BINARY(f16x2, f32, f32, "cvt.rn.relu.f16x2.f32")
BINARY(bf16x2, f32, f32, "cvt.rn.bf16x2.f32")
BINARY(bf16x2, f32, f32, "cvt.rz.bf16x2.f32")
BINARY(bf16x2, f32, f32, "cvt.rn.relu.bf16x2.f32")
UNARY(f64, f64, "cvt.f64.f64")
UNARY(f32, bf16, "cvt.ftz.f32.bf16")
UNARY(f16, f32, "cvt.rm.ftz.f16.f32")
UNARY(f16, f32, "cvt.rp.ftz.f16.f32")
UNARY(f16, f64, "cvt.rz.f16.f64")
UNARY(f16, f64, "cvt.rp.f16.f64")
UNARY(bf16, f64, "cvt.rn.bf16.f64")
UNARY(bf16, f64, "cvt.rm.bf16.f64")
UNARY(f32, f32, "cvt.rna.tf32.f32")
UNARY(f32, f32, "cvt.rna.satfinite.tf32.f32")
UNARY(f32, f32, "cvt.rn.tf32.f32")
UNARY(f32, f32, "cvt.rz.tf32.f32")
BINARY(i16, f32, f32, "cvt.rn.satfinite.e4m3x2.f32")
BINARY(i16, f32, f32, "cvt.rn.satfinite.e5m2x2.f32")
BINARY(i16, f32, f32, "cvt.rn.satfinite.relu.e4m3x2.f32")
UNARY(i16, f16x2, "cvt.rn.satfinite.e4m3x2.f16x2")
UNARY(i16, f16x2, "cvt.rn.satfinite.e5m2x2.f16x2")
UNARY(f16x2, i16, "cvt.rn.f16x2.e4m3x2")
UNARY(f16x2, i16, "cvt.rn.f16x2.e5m2x2")
UNARY(f16x2, i16, "cvt.rn.relu.f16x2.e5m2x2")

int main(int argc, char** argv) { return run_battery(argc, argv); }
