// The C interface: it chooses and computes what the plan in C++ does, and refuses in words.
#include "stagecraft/gemm/c_interface.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "harness/device_buffer.hpp"
#include "stagecraft/gemm/plan.hpp"

// As in C, what an initialiser leaves out is zero.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace stagecraft {
namespace {

using harness::DeviceBuffer;

std::string message() { return stagecraft_gemm_message(); }

bool is_hopper() {
  cudaDeviceProp device;
  return cudaGetDeviceProperties(&device, 0) == cudaSuccess && device.major == 9;
}

/// Device memory that is filled with small random values.
template <typename T>
DeviceBuffer<T> random(size_t size, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<T> values(size);
  for (T& value : values) value = T(static_cast<float>(static_cast<int>(bits() % 17) - 8) / 8);
  return {values, "random values"};
}

/// What a plan needs and leaves.
struct Matrices {
  DeviceBuffer<__nv_bfloat16> a = random<__nv_bfloat16>(4 * 300 * 200, 1), b = random<__nv_bfloat16>(4 * 128 * 200, 2),
                              c = random<__nv_bfloat16>(4 * 300 * 128, 3);
  DeviceBuffer<float> bias = random<float>(4 * 128, 4), row_scales = random<float>(4 * 300, 5),
                      column_scales = random<float>(4 * 128, 6);
  DeviceBuffer<int> masked_rows{std::vector<int>{5, 0, 300, 77}, "rows"};
};

/// What the kernel of a plan stores.
struct Results {
  DeviceBuffer<unsigned char> d{4 * 300 * 128 * 4, "D"}, second{4 * 300 * 128 * 2, "the second output"}, workspace;
  DeviceBuffer<float> maximum{std::vector<float>{0}, "the maximum"};

  explicit Results(size_t workspace_bytes) : workspace(workspace_bytes + 16, "the workspace") {
    d.poison();
    second.poison();
  }
};

/// Chooses and runs the same problem in both ways.
void expect_same(const stagecraft_gemm_problem& problem, const stagecraft_gemm_request& request,
                 const GemmProblem& in_cpp, const GemmRequest& request_in_cpp) {
  const auto expected = GemmPlan::choose(in_cpp, request_in_cpp);
  ASSERT_TRUE(expected) << expected.error().message;
  stagecraft_gemm_plan* plan = nullptr;
  ASSERT_EQ(stagecraft_gemm_create(&problem, &request, &plan), STAGECRAFT_OK) << message();
  EXPECT_EQ(stagecraft_gemm_description(plan), expected->description());
  ASSERT_EQ(stagecraft_gemm_workspace_bytes(plan), expected->workspace_bytes());

  const Matrices given;
  const Results one(expected->workspace_bytes()), other(expected->workspace_bytes());
  const float alpha = 0.75f, beta = -0.5f, scale = 3;
  ASSERT_FALSE(expected->run({.a = given.a.data(),
                              .b = given.b.data(),
                              .d = one.d.data(),
                              .c = given.c.data(),
                              .second = one.second.data(),
                              .bias = given.bias.data(),
                              .row_scales = given.row_scales.data(),
                              .column_scales = given.column_scales.data(),
                              .absolute_maximum = one.maximum.data(),
                              .group_rows = given.masked_rows.data(),
                              .alpha = alpha,
                              .beta = beta,
                              .scale = scale},
                             one.workspace.data(), one.workspace.size()));
  const stagecraft_gemm_arguments arguments{.a = given.a.data(),
                                            .b = given.b.data(),
                                            .d = other.d.data(),
                                            .c = given.c.data(),
                                            .second = other.second.data(),
                                            .bias = given.bias.data(),
                                            .row_scales = given.row_scales.data(),
                                            .column_scales = given.column_scales.data(),
                                            .absolute_maximum = other.maximum.data(),
                                            .masked_rows = given.masked_rows.data(),
                                            .alpha = &alpha,
                                            .beta = &beta,
                                            .scale = &scale};
  ASSERT_EQ(stagecraft_gemm_run(plan, &arguments, other.workspace.data(), other.workspace.size(), nullptr),
            STAGECRAFT_OK)
      << message();
  stagecraft_gemm_destroy(plan);
  EXPECT_EQ(other.d.to_host(), one.d.to_host());
  EXPECT_EQ(other.second.to_host(), one.second.to_host());
  EXPECT_EQ(other.maximum.to_host(), one.maximum.to_host());
}

TEST(CInterfaceTest, ComputesAPlainProductWithTheRequestedTilesAndPieces) {
  if (is_hopper()) GTEST_SKIP() << "for a B200";
  expect_same({.m = 300, .n = 128, .k = 200, .d = {.pitch = 136}},
              {.tile_n = 128, .schedule = STAGECRAFT_GEMM_PERSISTENT, .split_k = 2, .blocks = 3},
              {.m = 300, .n = 128, .k = 200, .d = {.pitch = 136}},
              {.tile_n = 128, .schedule = GemmSchedule::persistent, .split_k = 2, .blocks = 3});
}

TEST(CInterfaceTest, ComputesABatchWithAnEpilogue) {
  if (is_hopper()) GTEST_SKIP() << "for a B200";
  GemmProblem in_cpp{.m = 300, .n = 128, .k = 200, .batches = 2};
  in_cpp.b.batch_stride = 128 * 200;
  in_cpp.fusion = {.c = true,
                   .bias = true,
                   .row_scales = true,
                   .column_scales = true,
                   .activation = GemmActivation::gelu,
                   .second_output = true,
                   .absolute_maximum = true};
  expect_same({.m = 300,
               .n = 128,
               .k = 200,
               .batches = 2,
               .b = {.batch_stride = 128 * 200},
               .activation = STAGECRAFT_GEMM_GELU,
               .adds_c = true,
               .adds_bias = true,
               .scales_rows = true,
               .scales_columns = true,
               .stores_second = true,
               .measures_maximum = true},
              {.swap = -1}, in_cpp, {.swap = false});
}

TEST(CInterfaceTest, ComputesGroupsOfBothKinds) {
  if (is_hopper()) GTEST_SKIP() << "for a B200";
  const std::vector<int64_t> rows{5, 0, 130, 165};
  GemmProblem in_cpp{.m = 300, .n = 128, .k = 200};
  in_cpp.groups.rows = rows;
  in_cpp.fusion.activation = GemmActivation::gated_silu;
  stagecraft_gemm_problem problem{.m = 300, .n = 128, .k = 200, .activation = STAGECRAFT_GEMM_GATED_SILU};
  problem.groups = rows.data();
  problem.group_count = std::ssize(rows);
  expect_same(problem, {}, in_cpp, {});
  in_cpp.groups = {.masked = 4};
  problem.groups = nullptr;
  problem.group_count = 0;
  problem.masked_groups = 4;
  expect_same(problem, {}, in_cpp, {});
}

TEST(CInterfaceTest, ComputesAScaledResultOfTransposedOperands) {
  if (is_hopper()) GTEST_SKIP() << "for a B200";
  GemmProblem in_cpp{.m = 296, .n = 128, .k = 200, .d = {.type = DataType::e4m3}};
  in_cpp.fusion.scale = true;
  expect_same({.m = 296, .n = 128, .k = 200, .d = {.type = STAGECRAFT_E4M3}, .scales_d = true}, {}, in_cpp, {});
  expect_same({.m = 296, .n = 128, .k = 200, .a = {.is_transposed = true}, .b = {.is_transposed = true}}, {},
              {.m = 296, .n = 128, .k = 200, .a = {.major = Major::mn}, .b = {.major = Major::mn}}, {});
}

TEST(CInterfaceTest, RefusesWhatIsNoProblemAndSaysWhy) {
  if (is_hopper()) GTEST_SKIP() << "for a B200";
  const stagecraft_gemm_problem good{.m = 64, .n = 64, .k = 64};
  stagecraft_gemm_plan* plan = nullptr;
  const auto expect_refusal = [&](const std::string& words, auto change, stagecraft_status status) {
    stagecraft_gemm_problem problem = good;
    stagecraft_gemm_request request{};
    change(problem, request);
    plan = reinterpret_cast<stagecraft_gemm_plan*>(&problem);
    EXPECT_EQ(stagecraft_gemm_create(&problem, &request, &plan), status);
    EXPECT_EQ(plan, nullptr);
    EXPECT_NE(message().find(words), std::string::npos) << message();
  };
  using Problem = stagecraft_gemm_problem;
  using Request = stagecraft_gemm_request;
  expect_refusal(
      "K = 0 is too small", [](Problem& p, Request&) { p.k = 0; }, STAGECRAFT_BAD_PROBLEM);
  expect_refusal(
      "the type of B is 256. Legal are 0 to 9.",
      [](Problem& p, Request&) { p.b.type = static_cast<stagecraft_type>(256); }, STAGECRAFT_BAD_PROBLEM);
  expect_refusal(
      "the activation is 77", [](Problem& p, Request&) { p.activation = static_cast<stagecraft_gemm_activation>(77); },
      STAGECRAFT_BAD_PROBLEM);
  expect_refusal(
      "the schedule is 9", [](Problem&, Request& r) { r.schedule = static_cast<stagecraft_gemm_schedule>(9); },
      STAGECRAFT_BAD_PROBLEM);
  expect_refusal(
      "there are -3 groups", [](Problem& p, Request&) { p.masked_groups = -3; }, STAGECRAFT_BAD_PROBLEM);
  expect_refusal(
      "there are 9223372036854775807 groups", [](Problem& p, Request&) { p.group_count = INT64_MAX; },
      STAGECRAFT_BAD_PROBLEM);
  expect_refusal(
      "the rows of the groups are null", [](Problem& p, Request&) { p.group_count = 2; }, STAGECRAFT_BAD_PROBLEM);
  expect_refusal(
      "no kernel was compiled", [](Problem&, Request& r) { r.tile_n = 48; }, STAGECRAFT_NO_KERNEL);
  EXPECT_EQ(stagecraft_gemm_create(nullptr, nullptr, &plan), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(stagecraft_gemm_create(&good, nullptr, nullptr), STAGECRAFT_BAD_PROBLEM);
}

TEST(CInterfaceTest, RefusesARunWithoutWhatItNeeds) {
  if (is_hopper()) GTEST_SKIP() << "for a B200";
  const stagecraft_gemm_problem problem{.m = 64, .n = 64, .k = 512};
  const stagecraft_gemm_request request{.split_k = 2};
  stagecraft_gemm_plan* plan = nullptr;
  ASSERT_EQ(stagecraft_gemm_create(&problem, &request, &plan), STAGECRAFT_OK) << message();
  const Matrices given;
  const stagecraft_gemm_arguments none{}, all{.a = given.a.data(), .b = given.b.data(), .d = given.c.data()};
  EXPECT_EQ(stagecraft_gemm_run(plan, &none, nullptr, 0, nullptr), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(message(), "the address of A is null.");
  EXPECT_EQ(stagecraft_gemm_run(plan, &all, nullptr, 0, nullptr), STAGECRAFT_BAD_WORKSPACE);
  EXPECT_EQ(stagecraft_gemm_run(nullptr, &all, nullptr, 0, nullptr), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(stagecraft_gemm_run(plan, nullptr, nullptr, 0, nullptr), STAGECRAFT_BAD_PROBLEM);
  stagecraft_gemm_destroy(plan);
  stagecraft_gemm_destroy(nullptr);
}

TEST(CInterfaceTest, KeepsTheMessageOfEachThread) {
  EXPECT_EQ(stagecraft_gemm_create(nullptr, nullptr, nullptr), STAGECRAFT_BAD_PROBLEM);
  std::string others = "unset";
  std::thread([&] { others = message(); }).join();
  EXPECT_EQ(others, "");
  EXPECT_NE(message(), "");
}

TEST(CInterfaceTest, RefusesAnotherChip) {
  if (!is_hopper()) GTEST_SKIP() << "for an H200";
  const stagecraft_gemm_problem problem{.m = 64, .n = 64, .k = 64};
  stagecraft_gemm_plan* plan = nullptr;
  EXPECT_EQ(stagecraft_gemm_create(&problem, nullptr, &plan), STAGECRAFT_BAD_DEVICE);
  EXPECT_NE(message().find("compute capability 9.0"), std::string::npos) << message();
}

}  // namespace
}  // namespace stagecraft
