// A program that loads machine code made by NVRTC gets the PTX instead, and can run it.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

extern "C" {
int nvrtcGetPTXSize(void* program, size_t* size);
int nvrtcGetCUBINSize(void* program, size_t* size);
int nvrtcGetCUBIN(void* program, char* code);
}

TEST(NvrtcTest, HandsOutThePtxInPlaceOfMachineCode) {
  std::string program = ".version 9.0\n.target sm_100a\n.address_size 64\n";
  size_t size = 0, wanted = 0;
  ASSERT_EQ(nvrtcGetPTXSize(program.data(), &wanted), 0);
  ASSERT_EQ(nvrtcGetCUBINSize(program.data(), &size), 0);
  ASSERT_EQ(size, wanted);
  std::string code(size, '?');
  ASSERT_EQ(nvrtcGetCUBIN(program.data(), code.data()), 0);
  EXPECT_EQ(code, program + '\0');
}
