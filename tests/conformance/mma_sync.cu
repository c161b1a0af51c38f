// mma.sync in every dense shape and type: which element of a matrix is in which register of which lane, and what the
// product is. Sums of small integers are exact; sums that are rounded follow in sections of their own, of numbers of
// all sizes and special values.
#include "matrix_codes.hpp"
#include "report.hpp"

using namespace stagecraft::conformance;

// A form has so many registers for A, B, and C and D. The instruction is text, so a macro makes a function of each.
#define FORM(NAME, TEXT, A, B, D, ...)                                                                   \
  struct NAME {                                                                                          \
    static constexpr int kA = A, kB = B, kD = D;                                                         \
    static constexpr const char* kText = TEXT;                                                           \
    static __device__ void apply(uint32_t* d, const uint32_t* a, const uint32_t* b, const uint32_t* c) { \
      MMA_##A##_##B##_##D(TEXT)                                                                          \
    }                                                                                                    \
  };
#define MMA_4_2_4(TEXT)                                                                                             \
  asm volatile(TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                          \
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), \
                 "r"(c[3]));
#define MMA_2_1_4(TEXT)                                                     \
  asm volatile(TEXT " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" \
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])             \
               : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
#define MMA_4_2_2(TEXT)                                                \
  asm volatile(TEXT " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};" \
               : "=r"(d[0]), "=r"(d[1])                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));
#define MMA_2_1_2(TEXT)                                    \
  asm volatile(TEXT " {%0, %1}, {%2, %3}, {%4}, {%5, %6};" \
               : "=r"(d[0]), "=r"(d[1])                    \
               : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]));
#define MMA_1_1_2(TEXT)                                \
  asm volatile(TEXT " {%0, %1}, {%2}, {%3}, {%4, %5};" \
               : "=r"(d[0]), "=r"(d[1])                \
               : "r"(a[0]), "r"(b[0]), "r"(c[0]), "r"(c[1]));

constexpr int kTiles = 8;  // of each kind of numbers, one to a block

template <typename Form>
__global__ void multiply(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d) {
  const auto at = [](int i, int registers) { return (blockIdx.x * registers + i) * 32 + threadIdx.x; };
  uint32_t in_a[Form::kA], in_b[Form::kB], in_c[Form::kD], out[Form::kD];
  for (int i = 0; i < Form::kA; ++i) in_a[i] = a[at(i, Form::kA)];
  for (int i = 0; i < Form::kB; ++i) in_b[i] = b[at(i, Form::kB)];
  for (int i = 0; i < Form::kD; ++i) in_c[i] = c[at(i, Form::kD)];
  Form::apply(out, in_a, in_b, in_c);
  for (int i = 0; i < Form::kD; ++i) d[at(i, Form::kD)] = out[i];
}

template <typename Form>
std::vector<uint32_t> product(Random& random, const char* a_type, const char* b_type, const char* d_type, Draw how,
                              int tiles) {
  const DeviceBuffer<uint32_t> a(codes_of(a_type).words(random, Form::kA * 32 * tiles, how), "A");
  const DeviceBuffer<uint32_t> b(codes_of(b_type).words(random, Form::kB * 32 * tiles, how, true), "B");
  const DeviceBuffer<uint32_t> c(accumulator_words(d_type, random, Form::kD * 32 * tiles, how, a_type), "C");
  DeviceBuffer<uint32_t> d(Form::kD * 32 * tiles, "D");
  multiply<Form><<<tiles, 32>>>(a.data(), b.data(), c.data(), d.data());
  finish_kernel(Form::kText);
  return d.to_host();
}

template <typename Form>
void show(Report& report, const char* a_type, const char* b_type, const char* d_type) {
  Random random(report.seed());
  report.section(Form::kText, product<Form>(random, a_type, b_type, d_type, Draw::integers, 1));
  if (d_type[0] == 's') return;
  for (const auto& [how, name] : kRounded) {
    report.section(std::string(Form::kText) + ", " + name, product<Form>(random, a_type, b_type, d_type, how, kTiles));
  }
}

#define PREFIX "mma.sync.aligned."
FORM(F16K8, PREFIX "m16n8k8.row.col.f32.f16.f16.f32", 2, 1, 4)
FORM(F16K16, PREFIX "m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4)
FORM(F16K8F16, PREFIX "m16n8k8.row.col.f16.f16.f16.f16", 2, 1, 2)
FORM(F16K16F16, PREFIX "m16n8k16.row.col.f16.f16.f16.f16", 4, 2, 2)
FORM(Bf16K8, PREFIX "m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1, 4)
FORM(Bf16K16, PREFIX "m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4)
FORM(Tf32K4, PREFIX "m16n8k4.row.col.f32.tf32.tf32.f32", 2, 1, 4)
FORM(Tf32K8, PREFIX "m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4)
FORM(E4m3K16, PREFIX "m16n8k16.row.col.f32.e4m3.e4m3.f32", 2, 1, 4)
FORM(E4m3K32, PREFIX "m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2, 4)
FORM(MixedK32, PREFIX "m16n8k32.row.col.f32.e4m3.e5m2.f32", 4, 2, 4)
FORM(E5m2K32, PREFIX "m16n8k32.row.col.f32.e5m2.e5m2.f32", 4, 2, 4)
FORM(E4m3K32F16, PREFIX "m16n8k32.row.col.f16.e4m3.e4m3.f16", 4, 2, 2)
FORM(E5m2K32F16, PREFIX "m16n8k32.row.col.f16.e5m2.e5m2.f16", 4, 2, 2)
FORM(MixedK16F16, PREFIX "m16n8k16.row.col.f16.e5m2.e4m3.f16", 2, 1, 2)
FORM(S8M8, PREFIX "m8n8k16.row.col.s32.s8.s8.s32", 1, 1, 2)
FORM(U8M8, PREFIX "m8n8k16.row.col.satfinite.s32.u8.s8.s32", 1, 1, 2)
FORM(S8K16, PREFIX "m16n8k16.row.col.s32.s8.u8.s32", 2, 1, 4)
FORM(S8K32, PREFIX "m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 4)
FORM(U8K32, PREFIX "m16n8k32.row.col.satfinite.s32.u8.u8.s32", 4, 2, 4)
FORM(S4M8, PREFIX "m8n8k32.row.col.s32.s4.s4.s32", 1, 1, 2)
FORM(S4K32, PREFIX "m16n8k32.row.col.s32.s4.u4.s32", 2, 1, 4)
FORM(S4K64, PREFIX "m16n8k64.row.col.s32.s4.s4.s32", 4, 2, 4)
FORM(U4K64, PREFIX "m16n8k64.row.col.satfinite.s32.u4.s4.s32", 4, 2, 4)
FORM(B1M8, PREFIX "m8n8k128.row.col.s32.b1.b1.s32.and.popc", 1, 1, 2)
FORM(B1K128, PREFIX "m16n8k128.row.col.s32.b1.b1.s32.xor.popc", 2, 1, 4)
FORM(B1K256, PREFIX "m16n8k256.row.col.s32.b1.b1.s32.and.popc", 4, 2, 4)

// ---- f64 -----------------------------------------------------------------------------------------------------------

template <int K, int M = 16>
__global__ void multiply_doubles(const double* a, const double* b, const double* c, double* d) {
  constexpr int kA = M * K / 32, kB = K / 4, kD = M / 4;
  double x[8], y[4], z[4];
  for (int i = 0; i < kA; ++i) x[i] = a[i * 32 + threadIdx.x];
  for (int i = 0; i < kB; ++i) y[i] = b[i * 32 + threadIdx.x];
  for (int i = 0; i < kD; ++i) z[i] = c[i * 32 + threadIdx.x];
  if constexpr (M == 8) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(z[0]), "+d"(z[1])
                 : "d"(x[0]), "d"(y[0]));
  } else if constexpr (K == 4) {
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+d"(z[0]), "+d"(z[1]), "+d"(z[2]), "+d"(z[3])
                 : "d"(x[0]), "d"(x[1]), "d"(y[0]));
  } else if constexpr (K == 8) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+d"(z[0]), "+d"(z[1]), "+d"(z[2]), "+d"(z[3])
        : "d"(x[0]), "d"(x[1]), "d"(x[2]), "d"(x[3]), "d"(y[0]), "d"(y[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, "
        "%13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(z[0]), "+d"(z[1]), "+d"(z[2]), "+d"(z[3])
        : "d"(x[0]), "d"(x[1]), "d"(x[2]), "d"(x[3]), "d"(x[4]), "d"(x[5]), "d"(x[6]), "d"(x[7]), "d"(y[0]), "d"(y[1]),
          "d"(y[2]), "d"(y[3]));
  }
  for (int i = 0; i < kD; ++i) d[i * 32 + threadIdx.x] = z[i];
}

template <int K, int M = 16>
void show_doubles(Report& report) {
  Random random(report.seed());
  const auto show_values = [&](const std::string& name, const auto& draw) {
    const auto values = [&](size_t count) {
      std::vector<double> all(count);
      for (double& value : all) value = draw();
      return all;
    };
    const DeviceBuffer<double> a(values(M * K), "A"), b(values(8 * K), "B"), c(values(M * 8), "C");
    DeviceBuffer<double> d(M * 8, "D");
    multiply_doubles<K, M><<<1, 32>>>(a.data(), b.data(), c.data(), d.data());
    finish_kernel("multiply_doubles");
    report.section("f64, m" + std::to_string(M) + "n8k" + std::to_string(K) + name, d.to_host());
  };
  // Multiples of 2^-8: sums are exact.
  show_values("", [&] { return (static_cast<int>(random.bits() % 4001) - 2000) / 256.0; });
  const FloatCodes fields{11, 52};
  const auto draw = [&](int spread) {
    const uint64_t bits = random.bits(), one = fields.bias();
    const uint64_t exponent = one - spread + (bits >> 52) % (2 * spread + 1);
    const uint64_t code = (random.bits() & 1) << 63 | exponent << 52 | (bits & ((uint64_t{1} << 52) - 1));
    double value;
    memcpy(&value, &code, sizeof value);
    return value;
  };
  show_values(", near 1", [&] { return draw(4); });
  show_values(", wide", [&] { return draw(500); });
}

// ---- m8n8k4 of f16 -------------------------------------------------------------------------------------------------

__global__ void multiply_quarters(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d) {
  const uint32_t t = threadIdx.x, a0 = a[t], a1 = a[t + 32], b0 = b[t], b1 = b[t + 32];
  uint32_t e[8];
  const auto store = [&](int form, int count) {
    for (int i = 0; i < count; ++i) d[(form * 8 + i) * 32 + t] = e[i];
  };
#define QUARTERS(FORM, LAYOUTS)                                                                                 \
  for (int i = 0; i < 8; ++i) e[i] = c[i * 32 + t];                                                             \
  asm volatile("mma.sync.aligned.m8n8k4." LAYOUTS                                                               \
               ".f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, " \
               "%5, %6, %7};"                                                                                   \
               : "+r"(e[0]), "+r"(e[1]), "+r"(e[2]), "+r"(e[3]), "+r"(e[4]), "+r"(e[5]), "+r"(e[6]), "+r"(e[7]) \
               : "r"(a0), "r"(a1), "r"(b0), "r"(b1));                                                           \
  store(FORM, 8);                                                                                               \
  for (int i = 0; i < 4; ++i) e[i] = c[(8 + i) * 32 + t];                                                       \
  asm volatile("mma.sync.aligned.m8n8k4." LAYOUTS                                                               \
               ".f16.f16.f16.f16 {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%0, %1, %2, %3};"                       \
               : "+r"(e[0]), "+r"(e[1]), "+r"(e[2]), "+r"(e[3])                                                 \
               : "r"(a0), "r"(a1), "r"(b0), "r"(b1));                                                           \
  store(FORM + 1, 4);
  QUARTERS(0, "row.col")
  QUARTERS(2, "row.row")
  QUARTERS(4, "col.col")
  QUARTERS(6, "col.row")
}

void show_quarters(Report& report) {
  Random random(report.seed());
  const auto show_values = [&](const std::string& name, Draw how) {
    const DeviceBuffer<uint32_t> a(codes_of("f16").words(random, 64, how), "A");
    const DeviceBuffer<uint32_t> b(codes_of("f16").words(random, 64, how, true), "B");
    std::vector<uint32_t> words = accumulator_words("f32", random, 256, how);
    const std::vector<uint32_t> halves = accumulator_words("f16", random, 128, how);
    words.insert(words.end(), halves.begin(), halves.end());
    const DeviceBuffer<uint32_t> c(words, "C");
    const DeviceBuffer<uint32_t> d(std::vector<uint32_t>(8 * 8 * 32, 0), "D");
    multiply_quarters<<<1, 32>>>(a.data(), b.data(), c.data(), const_cast<uint32_t*>(d.data()));
    finish_kernel("multiply_quarters");
    report.section("m8n8k4 of f16" + name, d.to_host());
  };
  show_values("", Draw::integers);
  for (const auto& [how, name] : kRounded) show_values(std::string(", ") + name, how);
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    show<F16K8>(report, "f16", "f16", "f32");
    show<F16K16>(report, "f16", "f16", "f32");
    show<F16K8F16>(report, "f16", "f16", "f16");
    show<F16K16F16>(report, "f16", "f16", "f16");
    show<Bf16K8>(report, "bf16", "bf16", "f32");
    show<Bf16K16>(report, "bf16", "bf16", "f32");
    show<Tf32K4>(report, "tf32", "tf32", "f32");
    show<Tf32K8>(report, "tf32", "tf32", "f32");
    show<E4m3K16>(report, "e4m3", "e4m3", "f32");
    show<E4m3K32>(report, "e4m3", "e4m3", "f32");
    show<MixedK32>(report, "e4m3", "e5m2", "f32");
    show<E5m2K32>(report, "e5m2", "e5m2", "f32");
    show<E4m3K32F16>(report, "e4m3", "e4m3", "f16");
    show<E5m2K32F16>(report, "e5m2", "e5m2", "f16");
    show<MixedK16F16>(report, "e5m2", "e4m3", "f16");
    show<S8M8>(report, "s8", "s8", "s32");
    show<U8M8>(report, "u8", "s8", "s32");
    show<S8K16>(report, "s8", "u8", "s32");
    show<S8K32>(report, "s8", "s8", "s32");
    show<U8K32>(report, "u8", "u8", "s32");
    show<S4M8>(report, "s4", "s4", "s32");
    show<S4K32>(report, "s4", "u4", "s32");
    show<S4K64>(report, "s4", "s4", "s32");
    show<U4K64>(report, "u4", "s4", "s32");
    show<B1M8>(report, "b1", "b1", "s32");
    show<B1K128>(report, "b1", "b1", "s32");
    show<B1K256>(report, "b1", "b1", "s32");
    show_doubles<4, 8>(report);
    show_doubles<4>(report);
    show_doubles<8>(report);
    show_doubles<16>(report);
    show_quarters(report);
  });
}
