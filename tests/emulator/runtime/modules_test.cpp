// Which chip a program gets whose user has not chosen one, and how kernels are named when they are refused.
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "emulator/runtime/model/api_call.hpp"
#include "runtime/program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr fatbin::Target kSm90a{90, fatbin::TargetKind::exact}, kSm80{80, fatbin::TargetKind::generic};
constexpr fatbin::Target kSm120a{120, fatbin::TargetKind::exact}, kSm121a{121, fatbin::TargetKind::exact};

std::string program_for(std::initializer_list<fatbin::Target> targets) {
  fatbin::ContainerBuilder builder;
  for (const fatbin::Target& target : targets) {
    builder.add(fatbin::EntryKind::ptx, target,
                ".version 9.0\n.target " + target.name() + "\n.address_size 64\n.visible .entry kernel() { ret; }");
  }
  return builder.build();
}

/// The major number of the chip, for a process that has not asked before.
[[noreturn]] void exit_with_major() {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  std::exit(major);
}

/// Each case is a process of its own: a process asks for its chip once.
class ChosenChipTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    unsetenv("STAGECRAFT_DEVICE");
  }
};

TEST_F(ChosenChipTest, IsTheH200ForAProgramThatTheB200DoesNotRun) {
  const auto run = [] {
    const Program hopper(program_for({kSm90a})), other(program_for({kSm80}));
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    std::exit(cudaLaunchKernel(hopper.kernel, 1, 1, nullptr, 0, nullptr) == cudaSuccess ? major : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(9),
              "stagecraft: the program holds PTX for sm_90a and none for sm_100a: it runs on the NVIDIA H200");
}

/// Capability and shared memory per block, in KiB, as a number that a process can exit with.
[[noreturn]] void exit_with_minor_and_memory(const Program&) {
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  std::exit(
      properties.major != 12 ? 0 : properties.minor * 100 + static_cast<int>(properties.sharedMemPerBlockOptin >> 10));
}

TEST_F(ChosenChipTest, IsAnRtx5090OrADgxSparkForAProgramThatOnlyTheyRun) {
  EXPECT_EXIT(exit_with_minor_and_memory(Program(program_for({kSm120a}))), testing::ExitedWithCode(99),
              "PTX for sm_120a and none for sm_100a: it runs on the NVIDIA GeForce RTX 5090");
  EXPECT_EXIT(exit_with_minor_and_memory(Program(program_for({kSm121a}))), testing::ExitedWithCode(199),
              "PTX for sm_121a and none for sm_100a: it runs on the NVIDIA GB10");
}

TEST_F(ChosenChipTest, IsTheFirstInTheListOfDevicesForAProgramThatSeveralRun) {
  const auto run = [](fatbin::Target other) {
    const Program both(program_for({kSm120a, other}));
    exit_with_major();
  };
  EXPECT_EXIT(run(kSm90a), testing::ExitedWithCode(9), "it runs on the NVIDIA H200");
  EXPECT_EXIT(run({100, fatbin::TargetKind::exact}), testing::ExitedWithCode(10), Not(HasSubstr("stagecraft")));
}

TEST_F(ChosenChipTest, IsTheB200ForAProgramThatHasCodeForBoth) {
  const auto run_one = [] {
    const Program both(program_for({kSm90a, kSm100a}));
    exit_with_major();
  };
  EXPECT_EXIT(run_one(), testing::ExitedWithCode(10), Not(HasSubstr("stagecraft")));
  const auto run_two = [] {
    const Program hopper(program_for({kSm90a})), blackwell(program_for({kSm100a}));
    exit_with_major();
  };
  EXPECT_EXIT(run_two(), testing::ExitedWithCode(10), Not(HasSubstr("stagecraft")));
}

TEST_F(ChosenChipTest, IsWhatTheUserHasChosen) {
  const auto run = [] {
    setenv("STAGECRAFT_DEVICE", "b200", 1);
    const Program hopper(program_for({kSm90a}));
    exit_with_major();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(10), Not(HasSubstr("stagecraft")));
}

// A library that is loaded later cannot change what the program knows about its chip.
TEST_F(ChosenChipTest, StaysForWhatIsLoadedLater) {
  const auto run = [] {
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    const Program late(program_for({kSm90a}));
    cudaLaunchKernel(late.kernel, 1, 1, nullptr, 0, nullptr);
    CUmodule module;
    cuModuleLoadData(&module, ".version 9.0\n.target sm_90a\n.address_size 64\n");
    std::exit(properties.major);
  };
  EXPECT_EXIT(
      run(), testing::ExitedWithCode(10),
      AllOf(HasSubstr("the program holds PTX for sm_90a, but the NVIDIA B200 (emulated) runs sm_100a; run it on "
                      "the NVIDIA H200 (emulated), with --device h200 or STAGECRAFT_DEVICE=h200, or rebuild"),
            HasSubstr("the PTX is for sm_90a, but the NVIDIA B200 (emulated) runs sm_100a; run it on the")));
}

class RefusedKernelTest : public RuntimeTest {};

// Kernels of template libraries have names of thousands of characters.
TEST_F(RefusedKernelTest, IsCalledByItsShortNameBeforeTheReasonAndByItsLongOneAfterIt) {
  std::string type = "i";
  for (int depth = 0; depth < 100; ++depth) type = "4tileI" + type + "E";
  const std::string mangled = "_Z4gemmI" + type + "Li64EEvv";
  const Program program(Program::with_ptx(".visible .entry " + mangled + "() { wgmma.fence.sync.aligned; ret; }"));
  char stub[1];
  __cudaRegisterFunction(program.handle(), stub, nullptr, mangled.c_str(), -1, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  EXPECT_NE(cudaLaunchKernel(stub, 1, 1, nullptr, 0, nullptr), cudaSuccess);
  EXPECT_THAT(said(), AllOf(HasSubstr("stagecraft: cudaLaunchKernel: kernel gemm<tile<...>, 64>: line"),
                            EndsWith(" (in the PTX: " + mangled + ") [cudaErrorInvalidPtx]\n")));
}

TEST_F(RefusedKernelTest, IsNamedOnceWhereItsNameIsShort) {
  const Program program(Program::with_ptx(".visible .entry kernel() { wgmma.fence.sync.aligned; ret; }"));
  EXPECT_NE(cudaLaunchKernel(program.kernel, 1, 1, nullptr, 0, nullptr), cudaSuccess);
  EXPECT_THAT(said(), AllOf(HasSubstr("cudaLaunchKernel: kernel kernel: line"), Not(HasSubstr("in the PTX"))));
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
