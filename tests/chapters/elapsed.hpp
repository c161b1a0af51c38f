// The time that a launch takes on the device, for tests that ask whether roles work at the same time.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "harness/cuda_error.hpp"
#include "harness/kernel_run.hpp"

namespace stagecraft::chapters {

/// Milliseconds between the start and the end of what `launch()` launches. Waits for it, as `finish_kernel` does.
/// @param kernel  its name, for messages.
template <typename Launch>
float milliseconds_of(const std::string& kernel, const Launch& launch) {
  using harness::check;
  cudaEvent_t start, end;
  check(cudaEventCreate(&start), "create an event");
  check(cudaEventCreate(&end), "create an event");
  check(cudaEventRecord(start), "record an event");
  launch();
  check(cudaEventRecord(end), "record an event");
  harness::finish_kernel(kernel);
  float elapsed = 0;
  check(cudaEventElapsedTime(&elapsed, start, end), "read the time");
  check(cudaEventDestroy(start), "destroy an event");
  check(cudaEventDestroy(end), "destroy an event");
  return elapsed;
}

}  // namespace stagecraft::chapters
