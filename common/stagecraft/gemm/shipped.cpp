// What chooses among the kernels that are compiled into the library. A program that brings its own kernels does without
// these, and is not linked with them.
#include <vector>

#include "stagecraft/gemm/kernel_table.hpp"
#include "stagecraft/gemm/kernels/tables.hpp"
#include "stagecraft/gemm/plan.hpp"

namespace stagecraft {

std::span<const GemmKernel* const> shipped_gemms() {
  static const std::vector<const GemmKernel*> kernels = [] {
    std::vector<const GemmKernel*> all;
    for (const auto& table :
         {shipped::bf16_tiles_kernels(), shipped::bf16_schedules_kernels(), shipped::bf16_epilogues_kernels(),
          shipped::bf16_groups_kernels(), shipped::f16_and_tf32_kernels(), shipped::fp8_kernels(),
          shipped::block_scaled_kernels()}) {
      for (const GemmKernel& kernel : table) all.push_back(&kernel);
    }
    return all;
  }();
  return kernels;
}

GemmExpected<GemmPlan> GemmPlan::choose(const GemmProblem& problem, const GemmRequest& request) {
  return choose(problem, request, shipped_gemms());
}

std::optional<GemmError> gemm(const GemmProblem& problem, const GemmArguments& arguments, cudaStream_t stream) {
  const GemmExpected<GemmPlan> plan = GemmPlan::choose(problem);
  if (!plan) return plan.error();
  return plan->run(arguments, nullptr, 0, stream);
}

}  // namespace stagecraft
