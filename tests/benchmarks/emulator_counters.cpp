#include "emulator_counters.hpp"

#include "emulator/runtime/model/state.hpp"

EmulatorCounters emulator_counters() {
  const auto& state = stagecraft::emulator::runtime::State::instance();
  return {state.thread_instructions, state.seconds_in_kernels};
}
