// The approximate instructions on numbers of all sizes and on special values, and the library functions that are made
// of them. The manual fixes no bits of these, but the chip's tables are known.
#include <cuda_fp16.h>

#include <cmath>

#include "report.hpp"

using namespace stagecraft::conformance;

constexpr int kSize = 4096;
constexpr int kThreads = 256;

// LOW and HIGH: arguments, both positive, spread evenly over the magnitudes in between.
#define FUNCTION(NAME, TYPE, LOW, HIGH, EXPRESSION)       \
  struct NAME {                                           \
    using T = TYPE;                                       \
    static constexpr const char* name = #NAME;            \
    static constexpr double low = LOW, high = HIGH;       \
    static __device__ T apply(T x) { return EXPRESSION; } \
  };
#define INSTRUCTION(NAME, TEXT, LOW, HIGH)              \
  struct NAME {                                         \
    using T = float;                                    \
    static constexpr const char* name = TEXT;           \
    static constexpr double low = LOW, high = HIGH;     \
    static __device__ float apply(float x) {            \
      float y;                                          \
      asm volatile(TEXT " %0, %1;" : "=f"(y) : "f"(x)); \
      return y;                                         \
    }                                                   \
  };
INSTRUCTION(rcp_approx, "rcp.approx.f32", 1e-30, 1e30)
INSTRUCTION(rcp_approx_ftz, "rcp.approx.ftz.f32", 1e-30, 1e30)
INSTRUCTION(sqrt_approx, "sqrt.approx.f32", 1e-30, 1e30)
INSTRUCTION(rsqrt_approx, "rsqrt.approx.f32", 1e-30, 1e30)
INSTRUCTION(rsqrt_approx_ftz, "rsqrt.approx.ftz.f32", 1e-30, 1e30)
INSTRUCTION(sin_approx, "sin.approx.f32", 0.3, 2.5)
INSTRUCTION(cos_approx, "cos.approx.f32", 0.1, 1.2)
INSTRUCTION(lg2_approx, "lg2.approx.f32", 3, 1e30)
INSTRUCTION(ex2_approx, "ex2.approx.f32", 0.01, 100)
INSTRUCTION(ex2_approx_ftz, "ex2.approx.ftz.f32", 0.01, 100)
INSTRUCTION(tanh_approx, "tanh.approx.f32", 0.1, 10)
FUNCTION(divide_fast, float, 1e-20, 1e20, __fdividef(x, 3.7f))
FUNCTION(sine_and_two, float, 1e2, 1e9, __sinf(x) + 2.0f)
FUNCTION(cosine_and_two, float, 1e2, 1e9, __cosf(x) + 2.0f)
FUNCTION(expf_, float, 0.01, 80, expf(x))
FUNCTION(logf_, float, 3, 1e30, logf(x))
FUNCTION(sinf_, float, 0.1, 3, sinf(x))
FUNCTION(cosf_, float, 0.1, 1.4, cosf(x))
FUNCTION(tanhf_, float, 0.01, 5, tanhf(x))
FUNCTION(powf_, float, 0.1, 100, powf(x, 1.7f))
FUNCTION(erff_, float, 0.01, 3, erff(x))
FUNCTION(cbrtf_, float, 1e-20, 1e20, cbrtf(x))
FUNCTION(rsqrtf_, float, 1e-20, 1e20, rsqrtf(x))
FUNCTION(exp_, double, 0.01, 300, exp(x))
FUNCTION(log_, double, 3, 1e30, log(x))
FUNCTION(sin_, double, 0.1, 3, sin(x))
FUNCTION(pow_, double, 0.1, 100, pow(x, 1.7))
FUNCTION(half_exp2, __half, 0.1, 10, h2exp2(__half2half2(x)).x)
FUNCTION(half_reciprocal, __half, 0.01, 100, hrcp(x))

template <typename Op>
__global__ void apply_to(const typename Op::T* x, typename Op::T* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = Op::apply(x[i]);
}

template <typename Op>
void run_function(Report& report) {
  using T = typename Op::T;
  Random random(report.seed());
  std::vector<T> arguments;
  for (int i = 0; i < kSize; ++i) {
    const double position = (static_cast<double>(random.uniform()) + 1) / 2;
    arguments.push_back(static_cast<T>(static_cast<float>(Op::low * std::pow(Op::high / Op::low, position))));
  }
  const DeviceBuffer<T> x(arguments, "the arguments");
  DeviceBuffer<T> y(kSize, "the values");
  apply_to<Op><<<kSize / kThreads, kThreads>>>(x.data(), y.data());
  finish_kernel(Op::name);
  report.section(Op::name, y.to_host());
}

/// Zeros, infinities, NaN and subnormals.
template <typename Op>
void run_special(Report& report) {
  const std::vector<float> arguments{0.0f, -0.0f, INFINITY, -INFINITY, NAN, -1.0f, 0x1p-149f, -0x1p-140f, 1.0f};
  const DeviceBuffer<float> x(arguments, "the arguments");
  DeviceBuffer<float> y(arguments.size(), "the values");
  apply_to<Op><<<1, static_cast<unsigned>(arguments.size())>>>(x.data(), y.data());
  finish_kernel(Op::name);
  report.section(std::string(Op::name) + " of special values", y.to_host());
}

template <typename... Ops>
void run_functions(Report& report) {
  (run_function<Ops>(report), ...);
}

template <typename... Ops>
void run_all_special(Report& report) {
  (run_special<Ops>(report), ...);
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    run_functions<rcp_approx, rcp_approx_ftz, sqrt_approx, rsqrt_approx, rsqrt_approx_ftz, sin_approx, cos_approx,
                  lg2_approx, ex2_approx, ex2_approx_ftz, tanh_approx, divide_fast, expf_, logf_, sinf_, cosf_, tanhf_,
                  powf_, erff_, cbrtf_, rsqrtf_, exp_, log_, sin_, pow_, half_exp2, half_reciprocal>(report);
    // Large arguments lose much precision, and the chip's way of it is known too.
    run_functions<sine_and_two, cosine_and_two>(report);
    run_all_special<rcp_approx, sqrt_approx, rsqrt_approx, lg2_approx, ex2_approx, sin_approx, cos_approx, tanh_approx,
                    rcp_approx_ftz, ex2_approx_ftz>(report);
  });
}
