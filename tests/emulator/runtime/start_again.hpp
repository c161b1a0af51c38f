// Starts this program of tests again, for what a process does only once.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace stagecraft::emulator {

/// Replaces this process by one that runs the disabled tests that `filter` names. Returns only if that fails.
inline void start_again(const std::string& filter) {
  // The tests may be in the part of another process.
  unsetenv("GTEST_TOTAL_SHARDS");
  unsetenv("GTEST_SHARD_INDEX");
  execl("/proc/self/exe", "emulator_tests", "--gtest_also_run_disabled_tests", ("--gtest_filter=" + filter).c_str(),
        nullptr);
}

}  // namespace stagecraft::emulator
