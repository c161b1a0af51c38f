// The approximate instructions, whose tables are known, on arguments of every sign and exponent: each value must agree.
// A section has checksums of many values, because a table has thousands of places.
#include "report.hpp"

using namespace stagecraft::conformance;

namespace {

constexpr uint32_t kArguments = 1u << 20;
constexpr uint32_t kPerSum = 1u << 12;
constexpr uint32_t kThreads = 256;

#define INSTRUCTION_OF_FLOATS(NAME, TEXT)               \
  struct NAME {                                         \
    static constexpr const char* name = TEXT;           \
    static __device__ uint32_t apply(uint32_t x) {      \
      uint32_t y;                                       \
      asm volatile(TEXT " %0, %1;" : "=r"(y) : "r"(x)); \
      return y;                                         \
    }                                                   \
  };
#define INSTRUCTION_OF_HALVES(NAME, TEXT)                                            \
  struct NAME {                                                                      \
    static constexpr const char* name = TEXT;                                        \
    static __device__ uint32_t apply(uint32_t x) {                                   \
      uint16_t y;                                                                    \
      asm volatile(TEXT " %0, %1;" : "=h"(y) : "h"(static_cast<uint16_t>(x >> 16))); \
      return y;                                                                      \
    }                                                                                \
  };
INSTRUCTION_OF_FLOATS(reciprocal, "rcp.approx.f32")
INSTRUCTION_OF_FLOATS(reciprocal_flushed, "rcp.approx.ftz.f32")
INSTRUCTION_OF_FLOATS(root, "sqrt.approx.f32")
INSTRUCTION_OF_FLOATS(root_flushed, "sqrt.approx.ftz.f32")
INSTRUCTION_OF_FLOATS(reciprocal_root, "rsqrt.approx.f32")
INSTRUCTION_OF_FLOATS(reciprocal_root_flushed, "rsqrt.approx.ftz.f32")
INSTRUCTION_OF_FLOATS(exponential, "ex2.approx.f32")
INSTRUCTION_OF_FLOATS(exponential_flushed, "ex2.approx.ftz.f32")
INSTRUCTION_OF_FLOATS(logarithm, "lg2.approx.f32")
INSTRUCTION_OF_FLOATS(logarithm_flushed, "lg2.approx.ftz.f32")
INSTRUCTION_OF_FLOATS(sine, "sin.approx.f32")
INSTRUCTION_OF_FLOATS(sine_flushed, "sin.approx.ftz.f32")
INSTRUCTION_OF_FLOATS(cosine, "cos.approx.f32")
INSTRUCTION_OF_FLOATS(cosine_flushed, "cos.approx.ftz.f32")
INSTRUCTION_OF_FLOATS(tangent, "tanh.approx.f32")
INSTRUCTION_OF_HALVES(exponential_of_half, "ex2.approx.f16")
INSTRUCTION_OF_HALVES(exponential_of_bf16, "ex2.approx.ftz.bf16")
INSTRUCTION_OF_HALVES(tangent_of_half, "tanh.approx.f16")
INSTRUCTION_OF_HALVES(tangent_of_bf16, "tanh.approx.bf16")

/// Mixes the bits of a number.
__host__ __device__ uint32_t mixed(uint32_t x) {
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

#define DIVISION(NAME, TEXT)                                               \
  struct NAME {                                                            \
    static constexpr const char* name = TEXT;                              \
    static __device__ uint32_t apply(uint32_t x) {                         \
      uint32_t y;                                                          \
      asm volatile(TEXT " %0, %1, %2;" : "=r"(y) : "r"(mixed(x)), "r"(x)); \
      return y;                                                            \
    }                                                                      \
  };
DIVISION(division, "div.approx.f32")
DIVISION(division_flushed, "div.approx.ftz.f32")
DIVISION(full_division, "div.full.f32")
DIVISION(full_division_flushed, "div.full.ftz.f32")

/// Computes the i-th result, for an argument whose upper 20 bits are i.
template <typename Op>
__global__ void apply_to_all(uint32_t seed, uint32_t* y) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  y[i] = Op::apply(i << 12 | (mixed(i + seed) & 0xfff));
}

template <typename Op>
void sweep(Report& report) {
  DeviceBuffer<uint32_t> y(kArguments, "the values");
  apply_to_all<Op><<<kArguments / kThreads, kThreads>>>(mixed(static_cast<uint32_t>(report.seed())), y.data());
  finish_kernel(Op::name);
  const std::vector<uint32_t> values = y.to_host();
  std::vector<uint32_t> sums;
  for (uint32_t first = 0; first < kArguments; first += kPerSum) {
    uint32_t sum = 0;
    for (uint32_t i = first; i < first + kPerSum; ++i) sum = mixed(sum ^ values[i]);
    sums.push_back(sum);
  }
  report.section(std::string(Op::name) + ", sums of 4096 values each", sums);
}

template <typename... Ops>
void sweep_all(Report& report) {
  (sweep<Ops>(report), ...);
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    sweep_all<reciprocal, reciprocal_flushed, root, root_flushed, reciprocal_root, reciprocal_root_flushed>(report);
    sweep_all<exponential, exponential_flushed, exponential_of_half, exponential_of_bf16>(report);
    sweep_all<logarithm, logarithm_flushed, sine, sine_flushed, cosine, cosine_flushed>(report);
    sweep_all<tangent, tangent_of_half, tangent_of_bf16>(report);
    sweep_all<division, division_flushed, full_division, full_division_flushed>(report);
  });
}
