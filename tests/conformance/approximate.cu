// The approximate instructions on numbers of all sizes and on special values, and the library functions that are made
// of them. The manual fixes no bits of these, but the chip's tables are known.
#include <cuda_fp16.h>

#include <cmath>

#include "report.hpp"

using namespace stagecraft::conformance;

constexpr int kSize = 4096;
constexpr int kThreads = 256;

#define FUNCTION(NAME, TYPE, EXPRESSION)                  \
  struct NAME {                                           \
    using T = TYPE;                                       \
    static constexpr const char* name = #NAME;            \
    static __device__ T apply(T x) { return EXPRESSION; } \
  };
#define INSTRUCTION(NAME, TEXT)                         \
  struct NAME {                                         \
    using T = float;                                    \
    static constexpr const char* name = TEXT;           \
    static __device__ float apply(float x) {            \
      float y;                                          \
      asm volatile(TEXT " %0, %1;" : "=f"(y) : "f"(x)); \
      return y;                                         \
    }                                                   \
  };
INSTRUCTION(rcp_approx, "rcp.approx.f32")
INSTRUCTION(rcp_approx_ftz, "rcp.approx.ftz.f32")
INSTRUCTION(sqrt_approx, "sqrt.approx.f32")
INSTRUCTION(rsqrt_approx, "rsqrt.approx.f32")
INSTRUCTION(rsqrt_approx_ftz, "rsqrt.approx.ftz.f32")
INSTRUCTION(sin_approx, "sin.approx.f32")
INSTRUCTION(cos_approx, "cos.approx.f32")
INSTRUCTION(lg2_approx, "lg2.approx.f32")
INSTRUCTION(ex2_approx, "ex2.approx.f32")
INSTRUCTION(ex2_approx_ftz, "ex2.approx.ftz.f32")
INSTRUCTION(tanh_approx, "tanh.approx.f32")
FUNCTION(divide_fast, float, __fdividef(x, 3.7f))
FUNCTION(sine_and_two, float, __sinf(x) + 2.0f)
FUNCTION(cosine_and_two, float, __cosf(x) + 2.0f)
FUNCTION(expf_, float, expf(x))
FUNCTION(logf_, float, logf(x))
FUNCTION(sinf_, float, sinf(x))
FUNCTION(cosf_, float, cosf(x))
FUNCTION(tanhf_, float, tanhf(x))
FUNCTION(powf_, float, powf(x, 1.7f))
FUNCTION(erff_, float, erff(x))
FUNCTION(cbrtf_, float, cbrtf(x))
FUNCTION(rsqrtf_, float, rsqrtf(x))
FUNCTION(exp_, double, exp(x))
FUNCTION(log_, double, log(x))
FUNCTION(sin_, double, sin(x))
FUNCTION(pow_, double, pow(x, 1.7))
FUNCTION(half_exp2, __half, h2exp2(__half2half2(x)).x)
FUNCTION(half_reciprocal, __half, hrcp(x))

template <typename Op>
__global__ void apply_to(const typename Op::T* x, typename Op::T* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = Op::apply(x[i]);
}

/// @param low, high  arguments, both positive, spread evenly over the magnitudes in between.
template <typename Op>
void run_function(Report& report, double low, double high) {
  using T = typename Op::T;
  Random random(report.seed());
  std::vector<T> arguments;
  for (int i = 0; i < kSize; ++i) {
    const double position = (static_cast<double>(random.uniform()) + 1) / 2;
    arguments.push_back(static_cast<T>(static_cast<float>(low * std::pow(high / low, position))));
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

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    run_function<rcp_approx>(report, 1e-30, 1e30);
    run_function<rcp_approx_ftz>(report, 1e-30, 1e30);
    run_function<sqrt_approx>(report, 1e-30, 1e30);
    run_function<rsqrt_approx>(report, 1e-30, 1e30);
    run_function<rsqrt_approx_ftz>(report, 1e-30, 1e30);
    run_function<sin_approx>(report, 0.3, 2.5);
    run_function<cos_approx>(report, 0.1, 1.2);
    run_function<lg2_approx>(report, 3, 1e30);
    run_function<ex2_approx>(report, 0.01, 100);
    run_function<ex2_approx_ftz>(report, 0.01, 100);
    run_function<tanh_approx>(report, 0.1, 10);
    run_function<divide_fast>(report, 1e-20, 1e20);
    run_function<expf_>(report, 0.01, 80);
    run_function<logf_>(report, 3, 1e30);
    run_function<sinf_>(report, 0.1, 3);
    run_function<cosf_>(report, 0.1, 1.4);
    run_function<tanhf_>(report, 0.01, 5);
    run_function<powf_>(report, 0.1, 100);
    run_function<erff_>(report, 0.01, 3);
    run_function<cbrtf_>(report, 1e-20, 1e20);
    run_function<rsqrtf_>(report, 1e-20, 1e20);
    run_function<exp_>(report, 0.01, 300);
    run_function<log_>(report, 3, 1e30);
    run_function<sin_>(report, 0.1, 3);
    run_function<pow_>(report, 0.1, 100);
    run_function<half_exp2>(report, 0.1, 10);
    run_function<half_reciprocal>(report, 0.01, 100);
    // Large arguments lose much precision, and the chip's way of it is known too.
    run_function<sine_and_two>(report, 1e2, 1e9);
    run_function<cosine_and_two>(report, 1e2, 1e9);
    run_special<rcp_approx>(report);
    run_special<sqrt_approx>(report);
    run_special<rsqrt_approx>(report);
    run_special<lg2_approx>(report);
    run_special<ex2_approx>(report);
    run_special<sin_approx>(report);
    run_special<cos_approx>(report);
    run_special<tanh_approx>(report);
    run_special<rcp_approx_ftz>(report);
    run_special<ex2_approx_ftz>(report);
  });
}
