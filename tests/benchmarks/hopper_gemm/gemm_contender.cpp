// Chapter 13's kernel among the contenders of a benchmark, as a plan chooses it: for Blackwell.
#include <cuda_runtime_api.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "contenders.hpp"
#include "harness/device_buffer.hpp"
#include "stagecraft/gemm/plan.hpp"

namespace stagecraft {
namespace {

GemmExpected<GemmPlan> plan(const MatrixProduct& p) {
  const DataType type = p.type == OperandType::e4m3 ? DataType::e4m3 : DataType::bf16;
  return GemmPlan::choose({.m = p.m, .n = p.n, .k = p.k, .a = {.type = type}, .b = {.type = type}});
}

const AddContender gemm({.name = "gemm",
                         .takes = [](const MatrixProduct& p) { return plan(p).has_value(); },
                         .prepare = [](const MatrixProduct& p) -> Launch {
                           auto chosen = plan(p);
                           if (!chosen) throw std::runtime_error(chosen.error().message);
                           const auto workspace = std::make_shared<harness::DeviceBuffer<unsigned char>>(
                               chosen->workspace_bytes() + 16, "the plan's workspace");
                           return [plan = *chosen, workspace, p](cudaStream_t stream) {
                             const auto error = plan.run({.a = p.a, .b = p.b, .d = p.c}, workspace->data(),
                                                         plan.workspace_bytes(), stream);
                             if (error) throw std::runtime_error(error->message);
                           };
                         }});

}  // namespace
}  // namespace stagecraft
