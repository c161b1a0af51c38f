// Skips tests on a device that cannot run kernels for an RTX 50 or a DGX Spark.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/device.hpp"

namespace stagecraft::chapters {

/// A test of kernels that are compiled for 12.0 alone: for them, the emulated GPU is an RTX 5090, unless the
/// environment names another. A chip is what it is.
class DeskTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("STAGECRAFT_DEVICE", "rtx5090", /*replace=*/0); }
  void SetUp() override {
    const cudaDeviceProp device = harness::current_device();
    if (device.major != 12) {
      GTEST_SKIP() << device.name << " has compute capability " << device.major << "." << device.minor
                   << ", and only 12.0 and 12.1 (RTX 50, DGX Spark) run the kernels of this chapter. Run it on the "
                      "emulated RTX 5090: build with -Dgpu_backend=emulator, and leave STAGECRAFT_DEVICE unset.";
    }
  }
};

}  // namespace stagecraft::chapters
