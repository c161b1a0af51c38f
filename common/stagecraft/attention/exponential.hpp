// Powers of two of scores, on two units: the special function unit, of which a multiprocessor has few, and the pipe for
// fma, of which it has many.
#pragma once

#include <cstdint>

namespace stagecraft {

/// 2^x by the special function unit, with a relative error below 2^-22; 2^-inf is 0.
/// Source: PTX ISA, "ex2" (.approx.ftz).
__device__ __forceinline__ float exp2_by_unit(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000  // others have no instructions for pairs of floats
//! [polynomial]
/// 2^x of two values without the special function unit, with a relative error of at most 8.6e-5: less than a rounding
/// to 16 bits adds. x is at most 127; below -127 the result is 0. A NaN is lost.
///
/// x is a whole number, rounded down, and a fraction f from 0 to 1 (Cody and Waite). 2^f is a polynomial of degree 3,
/// 1 at f = 0, with the smallest maximum of the relative error; the whole number is added to its exponent.
__device__ __forceinline__ float2 exp2_by_polynomial(float2 x) {
  constexpr float kMagic = 0x1.8p23f;  // a float so large has whole numbers only: those of x are its lowest bits
  constexpr float kC1 = 0.69511676f, kC2 = 0.22764499f, kC3 = 0.07706704f;
  x = {fmaxf(x.x, -127), fmaxf(x.y, -127)};
  const float2 whole = __fadd2_rd(x, {kMagic, kMagic});
  const float2 f = __fadd2_rn(x, __fadd2_rn({kMagic, kMagic}, {-whole.x, -whole.y}));
  float2 p = __ffma2_rn(f, {kC3, kC3}, {kC2, kC2});
  p = __ffma2_rn(p, f, {kC1, kC1});
  p = __ffma2_rn(p, f, {1, 1});
  return {__uint_as_float(__float_as_uint(p.x) + (__float_as_uint(whole.x) << 23)),
          __uint_as_float(__float_as_uint(p.y) + (__float_as_uint(whole.y) << 23))};
}
//! [polynomial]
#endif

/// tanh(x), with an absolute error below 2^-20, of which the approximation by the hardware has 2^-11.
///
/// Any thread. It is 1 - 2 / (1 + exp(2x)), where an infinite power gives 1. Source: PTX ISA, "tanh", "rcp" (.approx).
__device__ __forceinline__ float tanh_by_exponential(float x) {
  constexpr float kTwoLog2E = 0x1.715476p1f;
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1 + exp2_by_unit(kTwoLog2E * x)));
  return fmaf(-2, inverse, 1);
}

}  // namespace stagecraft
