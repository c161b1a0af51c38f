// Counts what the emulator inside this program has executed. It is a header of its own so that nvcc does not have to
// read the emulator's headers.
#pragma once

#include <cstdint>

struct EmulatorCounters {
  uint64_t thread_instructions = 0;
  double seconds_in_kernels = 0;  ///< of the host's clock
};

EmulatorCounters emulator_counters();
