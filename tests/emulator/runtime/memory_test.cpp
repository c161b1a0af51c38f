#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "emulator/runtime/model/state.hpp"
#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using MemoryTest = RuntimeTest;

TEST_F(MemoryTest, GivesNothingForZeroBytesAndRefusesMoreThanThereIs) {
  void* pointer = this;
  EXPECT_EQ(cudaMalloc(&pointer, 0), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
  pointer = this;
  EXPECT_EQ(cudaMallocManaged(&pointer, 0), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
  CUdeviceptr address = 0;
  size_t pitch = 0;
  EXPECT_EQ(cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocPitch(&address, &pitch, 0, 5, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMalloc(&pointer, size_t{1} << 50), cudaErrorMemoryAllocation);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "1125899906842624 bytes do not fit", said());
  EXPECT_EQ(cudaMalloc(&pointer, ~size_t{0}), cudaErrorMemoryAllocation);
}

TEST_F(MemoryTest, RefusesToFreeWhatIsNoAllocation) {
  char* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&pointer), 4096), cudaSuccess);
  EXPECT_EQ(cudaFree(pointer + 4), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "is byte 4 of cudaMalloc #", said());
  EXPECT_EQ(cudaFreeHost(pointer), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  EXPECT_EQ(cudaFree(pointer), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "is no live allocation", said());
  EXPECT_EQ(cudaFree(&pointer), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(reinterpret_cast<void*>(0x1234)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(MemoryTest, KeepsCopiesWithinTheirAllocations) {
  char* device = nullptr;
  char host[128] = {};
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), 64), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(device, host, 64, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(device, host, 65, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "which has 64 bytes; at most 64 are legal", said());
  EXPECT_EQ(cudaMemcpy(host, device + 60, 5, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device, host, 4, static_cast<cudaMemcpyKind>(9)), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpy(host, host, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device, nullptr, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device, reinterpret_cast<void*>(0x10), 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "is no memory of the host program", said());
  EXPECT_EQ(cudaMemcpy(device, nullptr, 0, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemset(device, 1, 65), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host, 1, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device, 7, 64), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(host, device, 64, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(host[63], 7);
  EXPECT_EQ(host[64], 0);
}

TEST_F(MemoryTest, TakesNoAddressOfTheDeviceForMemoryOfTheHost) {
  char *first = nullptr, *second = nullptr, *pinned = nullptr;
  static char host[1 << 18];
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&first), 64), cudaSuccess);
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&second), 64), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), 64), cudaSuccess);
  ASSERT_EQ(cudaMemset(second, 0x11, 64), cudaSuccess);
  const auto distance = static_cast<size_t>(second - first);
  for (const cudaMemcpyKind kind : {cudaMemcpyDefault, cudaMemcpyHostToHost}) {
    EXPECT_EQ(cudaMemcpy(first + 64, host, distance, kind), cudaErrorInvalidValue);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "where no allocation is: just past the end of cudaMalloc #", said());
    EXPECT_EQ(cudaMemcpyAsync(host, first + 64, distance, kind, nullptr), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy2D(first + 64, 16, host, 16, 16, 4, kind), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(first - 32, host, 16, kind), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(host, reinterpret_cast<void*>(0x2100'0000'0000), 16, kind), cudaErrorInvalidValue);
    // Within an allocation both directions are fine (measured on an H200).
    EXPECT_EQ(cudaMemcpy(host, second, 64, kind), cudaSuccess);
  }
  EXPECT_EQ(host[63], 0x11);
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpy(reinterpret_cast<CUdeviceptr>(first + 64), reinterpret_cast<CUdeviceptr>(host), 8),
            CUDA_ERROR_INVALID_VALUE);
  void* to[] = {second, first + 64};
  const void* from[] = {host, host};
  const size_t sizes[] = {8, 8};
  cudaMemcpyAttributes attributes{};
  size_t index = 0;
  EXPECT_EQ(cudaMemcpyBatchAsync(to, from, sizes, 2, &attributes, &index, 1, nullptr), cudaErrorInvalidValue);
  ASSERT_EQ(cudaFree(first), cudaSuccess);
  ASSERT_EQ(cudaFreeHost(pinned), cudaSuccess);
  said();
  EXPECT_EQ(cudaMemcpy(first, host, 64, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "which has been freed", said());
  EXPECT_EQ(cudaMemcpy(host, first, 64, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, pinned, 64, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cudaMallocHost #", said());
}

TEST_F(MemoryTest, CopiesRowsAndSlices) {
  char* device = nullptr;
  size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(reinterpret_cast<void**>(&device), &pitch, 10, 3), cudaSuccess);
  EXPECT_EQ(pitch % 256, 0u);
  const std::string rows = "abcdefghijklmnopqrstuvwxyz0123";
  EXPECT_EQ(cudaMemcpy2D(device, pitch, rows.data(), 10, 10, 3, cudaMemcpyHostToDevice), cudaSuccess);
  char back[30] = {};
  EXPECT_EQ(cudaMemcpy2D(back, 10, device, pitch, 10, 3, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::string(back, 30), rows);
  EXPECT_EQ(cudaMemcpy2D(back, 5, device, pitch, 10, 3, cudaMemcpyDeviceToHost), cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpy2D(device, pitch, rows.data(), 9, 10, 3, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpy2D(nullptr, pitch, rows.data(), 9, 10, 3, cudaMemcpyKind{}), cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpy2D(device, pitch, rows.data(), 9, 10, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy2D(device, pitch, rows.data(), 0, 10, 1, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2D(device, pitch, rows.data(), 9, 10, 0, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemset2D(device, 9, 0, 10, 3), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset2D(device, 9, 0, 10, 1), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2D(device, pitch, rows.data(), 10, 10, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy2D(device, ~size_t{0} / 2, rows.data(), 10, 10, 9, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);

  cudaPitchedPtr box{};
  ASSERT_EQ(cudaMalloc3D(&box, {8, 2, 2}), cudaSuccess);
  EXPECT_EQ(cudaMemset3D(box, 5, {8, 2, 2}), cudaSuccess);
  cudaMemcpy3DParms parameters{};
  parameters.srcPtr = box;
  parameters.dstPtr = {back, 8, 8, 1};
  parameters.extent = {8, 1, 2};
  parameters.kind = cudaMemcpyDeviceToHost;
  EXPECT_EQ(cudaMemcpy3D(&parameters), cudaSuccess);
  EXPECT_EQ(back[15], 5);
  EXPECT_EQ(cudaMemcpy3D(nullptr), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, TellsWhatAPointerIs) {
  cudaPointerAttributes attributes;
  int on_stack = 0;
  void *device = nullptr, *managed = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 16), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&managed, 16, cudaMemAttachGlobal), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 16), cudaSuccess);
  const auto type_of = [&](void* pointer) {
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
    return attributes.type;
  };
  EXPECT_EQ(type_of(&on_stack), cudaMemoryTypeUnregistered);
  EXPECT_EQ(type_of(device), cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  EXPECT_EQ(type_of(managed), cudaMemoryTypeManaged);
  EXPECT_EQ(type_of(pinned), cudaMemoryTypeHost);
  EXPECT_EQ(attributes.devicePointer, pinned);
  std::memset(managed, 1, 16);
  std::memset(pinned, 1, 16);
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(MemoryTest, CountsWhatIsFree) {
  size_t before = 0, after = 0, total = 0;
  void* pointer = nullptr;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&pointer, 1 << 20), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_GE(before - after, size_t{1} << 20);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(before, after);
}

TEST_F(MemoryTest, RegistersHostMemoryOnce) {
  std::vector<char> memory(4096);
  EXPECT_EQ(cudaHostRegister(memory.data(), memory.size(), 0), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(memory.data(), memory.size(), 0), cudaErrorHostMemoryAlreadyRegistered);
  void* device = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&device, memory.data() + 8, 0), cudaSuccess);
  EXPECT_EQ(device, memory.data() + 8);
  EXPECT_EQ(cudaHostUnregister(memory.data() + 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaHostUnregister(nullptr), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, RegistersOnlyMemoryThatIsThere) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* const pages =
      static_cast<char*>(mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(munmap(pages + page, page), 0);
  EXPECT_EQ(cudaHostRegister(pages + page, page, 0), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "are no memory of the host program", said());
  EXPECT_EQ(cudaHostRegister(pages, 3 * page, 0), cudaErrorInvalidValue) << "a hole";
  EXPECT_EQ(cudaHostRegister(pages, ~size_t{0}, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostRegister(pages + 2 * page + 5, 2 * page - 5, 0), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(pages + 2 * page + 5), cudaSuccess);
  munmap(pages, 4 * page);
}

/// Lets the process grow by these bytes, until the device is reset.
machine::HostMemory& let_grow(uint64_t bytes) {
  machine::HostMemory& host = State::instance().machine().memory().host_memory();
  uint64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  host.limit(resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + bytes);
  return host;
}

constexpr size_t kHuge = 100ull << 30;

TEST_F(MemoryTest, RefusesToFillWhatTheHostCannotHold) {
  char* huge = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&huge), kHuge), cudaSuccess);
  let_grow(64 << 20);
  EXPECT_EQ(cudaMemset(huge, 1, kHuge), cudaErrorMemoryAllocation);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "the host has no memory for the 107374182400 bytes at", said());
  EXPECT_EQ(cudaMemset2D(huge, kHuge / 4, 1, 1 << 30, 4), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMemcpy(huge + kHuge / 2, huge, kHuge / 2, cudaMemcpyDefault), cudaErrorMemoryAllocation);
  // Little of it is fine, and so is what is in memory already.
  EXPECT_EQ(cudaMemset(huge + kHuge / 2, 1, 20 << 20), cudaSuccess);
  EXPECT_EQ(cudaMemset(huge, 1, 20 << 20), cudaSuccess);
  EXPECT_EQ(cudaMemset2D(huge, kHuge / 4, 1, 1 << 20, 4), cudaSuccess);
  // Many small pieces are not.
  cudaError_t error = cudaSuccess;
  for (int piece = 0; piece < 1000 && error == cudaSuccess; ++piece) {
    error = cudaMemset(huge + (1ull << 30) + (size_t{1} << 20) * static_cast<size_t>(piece), 1, 1 << 20);
  }
  EXPECT_EQ(error, cudaErrorMemoryAllocation);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 1 << 30), cudaErrorMemoryAllocation);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "but the host can give only", said());
  EXPECT_EQ(cudaFree(huge), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 1 << 30), cudaSuccess);
}

/// Each thread writes a byte of its own page, `rounds` times, each time a grid further.
constexpr const char* kTouchPages = R"(
.visible .global .align 4 .b8 variable[16];
.visible .entry kernel(.param .u64 memory, .param .u32 rounds) {
  .reg .b32 %r<6>; .reg .b64 %rd<5>; .reg .pred %p1;
  ld.param.u64 %rd1, [memory];
  ld.param.u32 %r1, [rounds];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ntid.x;
  mul.wide.u32 %rd2, %r2, 4096;
  mul.wide.u32 %rd3, %r3, 4096;
  add.u64 %rd1, %rd1, %rd2;
again:
  st.global.u8 [%rd1], %r2;
  add.u64 %rd1, %rd1, %rd3;
  add.u32 %r1, %r1, -1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
})";

TEST_F(MemoryTest, StopsAKernelThatTouchesMoreThanTheHostHas) {
  const Program program(Program::with_ptx(kTouchPages));
  char* huge = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&huge), kHuge), cudaSuccess);
  unsigned few = 4, many = static_cast<unsigned>(kHuge / 4096 / 256);
  void* touch_few[] = {&huge, &few};
  void* touch_all[] = {&huge, &many};
  let_grow(256 << 20);
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {256}, touch_few, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(said(), "");
  cudaLaunchKernel(program.kernel, {1}, {256}, touch_all, 0, nullptr);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorMemoryAllocation);
  const std::string report = said();
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "out of host memory", report);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "block (0,0,0) warp ", report);
  EXPECT_LT(machine::absent_bytes(machine::DeviceMemory::host(reinterpret_cast<uint64_t>(huge)), kHuge), kHuge);
  EXPECT_GT(machine::absent_bytes(machine::DeviceMemory::host(reinterpret_cast<uint64_t>(huge)), kHuge),
            kHuge - (2ull << 30));
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&huge), 1 << 20), cudaSuccess);
}

class HostAccessTest : public testing::Test {
 protected:
  /// Each program is a process of its own, from its start on: one that is forked cannot use CUDA.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// Whether a child process was ended by an access: by the signal, or by a sanitizer that explains it.
bool was_ended(int status) { return WIFSIGNALED(status) || WEXITSTATUS(status) == 1; }

// The signals end the child processes in which these accesses happen.
void expect_explained(const char* text) {
  const auto access_device_memory = [&] {
    char* device = nullptr;
    cudaMalloc(reinterpret_cast<void**>(&device), 64);
    *const_cast<volatile char*>(device + 8) = 1;
  };
  EXPECT_EXIT(access_device_memory(), was_ended, text);
}

TEST_F(HostAccessTest, IsExplainedAndThenASegmentationFault) {
  cudaDeviceReset();
  expect_explained(
      "code of the host writes 0x[0-9a-f]+, which is memory of the device: 8 bytes into cudaMalloc #[0-9]+ .64 bytes");
  const auto read_freed = [] {
    char* pinned = nullptr;
    cudaMallocHost(reinterpret_cast<void**>(&pinned), 64);
    pinned[0] = 1;
    cudaFreeHost(pinned);
    std::_Exit(*const_cast<volatile char*>(pinned));
  };
  EXPECT_EXIT(read_freed(), was_ended, "code of the host reads .* inside cudaMallocHost #.*which has been freed");
}

TEST_F(HostAccessTest, SaysSoWhereTheProgramUsesAllAddressesOfDeviceMemory) {
  const auto use_all = [] {
    cudaDeviceReset();
    mmap(reinterpret_cast<void*>(0x2000'0000'0000), 0x1000'0000'0000, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    char* device = nullptr;
    if (cudaMalloc(reinterpret_cast<void**>(&device), 64) != cudaSuccess) std::_Exit(6);
    *const_cast<volatile char*>(device) = 1;
    std::_Exit(5);
  };
  EXPECT_EXIT(use_all(), testing::ExitedWithCode(5), "addresses that are meant for device memory");
}

TEST_F(HostAccessTest, LeavesTheSignalToAHandlerOfTheProgram) {
  const auto recover = [] {
    static sigjmp_buf place;
    signal(SIGSEGV, [](int) { siglongjmp(place, 1); });
    char* device = nullptr;
    cudaMalloc(reinterpret_cast<void**>(&device), 64);
    if (sigsetjmp(place, 1) == 0) *const_cast<volatile char*>(device) = 1;
    std::_Exit(5);
  };
  EXPECT_EXIT(recover(), testing::ExitedWithCode(5), "");
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
