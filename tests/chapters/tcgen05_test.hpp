// Skips tests on a device that cannot run them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "harness/device.hpp"

namespace stagecraft::chapters {

/// A test of a kernel that is made of tcgen05 instructions. A test of another kind asks for the reason itself.
class Tcgen05Test : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = harness::reason_without_tcgen05(harness::current_device());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

}  // namespace stagecraft::chapters
