#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using MemoryTest = RuntimeTest;

TEST_F(MemoryTest, GivesNothingForZeroBytesAndRefusesMoreThanThereIs) {
  void* pointer = this;
  EXPECT_EQ(cudaMalloc(&pointer, 0), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
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
  EXPECT_EQ(cudaMemcpy2D(back, 5, device, pitch, 10, 3, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
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
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
