// Floating-point arithmetic whose result the standard fixes to the bit: no approximations here.
#include "battery.hpp"

using namespace stagecraft::conformance;

#define SUM_OR_PRODUCT(OPCODE)                   \
  ROUNDED(BINARY, OPCODE, ".f32", f32, f32, f32) \
  BINARY(f32, f32, f32, OPCODE ".rn.ftz.f32")    \
  BINARY(f32, f32, f32, OPCODE ".rn.sat.f32")    \
  BINARY(f32, f32, f32, OPCODE ".rz.ftz.sat.f32")
SUM_OR_PRODUCT("add")
SUM_OR_PRODUCT("sub")
SUM_OR_PRODUCT("mul")
ROUNDED(TERNARY, "fma", ".f32", f32, f32, f32, f32)
TERNARY(f32, f32, f32, f32, "fma.rn.ftz.f32")
TERNARY(f32, f32, f32, f32, "fma.rn.sat.f32")
TERNARY(f32, f32, f32, f32, "fma.rp.ftz.f32")
// A quotient, a reciprocal and a root.
#define QUOTIENT(KIND, ROUNDING)                 \
  BINARY(KIND, KIND, KIND, "div" ROUNDING #KIND) \
  UNARY(KIND, KIND, "rcp" ROUNDING #KIND)        \
  UNARY(KIND, KIND, "sqrt" ROUNDING #KIND)
QUOTIENT(f32, ".rn.")
QUOTIENT(f32, ".rz.")
QUOTIENT(f32, ".rm.")
QUOTIENT(f32, ".rp.")
QUOTIENT(f32, ".rn.ftz.")
BINARY(f32, f32, f32, "min.f32")
BINARY(f32, f32, f32, "min.ftz.f32")
BINARY(f32, f32, f32, "min.NaN.f32")
BINARY(f32, f32, f32, "min.xorsign.abs.f32")
BINARY(f32, f32, f32, "min.NaN.xorsign.abs.f32")
BINARY(f32, f32, f32, "max.f32")
BINARY(f32, f32, f32, "max.ftz.f32")
BINARY(f32, f32, f32, "max.NaN.f32")
BINARY(f32, f32, f32, "max.xorsign.abs.f32")
BINARY(f32, f32, f32, "max.NaN.xorsign.abs.f32")
UNARY(f32, f32, "abs.f32")
UNARY(f32, f32, "abs.ftz.f32")
UNARY(f32, f32, "neg.f32")
UNARY(f32, f32, "neg.ftz.f32")
BINARY(f32, f32, f32, "copysign.f32")
#define SOME_COMPARISONS(KIND)       \
  COMPARISON(KIND, "setp.eq." #KIND) \
  COMPARISON(KIND, "setp.ne." #KIND) \
  COMPARISON(KIND, "setp.lt." #KIND) \
  COMPARISON(KIND, "setp.le." #KIND) \
  COMPARISON(KIND, "setp.gt." #KIND)
#define ORDER_COMPARISONS(KIND)       \
  COMPARISON(KIND, "setp.geu." #KIND) \
  COMPARISON(KIND, "setp.num." #KIND) \
  COMPARISON(KIND, "setp.nan." #KIND)
#define ALL_COMPARISONS(KIND)         \
  SOME_COMPARISONS(KIND)              \
  COMPARISON(KIND, "setp.ge." #KIND)  \
  COMPARISON(KIND, "setp.equ." #KIND) \
  COMPARISON(KIND, "setp.neu." #KIND) \
  COMPARISON(KIND, "setp.ltu." #KIND) \
  COMPARISON(KIND, "setp.leu." #KIND) \
  COMPARISON(KIND, "setp.gtu." #KIND) \
  ORDER_COMPARISONS(KIND)
ALL_COMPARISONS(f32)
COMPARISON(f32, "setp.eq.ftz.f32")
COMPARISON(f32, "setp.ltu.ftz.f32")
BINARY(f32, f32, f32, "set.gt.f32.f32")
BINARY(i32, f32, f32, "set.leu.u32.f32")
TERNARY(f32, f32, f32, f32, "slct.f32.f32")
TERNARY(f32, f32, f32, i32, "slct.f32.s32")
#define CLASS(KIND, NAME)                                  \
  OPERATION(i32, KIND, KIND, i32, "testp." NAME "." #KIND, \
            "{\n\t.reg .pred p;\n\ttestp." NAME "." #KIND " p, %1;\n\tselp.u32 %0, 1, 0, p;\n\t}")
#define CLASSES(KIND)       \
  CLASS(KIND, "finite")     \
  CLASS(KIND, "infinite")   \
  CLASS(KIND, "number")     \
  CLASS(KIND, "notanumber") \
  CLASS(KIND, "normal")     \
  CLASS(KIND, "subnormal")
CLASSES(f32)

ROUNDED(BINARY, "add", ".f64", f64, f64, f64)
ROUNDED(BINARY, "sub", ".f64", f64, f64, f64)
ROUNDED(BINARY, "mul", ".f64", f64, f64, f64)
ROUNDED(TERNARY, "fma", ".f64", f64, f64, f64, f64)
QUOTIENT(f64, ".rn.")
QUOTIENT(f64, ".rz.")
QUOTIENT(f64, ".rm.")
QUOTIENT(f64, ".rp.")
BINARY(f64, f64, f64, "min.f64")
BINARY(f64, f64, f64, "max.f64")
UNARY(f64, f64, "abs.f64")
UNARY(f64, f64, "neg.f64")
BINARY(f64, f64, f64, "copysign.f64")
ALL_COMPARISONS(f64)
CLASSES(f64)

#define HALVES(MACRO, OPCODE, TYPE, ...)     \
  MACRO(__VA_ARGS__, OPCODE ".rn." TYPE)     \
  MACRO(__VA_ARGS__, OPCODE ".rn.ftz." TYPE) \
  MACRO(__VA_ARGS__, OPCODE ".rn.sat." TYPE)
HALVES(BINARY, "add", "f16", f16, f16, f16)
HALVES(BINARY, "sub", "f16", f16, f16, f16)
HALVES(BINARY, "mul", "f16", f16, f16, f16)
HALVES(TERNARY, "fma", "f16", f16, f16, f16, f16)
TERNARY(f16, f16, f16, f16, "fma.rn.relu.f16")
#define EXTREME(KIND, OPCODE)                    \
  BINARY(KIND, KIND, KIND, OPCODE "." #KIND)     \
  BINARY(KIND, KIND, KIND, OPCODE ".NaN." #KIND) \
  BINARY(KIND, KIND, KIND, OPCODE ".NaN.xorsign.abs." #KIND)
EXTREME(f16, "min")
EXTREME(f16, "max")
UNARY(f16, f16, "abs.f16")
UNARY(f16, f16, "neg.f16")
SOME_COMPARISONS(f16)
ORDER_COMPARISONS(f16)

HALVES(BINARY, "add", "f16x2", f16x2, f16x2, f16x2)
HALVES(BINARY, "sub", "f16x2", f16x2, f16x2, f16x2)
HALVES(BINARY, "mul", "f16x2", f16x2, f16x2, f16x2)
HALVES(TERNARY, "fma", "f16x2", f16x2, f16x2, f16x2, f16x2)
TERNARY(f16x2, f16x2, f16x2, f16x2, "fma.rn.relu.f16x2")
EXTREME(f16x2, "min")
EXTREME(f16x2, "max")
UNARY(f16x2, f16x2, "abs.f16x2")
UNARY(f16x2, f16x2, "neg.f16x2")
BINARY(f16x2, f16x2, f16x2, "set.lt.f16x2.f16x2")

BINARY(bf16, bf16, bf16, "add.rn.bf16")
BINARY(bf16, bf16, bf16, "sub.rn.bf16")
BINARY(bf16, bf16, bf16, "mul.rn.bf16")
TERNARY(bf16, bf16, bf16, bf16, "fma.rn.bf16")
TERNARY(bf16, bf16, bf16, bf16, "fma.rn.relu.bf16")
EXTREME(bf16, "min")
EXTREME(bf16, "max")
UNARY(bf16, bf16, "abs.bf16")
UNARY(bf16, bf16, "neg.bf16")
SOME_COMPARISONS(bf16)
ORDER_COMPARISONS(bf16)

BINARY(bf16x2, bf16x2, bf16x2, "add.rn.bf16x2")
BINARY(bf16x2, bf16x2, bf16x2, "sub.rn.bf16x2")
BINARY(bf16x2, bf16x2, bf16x2, "mul.rn.bf16x2")
TERNARY(bf16x2, bf16x2, bf16x2, bf16x2, "fma.rn.bf16x2")
TERNARY(bf16x2, bf16x2, bf16x2, bf16x2, "fma.rn.relu.bf16x2")
EXTREME(bf16x2, "min")
EXTREME(bf16x2, "max")
UNARY(bf16x2, bf16x2, "abs.bf16x2")
UNARY(bf16x2, bf16x2, "neg.bf16x2")
BINARY(bf16x2, bf16x2, bf16x2, "set.lt.bf16x2.bf16x2")

// A product and a sum without rounding modifiers are rounded once where nothing else uses the product.
#define TWO_STEPS(KIND, REGISTER, NAME, TEXT) \
  OPERATION(KIND, KIND, KIND, KIND, NAME, "{\n\t.reg ." REGISTER " t, u;\n\t" TEXT "\n\t}")
TWO_STEPS(f32, "f32", "mul.f32, add.f32", "mul.f32 t, %1, %2;\n\tadd.f32 %0, t, %3;")
TWO_STEPS(f32, "f32", "mul.f32, sub.f32", "mul.f32 t, %1, %2;\n\tsub.f32 %0, t, %3;")
TWO_STEPS(f32, "f32", "mul.f32, sub.f32 from", "mul.f32 t, %1, %2;\n\tsub.f32 %0, %3, t;")
TWO_STEPS(f32, "f32", "mul.ftz.f32, add.ftz.sat.f32", "mul.ftz.f32 t, %1, %2;\n\tadd.ftz.sat.f32 %0, t, %3;")
TWO_STEPS(f32, "f32", "mul.f32 twice, sub.f32", "mul.f32 t, %1, %2;\n\tmul.f32 u, %2, %3;\n\tsub.f32 %0, t, u;")
TWO_STEPS(f32, "f32", "mul.f32, add.f32 twice",
          "mul.f32 t, %1, %2;\n\tadd.f32 u, t, %3;\n\tsub.f32 %0, t, %1;\n\tmin.f32 %0, u, %0;")
TWO_STEPS(f32, "f32", "mul.f32, add.rn.f32", "mul.f32 t, %1, %2;\n\tadd.rn.f32 %0, t, %3;")
TWO_STEPS(f32, "f32", "mul.f32, add.f32, product needed",
          "mul.f32 t, %1, %2;\n\tadd.f32 u, t, %3;\n\tmin.f32 %0, u, t;")
TWO_STEPS(f64, "f64", "mul.f64, sub.f64 from", "mul.f64 t, %1, %2;\n\tsub.f64 %0, %3, t;")
TWO_STEPS(f16, "b16", "mul.f16, sub.f16", "mul.f16 t, %1, %2;\n\tsub.f16 %0, t, %3;")
TWO_STEPS(f16x2, "b32", "mul.f16x2, add.f16x2", "mul.f16x2 t, %1, %2;\n\tadd.f16x2 %0, %3, t;")
TWO_STEPS(bf16x2, "b32", "mul.bf16x2, add.bf16x2", "mul.bf16x2 t, %1, %2;\n\tadd.bf16x2 %0, t, %3;")

// Where flushing to zero is decided: a little below and above the least normal number.
#define ABOUT_LEAST(NAME, TEXT)                                                            \
  OPERATION(f32, i32, i32, i32, NAME " about the least normal number",                     \
            "{\n\t.reg .b32 t, u;\n\tand.b32 t, %1, 127;\n\tadd.u32 t, t, 0x3f7fffc0;\n\t" \
            "and.b32 u, %2, 127;\n\tadd.u32 u, u, 0x00800000;\n\t" TEXT "\n\t}")
ABOUT_LEAST("mul.rn.ftz.f32", "mul.rn.ftz.f32 %0, t, u;")
ABOUT_LEAST("mul.rp.ftz.f32", "mul.rp.ftz.f32 %0, t, u;")
ABOUT_LEAST("fma.rn.ftz.f32", "fma.rn.ftz.f32 %0, t, u, 0f00000000;")
ABOUT_LEAST("div.rn.ftz.f32", "div.rn.ftz.f32 %0, u, t;")
OPERATION(f16, i32, i32, i32, "mul.rn.ftz.f16 about the least normal number",
          "{\n\t.reg .b32 t, u;\n\t.reg .b16 v, w;\n\tand.b32 t, %1, 15;\n\tadd.u32 t, t, 0x3bf8;\n\t"
          "and.b32 u, %2, 15;\n\tadd.u32 u, u, 0x0400;\n\tcvt.u16.u32 v, t;\n\tcvt.u16.u32 w, u;\n\t"
          "mul.rn.ftz.f16 %0, v, w;\n\t}")

int main(int argc, char** argv) { return run_battery(argc, argv); }
