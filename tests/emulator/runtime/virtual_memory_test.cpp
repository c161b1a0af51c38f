// Pools, advice and mapped memory, and code that is loaded while the program runs.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using PoolTest = RuntimeTest;

TEST_F(PoolTest, CountsWhatIsUsed) {
  cudaMemPool_t pool = nullptr;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  properties.maxSize = 1 << 20;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&memory, 4096, pool, nullptr), cudaSuccess);
  uint64_t used = 0;
  EXPECT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), cudaSuccess);
  EXPECT_EQ(used, 4096u);
  void* more = nullptr;
  EXPECT_EQ(cudaMallocFromPoolAsync(&more, 1 << 20, pool, nullptr), cudaErrorMemoryAllocation);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "do not fit in the pool", said());
  EXPECT_EQ(cudaFreeAsync(memory, nullptr), cudaSuccess);
  EXPECT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), cudaSuccess);
  EXPECT_EQ(used, 0u);
  EXPECT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &used), cudaSuccess);
  EXPECT_EQ(used, 4096u);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
  EXPECT_EQ(cudaMemPoolTrimTo(pool, 0), cudaErrorInvalidValue);
}

TEST_F(PoolTest, ManagedMemoryRemembersItsAdvice) {
  void *managed = nullptr, *device = nullptr;
  ASSERT_EQ(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device, 4096), cudaSuccess);
  const cudaMemLocation here{cudaMemLocationTypeDevice, 0};
  EXPECT_EQ(cudaMemAdvise(managed, 4096, cudaMemAdviseSetReadMostly, here), cudaSuccess);
  EXPECT_EQ(cudaMemPrefetchAsync(managed, 4096, here, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudaMemPrefetchAsync(device, 4096, here, 0, nullptr), cudaErrorInvalidValue);
  int value = -7;
  EXPECT_EQ(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, managed, 4096), cudaSuccess);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeLastPrefetchLocation, managed, 4096), cudaSuccess);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributePreferredLocation, managed, 4096), cudaSuccess);
  EXPECT_EQ(value, cudaInvalidDeviceId);
  // Managed memory holds zeros, as pages of the host do.
  EXPECT_EQ(*static_cast<int*>(managed), 0);
}

class VirtualMemoryTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    ASSERT_EQ(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
  }
  CUmemAllocationProp properties{};
  size_t granularity = 0;
};

TEST_F(VirtualMemoryTest, MapsOnePieceTwice) {
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemCreate(&handle, granularity, &properties, 0), CUDA_SUCCESS);
  CUdeviceptr range = 0;
  ASSERT_EQ(cuMemAddressReserve(&range, 2 * granularity, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(range + 2 * granularity, granularity, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(range, granularity, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(range, granularity, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(range + granularity, granularity, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(range, 1, 1), CUDA_ERROR_INVALID_VALUE);  // not accessible yet
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(range, 2 * granularity, &access, 1), CUDA_SUCCESS);
  // A copy across the seam sees one piece, with the same bytes on both sides of the seam.
  ASSERT_EQ(cuMemsetD8(range + granularity - 4, 7, 8), CUDA_SUCCESS);
  char ends[2] = {};
  ASSERT_EQ(cuMemcpyDtoH(&ends[0], range + 3, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH(&ends[1], range + 2 * granularity - 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(ends[0], 7);
  EXPECT_EQ(ends[1], 7);
  EXPECT_EQ(cuMemAddressFree(range, 2 * granularity), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemUnmap(range, granularity), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(range, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(range + granularity, 1, granularity), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(range + granularity, granularity), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(range, 2 * granularity), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryTest, ReservesTheAddressThatIsWishedIfItIsFree) {
  CUdeviceptr first = 0, second = 0, third = 0;
  ASSERT_EQ(cuMemAddressReserve(&first, granularity, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&second, granularity, 0, first + granularity, 0), CUDA_SUCCESS);
  EXPECT_EQ(second, first + granularity);
  ASSERT_EQ(cuMemAddressReserve(&third, 3 * granularity, 8 * granularity, first, 0), CUDA_SUCCESS);
  EXPECT_EQ(third % (8 * granularity), 0u);
  EXPECT_TRUE(third >= second + granularity || third + 3 * granularity <= first);
  for (const auto& [address, pieces] : {std::pair{second, 1}, std::pair{third, 3}, std::pair{first, 1}}) {
    EXPECT_EQ(cuMemAddressFree(address, static_cast<size_t>(pieces) * granularity), CUDA_SUCCESS);
  }
  ASSERT_EQ(cuMemAddressReserve(&second, 2 * granularity, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(second, first);
  EXPECT_EQ(cuMemAddressFree(second, 2 * granularity), CUDA_SUCCESS);
}

const char* const kSet = R"(.version 9.0
.target sm_100a
.address_size 64
.visible .global .u32 table[4];
.visible .entry set() { .reg .b32 %r<2>; mov.u32 %r1, 9; st.global.u32 [table+4], %r1; ret; }
)";

TEST_F(VirtualMemoryTest, LoadsLibrariesAndLinksOneInput) {
  cudaLibrary_t library = nullptr;
  ASSERT_EQ(cudaLibraryLoadData(&library, kSet, nullptr, nullptr, 0, nullptr, nullptr, 0), cudaSuccess);
  unsigned count = 0;
  EXPECT_EQ(cudaLibraryGetKernelCount(&count, library), cudaSuccess);
  EXPECT_EQ(count, 1u);
  cudaKernel_t kernel = nullptr;
  EXPECT_EQ(cudaLibraryGetKernel(&kernel, library, "none"), cudaErrorSymbolNotFound);
  ASSERT_EQ(cudaLibraryGetKernel(&kernel, library, "set"), cudaSuccess);
  ASSERT_EQ(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), {1}, {1}, nullptr, 0, nullptr), cudaSuccess);
  void* table = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(cudaLibraryGetGlobal(&table, &bytes, library, "table"), cudaSuccess);
  EXPECT_EQ(bytes, 16u);
  unsigned value = 0;
  ASSERT_EQ(cudaMemcpy(&value, static_cast<char*>(table) + 4, 4, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(value, 9u);
  EXPECT_EQ(cudaLibraryUnload(library), cudaSuccess);
  EXPECT_EQ(cudaLibraryUnload(library), cudaErrorInvalidResourceHandle);

  CUlinkState link = nullptr;
  char log[8] = "before";
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER};
  void* values[] = {log};
  ASSERT_EQ(cuLinkCreate(1, options, values, &link), CUDA_SUCCESS);
  EXPECT_STREQ(log, "");
  std::string text = kSet;
  ASSERT_EQ(cuLinkAddData(link, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "set.ptx", 0, nullptr, nullptr),
            CUDA_SUCCESS);
  void* image = nullptr;
  ASSERT_EQ(cuLinkComplete(link, &image, &bytes), CUDA_SUCCESS);
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, image), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryTest, CopiesAndFillsRectangles) {
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc(&memory, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8(memory, 0, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD2D16(memory + 16, 16, 0x4142, 2, 2), CUDA_SUCCESS);
  char rows[2][4] = {};
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory;
  copy.srcY = 1;
  copy.srcPitch = 16;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = rows;
  copy.dstPitch = 4;
  copy.WidthInBytes = 4;
  copy.Height = 2;
  ASSERT_EQ(cuMemcpy2D(&copy), CUDA_SUCCESS);
  EXPECT_EQ(std::string(rows[0], 4), "BABA");
  EXPECT_EQ(std::string(rows[1], 4), "BABA");
}

TEST_F(VirtualMemoryTest, ANameMeansTheFormOfTheVersionThatIsAsked) {
  void *old_form = nullptr, *new_form = nullptr;
  ASSERT_EQ(cuGetProcAddress("cuMemAdvise", &old_form, 12000, 0, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuGetProcAddress("cuMemAdvise", &new_form, 12020, 0, nullptr), CUDA_SUCCESS);
  EXPECT_NE(old_form, new_form);
  EXPECT_EQ(new_form, reinterpret_cast<void*>(&cuMemAdvise));
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
