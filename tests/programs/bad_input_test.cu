// Wrong programs: each must get the CUDA error of a real driver, and a report that names the place and a remedy.
#include <cuda.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

__global__ void store(float* pointer, long index) { pointer[index] = 1.0f; }
__global__ void store_misaligned(char* pointer) { *reinterpret_cast<volatile float*>(pointer + 1) = 1.0f; }
__global__ void store_shared(int index) {
  extern __shared__ float tile[];
  tile[index] = 1.0f;
}
__global__ void check(int value) { assert(value == 3); }
__global__ void stop() { __trap(); }
__global__ void call(void (*function)()) { function(); }
__global__ void empty() {}
__global__ void __launch_bounds__(128) bounded() {}
__global__ void __cluster_dims__(2, 1, 1) paired() {}
__device__ float table[8];

/// One lane waits for a barrier that nobody arrives on.
__global__ void wait_for_nobody() {
  __shared__ uint64_t barrier;
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address) : "memory");
    uint32_t done = 0;
    while (done == 0) {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(address)
                   : "memory");
    }
  }
}

/// Half of the block waits at a barrier that the other half never reaches: it has returned... but not all of it.
__global__ void wait_in_one_branch() {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
  }
}

/// Allocates and releases tensor memory for a pair of blocks, in the blocks whose bit is set.
__device__ void take_tensor_memory_of_pair(unsigned ranks) {
  __shared__ uint32_t address;
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if ((ranks >> rank & 1) == 0) return;
  asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 64;"
               :
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(&address)))
               : "memory");
  __syncwarp();
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" : : "r"(address) : "memory");
}
__global__ void __cluster_dims__(2, 1, 1) take_together(unsigned ranks) { take_tensor_memory_of_pair(ranks); }
__global__ void take_without_a_cluster() { take_tensor_memory_of_pair(1); }

class BadInputTest : public testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceReset();
    cudaGetLastError();
    testing::internal::CaptureStderr();
  }
  void TearDown() override {
    testing::internal::GetCapturedStderr();
    cudaDeviceReset();
  }
  /// Waits for the kernel; it must have been stopped with this error, and the report must contain each of the texts.
  void expect_fault(cudaError_t error, std::initializer_list<const char*> texts) {
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the launch itself is legal";
    EXPECT_EQ(cudaDeviceSynchronize(), error);
    expect_said(texts);
    float* more = nullptr;
    EXPECT_EQ(cudaMalloc(&more, 4), error) << "a stopped kernel is not forgiven";
  }
  void expect_refused(cudaError_t error, std::initializer_list<const char*> texts) {
    EXPECT_EQ(cudaGetLastError(), error);
    expect_said(texts);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "a refused call leaves the device alone";
  }
  void expect_said(std::initializer_list<const char*> texts) {
    const std::string said = testing::internal::GetCapturedStderr();
    testing::internal::CaptureStderr();
    for (const char* text : texts) EXPECT_PRED_FORMAT2(testing::IsSubstring, text, said);
  }
  float* allocate(size_t bytes) {
    float* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, bytes), cudaSuccess);
    return pointer;
  }
};

TEST_F(BadInputTest, NullPointer) {
  store<<<1, 1>>>(nullptr, 0);
  expect_fault(cudaErrorIllegalAddress, {"stagecraft: illegal address in kernel store (", "bad_input_test.cu)",
                                         "block (0,0,0) warp 0 [lane 0]", "bad_input_test.cu:13", "null pointer"});
}

TEST_F(BadInputTest, PastTheEndOfAnAllocation) {
  store<<<3, 32>>>(allocate(4096), 1024);
  expect_fault(cudaErrorIllegalAddress, {"illegal address", "[all lanes]", "cudaMalloc #", "4096 bytes"});
}

TEST_F(BadInputTest, FreedMemory) {
  float* pointer = allocate(64);
  ASSERT_EQ(cudaFree(pointer), cudaSuccess);
  store<<<1, 1>>>(pointer, 0);
  expect_fault(cudaErrorIllegalAddress, {"has been freed"});
}

TEST_F(BadInputTest, MisalignedAddress) {
  store_misaligned<<<1, 1>>>(reinterpret_cast<char*>(allocate(64)));
  expect_fault(cudaErrorMisalignedAddress, {"misaligned address", "bad_input_test.cu:14", "not a multiple of 4"});
}

TEST_F(BadInputTest, OutsideOfSharedMemory) {
  store_shared<<<1, 1, 1024>>>(256);
  expect_fault(cudaErrorIllegalAddress, {"outside of the block's shared memory", "1024 dynamic"});
}

TEST_F(BadInputTest, FailedAssertion) {
  check<<<2, 33>>>(4);
  expect_fault(cudaErrorAssert, {"assertion", "value == 3", "bad_input_test.cu"});
}

TEST_F(BadInputTest, Trap) {
  stop<<<1, 1>>>();
  expect_fault(cudaErrorLaunchFailure, {"launch failure", "trap"});
}

TEST_F(BadInputTest, CallThroughABadPointer) {
  call<<<1, 1>>>(reinterpret_cast<void (*)()>(0x12345670));
  expect_fault(cudaErrorIllegalAddress, {"no function: 0x12345670"});
}

TEST_F(BadInputTest, WaitThatNobodyEnds) {
  wait_for_nobody<<<1, 32>>>();
  expect_fault(cudaErrorLaunchTimeout, {"stagecraft: deadlock in kernel", "wait_for_nobody", "block (0,0,0) warp 0"});
}

TEST_F(BadInputTest, BarrierThatOnlyHalfOfTheThreadsReach) {
  wait_in_one_branch<<<1, 64>>>();
  expect_fault(cudaErrorLaunchTimeout, {"stagecraft: deadlock in kernel", "wait_in_one_branch"});
}

TEST_F(BadInputTest, TensorMemoryThatOneBlockOfAPairTakes) {
  take_together<<<2, 32>>>(0b11);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  take_together<<<2, 32>>>(0b10);
  expect_fault(cudaErrorLaunchTimeout,
               {"stagecraft: deadlock in kernel", "block (1,0,0) warp 0 [all lanes]",
                "waits for a warp of its peer, block (0,0,0), to come to tcgen05.alloc as well (cta_group::2)",
                "block (0,0,0) has ended without it"});
}

TEST_F(BadInputTest, PairsOfBlocksWithoutACluster) {
  take_without_a_cluster<<<2, 32>>>();
  expect_fault(cudaErrorIllegalInstruction, {"tcgen05.alloc with cta_group::2: the block, of rank 0 in a cluster of 1, "
                                             "has no peer"});
}

TEST_F(BadInputTest, GridAndBlockThatTheChipCannotHold) {
  empty<<<0, 1>>>();
  expect_refused(cudaErrorInvalidConfiguration, {"a grid of (0,1,1) blocks; legal are"});
  empty<<<dim3(1, 65536), 1>>>();
  expect_refused(cudaErrorInvalidConfiguration, {"(1,65536,1)"});
  empty<<<1, 1025>>>();
  expect_refused(cudaErrorInvalidConfiguration, {"a block of (1025,1,1) threads"});
  bounded<<<1, 256>>>();
  expect_refused(cudaErrorInvalidValue, {"a block of 256 threads, but its __launch_bounds__ promise at most 128"});
  paired<<<3, 1>>>();
  expect_refused(cudaErrorInvalidClusterSize, {"(3,1,1) blocks is no multiple of its clusters of (2,1,1)"});
}

TEST_F(BadInputTest, MoreSharedMemoryThanAllowed) {
  store_shared<<<1, 1, 49153>>>(0);
  expect_refused(cudaErrorInvalidValue, {"49153 bytes of dynamic shared memory; legal are at most 49152",
                                         "cudaFuncAttributeMaxDynamicSharedMemorySize, 49153"});
  cudaFuncSetAttribute(store_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024 + 1);
  expect_refused(cudaErrorInvalidValue, {"legal are 0 to 232448"});
  cudaFuncSetAttribute(store_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024);
  store_shared<<<1, 1, 227 * 1024>>>(227 * 256 - 1);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(BadInputTest, NoKernel) {
  cudaLaunchKernel(static_cast<const void*>(nullptr), dim3(1), dim3(1), nullptr, 0, nullptr);
  expect_refused(cudaErrorInvalidDeviceFunction, {"the kernel is a null pointer"});
}

TEST_F(BadInputTest, CopiesThatDoNotFit) {
  float* device = allocate(64);
  float host[64] = {};
  cudaMemcpy(device, host, 65, cudaMemcpyHostToDevice);
  expect_refused(cudaErrorInvalidValue, {"stagecraft: cudaMemcpy: ", "has 64 bytes; at most 64 are legal"});
  cudaMemcpy(device, host, 4, static_cast<cudaMemcpyKind>(9));
  expect_refused(cudaErrorInvalidMemcpyDirection, {"cudaMemcpyKind is 9"});
  cudaMemcpy(host, device, 4, cudaMemcpyHostToDevice);
  expect_refused(cudaErrorInvalidValue, {"is not device memory"});
  cudaMemcpyToSymbol(table, host, 36);
  expect_refused(cudaErrorInvalidValue, {"36 bytes from byte 0 of variable", "which has 32 bytes"});
  cudaMemcpyToSymbol(static_cast<const void*>(host), host, 4);
  expect_refused(cudaErrorInvalidSymbol, {"is no __device__"});
}

TEST_F(BadInputTest, FreeTwice) {
  float* pointer = allocate(64);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  cudaFree(pointer);
  expect_refused(cudaErrorInvalidValue, {"stagecraft: cudaFree: ", "has been freed"});
  cudaFree(&pointer);
  expect_refused(cudaErrorInvalidValue, {"is no live allocation"});
}

TEST_F(BadInputTest, IllegalTensorMap) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result),
            cudaSuccess);
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  alignas(64) CUtensorMap map;
  float* pointer = allocate(4096);
  const auto encode_with = [&](cuuint64_t stride, void* address) {
    const cuuint64_t dimensions[] = {16, 16}, strides[] = {stride};
    const cuuint32_t box[] = {8, 8}, element_strides[] = {1, 1};
    return encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, address, dimensions, strides, box, element_strides,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_EQ(encode_with(64, pointer), CUDA_SUCCESS);
  EXPECT_EQ(encode_with(68, pointer), CUDA_ERROR_INVALID_VALUE);
  expect_said({"stagecraft: cuTensorMapEncodeTiled: ", "16"});
  EXPECT_EQ(encode_with(64, pointer + 1), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

int main(int argc, char** argv) {
  // Faults are part of the tests, so the exit status must be that of the tests.
  setenv("STAGECRAFT_EXIT_STATUS", "program", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
