// A copy of the process reports what it has found, or counts as crashed; none is left behind.
#include "emulator/exploration/launch_copy.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace stagecraft::emulator::exploration {
namespace {

TEST(LaunchCopyTest, ReportsWhatItsFunctionReturns) {
  LaunchCopy copy([] { return CopyOutcome{.cut_off = true, .cycles = 12, .steps = "1 2\n", .has_diverged = true}; });
  const CopyOutcome outcome = copy.outcome();
  EXPECT_TRUE(outcome.cut_off);
  EXPECT_EQ(outcome.cycles, 12u);
  EXPECT_EQ(outcome.steps, "1 2\n");
  EXPECT_TRUE(outcome.has_diverged);
  EXPECT_FALSE(outcome.is_redundant);
}

TEST(LaunchCopyTest, ACrashIsNoReportAlsoWhereTheProgramIgnoresItsChildren) {
  const auto crash = []() -> CopyOutcome {
    raise(SIGKILL);
    return {};
  };
  EXPECT_THROW(LaunchCopy(crash).outcome(), std::system_error);
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_THROW(LaunchCopy(crash).outcome(), std::system_error);
  EXPECT_EQ(LaunchCopy([] { return CopyOutcome{.cycles = 3}; }).outcome().cycles, 3u);
  std::signal(SIGCHLD, before);
}

TEST(LaunchCopyTest, OneThatNobodyAsksEnds) {
  pid_t process = 0;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    LaunchCopy copy([&]() -> CopyOutcome {
      process = getpid();
      if (write(ends[1], &process, sizeof process) < 0) _exit(1);
      for (;;) pause();
    });
    ASSERT_EQ(read(ends[0], &process, sizeof process), static_cast<ssize_t>(sizeof process));
  }
  EXPECT_EQ(kill(process, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace stagecraft::emulator::exploration
