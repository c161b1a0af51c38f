// Skips tests on a device that cannot run kernels for a Hopper.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/device.hpp"

namespace stagecraft::chapters {

/// A test of a kernel that is compiled for 9.0 alone. The emulated GPU is an H200, unless the environment names
/// another. A chip is what it is.
class HopperTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("STAGECRAFT_DEVICE", "h200", /*replace=*/0); }
  void SetUp() override {
    const cudaDeviceProp device = harness::current_device();
    if (device.major != 9) {
      GTEST_SKIP()
          << device.name << " has compute capability " << device.major << "." << device.minor
          << ", and only 9.0 (H100, H200) runs the kernels of this chapter. Run it on the emulated H200: build with "
             "-Dgpu_backend=emulator, and leave STAGECRAFT_DEVICE unset.";
    }
  }
};

}  // namespace stagecraft::chapters
