// Finds out which vector instructions this processor has. The build compiles this header alone and asks it too.
#pragma once

namespace stagecraft::emulator::machine {

/// Returns the level of x86-64: 4 (AVX-512), 3 (AVX2) or 1 (every x86-64, and any other processor).
inline int processor_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool level3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                      __builtin_cpu_supports("popcnt");
  if (!level3) return 1;
  const bool level4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  return level4 ? 4 : 3;
#else
  return 1;
#endif
}

}  // namespace stagecraft::emulator::machine
