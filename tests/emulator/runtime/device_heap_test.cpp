// malloc and free in kernels, and the limit of their heap.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Asks for `size` bytes `count` times and writes how often it got memory. `then` is PTX that uses each address, in
/// %rd4.
std::string kernel_that_allocates(const std::string& then = {}) {
  return R"(
    .extern .func (.param .b64 address) malloc(.param .b64 size);
    .extern .func free(.param .b64 address);
    .visible .entry kernel(.param .u64 out, .param .u64 size, .param .u32 count) {
      .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .pred %p<4>;
      ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [size]; ld.param.u32 %r1, [count];
      mov.u32 %r2, 0; mov.u32 %r3, 0;
    again:
      { .param .b64 address; .param .b64 bytes; st.param.b64 [bytes], %rd2;
        call (address), malloc, (bytes); ld.param.b64 %rd4, [address]; }
      setp.eq.u64 %p1, %rd4, 0; @!%p1 add.u32 %r3, %r3, 1;
      )" +
         then +
         R"(
      add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, %r1; @%p2 bra again;
      st.global.u32 [%rd1], %r3; ret;
    })";
}

class DeviceHeapTest : public RuntimeTest {
 protected:
  /// How many of `count` allocations of `size` bytes in one thread succeed.
  uint32_t allocations(const Program& program, uint64_t size, uint32_t count) {
    uint32_t* out = nullptr;
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&out), sizeof *out), cudaSuccess);
    void* arguments[] = {&out, &size, &count};
    EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr), cudaSuccess);
    uint32_t result = 0;
    EXPECT_EQ(cudaMemcpy(&result, out, sizeof result, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(cudaFree(out), cudaSuccess);
    return result;
  }
};

TEST_F(DeviceHeapTest, HasEightMebibytesAtFirst) {
  const Program program(Program::with_ptx(kernel_that_allocates()));
  EXPECT_EQ(allocations(program, 1 << 20, 20), 8u);
  EXPECT_EQ(allocations(program, 1 << 20, 1), 0u);  // memory that was not freed stays allocated
}

TEST_F(DeviceHeapTest, GrowsByItsLimitBeforeItIsUsed) {
  ASSERT_EQ(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20), cudaSuccess);
  const Program program(Program::with_ptx(kernel_that_allocates()));
  EXPECT_EQ(allocations(program, 10 << 20, 5), 3u);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 << 20), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "a kernel has used malloc", said());
}

TEST_F(DeviceHeapTest, TakesBackWhatIsFreed) {
  const Program program(Program::with_ptx(
      kernel_that_allocates("{ .param .b64 address; st.param.b64 [address], %rd4; call free, (address); }")));
  EXPECT_EQ(allocations(program, 5 << 20, 50), 50u);
}

TEST_F(DeviceHeapTest, TakesBackOnlyWhatItGave) {
  const Program program(Program::with_ptx(
      kernel_that_allocates("{ .param .b64 address; st.param.b64 [address], %rd1; call free, (address); }")));
  void *out = nullptr, *unused = nullptr;
  ASSERT_EQ(cudaMalloc(&out, 4), cudaSuccess);
  uint64_t size = 16;
  uint32_t count = 1;
  void* arguments[] = {&out, &size, &count};
  cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not the start of what malloc gave to a kernel", said());
  EXPECT_NE(cudaMalloc(&unused, 4), cudaSuccess);  // until the reset
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
