// What the C interface of the GEMM for Hopper refuses. What it computes, common/stagecraft/hopper_gemm/example.c
// checks.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "harness/device_buffer.hpp"
#include "stagecraft/hopper_gemm/c_interface.h"

namespace stagecraft {
namespace {

std::string message() { return stagecraft_hopper_message(); }

/// Expects that a problem is refused in these words.
void expect_refusal(const std::string& words, const stagecraft_hopper_problem& problem,
                    stagecraft_status status = STAGECRAFT_BAD_PROBLEM) {
  stagecraft_hopper_plan* plan = reinterpret_cast<stagecraft_hopper_plan*>(&plan);
  EXPECT_EQ(stagecraft_hopper_create(&problem, &plan), status);
  EXPECT_EQ(plan, nullptr);
  EXPECT_NE(message().find(words), std::string::npos) << message();
}

class HopperCInterfaceTest : public testing::Test {
 protected:
  harness::DeviceBuffer<unsigned char> memory{64 * 64 * 2 + 16, "A, B and C"};
  stagecraft_hopper_problem good{
      .type = STAGECRAFT_BF16, .a = memory.data(), .b = memory.data(), .c = memory.data(), .m = 64, .n = 64, .k = 64};
  stagecraft_hopper_problem bad = good;
};

TEST_F(HopperCInterfaceTest, RefusesExtentsThatNoKernelCounts) {
  bad.m = 0;
  expect_refusal("M = 0 is too small. Legal are 1 to 16777216.", bad);
  bad.m = INT64_MAX;
  expect_refusal("M = 9223372036854775807 is too large", bad);
  bad.m = bad.n = int64_t{1} << 24;
  expect_refusal("2^40 elements", bad);
}

TEST_F(HopperCInterfaceTest, RefusesTypesThatItDoesNotMultiply) {
  bad.type = STAGECRAFT_F16;
  expect_refusal("the type is 1", bad);
  bad.type = static_cast<stagecraft_type>(256);
  expect_refusal("the type is 256", bad);
}

TEST_F(HopperCInterfaceTest, RefusesAddressesThatTheCopyEngineCannotTake) {
  bad.b = nullptr;
  expect_refusal("the address of B is null", bad);
  bad.b = memory.data() + 2;
  expect_refusal("the address of B is not a multiple of 16 bytes", bad);
}

TEST_F(HopperCInterfaceTest, RefusesNullPointers) {
  stagecraft_hopper_plan* plan = nullptr;
  EXPECT_EQ(stagecraft_hopper_create(&good, nullptr), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(stagecraft_hopper_create(nullptr, &plan), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(stagecraft_hopper_run(nullptr, nullptr), STAGECRAFT_BAD_PROBLEM);
  EXPECT_EQ(message(), "the plan is null.");
  EXPECT_STREQ(stagecraft_hopper_configuration(nullptr), "");
  stagecraft_hopper_destroy(nullptr);
}

TEST_F(HopperCInterfaceTest, KeepsTheMessageOfEachThread) {
  EXPECT_EQ(stagecraft_hopper_create(nullptr, nullptr), STAGECRAFT_BAD_PROBLEM);
  std::string others = "unset";
  std::thread([&] { others = message(); }).join();
  EXPECT_EQ(others, "");
  EXPECT_NE(message(), "");
}

TEST_F(HopperCInterfaceTest, RefusesAnotherChip) {
  cudaDeviceProp device;
  ASSERT_EQ(cudaGetDeviceProperties(&device, 0), cudaSuccess);
  if (device.major == 9) GTEST_SKIP() << "for another chip than a Hopper";
  expect_refusal("compute capability 10", good, STAGECRAFT_BAD_DEVICE);
}

}  // namespace
}  // namespace stagecraft
