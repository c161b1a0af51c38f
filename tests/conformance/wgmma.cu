// wgmma.mma_async: which bytes of shared memory and which registers each type and layout takes for its operands, and
// what the product is. Shared memory is full of small integers, so that sums are exact; a descriptor may then point
// anywhere. Sums that are rounded follow in sections of their own, of numbers of all sizes and special values.
#include <initializer_list>
#include <tuple>

#include "matrix_codes.hpp"
#include "report.hpp"

using namespace stagecraft::conformance;

constexpr int kThreads = 128, kSharedBytes = 32768, kBytesOfA = 12288;

struct Descriptors {
  uint64_t a, b;  // without the address of shared memory
};

// The instruction is text, so a macro makes a function of each. All but the two of other widths have 8 accumulator
// registers: N is 16, or 32 where D is f16.
#define ACCUMULATORS "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
#define FORM(NAME, TEXT, REST)                                                                                 \
  struct NAME {                                                                                                \
    static constexpr const char* kText = TEXT;                                                                 \
    static constexpr int kAccumulators = 8;                                                                    \
    static __device__ void apply(uint32_t* d, const uint32_t*, uint64_t a, uint64_t b) {                       \
      asm volatile("wgmma.mma_async.sync.aligned." TEXT " {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, " REST ";" \
                   : ACCUMULATORS                                                                              \
                   : "l"(a), "l"(b)                                                                            \
                   : "memory");                                                                                \
    }                                                                                                          \
  };
#define REGISTER_FORM(NAME, TEXT, REST)                                                    \
  struct NAME {                                                                            \
    static constexpr const char* kText = TEXT;                                             \
    static constexpr int kAccumulators = 8;                                                \
    static __device__ void apply(uint32_t* d, const uint32_t* a, uint64_t, uint64_t b) {   \
      asm volatile("wgmma.mma_async.sync.aligned." TEXT                                    \
                   " {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, " REST ";" \
                   : ACCUMULATORS                                                          \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                    \
                   : "memory");                                                            \
    }                                                                                      \
  };

/// Multiplies `steps` times, with descriptors that advance by the K of one instruction, in one chain.
template <typename Form>
__global__ void multiply(const uint32_t* tile, const uint32_t* a, const uint32_t* c, uint32_t* out,
                         Descriptors descriptors, int steps) {
  constexpr int kAccumulators = Form::kAccumulators;
  __shared__ alignas(1024) uint32_t shared[kSharedBytes / 4];
  for (int i = threadIdx.x; i < kSharedBytes / 4; i += kThreads) shared[i] = tile[i];
  uint32_t d[kAccumulators], in[4];
  for (int i = 0; i < kAccumulators; ++i) d[i] = c[i * kThreads + threadIdx.x];
  for (int i = 0; i < 4; ++i) in[i] = a[i * kThreads + threadIdx.x];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(shared)) >> 4;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int step = 0; step < steps; ++step) {
    const uint64_t advance = address + 2 * step;  // 32 bytes
    Form::apply(d, in, descriptors.a + advance, descriptors.b + advance);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < kAccumulators; ++i) asm volatile("" : "+r"(d[i])::"memory");  // no read of D before the wait
  for (int i = 0; i < kAccumulators; ++i) out[i * kThreads + threadIdx.x] = d[i];
}

enum Swizzle : uint64_t { none = 0, bytes128 = 1, bytes64 = 2, bytes32 = 3 };

/// A descriptor of an operand `offset` bytes into the tile. All in bytes.
uint64_t descriptor(uint64_t offset, uint64_t leading, uint64_t stride, Swizzle swizzle, uint64_t base_offset = 0) {
  return offset >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base_offset << 49 | swizzle << 62;
}

template <typename Form>
void show(Report& report, const char* a_type, const char* b_type, const char* d_type, const std::string& layout,
          Descriptors descriptors, Draw how = Draw::integers, int steps = 1) {
  Random random(report.seed());
  std::vector<uint32_t> tile = codes_of(a_type).words(random, kBytesOfA / 4, how);
  const std::vector<uint32_t> tile_b = codes_of(b_type).words(random, (kSharedBytes - kBytesOfA) / 4, how, true);
  tile.insert(tile.end(), tile_b.begin(), tile_b.end());
  const DeviceBuffer<uint32_t> shared(tile, "shared memory");
  const DeviceBuffer<uint32_t> a(codes_of(a_type).words(random, 4 * kThreads, how), "A");
  constexpr int kCount = Form::kAccumulators * kThreads;
  const DeviceBuffer<uint32_t> c(accumulator_words(d_type, random, kCount, how, a_type), "C");
  DeviceBuffer<uint32_t> d(kCount, "D");
  multiply<Form><<<1, kThreads>>>(shared.data(), a.data(), c.data(), d.data(), descriptors, steps);
  finish_kernel(Form::kText);
  report.section(std::string(Form::kText) + ", " + layout, d.to_host());
}

/// Shows sums that are rounded: by one instruction, and by a chain of them.
template <typename Form>
void show_rounded(Report& report, const char* a_type, const char* b_type, const char* d_type, const std::string& layout,
                  Descriptors descriptors, std::initializer_list<int> chains = {1, 4}) {
  for (const int steps : chains) {
    for (const auto& [how, name] : kRounded) {
      show<Form>(report, a_type, b_type, d_type, layout + ", " + name + (steps == 1 ? "" : ", chain"), descriptors, how,
                 steps);
    }
  }
}

#define TYPES(NAME, TEXT, REST) \
  FORM(NAME, TEXT, REST)        \
  REGISTER_FORM(NAME##Registers, TEXT, REST)
FORM(F16, "m64n16k16.f32.f16.f16", "1, 1, 1, 0, 0")
REGISTER_FORM(F16Registers, "m64n16k16.f32.f16.f16", "1, 1, 1, 0")
FORM(F16F16, "m64n32k16.f16.f16.f16", "1, 1, 1, 0, 0")
REGISTER_FORM(F16F16Registers, "m64n32k16.f16.f16.f16", "1, 1, 1, 0")
FORM(Bf16, "m64n16k16.f32.bf16.bf16", "1, 1, 1, 0, 0")
FORM(Bf16TransposedA, "m64n16k16.f32.bf16.bf16", "1, 1, 1, 1, 0")
FORM(Bf16TransposedB, "m64n16k16.f32.bf16.bf16", "1, 1, 1, 0, 1")
FORM(Bf16TransposedBoth, "m64n16k16.f32.bf16.bf16", "1, 1, 1, 1, 1")
FORM(Bf16NegatedA, "m64n16k16.f32.bf16.bf16", "1, -1, 1, 0, 0")
FORM(Bf16NegatedB, "m64n16k16.f32.bf16.bf16", "1, 1, -1, 0, 0")
FORM(Bf16Stored, "m64n16k16.f32.bf16.bf16", "0, 1, 1, 0, 0")
REGISTER_FORM(Bf16Registers, "m64n16k16.f32.bf16.bf16", "1, 1, 1, 0")
REGISTER_FORM(Bf16RegistersTransposedB, "m64n16k16.f32.bf16.bf16", "1, -1, 1, 1")
TYPES(Tf32, "m64n16k8.f32.tf32.tf32", "1, 1, 1")
TYPES(E4m3, "m64n16k32.f32.e4m3.e4m3", "1, 1, 1")
TYPES(Mixed, "m64n16k32.f32.e4m3.e5m2", "1, 1, 1")
FORM(E5m2, "m64n16k32.f32.e5m2.e5m2", "1, 1, 1")
FORM(E4m3F16, "m64n32k32.f16.e4m3.e4m3", "1, 1, 1")
TYPES(E5m2F16, "m64n32k32.f16.e5m2.e5m2", "1, 1, 1")
TYPES(S8, "m64n16k32.s32.s8.s8", "1")
TYPES(S8U8, "m64n16k32.s32.s8.u8.satfinite", "1")
TYPES(U8, "m64n16k32.s32.u8.u8", "1")
TYPES(B1, "m64n16k256.s32.b1.b1.and.popc", "1")

// N of 8 and of 256.
struct Bf16Narrow {
  static constexpr const char* kText = "m64n8k16.f32.bf16.bf16";
  static constexpr int kAccumulators = 4;
  static __device__ void apply(uint32_t* d, const uint32_t*, uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "l"(a), "l"(b)
                 : "memory");
  }
};
#define FOUR(I) "+r"(d[I]), "+r"(d[I + 1]), "+r"(d[I + 2]), "+r"(d[I + 3])
#define SIXTEEN(I) FOUR(I), FOUR(I + 4), FOUR(I + 8), FOUR(I + 12)
#define TEN(TENS)                                                                                                      \
  "%" TENS "0, %" TENS "1, %" TENS "2, %" TENS "3, %" TENS "4, %" TENS "5, %" TENS "6, %" TENS "7, %" TENS "8, %" TENS \
  "9, "
struct Bf16Broad {
  static constexpr const char* kText = "m64n256k16.f32.bf16.bf16";
  static constexpr int kAccumulators = 128;
  static __device__ void apply(uint32_t* d, const uint32_t*, uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" TEN("") TEN("1") TEN("2") TEN("3") TEN("4")
                     TEN("5") TEN("6") TEN("7") TEN("8") TEN("9") TEN("10")
                         TEN("11") "%120, %121, %122, %123, %124, %125, %126, %127}, %128, %129, 1, 1, 1, 0, 0;"
                 : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48), SIXTEEN(64), SIXTEEN(80), SIXTEEN(96),
                   SIXTEEN(112)
                 : "l"(a), "l"(b)
                 : "memory");
  }
};

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    const Descriptors plain{descriptor(0, 16, 1024, bytes128), descriptor(12288, 16, 1024, bytes128)};
    const auto show_type = [&]<typename Form, typename RegisterForm>(const char* a, const char* b, const char* d) {
      show<Form>(report, a, b, d, "128-byte swizzle", plain);
      show<RegisterForm>(report, a, b, d, "A in registers", plain);
    };
    show_type.operator()<F16, F16Registers>("f16", "f16", "f32");
    show_type.operator()<F16F16, F16F16Registers>("f16", "f16", "f16");
    show_type.operator()<Bf16, Bf16Registers>("bf16", "bf16", "f32");
    show_type.operator()<Tf32, Tf32Registers>("tf32", "tf32", "f32");
    show_type.operator()<E4m3, E4m3Registers>("e4m3", "e4m3", "f32");
    show_type.operator()<Mixed, MixedRegisters>("e4m3", "e5m2", "f32");
    show_type.operator()<E5m2F16, E5m2F16Registers>("e5m2", "e5m2", "f16");
    show_type.operator()<S8, S8Registers>("s8", "s8", "s32");
    show_type.operator()<S8U8, S8U8Registers>("s8", "u8", "s32");
    show_type.operator()<U8, U8Registers>("u8", "u8", "s32");
    show_type.operator()<B1, B1Registers>("b1", "b1", "s32");
    show<Bf16NegatedA>(report, "bf16", "bf16", "f32", "A negated", plain);
    show<Bf16NegatedB>(report, "bf16", "bf16", "f32", "B negated", plain);
    show<Bf16Stored>(report, "bf16", "bf16", "f32", "not added", plain);

    for (const auto& [name, swizzle, span] :
         {std::tuple{"no swizzle", none, 16}, std::tuple{"32-byte swizzle", bytes32, 32},
          std::tuple{"64-byte swizzle", bytes64, 64}, std::tuple{"128-byte swizzle", bytes128, 128}}) {
      const uint64_t row_group = 8u * span;
      // K-major: 8 groups of 8 rows of A, 2 of B. Without a swizzle, columns of 16 bytes are `leading` apart.
      const uint64_t leading = swizzle == none ? 2048 : 16;
      const Descriptors k_major{descriptor(0, leading, row_group, swizzle),
                                descriptor(12288, leading, row_group, swizzle)};
      // MN-major: 128 bytes of A and 32 of B, in two groups of 8 along K.
      const Descriptors mn_major = swizzle == none
                                       ? Descriptors{descriptor(0, 2048, 128, none), descriptor(12288, 2048, 128, none)}
                                       : Descriptors{descriptor(0, 2 * row_group, row_group, swizzle),
                                                     descriptor(12288, 2 * row_group, row_group, swizzle)};
      const std::string layout = name;
      show<Bf16>(report, "bf16", "bf16", "f32", layout + ", K-major", k_major);
      show<Bf16TransposedA>(report, "bf16", "bf16", "f32", layout + ", A MN-major", {mn_major.a, k_major.b});
      show<Bf16TransposedB>(report, "bf16", "bf16", "f32", layout + ", B MN-major", {k_major.a, mn_major.b});
      show<Bf16TransposedBoth>(report, "bf16", "bf16", "f32", layout + ", both MN-major", mn_major);
      show<Bf16RegistersTransposedB>(report, "bf16", "bf16", "f32", layout + ", A in registers, B MN-major", mn_major);
      show<Tf32>(report, "tf32", "tf32", "f32", layout, k_major);
      show<E4m3>(report, "e4m3", "e4m3", "f32", layout, k_major);
      show<S8>(report, "s8", "s8", "s32", layout, k_major);
      show<B1>(report, "b1", "b1", "s32", layout, k_major);
    }
    // Steps along K inside the atom of a swizzle, and phases of its pattern.
    for (const uint64_t start : {32, 64, 96, 128, 512}) {
      const Descriptors moved{descriptor(start, 16, 1024, bytes128), descriptor(12288 + start, 16, 1024, bytes128)};
      show<Bf16>(report, "bf16", "bf16", "f32", "start at " + std::to_string(start), moved);
    }
    for (const uint64_t base_offset : {1, 3, 7}) {
      const Descriptors shifted{descriptor(128 * base_offset, 16, 1024, bytes128, base_offset),
                                descriptor(12288, 16, 1024, bytes128)};
      show<Bf16>(report, "bf16", "bf16", "f32", "base offset " + std::to_string(base_offset), shifted);
    }

    show_rounded<F16>(report, "f16", "f16", "f32", "128-byte swizzle", plain);
    show_rounded<F16Registers>(report, "f16", "f16", "f32", "A in registers", plain, {1});
    show_rounded<F16F16>(report, "f16", "f16", "f16", "128-byte swizzle", plain);
    show_rounded<Bf16>(report, "bf16", "bf16", "f32", "128-byte swizzle", plain);
    show_rounded<Bf16Registers>(report, "bf16", "bf16", "f32", "A in registers", plain, {4});
    show_rounded<Tf32>(report, "tf32", "tf32", "f32", "128-byte swizzle", plain);
    show_rounded<Tf32Registers>(report, "tf32", "tf32", "f32", "A in registers", plain, {1});
    show_rounded<E4m3>(report, "e4m3", "e4m3", "f32", "128-byte swizzle", plain);
    show_rounded<E4m3Registers>(report, "e4m3", "e4m3", "f32", "A in registers", plain, {4});
    show_rounded<Mixed>(report, "e4m3", "e5m2", "f32", "128-byte swizzle", plain);
    show_rounded<E5m2>(report, "e5m2", "e5m2", "f32", "128-byte swizzle", plain);
    show_rounded<E4m3F16>(report, "e4m3", "e4m3", "f16", "128-byte swizzle", plain);
    show_rounded<E5m2F16>(report, "e5m2", "e5m2", "f16", "128-byte swizzle", plain);
    show_rounded<Bf16NegatedA>(report, "bf16", "bf16", "f32", "A negated", plain, {1});
    show_rounded<Bf16NegatedB>(report, "bf16", "bf16", "f32", "B negated", plain, {1});
    show_rounded<Bf16Stored>(report, "bf16", "bf16", "f32", "not added", plain, {1});
    show_rounded<Bf16Narrow>(report, "bf16", "bf16", "f32", "128-byte swizzle", plain, {1});
    // The two columns of 16 bytes of B's 256 rows are 4096 bytes apart.
    const Descriptors broad{descriptor(0, 1024, 128, none), descriptor(kBytesOfA, 4096, 128, none)};
    show_rounded<Bf16Broad>(report, "bf16", "bf16", "f32", "no swizzle", broad, {1});
  });
}
