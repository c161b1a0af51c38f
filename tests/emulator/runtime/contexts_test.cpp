// Contexts of the driver API: results as on an H200 (driver 580, 2026-11-21).
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

constexpr const char* kModule = R"(
.version 9.0
.target sm_100a
.address_size 64
.visible .entry run() { ret; }
)";

CUcontext current() {
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  return context;
}

class ContextTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  }
  /// Runs in a thread of its own, which begins without a context.
  static void run(const std::function<void()>& body) { std::thread(body).join(); }
};

TEST_F(ContextTest, AreAStackOfEachThread) {
  run([] {
    CUcontext first = nullptr, second = nullptr, popped = nullptr;
    EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(current(), nullptr);
    ASSERT_EQ(cuCtxCreate(&first, nullptr, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxCreate(&second, nullptr, CU_CTX_SCHED_BLOCKING_SYNC, 0), CUDA_SUCCESS);
    EXPECT_NE(first, second);
    EXPECT_EQ(current(), second);
    unsigned flags = 0, version = 0;
    EXPECT_EQ(cuCtxGetFlags(&flags), CUDA_SUCCESS);
    EXPECT_EQ(flags, unsigned{CU_CTX_SCHED_BLOCKING_SYNC});
    EXPECT_EQ(cuCtxGetApiVersion(second, &version), CUDA_SUCCESS);
    EXPECT_EQ(version, 3020u);
    EXPECT_EQ(cuCtxPushCurrent(first), CUDA_SUCCESS);
    run([] { EXPECT_EQ(current(), nullptr); });
    EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    EXPECT_EQ(popped, first);
    EXPECT_EQ(current(), second);
    EXPECT_EQ(cuCtxDestroy(second), CUDA_SUCCESS);  // removes it from the stack
    EXPECT_EQ(current(), first);
    EXPECT_EQ(cuCtxPushCurrent(nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuCtxDestroy(nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(current(), nullptr);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxDestroy(first), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPushCurrent(first), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST_F(ContextTest, ReplacesTheCurrentOneOnRequest) {
  run([] {
    CUcontext primary = nullptr, own = nullptr, popped = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    EXPECT_EQ(current(), nullptr);  // retaining does not make it current
    ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(primary), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    EXPECT_EQ(popped, primary);
    EXPECT_EQ(current(), nullptr);
    EXPECT_EQ(cuCtxDestroy(primary), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
  });
}

TEST_F(ContextTest, HaveModulesOfTheirOwn) {
  run([] {
    CUcontext primary = nullptr, own = nullptr;
    CUmodule kept = nullptr, ended = nullptr;
    CUfunction kernel = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(primary), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&kept, kModule), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&ended, kModule), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&kernel, kept, "run"), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&kernel, ended, "run"), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuModuleUnload(kept), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  });
}

TEST_F(ContextTest, TellAThreadWhoseContextAnotherOneDestroyed) {
  run([] {
    CUcontext own = nullptr;
    ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
    run([&] { EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS); });
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  });
}

TEST_F(ContextTest, AreMadeCurrentByTheRuntimeItself) {
  run([] {
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
    CUcontext primary = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    EXPECT_EQ(current(), primary);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  });
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
