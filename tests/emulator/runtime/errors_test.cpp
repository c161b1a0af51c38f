#include "emulator/runtime/model/errors.hpp"

#include <gtest/gtest.h>

namespace stagecraft::emulator::runtime {
namespace {

TEST(ErrorsTest, HaveTheNamesAndTextsOfTheToolkit) {
  EXPECT_STREQ(error_name(cudaSuccess), "cudaSuccess");
  EXPECT_STREQ(error_text(cudaSuccess), "no error");
  EXPECT_STREQ(error_name(cudaErrorInvalidValue), "cudaErrorInvalidValue");
  EXPECT_STREQ(error_text(cudaErrorInvalidValue), "invalid argument");
  EXPECT_STREQ(error_text(cudaErrorIllegalAddress), "an illegal memory access was encountered");
  EXPECT_STREQ(driver_error_name(CUDA_ERROR_NO_BINARY_FOR_GPU), "CUDA_ERROR_NO_BINARY_FOR_GPU");
  EXPECT_STREQ(driver_error_text(CUDA_ERROR_OUT_OF_MEMORY), "out of memory");
}

TEST(ErrorsTest, HaveNoNameForANumberThatIsNone) {
  EXPECT_EQ(error_name(static_cast<cudaError_t>(12345)), nullptr);
  EXPECT_EQ(driver_error_name(static_cast<CUresult>(12345)), nullptr);
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(-1)), "unrecognized error code");
}

TEST(ErrorsTest, OfStoppedKernelsAreTheDrivers) {
  using machine::FaultKind;
  EXPECT_EQ(error_of(FaultKind::illegal_address), 700);
  EXPECT_EQ(error_of(FaultKind::deadlock), 702);
  EXPECT_EQ(error_of(FaultKind::host_memory), 2);
  EXPECT_EQ(error_of(FaultKind::assertion), 710);
  EXPECT_EQ(error_of(FaultKind::stack_overflow), 700);
  EXPECT_EQ(error_of(FaultKind::illegal_instruction), 715);
  EXPECT_EQ(error_of(FaultKind::misaligned_address), 716);
  EXPECT_EQ(error_of(FaultKind::invalid_address_space), 717);
  EXPECT_EQ(error_of(FaultKind::invalid_pc), 700);
  EXPECT_EQ(error_of(FaultKind::launch_failure), 719);
}

TEST(ErrorsTest, HaveADriverResultForEachRuntimeError) {
  EXPECT_EQ(driver_error(cudaErrorMemoryAllocation), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver_error(cudaErrorInvalidConfiguration), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver_error(cudaErrorInvalidSymbol), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(driver_error(cudaErrorNoKernelImageForDevice), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(driver_error(cudaErrorIllegalAddress), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(driver_error(cudaErrorApiFailureBase), CUDA_ERROR_UNKNOWN);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
