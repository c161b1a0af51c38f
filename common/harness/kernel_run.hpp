// Waits for a kernel, but not forever: on a chip, a kernel that hangs says nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "harness/cuda_error.hpp"

namespace stagecraft::harness {

/// Waits for the kernel that was launched last. Throws CudaError when it could not start or did not end well.
///
/// The emulated GPU finds a hang on its own and reports it. A chip does not, and a hanging kernel cannot be removed
/// from it: after `limit` the program says so and ends with status 1.
/// @param kernel  its name, for messages.
inline void finish_kernel(const std::string& kernel, std::chrono::seconds limit = std::chrono::seconds(10)) {
  check(cudaGetLastError(), ("launch " + kernel).c_str());
  const auto start = std::chrono::steady_clock::now();
  while (cudaStreamQuery(nullptr) == cudaErrorNotReady) {
    if (std::chrono::steady_clock::now() - start > limit) {
      std::fflush(stdout);
      std::fprintf(stderr,
                   "%s has not ended after %lld s: it hangs. Run the same program on the emulated GPU (a build with "
                   "-Dgpu_backend=emulator): it names the barrier.\n",
                   kernel.c_str(), static_cast<long long>(limit.count()));
      std::_Exit(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  check(cudaDeviceSynchronize(), ("finish " + kernel).c_str());
}

}  // namespace stagecraft::harness
