// The names by which reports call kernels.
#include "emulator/ptx/demangling.hpp"

#include <gtest/gtest.h>

namespace stagecraft::emulator::ptx {
namespace {

TEST(NamesTest, AKernelIsCalledByItsNameAndItsTemplateArguments) {
  EXPECT_EQ(short_function_name("_Z3addPfi"), "add");
  EXPECT_EQ(short_function_name("_ZN2my4gemmILi128ELi64EEEvPf"), "gemm<128, 64>");
  EXPECT_EQ(short_function_name("plain"), "plain");
}

// Kernels of template libraries have names of thousands of characters.
TEST(NamesTest, TheArgumentsOfArgumentsOfALongNameAreLeftOut) {
  // void gemm<tile<tile<tile<...>>>, 64>(), with so many tiles that it would not fit a line
  std::string type = "i";
  for (int depth = 0; depth < 30; ++depth) type = "4tileI" + type + "E";
  EXPECT_EQ(short_function_name("_Z4gemmI" + type + "Li64EEvv"), "gemm<tile<...>, 64>");
}

TEST(NamesTest, OfTooManyArgumentsNoneIsNamed) {
  std::string types;
  for (int i = 0; i < 40; ++i) types += "f";
  EXPECT_EQ(short_function_name("_Z4gemmI" + types + "Evv"), "gemm<...>");
}

// The name has the form of gemm_device of CuTe's second tutorial for sm_100, which llvm-cxxfilt reads and c++filt does
// not.
TEST(NamesTest, ANameThatTheLibraryCannotReadIsTakenFromItsMangledForm) {
  const std::string arguments = "I13SharedStorageI1aEN1b1cIJS2_X_EEEEvT_";  // X begins an expression, and this is none
  EXPECT_EQ(short_function_name("_Z11gemm_device" + arguments), "gemm_device<...>");
  EXPECT_EQ(short_function_name("_ZN7cutlass13device_kernel" + arguments), "device_kernel<...>");
  EXPECT_EQ(short_function_name("_Z99gemm"), "_Z99gemm");
  EXPECT_EQ(short_function_name("_Z18446744073709551615gemm"), "_Z18446744073709551615gemm");
  EXPECT_EQ(short_function_name("_Z"), "_Z");
  EXPECT_EQ(short_function_name("_Z" + std::string(3000, 'x')), "_Z" + std::string(115, 'x') + "...");
}

TEST(NamesTest, TheNameInThePtxIsAddedWhereItDiffers) {
  EXPECT_EQ(name_in_ptx("_Z3addPfi"), " (in the PTX: _Z3addPfi)");
  EXPECT_EQ(name_in_ptx("add"), "");
}

// As nvcc 13.0 names a kernel, a variable and a kernel of a type in anonymous namespaces of k.cu.
TEST(NamesTest, OfAnonymousNamespacesAreTheSameWithoutTheirFile) {
  EXPECT_EQ(without_file("_ZN36_GLOBAL__N__33047fa9_4_k_cu_3c7ab8be4copyEPi"), "_ZN_GLOBAL__N__4copyEPi");
  EXPECT_EQ(without_file("_ZN34_INTERNAL_33047fa9_4_k_cu_3c7ab8b136_GLOBAL__N__33047fa9_4_k_cu_3c7ab8b16hiddenE"),
            "_ZN_INTERNAL__GLOBAL__N__6hiddenE");
  EXPECT_EQ(without_file("_Z4tmplIN40_GLOBAL__N__ea93d887_8_other_cu_3c7ab8be1SEEvPT_"),
            "_Z4tmplIN_GLOBAL__N__1SEEvPT_");
  for (const char* other : {"", "kernel", "_Z3addPfi", "_ZN99_GLOBAL__N__3addE", "_ZN12_GLOBAL__N_13addE"}) {
    EXPECT_EQ(without_file(other), other);
  }
}

}  // namespace
}  // namespace stagecraft::emulator::ptx
