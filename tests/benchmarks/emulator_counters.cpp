#include "emulator_counters.hpp"

#include "emulator/runtime/model/state.hpp"

EmulatorCounters emulator_counters() {
  const auto& launches = stagecraft::emulator::runtime::State::instance().launches;
  return {launches.thread_instructions, launches.seconds_in_kernels};
}
