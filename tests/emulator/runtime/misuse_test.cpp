// Arguments that CUDA forbids, each as an H200 (driver 580.159.04, 2026-11-29) answers it.
#include <gtest/gtest.h>

#include "emulator/runtime/exports/driver_functions.hpp"
#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

class MisuseTest : public RuntimeTest {};

TEST_F(MisuseTest, OfFlagsThatAreReservedIsRefused) {
  void *pinned = nullptr, *device = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  EXPECT_EQ(cudaHostGetDevicePointer(&device, pinned, 1), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cudaHostGetDevicePointer: flags are 1; legal is 0", said());
  static int calls = 0;
  const cudaStreamCallback_t count = [](cudaStream_t, cudaError_t, void*) { ++calls; };
  EXPECT_EQ(cudaStreamAddCallback(nullptr, count, nullptr, 1), cudaErrorInvalidValue);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(cudaStreamAddCallback(nullptr, count, nullptr, 0), cudaSuccess);
  EXPECT_EQ(calls, 1);
  Program program(Program::with_ptx(".visible .entry kernel() { ret; }"));
  int blocks = 0;
  for (const unsigned legal : {cudaOccupancyDefault, cudaOccupancyDisableCachingOverride}) {
    EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, program.kernel, 32, 0, legal),
              cudaSuccess);
  }
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, program.kernel, 32, 0, 8),
            cudaErrorInvalidValue);
}

TEST_F(MisuseTest, OfPlacesThatAreNotThereIsRefused) {
  void* managed = nullptr;
  ASSERT_EQ(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal), cudaSuccess);
  const auto prefetch = [&](cudaMemLocation place, size_t bytes = 4096) {
    return cudaMemPrefetchAsync(managed, bytes, place, 0, nullptr);
  };
  EXPECT_EQ(prefetch({cudaMemLocationTypeDevice, 7}), cudaErrorInvalidDevice);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cudaMemPrefetchAsync: there is no device 7", said());
  EXPECT_EQ(prefetch({cudaMemLocationTypeDevice, -1}), cudaErrorInvalidDevice);
  EXPECT_EQ(prefetch({cudaMemLocationTypeInvalid, 0}), cudaErrorInvalidValue);
  EXPECT_EQ(prefetch({cudaMemLocationTypeHostNuma, 99}), cudaErrorInvalidValue);
  EXPECT_EQ(prefetch({cudaMemLocationTypeDevice, 0}, 0), cudaErrorInvalidValue);
  EXPECT_EQ(prefetch({cudaMemLocationTypeHost, 7}), cudaSuccess);  // whose number is ignored
  const auto advise = [&](cudaMemoryAdvise advice, cudaMemLocation place) {
    return cudaMemAdvise(managed, 4096, advice, place);
  };
  const cudaMemLocation nowhere{static_cast<cudaMemLocationType>(99), 0}, third{cudaMemLocationTypeDevice, 3};
  EXPECT_EQ(advise(cudaMemAdviseSetPreferredLocation, third), cudaErrorInvalidValue);
  EXPECT_EQ(advise(cudaMemAdviseSetAccessedBy, third), cudaErrorInvalidValue);
  EXPECT_EQ(advise(cudaMemAdviseSetReadMostly, third), cudaSuccess);
  EXPECT_EQ(advise(cudaMemAdviseUnsetPreferredLocation, nowhere), cudaErrorInvalidValue);
}

TEST_F(MisuseTest, OfPoolsIsAnsweredAsByAnH200) {
  EXPECT_EQ(cudaFreeAsync(nullptr, nullptr), cudaSuccess);
  cudaMemPool_t pool = nullptr;
  const cudaMemPoolProps nothing{};
  EXPECT_EQ(cudaMemPoolCreate(&pool, &nothing), cudaErrorInvalidValue);
}

TEST_F(MisuseTest, OfEnumeratorsThatAreNoneIsRefused) {
  EXPECT_EQ(cudaDeviceSetCacheConfig(static_cast<cudaFuncCache>(9)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceSetCacheConfig(cudaFuncCachePreferEqual), cudaSuccess);
  size_t limit = 0;
  EXPECT_EQ(cudaDeviceGetLimit(&limit, static_cast<cudaLimit>(50)), cudaErrorInvalidValue);
  cudaTextureObject_t texture = 0;
  cudaResourceDesc resource{};
  const cudaTextureDesc description{};
  resource.resType = static_cast<cudaResourceType>(9);
  EXPECT_EQ(cudaCreateTextureObject(&texture, &resource, &description, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaInitDevice(0, 0x4000, cudaInitDeviceFlagsAreValid), cudaErrorInvalidValue);
  EXPECT_EQ(cudaInitDevice(0, 0x4000, 0), cudaSuccess);  // which are not looked at
}

TEST_F(MisuseTest, OfANodeThatWaitsForItselfIsRefused) {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphAddEmptyNode(&node, graph, nullptr, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphAddDependencies(graph, &node, &node, nullptr, 1), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "dependency 0 is of a node on itself", said());
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(MisuseTest, OfValuesThatAStreamWritesIsRefused) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  EXPECT_EQ(cuStreamWriteValue32(nullptr, address, 1, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue32(nullptr, address + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue64(nullptr, address + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue32(nullptr, address + 4, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitValue32(nullptr, address + 4, 1, 77), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue32(nullptr, address + 5, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue32(nullptr, address + 4, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
}

TEST_F(MisuseTest, OfRowsOfElementsThatHaveNoSuchSizeIsRefused) {
  CUdeviceptr rows = 0;
  size_t pitch = 0;
  cudaFree(nullptr);
  for (const unsigned legal : {4, 8, 16}) EXPECT_EQ(cuMemAllocPitch(&rows, &pitch, 64, 4, legal), CUDA_SUCCESS);
  for (const unsigned illegal : {0, 3, 32}) {
    EXPECT_EQ(cuMemAllocPitch(&rows, &pitch, 64, 4, illegal), CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
