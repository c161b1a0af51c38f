#include "emulator/machine/isa_level.hpp"

#include <cstdlib>

namespace stagecraft::emulator::machine {
namespace {

int processor_level() {
#if !defined(STAGECRAFT_ONE_ISA_LEVEL)
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

int chosen_level() {
  const int best = processor_level();
  const char* wish = std::getenv("STAGECRAFT_ISA_LEVEL");
  if (wish == nullptr) return best;
  const int wished = std::atoi(wish);
  if (wished >= 4) return best;
  if (wished == 3) return best < 3 ? best : 3;
  return 1;
}

}  // namespace

int isa_level() {
  static const int level = chosen_level();
  return level;
}

}  // namespace stagecraft::emulator::machine
