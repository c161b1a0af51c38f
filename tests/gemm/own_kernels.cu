// A program that compiles a kernel of its own, from launch.cuh, and lets a plan choose it: none of those of the library
// is linked.
#include <cstdio>
#include <vector>

#include "stagecraft/gemm/launch.cuh"

using namespace stagecraft;

static constexpr std::array kMine{GemmConfig{.d = DataType::f32, .tile_n = 48, .accumulators = 3},
                                  GemmConfig{.d = DataType::f32, .tile_m = 64, .tile_n = 80}};

static int report(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

int main() {
  std::vector<const GemmKernel*> kernels;
  for (const GemmKernel& kernel : kernels_of<kMine>()) kernels.push_back(&kernel);
  const int64_t m = 200, n = 90, k = 320;
  const GemmProblem problem{.m = m, .n = n, .k = k, .d = {.type = DataType::f32}};
  const auto none = GemmPlan::choose(problem, {.tile_n = 128}, kernels);
  if (none || none.error().failure != GemmFailure::no_kernel) return report("a kernel was chosen that does not exist");

  for (const int tile_n : {48, 80}) {
    const auto plan = GemmPlan::choose(problem, {.tile_n = tile_n}, kernels);
    if (!plan) return report(plan.error().message);
    std::printf("%s\n", plan->description().c_str());
    const std::vector<__nv_bfloat16> ones(m * k, __nv_bfloat16(1.0f));
    void *a = nullptr, *b = nullptr, *d = nullptr;
    if (cudaMalloc(&a, m * k * 2) || cudaMalloc(&b, n * k * 2) || cudaMalloc(&d, m * n * 4)) return report("no memory");
    cudaMemcpy(a, ones.data(), m * k * 2, cudaMemcpyHostToDevice);
    cudaMemcpy(b, ones.data(), n * k * 2, cudaMemcpyHostToDevice);
    cudaMemset(d, 0xff, m * n * 4);
    const auto error = plan->run({.a = a, .b = b, .d = d}, nullptr, 0);
    if (error) return report(error->message);
    std::vector<float> result(m * n);
    if (cudaMemcpy(result.data(), d, m * n * 4, cudaMemcpyDeviceToHost)) return report("the kernel failed");
    for (const float element : result) {
      if (element != static_cast<float>(k)) return report("an element is wrong");
    }
  }
}
