#include <gtest/gtest.h>

#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using LaunchTest = RuntimeTest;

/// Adds `amount` to the 32-bit number at `pointer`.
constexpr const char* kAdd = R"(
.visible .global .align 4 .b8 variable[16] = {1, 0, 0, 0, 2};
.visible .entry kernel(.param .u64 kernel_param_0, .param .u32 kernel_param_1) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [kernel_param_0];
  ld.param.u32 %r1, [kernel_param_1];
  ld.global.u32 %r2, [%rd1];
  add.s32 %r3, %r2, %r1;
  st.global.u32 [%rd1], %r3;
  ret;
})";
constexpr const char* kEmpty = ".visible .entry kernel() { ret; }";

cudaError_t launch_empty(const Program& program, dim3 grid, dim3 block, size_t shared_bytes = 0) {
  return cudaLaunchKernel(program.kernel, grid, block, nullptr, shared_bytes, nullptr);
}

TEST_F(LaunchTest, RunsAKernelOfTheFatBinary) {
  const Program program(Program::with_ptx(kAdd));
  int* number = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&number), sizeof *number), cudaSuccess);
  int value = 40, amount = 2;
  ASSERT_EQ(cudaMemcpy(number, &value, sizeof value, cudaMemcpyHostToDevice), cudaSuccess);
  void* arguments[] = {&number, &amount};
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(&value, number, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(value, 42);
  EXPECT_EQ(said(), "");
}

TEST_F(LaunchTest, RefusesAGridThatTheChipCannotHold) {
  const Program program(Program::with_ptx(kEmpty));
  EXPECT_EQ(launch_empty(program, {0}, {1}), cudaErrorInvalidConfiguration);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "kernel kernel: a grid of (0,1,1) blocks; legal are 1 to 2147483647",
                      said());
  EXPECT_EQ(launch_empty(program, {1, 65536}, {1}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch_empty(program, {1}, {0}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch_empty(program, {1}, {1025}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch_empty(program, {1}, {1, 1, 65}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch_empty(program, {1}, {32, 32, 2}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(launch_empty(program, {2147483647u, 0, 1}, {1}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch_empty(program, {2, 3, 4}, {8, 4, 2}), cudaSuccess);
}

TEST_F(LaunchTest, RefusesArgumentsThatCannotBeRead) {
  const Program program(Program::with_ptx(kAdd));
  int* number = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&number), sizeof *number), cudaSuccess);
  const auto wild = reinterpret_cast<void**>(0x1000);
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, wild, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "the array of arguments, 0x1000, cannot be read", said());
  void* arguments[] = {&number, wild};
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "argument 1, 4 bytes at 0x1000, is no memory of the host program", said());

  CUfunction function = nullptr;
  ASSERT_EQ(cudaGetFuncBySymbol(&function, program.kernel), cudaSuccess);
  size_t size = 12;
  void* buffer_is_wild[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, wild, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                            CU_LAUNCH_PARAM_END};
  void* size_is_wild[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, wild,
                          CU_LAUNCH_PARAM_END};
  for (void** extra : {wild, buffer_is_wild, size_is_wild}) {
    EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), CUDA_ERROR_INVALID_VALUE);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "is no memory of the host program", said());
  }
}

TEST_F(LaunchTest, SaysOnceThatAnAttributeCannotBeSet) {
  const Program first(Program::with_ptx(kEmpty)), second(Program::with_ptx(kEmpty));
  constexpr auto kLater = static_cast<cudaFuncAttribute>(17);  // Triton tries it for each kernel
  EXPECT_EQ(cudaFuncSetAttribute(first.kernel, kLater, 3), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "attribute 17 cannot be set; legal are 8", said());
  EXPECT_EQ(cudaFuncSetAttribute(first.kernel, kLater, 3), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(second.kernel, kLater, 3), cudaErrorInvalidValue);
  EXPECT_EQ(said(), "");
  EXPECT_EQ(cudaFuncSetAttribute(second.kernel, static_cast<cudaFuncAttribute>(18), 3), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "attribute 18 cannot be set", said());
}

TEST_F(LaunchTest, NeedsAnOptInForMoreThan48KiBOfSharedMemory) {
  const Program program(Program::with_ptx(kEmpty));
  EXPECT_EQ(launch_empty(program, {1}, {1}, 48 << 10), cudaSuccess);
  EXPECT_EQ(launch_empty(program, {1}, {1}, (48 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 49153)", said());
  EXPECT_EQ(cudaFuncSetAttribute(program.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (227 << 10) + 1),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(program.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, -1),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(program.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10), cudaSuccess);
  EXPECT_EQ(launch_empty(program, {1}, {1}, 227 << 10), cudaSuccess);
  EXPECT_EQ(launch_empty(program, {1}, {1}, (227 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(launch_empty(program, {1}, {1}, ~size_t{0}), cudaErrorInvalidValue);
}

TEST_F(LaunchTest, RefusesWhatIsNoKernel) {
  const Program program(Program::with_ptx(kAdd));
  EXPECT_EQ(cudaLaunchKernel(static_cast<const void*>(nullptr), {1}, {1}, nullptr, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  int no_kernel = 0;
  EXPECT_EQ(cudaLaunchKernel(&no_kernel, {1}, {1}, nullptr, 0, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, nullptr, 0, nullptr), cudaErrorInvalidValue);
  void* arguments[] = {nullptr, nullptr};
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "argument 0 is a null pointer", said());
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, reinterpret_cast<cudaStream_t>(0x1234)),
            cudaErrorInvalidResourceHandle);
}

TEST_F(LaunchTest, KeepsToLaunchBoundsAndRegisters) {
  const Program bounded(Program::with_ptx(".visible .entry kernel() .maxntid 128, 1, 1 { ret; }"));
  EXPECT_EQ(launch_empty(bounded, {1}, {128}), cudaSuccess);
  EXPECT_NE(launch_empty(bounded, {1}, {129}), cudaSuccess);
  cudaFuncAttributes attributes;
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, bounded.kernel), cudaSuccess);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 128);
  EXPECT_EQ(attributes.ptxVersion, 100);

  const Program greedy(Program::with_ptx(kEmpty, 255));
  EXPECT_EQ(launch_empty(greedy, {1}, {1024}), cudaErrorLaunchOutOfResources);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "1024 threads of 255 registers", said());
  EXPECT_EQ(launch_empty(greedy, {1}, {256}), cudaSuccess);
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, greedy.kernel), cudaSuccess);
  EXPECT_EQ(attributes.numRegs, 255);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 256);
}

TEST_F(LaunchTest, ChecksClusters) {
  const Program program(Program::with_ptx(kEmpty));
  const auto launch = [&](dim3 grid, unsigned cluster) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {cluster, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = {32};
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelExC(&config, program.kernel, nullptr);
  };
  EXPECT_EQ(launch({4}, 1), cudaSuccess);
  EXPECT_EQ(launch({3}, 2), cudaErrorInvalidClusterSize);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "(3,1,1) blocks is no multiple of its clusters of (2,1,1)", said());
  EXPECT_EQ(launch({16}, 16), cudaErrorInvalidClusterSize);
  EXPECT_EQ(launch({4}, 0), cudaErrorInvalidClusterSize);
  EXPECT_EQ(cudaLaunchKernelExC(nullptr, program.kernel, nullptr), cudaErrorInvalidValue);
}

TEST_F(LaunchTest, DeliversAFaultWithTheNextCallAndEveryLaterOne) {
  const Program program(Program::with_ptx(kAdd));
  int* nowhere = nullptr;
  int amount = 2;
  void* arguments[] = {&nowhere, &amount};
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr), cudaSuccess);
  const std::string report = said();
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "stagecraft: ", report);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, " in kernel kernel", report);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "block (0,0,0) warp 0 [lane 0]", report);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr), cudaErrorIllegalAddress);
  EXPECT_EQ(said(), "");

  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
}

TEST_F(LaunchTest, TellsOnceWhyAFatBinaryIsOfNoUse) {
  fatbin::ContainerBuilder old;
  old.add(fatbin::EntryKind::elf, {80, fatbin::TargetKind::generic}, fatbin::make_cubin({}));
  const Program machine_code(old.build());
  EXPECT_EQ(launch_empty(machine_code, {1}, {1}), cudaErrorNoKernelImageForDevice);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "machine code for sm_80 but no PTX", said());
  EXPECT_EQ(launch_empty(machine_code, {1}, {1}), cudaErrorNoKernelImageForDevice);
  EXPECT_EQ(said(), "");

  std::string cut = Program::with_ptx(kEmpty);
  cut[20] = 1;  // the entry's header
  const Program corrupt(cut);
  EXPECT_EQ(launch_empty(corrupt, {1}, {1}), cudaErrorInvalidKernelImage);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "fat binary: entry 1", said());

  const Program nonsense(Program::with_ptx(".visible .entry kernel() { frobnicate.b32 %r1, 7; ret; }"));
  EXPECT_EQ(launch_empty(nonsense, {1}, {1}), cudaErrorInvalidPtx);
  const std::string message = said();
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "[cudaErrorInvalidPtx]", message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "PTX", message);

  const Program other(Program::with_ptx(".visible .entry another() { ret; }"));
  EXPECT_EQ(launch_empty(other, {1}, {1}), cudaErrorInvalidDeviceFunction);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "has no kernel kernel", said());
}

TEST_F(LaunchTest, CopiesToAndFromVariables) {
  const Program program(Program::with_ptx(kAdd));
  int values[4] = {};
  EXPECT_EQ(cudaMemcpyFromSymbol(values, program.variable, sizeof values, 0, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 2);
  EXPECT_EQ(values[2], 0);
  values[0] = 77;
  EXPECT_EQ(cudaMemcpyToSymbol(program.variable, values, 4, 12, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpyFromSymbol(values, program.variable, sizeof values, 0, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(values[3], 77);
  size_t size = 0;
  EXPECT_EQ(cudaGetSymbolSize(&size, program.variable), cudaSuccess);
  EXPECT_EQ(size, 16u);
  EXPECT_EQ(cudaMemcpyToSymbol(program.variable, values, 8, 12, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "8 bytes from byte 12 of variable variable, which has 16 bytes", said());
  EXPECT_EQ(cudaMemcpyToSymbol(values, values, 8, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaMemcpyToSymbol(program.variable, values, 4, 0, cudaMemcpyDeviceToHost),
            cudaErrorInvalidMemcpyDirection);
}

TEST_F(LaunchTest, CountsResidentBlocks) {
  const Program program(Program::with_ptx(kEmpty, 32));
  int blocks = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, program.kernel, 1024, 0), cudaSuccess);
  EXPECT_EQ(blocks, 2);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, program.kernel, 32, 100 << 10), cudaSuccess);
  EXPECT_EQ(blocks, 0);  // not opted in
  EXPECT_EQ(cudaFuncSetAttribute(program.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10), cudaSuccess);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, program.kernel, 32, 100 << 10), cudaSuccess);
  EXPECT_EQ(blocks, 2);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, program.kernel, 2000, 0), cudaSuccess);
  EXPECT_EQ(blocks, 0);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, program.kernel, 0, 0), cudaErrorInvalidValue);
  size_t bytes = 0;
  EXPECT_EQ(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, program.kernel, 2, 128), cudaSuccess);
  EXPECT_GT(bytes, size_t{100} << 10);
  EXPECT_LT(bytes, size_t{114} << 10);
  EXPECT_EQ(cudaLaunchCooperativeKernel(program.kernel, {100000}, {1024}, nullptr, 0, nullptr),
            cudaErrorCooperativeLaunchTooLarge);
}

/// Stores at `out` the sum of 1 to `depth`, each kept in the local memory of a call of its own.
constexpr const char* kRecursion = R"(
.func (.param .b32 result) sum(.param .b32 depth) {
  .local .align 4 .b8 own[12];
  .reg .b32 %r<5>;
  .reg .pred %p;
  ld.param.b32 %r1, [depth];
  mov.b32 %r2, 0;
  setp.eq.u32 %p, %r1, 0;
  @%p bra END;
  st.local.b32 [own], %r1;
  sub.u32 %r3, %r1, 1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call (b), sum, (a); ld.param.b32 %r2, [b]; }
  ld.local.b32 %r4, [own];
  add.u32 %r2, %r2, %r4;
  END: st.param.b32 [result], %r2;
  ret;
}
.visible .entry kernel(.param .u64 out, .param .u32 depth) {
  .reg .b64 %rd;
  .reg .b32 %r<3>;
  ld.param.u64 %rd, [out];
  ld.param.u32 %r1, [depth];
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), sum, (a); ld.param.b32 %r2, [b]; }
  st.global.u32 [%rd], %r2;
  ret;
})";

/// The result of that kernel in each thread; 0 where it was stopped.
int sum_by_recursion(const Program& program, int depth) {
  int *out = nullptr, sum = 0;
  EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&out), sizeof *out), cudaSuccess);
  void* arguments[] = {&out, &depth};
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {2}, {33}, arguments, 0, nullptr), cudaSuccess);
  cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost);
  return sum;
}

TEST_F(LaunchTest, GivesRecursionTheStackThatTheProgramAsksFor) {
  const Program program(Program::with_ptx(kRecursion));
  // A call takes its 12 bytes, aligned to 16, and 16 more; by default there are 1024.
  EXPECT_EQ(sum_by_recursion(program, 31), 31 * 32 / 2);
  for (const int depth : {1099, 4095}) {
    ASSERT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, (depth + 1) * 32), cudaSuccess);
    EXPECT_EQ(sum_by_recursion(program, depth), depth * (depth + 1) / 2);
  }
  EXPECT_EQ(said(), "");
  ASSERT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, 1024), cudaSuccess);
  EXPECT_EQ(sum_by_recursion(program, 32), 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "call of `sum` needs 32 bytes of the thread's stack: 1024 of its 1024 are in use, by 32 calls",
                      said());
}

TEST_F(LaunchTest, CountsTheArraysOfAKernelThatRecursesAsPartOfTheStack) {
  std::string text = kRecursion;
  text.insert(text.find("  .reg .b64 %rd;"), "  .local .align 16 .b8 array[512];\n");
  const Program program(Program::with_ptx(text));
  EXPECT_EQ(sum_by_recursion(program, 15), 15 * 16 / 2);
  EXPECT_EQ(sum_by_recursion(program, 16), 0);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "1024 of its 1024 are in use, by 16 calls", said());
}

TEST_F(LaunchTest, RefusesAStackThatNoThreadCanHave) {
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, ~size_t{0}), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, 524280), cudaErrorInvalidValue);
  size_t bytes = 0;
  EXPECT_EQ(cudaDeviceGetLimit(&bytes, cudaLimitStackSize), cudaSuccess);
  EXPECT_EQ(bytes, 1024u);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, 523264), cudaSuccess);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, 1000), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetLimit(&bytes, cudaLimitStackSize), cudaSuccess);
  EXPECT_EQ(bytes, 1008u);
}

// The function can be reached only through an address that another kernel of the module has stored.
TEST_F(LaunchTest, CallsFunctionsThatAnotherKernelTookTheAddressOf) {
  const Program program(Program::with_ptx(R"(
    .visible .global .align 8 .u64 variable[2];
    .func (.param .b32 result) answer() { st.param.b32 [result], 42; ret; }
    .visible .entry other() { .reg .b64 %rd<2>; mov.u64 %rd1, answer; st.global.u64 [variable], %rd1; ret; }
    .visible .entry kernel(.param .u64 pointer) {
      .reg .b64 %rd<3>; .reg .b32 %r<2>;
      ld.param.u64 %rd1, [pointer];
      ld.global.u64 %rd2, [variable];
      prototype: .callprototype (.param .b32 _) _ ();
      { .param .b32 result; call (result), %rd2, (), prototype; ld.param.b32 %r1, [result]; }
      st.global.u32 [%rd1], %r1;
      ret;
    })"));
  const char other = 0;
  __cudaRegisterFunction(program.handle(), &other, nullptr, "other", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  int* number = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&number), sizeof *number), cudaSuccess);
  void* arguments[] = {&number};
  EXPECT_EQ(cudaLaunchKernel(&other, {1}, {1}, nullptr, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr), cudaSuccess);
  int value = 0;
  EXPECT_EQ(cudaMemcpy(&value, number, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(value, 42);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
