// A launch that was refused, and whose error the program does not look at, fails the program; so does a file that the
// settings ask for, and that cannot be written.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using testing::ExitedWithCode;
using testing::HasSubstr;
using testing::Not;

const char* const kUnknown = "did not look at the error of a launch that was refused";

class RefusedWorkTest : public testing::Test {
 protected:
  /// Each program is a process of its own, from its start on.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// A program that ends as if all were right, after `body`.
[[noreturn]] void run(const std::function<void(Program&)>& body, const char* exit_status = "strict") {
  setenv("STAGECRAFT_EXIT_STATUS", exit_status, 1);
  Program program(Program::with_ptx(".visible .entry kernel() { ret; }"));
  body(program);
  std::exit(0);
}

cudaError_t launch(Program& program, unsigned threads) {
  return cudaLaunchKernel(program.kernel, {1, 1, 1}, {threads, 1, 1}, nullptr, 0, nullptr);
}

TEST_F(RefusedWorkTest, FailsAProgramThatLooksAtNoError) {
  EXPECT_EXIT(
      run([](Program& program) { launch(program, 2000); }), ExitedWithCode(1),
      testing::AllOf(HasSubstr("a block of (2000,1,1) threads"), HasSubstr(kUnknown), HasSubstr("exit status 1")));
  EXPECT_EXIT(run([](Program& program) {
                launch(program, 2000);
                launch(program, 0);
                launch(program, 32);
                cudaDeviceSynchronize();
              }),
              ExitedWithCode(1), "2 launches that were refused");
  // The error is the other thread's, whose launch it was.
  EXPECT_EXIT(run([](Program& program) {
                std::thread([&] { launch(program, 2000); }).join();
                cudaGetLastError();
              }),
              ExitedWithCode(1), kUnknown);
}

TEST_F(RefusedWorkTest, CountsForADriversLaunchAndForAnImageThatDoesNotFit) {
  EXPECT_EXIT(run([](Program&) {
                cudaFree(nullptr);
                cuLaunchKernel(nullptr, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
              }),
              ExitedWithCode(1), kUnknown);
  EXPECT_EXIT(
      run([](Program&) {
        fatbin::ContainerBuilder builder;
        builder.add(fatbin::EntryKind::ptx, {120, fatbin::TargetKind::exact}, ".version 9.0\n.target sm_120a\n");
        Program other(builder.build());
        launch(other, 32);
      }),
      ExitedWithCode(1), testing::AllOf(HasSubstr("cudaErrorNoKernelImageForDevice"), HasSubstr(kUnknown)));
}

TEST_F(RefusedWorkTest, IsTheProgramsOwnMatterOnceItLooks) {
  const std::function<void(Program&)> bodies[] = {
      [](Program&) { cudaGetLastError(); },
      [](Program&) { cudaPeekAtLastError(); },
      [](Program&) { cudaGetErrorName(cudaErrorInvalidConfiguration); },
      [](Program&) { cudaGetErrorString(cudaErrorInvalidConfiguration); },
      [](Program&) {
        const char* name = nullptr;
        cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &name);
      },
  };
  for (const auto& look : bodies) {
    EXPECT_EXIT(run([&look](Program& program) {
                  launch(program, 2000);
                  look(program);
                }),
                ExitedWithCode(0), testing::AllOf(HasSubstr("2000"), Not(HasSubstr(kUnknown))));
  }
  const auto ask_about_another = [](Program& program) {
    launch(program, 2000);
    cudaGetErrorName(cudaErrorMemoryAllocation);
  };
  EXPECT_EXIT(run(ask_about_another), ExitedWithCode(1), kUnknown);
}

TEST_F(RefusedWorkTest, LeavesTheStatusToAProgramThatAsksForIt) {
  EXPECT_EXIT(run([](Program& program) { launch(program, 2000); }, "program"), ExitedWithCode(0), kUnknown);
  EXPECT_EXIT(run([](Program&) { cudaFree(reinterpret_cast<void*>(8)); }), ExitedWithCode(0), "cudaFree");
}

TEST_F(RefusedWorkTest, IsNoMatterOfAForkedProcess) {
  EXPECT_EXIT(run([](Program& program) {
                launch(program, 2000);
                const pid_t child = fork();
                if (child == 0) std::exit(0);
                int status = 0;
                waitpid(child, &status, 0);
                cudaGetLastError();
                std::exit(WEXITSTATUS(status));
              }),
              ExitedWithCode(0), Not(HasSubstr(kUnknown)));
}

TEST_F(RefusedWorkTest, FailsAProgramWhoseFilesCannotBeWritten) {
  EXPECT_EXIT(run([](Program& program) {
                std::string folder = testing::TempDir() + "timeline.XXXXXX";
                ASSERT_NE(mkdtemp(folder.data()), nullptr);
                setenv("STAGECRAFT_TIMELINE", (folder + "/run.svg").c_str(), 1);
                cudaFree(nullptr);
                rmdir(folder.c_str());
                launch(program, 32);
              }),
              ExitedWithCode(1),
              testing::AllOf(HasSubstr("/run.svg: No such file or directory"), HasSubstr("exit status 1")));
  EXPECT_EXIT(run([](Program&) {
                setenv("STAGECRAFT_REPORT_FILE", "/dev/full", 1);
                cudaFree(reinterpret_cast<void*>(8));
              }),
              ExitedWithCode(1), "the next report cannot be written to /dev/full");
}

TEST_F(RefusedWorkTest, FailsAProgramWhoseSettingsAreIllegal) {
  EXPECT_EXIT(run([](Program& program) {
                setenv("STAGECRAFT_SEED", "banana", 1);
                launch(program, 32);
              }),
              ExitedWithCode(1), "banana");
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
