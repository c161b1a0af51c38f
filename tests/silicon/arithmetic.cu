// Latency and issue rate of arithmetic, of exchanges within a warp, and of branches.

#include "silicon.hpp"

using namespace silicon;

// An operation replaces `x` by a function of `x` and `y`. The instruction is text, so a macro makes a type of each.
#define OPERATION(NAME, TYPE, CONSTRAINT, TEXT)                              \
  struct NAME {                                                              \
    using Value = TYPE;                                                      \
    static __device__ void apply(TYPE& x, TYPE y, TYPE c) {                  \
      asm volatile(TEXT : "+" CONSTRAINT(x) : CONSTRAINT(y), CONSTRAINT(c)); \
    }                                                                        \
  };
OPERATION(AddU32, uint32_t, "r", "add.u32 %0, %0, %1;")
OPERATION(MadLo, uint32_t, "r", "mad.lo.u32 %0, %0, %2, %1;")
OPERATION(Add3, uint32_t, "r", "add.u32 %0, %0, %1; add.u32 %0, %0, %2;")
OPERATION(AddU64, uint64_t, "l", "add.u64 %0, %0, %1;")
OPERATION(Lop3, uint32_t, "r", "lop3.b32 %0, %0, %1, %2, 0x96;")
OPERATION(Shift, uint32_t, "r", "shf.l.wrap.b32 %0, %0, %1, %2;")
OPERATION(Prmt, uint32_t, "r", "prmt.b32 %0, %0, %1, %2;")
OPERATION(MinS32, int32_t, "r", "min.s32 %0, %0, %1; xor.b32 %0, %0, %2;")
OPERATION(SetpSelp, uint32_t, "r", "{.reg .pred p; setp.lt.u32 p, %0, %1; selp.u32 %0, %2, %1, p;}")
OPERATION(Popc, uint32_t, "r", "popc.b32 %0, %0;")
OPERATION(Clz, uint32_t, "r", "bfind.u32 %0, %0;")
OPERATION(Brev, uint32_t, "r", "brev.b32 %0, %0;")
OPERATION(Dp4a, uint32_t, "r", "dp4a.u32.u32 %0, %0, %2, %1;")
OPERATION(AddF32, float, "f", "add.f32 %0, %0, %1;")
OPERATION(MulF32, float, "f", "mul.f32 %0, %0, %1;")
OPERATION(FmaF32, float, "f", "fma.rn.f32 %0, %0, %2, %1;")
OPERATION(AddF64, double, "d", "add.f64 %0, %0, %1;")
OPERATION(FmaF64, double, "d", "fma.rn.f64 %0, %0, %2, %1;")
OPERATION(FmaF16x2, uint32_t, "r", "fma.rn.f16x2 %0, %0, %2, %1;")
OPERATION(AddF16x2, uint32_t, "r", "add.f16x2 %0, %0, %1;")
OPERATION(FmaBf16x2, uint32_t, "r", "fma.rn.bf16x2 %0, %0, %2, %1;")
OPERATION(Ex2, float, "f", "ex2.approx.ftz.f32 %0, %0;")
OPERATION(Lg2, float, "f", "lg2.approx.ftz.f32 %0, %0;")
OPERATION(Rcp, float, "f", "rcp.approx.ftz.f32 %0, %0; add.ftz.f32 %0, %0, %1;")
OPERATION(Rsqrt, float, "f", "rsqrt.approx.ftz.f32 %0, %0;")
OPERATION(Sin, float, "f", "sin.approx.ftz.f32 %0, %0;")
OPERATION(Tanh, float, "f", "tanh.approx.f32 %0, %0;")
OPERATION(DivU32, uint32_t, "r", "div.u32 %0, %1, %0;")
OPERATION(RemU32, uint32_t, "r", "rem.u32 %0, %1, %0;")
OPERATION(DivS32, int32_t, "r", "div.s32 %0, %1, %0;")
OPERATION(DivU64, uint64_t, "l", "div.u64 %0, %1, %0;")
OPERATION(DivS64, int64_t, "l", "div.s64 %0, %1, %0;")
OPERATION(DivF32, float, "f", "div.rn.f32 %0, %2, %0;")
OPERATION(DivFullF32, float, "f", "div.full.f32 %0, %2, %0;")
OPERATION(RcpRnF32, float, "f", "rcp.rn.f32 %0, %0;")
OPERATION(SqrtRnF32, float, "f", "sqrt.rn.f32 %0, %0;")
// Quotients and reciprocals below the least normal number, and roots of such numbers: ptxas calls a function for them.
OPERATION(DivTiny, uint32_t, "r",
          "{.reg .f32 q, d; .reg .b32 t; or.b32 t, %2, 0x400000; mov.b32 d, %0; add.f32 d, d, 0f42000000;"
          " mov.b32 q, t; div.rn.f32 q, q, d; mov.b32 %0, q;}")
// The same for zero and infinity, for which it returns soon. The result is not a part of the next operand.
OPERATION(DivZero, uint32_t, "r",
          "{.reg .f32 q, d; .reg .b32 t; or.b32 t, %0, 0x3f800000; mov.b32 d, t; div.rn.f32 q, 0f00000000, d;"
          " mov.b32 t, q; and.b32 %0, t, 0x7f;}")
OPERATION(
    DivByZero, uint32_t, "r",
    "{.reg .f32 q, d; .reg .b32 t; or.b32 t, %0, 0x3f800000; mov.b32 d, t; mov.b32 q, %0; mul.f32 q, q, 0f00000000;"
    " div.rn.f32 q, d, q; mov.b32 t, q; and.b32 %0, t, 0x7f;}")
OPERATION(RcpZero, uint32_t, "r",
          "{.reg .f32 q; .reg .b32 t; and.b32 t, %0, 0x80000000; mov.b32 q, t; rcp.rn.f32 q, q; mov.b32 t, q;"
          " and.b32 %0, t, 0x7f;}")
OPERATION(SqrtZero, uint32_t, "r",
          "{.reg .f32 q; .reg .b32 t; and.b32 t, %0, 0x40000000; mov.b32 q, t; sqrt.rn.f32 q, q; mov.b32 t, q;"
          " and.b32 %0, t, 0x7f;}")
__constant__ uint32_t zeros[64];
struct ConstantLoad {
  using Value = uint32_t;
  static __device__ void apply(uint32_t& x, uint32_t, uint32_t) { x = zeros[x & 63]; }
};
__device__ inline uint32_t word_of_shared(uint32_t x) {
  __shared__ uint32_t words[1024];
  return static_cast<uint32_t>(__cvta_generic_to_shared(words)) + (x & 0);
}
// The address changes by an addition of 4 and back, so that it stays within the words.
struct StoreThenChange {
  using Value = uint32_t;
  static __device__ void apply(uint32_t& x, uint32_t y, uint32_t) {
    const uint32_t base = word_of_shared(0);
    asm volatile("{.reg .b32 a; and.b32 a, %0, 0x3fc; add.u32 a, a, %2; st.shared.u32 [a], %1; }\n add.u32 %0, %0, 4;"
                 : "+r"(x)
                 : "r"(y), "r"(base));
  }
};
struct StoreValueThenChange {
  using Value = uint32_t;
  static __device__ void apply(uint32_t& x, uint32_t, uint32_t) {
    asm volatile("st.shared.u32 [%1], %0; add.u32 %0, %0, 4;" : "+r"(x) : "r"(word_of_shared(0)));
  }
};
__device__ uint32_t words_of_global[4096];
struct GlobalStoreThenChange {
  using Value = uint32_t;
  static __device__ void apply(uint32_t& x, uint32_t, uint32_t) {
    asm volatile("st.global.u32 [%1], %0; add.u32 %0, %0, 4;" : "+r"(x) : "l"(words_of_global + threadIdx.x));
  }
};
OPERATION(RcpTiny, uint32_t, "r",
          "{.reg .f32 q; and.b32 %0, %0, 0x007fffff; or.b32 %0, %0, 0x7e800000; mov.b32 q, %0;"
          " rcp.rn.f32 q, q; mov.b32 %0, q;}")
OPERATION(SqrtTiny, uint32_t, "r",
          "{.reg .f32 q; and.b32 %0, %0, 0x003fffff; or.b32 %0, %0, 0x00400000; mov.b32 q, %0;"
          " sqrt.rn.f32 q, q; mov.b32 %0, q;}")
OPERATION(Ex2Full, float, "f", "ex2.approx.f32 %0, %0;")
OPERATION(DivF64, double, "d", "div.rn.f64 %0, %2, %0;")
OPERATION(SqrtF64, double, "d", "sqrt.rn.f64 %0, %0;")
OPERATION(ToS32, float, "f", "{.reg .s32 i; cvt.rni.s32.f32 i, %0; mov.b32 %0, i;}")
OPERATION(FromS32, uint32_t, "r", "{.reg .f32 f; cvt.rn.f32.s32 f, %0; mov.b32 %0, f;}")
OPERATION(FromU32, uint32_t, "r", "{.reg .f32 f; cvt.rn.f32.u32 f, %0; mov.b32 %0, f;}")
OPERATION(ToF64, double, "d", "{.reg .f32 f; cvt.rn.f32.f64 f, %0; cvt.f64.f32 %0, f;}")
OPERATION(MulLo64, uint64_t, "l", "mul.lo.u64 %0, %0, %1;")
OPERATION(MulHi32, uint32_t, "r", "mul.hi.u32 %0, %0, %1;")
OPERATION(MulWide, uint64_t, "l", "{.reg .u32 a; cvt.u32.u64 a, %0; mad.wide.u32 %0, a, a, %1;}")
OPERATION(CvtF32S32, float, "f", "{.reg .s32 i; cvt.rni.s32.f32 i, %0; cvt.rn.f32.s32 %0, i;}")
OPERATION(CvtF16F32, float, "f", "{.reg .b16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h;}")
OPERATION(PackBf16, float, "f", "{.reg .b32 h; cvt.rn.bf16x2.f32 h, %0, %1; mov.b32 %0, h;}")
OPERATION(PackE4m3, float, "f",
          "{.reg .b16 h; .reg .b32 w; cvt.rn.satfinite.e4m3x2.f32 h, %0, %1; cvt.u32.u16 w, h; mov.b32 %0, w;}")
OPERATION(ShflIdx, uint32_t, "r", "shfl.sync.idx.b32 %0, %0, %0, 31, -1;")
OPERATION(ShflBfly, uint32_t, "r", "shfl.sync.bfly.b32 %0, %0, 1, 31, -1;")
OPERATION(Ballot, uint32_t, "r", "{.reg .pred p; setp.ne.u32 p, %0, %2; vote.sync.ballot.b32 %0, p, -1;}")
OPERATION(VoteAny, uint32_t, "r",
          "{.reg .pred p; setp.ne.u32 p, %0, %2; vote.sync.any.pred p, p, -1; selp.u32 %0, %1, %2, p;}")
OPERATION(ReduxAdd, uint32_t, "r", "redux.sync.add.u32 %0, %0, -1;")
OPERATION(ReduxMin, uint32_t, "r", "redux.sync.min.u32 %0, %0, -1;")
OPERATION(MatchAny, uint32_t, "r", "match.any.sync.b32 %0, %0, -1;")
OPERATION(Elect, uint32_t, "r", "{.reg .pred p; .reg .u32 r; elect.sync r|p, -1; @p add.u32 %0, %0, %1;}")
OPERATION(ClockRead, uint32_t, "r", "{.reg .u32 t; mov.u32 t, %%clock; xor.b32 %0, %0, t;}")
OPERATION(Clock64Read, uint64_t, "l", "{.reg .u64 t; mov.u64 t, %%clock64; xor.b64 %0, %0, t;}")
OPERATION(TimerRead, uint64_t, "l", "{.reg .u64 t; mov.u64 t, %%globaltimer; xor.b64 %0, %0, t;}")
OPERATION(SmidRead, uint32_t, "r", "{.reg .u32 t; mov.u32 t, %%smid; xor.b32 %0, %0, t;}")
OPERATION(Nanosleep0, uint32_t, "r", "nanosleep.u32 0; add.u32 %0, %0, %1;")
template <typename Value>
__device__ uint32_t bits_of(Value value) {
  if constexpr (sizeof(Value) == 8)
    return static_cast<uint32_t>(__builtin_bit_cast(uint64_t, value) >> 7);
  else
    return __builtin_bit_cast(uint32_t, value);
}

/// Each step needs the result of the step before: x of y, then y of x, so that no two fuse into one.
template <typename Operation>
struct Chain {
  using Value = typename Operation::Value;
  Value x, y, c;
  __device__ Chain(uint32_t seed, uint8_t*) : x(Value(seed + lane())), y(Value(seed + 1)), c(Value(seed + 2)) {}
  __device__ void step(int i) {
    if (i % 2 == 0)
      Operation::apply(x, y, c);
    else
      Operation::apply(y, x, c);
  }
  __device__ uint32_t result() { return bits_of(x) + bits_of(y); }
};

/// Each step needs only the result of the step before.
template <typename Operation>
struct SelfChain {
  using Value = typename Operation::Value;
  Value x, y, c;
  __device__ SelfChain(uint32_t seed, uint8_t*) : x(Value(seed + lane())), y(Value(seed + 1)), c(Value(seed + 2)) {}
  __device__ void step(int) { Operation::apply(x, y, c); }
  __device__ uint32_t result() { return bits_of(x) + bits_of(y); }
};

template <typename Operation>
struct Independent {
  static constexpr int kChains = 8;
  using Value = typename Operation::Value;
  Value v[kChains], c;
  __device__ Independent(uint32_t seed, uint8_t*) : c(Value(seed + 2)) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) v[i] = Value(seed + lane() + i);
  }
  __device__ void step(int i) { Operation::apply(v[i % kChains], v[(i + 1) % kChains], c); }
  __device__ uint32_t result() {
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < kChains; ++i) bits += bits_of(v[i]);
    return bits;
  }
};

/// @param lanes  published results a cycle and multiprocessor (CUDA programming guide, arithmetic throughput); 0 is
/// none.
template <typename Operation, bool Unary = false>
void measure(const std::string& name, const char* text, double lanes) {
  using Latency = std::conditional_t<Unary, SelfChain<Operation>, Chain<Operation>>;
  report(name + " latency", cycles_per_step<Latency>(32), "cycles", std::string(text) + ", dependent, one warp");
  const double published = lanes == 0 ? 0 : 128 / lanes;
  report(name + " issue, 1 warp", cycles_per_step<Independent<Operation>>(32), "cycles per warp instruction",
         std::string(text) + ", 8 independent chains, one warp");
  for (const int warps : {1, 2, 4})
    report(name + " issue, " + std::to_string(warps) + (warps == 1 ? " warp" : " warps") + " a sub-partition",
           scaled(sm_cycles_per_step<Independent<Operation>>(warps * 128), 4),
           "cycles per warp instruction and sub-partition",
           std::string(text) + ", 8 independent chains, all sub-partitions of one SM busy", published);
}

/// Two operations in turn, each on chains of its own: do their pipes work at the same time?
template <typename First, typename Second>
struct Mixed {
  Independent<First> first;
  Independent<Second> second;
  __device__ Mixed(uint32_t seed, uint8_t* shared) : first(seed, shared), second(seed, shared) {}
  __device__ void step(int i) {
    if (i % 2 == 0)
      first.step(i / 2);
    else
      second.step(i / 2);
  }
  __device__ uint32_t result() { return first.result() + second.result(); }
};
template <typename First, typename Second>
void mix(const char* name) {
  report(std::string("issue of ") + name + " in turn, 4 warps a sub-partition",
         scaled(sm_cycles_per_step<Mixed<First, Second>>(512), 4), "cycles per warp instruction and sub-partition",
         "8 independent chains of each");
}
BENCHMARK(mixes) {
  mix<FmaF32, Lop3>("fma.f32 and lop3");
  mix<FmaF32, MadLo>("fma.f32 and mad.lo.u32");
  mix<FmaF32, FmaF64>("fma.f32 and fma.f64");
  mix<FmaF32, FmaF16x2>("fma.f32 and fma.f16x2");
  mix<FmaF32, Ex2>("fma.f32 and ex2");
  mix<MadLo, Lop3>("mad.lo.u32 and lop3");
  mix<Popc, Ex2>("popc and ex2");
  mix<ShflBfly, Lop3>("shfl and lop3");
}

BENCHMARK(integer) {
  measure<AddU32>("add.u32", "x += y; ptxas takes IADD3 and IMAD.IADD in turn", 0);
  measure<MadLo>("mad.lo.u32", "x = x * c + y", 64);
  measure<Add3>("add of three, u32", "x += y + c, one IADD3", 64);
  measure<AddU64>("add.u64", "x += y, two instructions", 0);
  measure<Lop3>("lop3", "x ^= y ^ c", 64);
  measure<Shift>("shf.l.wrap", "funnel shift", 64);
  measure<Prmt>("prmt", "byte permutation", 64);
  measure<MinS32>("min.s32 and xor", "x = min(x, y) ^ c, two instructions", 0);
  measure<SetpSelp>("setp and selp", "x = x < y ? c : y, two instructions", 0);
  measure<Dp4a>("dp4a", "x = dot(x, c) + y", 0);
}
BENCHMARK(integer_slow) {
  measure<Popc, true>("popc", "x = popc(x)", 16);
  measure<Clz, true>("bfind", "x = bfind(x)", 16);
  measure<Brev, true>("brev", "x = brev(x)", 16);
}
BENCHMARK(floats) {
  measure<AddF32>("add.f32", "x += y", 128);
  measure<MulF32>("mul.f32", "x *= y", 128);
  measure<FmaF32>("fma.f32", "x = x * c + y", 128);
  measure<AddF64>("add.f64", "x += y", 64);
  measure<FmaF64>("fma.f64", "x = x * c + y", 64);
}
BENCHMARK(halves) {
  measure<FmaF16x2>("fma.f16x2", "x = x * c + y", 128);
  measure<AddF16x2>("add.f16x2", "x += y", 128);
  measure<FmaBf16x2>("fma.bf16x2", "x = x * c + y", 128);
}
BENCHMARK(divisions) {
  measure<DivU32>("div.u32", "x = y / x", 0);
  measure<RemU32>("rem.u32", "x = y % x", 0);
  measure<DivS32>("div.s32", "x = y / x", 0);
  measure<DivU64>("div.u64", "x = y / x", 0);
  measure<DivS64>("div.s64", "x = y / x", 0);
  measure<DivF32>("div.rn.f32", "x = c / x", 0);
  measure<DivFullF32>("div.full.f32", "x = c / x", 0);
  measure<RcpRnF32, true>("rcp.rn.f32", "x = 1 / x", 0);
  measure<SqrtRnF32, true>("sqrt.rn.f32", "x = sqrt(x)", 0);
  measure<Ex2Full, true>("ex2.approx.f32", "without .ftz", 0);
  measure<DivF64>("div.rn.f64", "x = c / x", 0);
  measure<SqrtF64, true>("sqrt.rn.f64", "x = sqrt(x)", 0);
}
BENCHMARK(tiny_divisions) {
  measure<DivTiny, true>("div.rn.f32 of a tiny number", "x = c / (x + 32), with a logic operation", 0);
  measure<RcpTiny, true>("rcp.rn.f32 with a tiny result", "x = 1 / x, with a logic operation", 0);
  measure<SqrtTiny, true>("sqrt.rn.f32 of a tiny number", "x = sqrt(x), with a logic operation", 0);
}
BENCHMARK(zero_divisions) {
  measure<DivZero, true>("div.rn.f32 of zero", "x = 0 / (x | 1.0), with two logic operations", 0);
  measure<DivByZero, true>("div.rn.f32 by zero", "x = (x | 1.0) / 0, with a product and two logic operations", 0);
  measure<RcpZero, true>("rcp.rn.f32 of zero", "x = 1 / 0, with two logic operations", 0);
  measure<SqrtZero, true>("sqrt.rn.f32 of zero", "x = sqrt(0), with two logic operations", 0);
}
BENCHMARK(constants) {
  measure<ConstantLoad, true>("ld.const of the word that it has read",
                              "x = table[x], with a logic operation and a product", 0);
}
// Instructions that change a register which the one before still has to read.
BENCHMARK(held_operands) {
  measure<StoreThenChange, true>("st.shared and a change of its address", "two instructions", 0);
  measure<StoreValueThenChange, true>("st.shared and a change of its value", "two instructions", 0);
  measure<GlobalStoreThenChange, true>("st.global and a change of its value", "two instructions", 0);
}
BENCHMARK(single_conversions) {
  measure<ToS32, true>("cvt.rni.s32.f32", "x = int of x", 0);
  measure<FromS32, true>("cvt.rn.f32.s32", "x = float of x", 0);
  measure<FromU32, true>("cvt.rn.f32.u32", "x = float of x", 0);
  measure<ToF64, true>("cvt f64 to f32 and back", "two conversions", 0);
  measure<MulLo64>("mul.lo.u64", "x *= y", 0);
  measure<MulHi32>("mul.hi.u32", "x = high half of x y", 0);
  measure<MulWide>("mad.wide.u32", "x = low half of x squared + y", 0);
}
BENCHMARK(special_functions) {
  measure<Ex2, true>("ex2.approx.ftz", "x = ex2(x)", 16);
  measure<Lg2, true>("lg2.approx.ftz", "x = lg2(x)", 16);
  measure<Rcp>("rcp.approx.ftz and add", "x = rcp(x) + y, two instructions", 0);
  measure<Rsqrt, true>("rsqrt.approx.ftz", "x = rsqrt(x)", 16);
  measure<Sin, true>("sin.approx.ftz", "x = sin(x), a multiplication and the function", 0);
  measure<Tanh, true>("tanh.approx", "x = tanh(x)", 16);
}
BENCHMARK(conversions) {
  measure<CvtF32S32, true>("cvt f32 to s32 and back", "two conversions", 0);
  measure<CvtF16F32, true>("cvt f32 to f16 and back", "two conversions", 0);
  measure<PackBf16>("cvt.rn.bf16x2.f32", "two f32 into one word", 64);
  measure<PackE4m3>("cvt.rn.satfinite.e4m3x2.f32", "two f32 into 16 bits", 0);
}
BENCHMARK(warp_exchange) {
  measure<ShflIdx, true>("shfl.sync.idx", "x = x of lane x", 32);
  measure<ShflBfly, true>("shfl.sync.bfly", "x = x of the neighbour", 32);
  measure<Ballot, true>("setp and vote.ballot", "x = ballot(x != c), two instructions", 64);
  measure<VoteAny, true>("setp, vote.any and selp", "three instructions", 0);
  measure<ReduxAdd, true>("redux.add", "x = sum of x", 16);
  measure<ReduxMin, true>("redux.min", "x = least of x", 16);
  measure<MatchAny, true>("match.any", "mask of equal lanes, all different at first", 0);
}
BENCHMARK(warp_control) {
  measure<Elect>("elect.sync and predicated add", "two instructions, one lane adds", 0);
  measure<Nanosleep0>("nanosleep 0 and add", "two instructions", 0);
}
BENCHMARK(special_registers) {
  measure<ClockRead, true>("read of clock and xor", "two instructions", 0);
  measure<Clock64Read, true>("read of clock64 and xor", "three instructions", 0);
  measure<TimerRead, true>("read of globaltimer and xor", "three instructions", 0);
  measure<SmidRead, true>("read of smid and xor", "two instructions", 0);
}

// ---- Branches
// ---------------------------------------------------------------------------------------------------------

enum class Branch { kNone, kUniform, kDiverged, kCall };

/// Long enough that ptxas does not replace a branch around it by predicates.
__device__ inline void long_path(uint32_t& x) {
#pragma unroll
  for (int i = 0; i < 12; ++i) asm volatile("mad.lo.u32 %0, %0, %0, 7;" : "+r"(x)::"memory");
}

__device__ __noinline__ uint32_t called(uint32_t x) {
  long_path(x);
  return x;
}

template <Branch Kind>
struct Branches {
  uint32_t x, choice;
  __device__ Branches(uint32_t seed, uint8_t*) : x(lane()), choice(Kind == Branch::kDiverged ? lane() & 1 : seed & 1) {}
  __device__ void step(int) {
    if constexpr (Kind == Branch::kNone) {
      long_path(x);
    } else if constexpr (Kind == Branch::kCall) {
      x = called(x);
    } else {
      if (choice) {
        long_path(x);
      } else {
        x ^= 5;
        long_path(x);
      }
    }
  }
  __device__ uint32_t result() { return x; }
};

/// Lanes leave a loop after `lane % groups` turns: the time of a loop with lanes that part and meet again.
__global__ void trip_counts(Span* spans, uint32_t* sink, int groups, int rounds) {
  uint32_t x = threadIdx.x;
  const int turns = lane() % groups + 1;
  uint64_t start = 0, stop = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    __syncwarp();
    start = cycles();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll 1
      for (int turn = 0; turn < turns; ++turn) asm volatile("mad.lo.u32 %0, %0, %0, 7;" : "+r"(x));
    }
    stop = cycles();
  }
  if (lane() == 0) spans[0] = {start, stop};
  if (x == 0x12345678) sink[0] = x;
}

/// A switch of `Ways` cases, each lane in case lane % ways.
__global__ void switch_ways(Span* spans, uint32_t* sink, int ways, int rounds) {
  uint32_t x = threadIdx.x;
  uint64_t start = 0, stop = 0;
  const uint32_t way = lane() % ways;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    __syncwarp();
    start = cycles();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      // Each case is a chain of 8 dependent instructions with another constant.
#define CASE(K)                                                                                     \
  case K:                                                                                           \
    for (int i = 0; i < 8; ++i) asm volatile("mad.lo.u32 %0, %0, %0, " #K ";" : "+r"(x)::"memory"); \
    break;
      switch (way) { CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) }
    }
    stop = cycles();
  }
  if (lane() == 0) spans[0] = {start, stop};
  if (x == 0x12345678) sink[0] = x;
}

/// All lanes make the same number of turns.
__global__ void uniform_loop(Span* spans, uint32_t* sink, int turns) {
  uint32_t x = threadIdx.x;
  uint64_t start = 0, stop = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = cycles();
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) asm volatile("mad.lo.u32 %0, %0, %0, 7;" : "+r"(x));
    stop = cycles();
  }
  if (lane() == 0) spans[0] = {start, stop};
  if (x == 0x12345678) sink[0] = x;
}

BENCHMARK(branches) {
  report("path of 12 mads", cycles_per_step<Branches<Branch::kNone>, 4, 12>(32), "cycles", "dependent, no branch");
  report("if and else around 12 mads, all lanes agree", cycles_per_step<Branches<Branch::kUniform>, 4, 12>(32),
         "cycles", "each path has 12 dependent mads");
  report("if and else around 12 mads, odd lanes differ", cycles_per_step<Branches<Branch::kDiverged>, 4, 12>(32),
         "cycles", "each path has 12 dependent mads; both are executed");
  report("call of a function of 12 mads", cycles_per_step<Branches<Branch::kCall>, 4, 12>(32), "cycles",
         "12 dependent mads in it");
  DeviceArray<Span> spans(1);
  DeviceArray<uint32_t> sink(32);
  const int rounds = 256;
  std::vector<double> uniform;
  for (int i = 0; i < 21; ++i) {
    uniform_loop<<<1, 32>>>(spans.data(), sink.data(), 1024);
    finish_kernel("uniform_loop");
    uniform.push_back(span_cycles(spans.to_host(), 1) / 1024);
  }
  report("loop with one mad", uniform, "cycles per turn", "all lanes make the same number of turns");
  for (const int groups : {1, 2, 4, 8, 16, 32}) {
    std::vector<double> samples;
    for (int i = 0; i < 21; ++i) {
      trip_counts<<<1, 32>>>(spans.data(), sink.data(), groups, rounds);
      finish_kernel("trip_counts");
      samples.push_back(span_cycles(spans.to_host(), 1) / rounds);
    }
    report("loop of 1 to " + std::to_string(groups) + " turns by lane", samples, "cycles per loop",
           "one dependent mad a turn; lanes leave after lane % groups + 1 turns");
  }
  for (const int ways : {1, 2, 4, 8}) {
    std::vector<double> samples;
    for (int i = 0; i < 21; ++i) {
      switch_ways<<<1, 32>>>(spans.data(), sink.data(), ways, rounds);
      finish_kernel("switch_ways");
      samples.push_back(span_cycles(spans.to_host(), 1) / rounds);
    }
    report("switch in " + std::to_string(ways) + " ways by lane", samples, "cycles per switch",
           "8 dependent mads in each case");
  }
}

// ---- mma.sync
// ---------------------------------------------------------------------------------------------------------

struct MmaBf16 {
  static __device__ void apply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
template <int Chains>
struct MmaSync {
  float d[Chains][4] = {};
  uint32_t a[4], b[2];
  __device__ MmaSync(uint32_t seed, uint8_t*) {
    for (uint32_t& word : a) word = 0x3f803f80 + seed * 65536 * lane();
    for (uint32_t& word : b) word = 0x3f803f80 + seed;
  }
  __device__ void step(int i) { MmaBf16::apply(d[i % Chains], a, b); }
  __device__ uint32_t result() {
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < Chains * 4; ++i) bits += bits_of(d[i / 4][i % 4]);
    return bits;
  }
};

/// Other shapes and types; lanes have at most four words of each operand.
#define PRODUCT(NAME, TEXT)                                                                    \
  template <int Chains>                                                                        \
  struct NAME {                                                                                \
    uint32_t d[Chains][4] = {}, a[4], b[4];                                                    \
    __device__ NAME(uint32_t seed, uint8_t*) {                                                 \
      for (int i = 0; i < 4; ++i) a[i] = 0x3c003c00 + seed * lane(), b[i] = 0x3c003c00 + seed; \
    }                                                                                          \
    __device__ void step(int i) {                                                              \
      uint32_t(&c)[4] = d[i % Chains];                                                         \
      asm volatile(TEXT                                                                        \
                   : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                            \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));        \
    }                                                                                          \
    __device__ uint32_t result() {                                                             \
      uint32_t bits = 0;                                                                       \
      for (int i = 0; i < Chains * 4; ++i) bits += d[i / 4][i % 4];                            \
      return bits;                                                                             \
    }                                                                                          \
  };
#define FOUR "{%0, %1, %2, %3}, "
PRODUCT(MmaTf32K8,
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 " FOUR "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};")
PRODUCT(MmaTf32K4, "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 " FOUR "{%4, %5}, {%8}, {%0, %1, %2, %3};")
PRODUCT(MmaBf16K8, "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 " FOUR "{%4, %5}, {%8}, {%0, %1, %2, %3};")
PRODUCT(MmaF16K16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1};")
PRODUCT(MmaS8K32,
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 " FOUR "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};")
PRODUCT(MmaS8K16, "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 " FOUR "{%4, %5}, {%8}, {%0, %1, %2, %3};")
PRODUCT(MmaE4m3K32,
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 " FOUR "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};")

template <template <int> typename Product>
void measure_product(const char* name) {
  report(std::string(name) + " latency", cycles_per_step<Product<1>>(32), "cycles", "accumulated");
  report(std::string(name) + " issue, 4 warps a sub-partition", scaled(sm_cycles_per_step<Product<4>>(512), 4),
         "cycles per warp instruction and sub-partition", "4 accumulators");
}
BENCHMARK(mma_shapes) {
  measure_product<MmaTf32K8>("mma.sync m16n8k8 tf32");
  measure_product<MmaTf32K4>("mma.sync m16n8k4 tf32");
  measure_product<MmaBf16K8>("mma.sync m16n8k8 bf16");
  measure_product<MmaF16K16>("mma.sync m16n8k16 f16 to f16");
  measure_product<MmaS8K32>("mma.sync m16n8k32 s8");
  measure_product<MmaS8K16>("mma.sync m16n8k16 s8");
  measure_product<MmaE4m3K32>("mma.sync m16n8k32 e4m3");
}
BENCHMARK(mma_sync) {
  const char* how = "mma.sync m16n8k16 bf16 to f32";
  report("mma.sync m16n8k16 latency", cycles_per_step<MmaSync<1>>(32), "cycles", std::string(how) + ", accumulated");
  report("mma.sync m16n8k16 issue, 1 warp", cycles_per_step<MmaSync<8>>(32), "cycles per warp instruction", how);
  for (const int warps : {1, 2, 4})
    report("mma.sync m16n8k16 issue, " + std::to_string(warps) + (warps == 1 ? " warp" : " warps") + " a sub-partition",
           scaled(sm_cycles_per_step<MmaSync<4>>(warps * 128), 4), "cycles per warp instruction and sub-partition",
           std::string(how) +
               ", 4 accumulators; published is the dense rate of 512 multiply-adds a cycle and sub-partition",
           4);
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
