// How long the emulated GPU took for kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "emulator_counters.hpp"
#include "harness/cuda_error.hpp"

/// @param what  for the message when a launch fails.
/// @return seconds of the host's clock for the second launch; the first finds the memory of a new process untouched.
template <typename Launch>
double seconds_in_kernels(const char* what, Launch launch) {
  double before = 0;
  for (int i = 0; i < 2; ++i) {
    before = emulator_counters().seconds_in_kernels;
    launch();
    stagecraft::harness::check(cudaGetLastError(), what);
    stagecraft::harness::check(cudaDeviceSynchronize(), what);
  }
  return emulator_counters().seconds_in_kernels - before;
}
