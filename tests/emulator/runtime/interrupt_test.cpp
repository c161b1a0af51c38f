// Ctrl-C, and the end of the program, while a kernel runs.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

const char* const kEndless = ".visible .entry kernel() { .reg .b32 %r; L: add.u32 %r, %r, 1; bra L; }";
const char* const kShort = R"(.visible .entry kernel() { .reg .b32 %r; .reg .pred %p; mov.u32 %r, 0;
  L: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 3000000; @%p bra L; ret; })";

/// Launches the kernel, and sends the process a signal meanwhile.
void launch_and_signal(const char* ptx, int signal) {
  Program program(Program::with_ptx(ptx));
  std::atomic<bool> done = false;
  std::thread sender([&] {
    // Until the process ends or the launch is over: the first may come before the kernel runs.
    for (bool first = true; !done; first = false) {
      std::this_thread::sleep_for(std::chrono::milliseconds(first ? 300 : 20000));
      if (!done) kill(getpid(), signal);
    }
  });
  void* arguments[] = {nullptr};
  cudaLaunchKernel(program.kernel, {1, 1, 1}, {32, 1, 1}, arguments, 0, nullptr);
  done = true;
  sender.join();
  std::_Exit(7);
}

volatile std::sig_atomic_t own_handler_ran = 0;

class InterruptTest : public testing::Test {
 protected:
  /// Each program is a process of its own, from its start on: one that is forked cannot use CUDA.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(InterruptTest, ReportsWhereTheKernelIsAndEndsTheProcessByTheSignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(launch_and_signal(kEndless, signal), testing::KilledBySignal(signal),
                testing::AllOf(testing::HasSubstr("interrupted"), testing::HasSubstr("0 of 1 blocks are done"),
                               testing::HasSubstr("such as warp 0 of block (0, 0, 0)")));
  }
}

TEST_F(InterruptTest, LeavesAProgramsOwnHandlerAlone) {
  const auto run = [] {
    std::signal(SIGINT, [](int) { own_handler_ran = 1; });
    Program program(Program::with_ptx(kShort));
    std::thread sender([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      kill(getpid(), SIGINT);
    });
    void* arguments[] = {nullptr};
    const cudaError_t error = cudaLaunchKernel(program.kernel, {1, 1, 1}, {32, 1, 1}, arguments, 0, nullptr);
    sender.join();
    std::_Exit(error == cudaSuccess && own_handler_ran == 1 ? 5 : 6);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(5), testing::Not(testing::HasSubstr("interrupted")));
}

TEST_F(InterruptTest, StopsTheKernelOfAnotherThreadWhenTheProgramEnds) {
  const auto run = [] {
    // Destroyed at the end of the process, as what nvcc generates.
    static Program program(Program::with_ptx(kEndless));
    static std::atomic<int> launches = 0;
    std::thread([] {
      void* arguments[] = {nullptr};
      for (;; ++launches) cudaLaunchKernel(program.kernel, {1, 1, 1}, {32, 1, 1}, arguments, 0, nullptr);
    }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::exit(launches == 0 ? 3 : 4);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(3), "the program ends while kernel kernel runs, which is stopped");
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
