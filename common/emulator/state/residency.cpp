#include "emulator/state/residency.hpp"

#include "emulator/state/kernel.hpp"
#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::machine {

BlockResources resources_of(const Architecture& chip) {
  return {.blocks = chip.blocks_per_multiprocessor,
          .threads = chip.threads_per_multiprocessor,
          .shared_bytes = chip.shared_per_multiprocessor,
          .registers = chip.registers_per_multiprocessor};
}

BlockResources resources_of_block(const Kernel& kernel, uint64_t threads, uint32_t dynamic_shared_bytes) {
  const uint32_t warps = warps_of(threads);
  return {.blocks = 1,
          .threads = warps * kWarpSize,
          .shared_bytes = kSharedReservedBytes + kernel.static_shared_bytes + dynamic_shared_bytes,
          .registers = kernel.machine_registers_of(warps)};
}

Residency residency_of(const BlockResources& multiprocessor, const BlockResources& block) {
  Residency result{multiprocessor.blocks, "blocks"};
  const auto limit = [&](uint32_t available, uint32_t needed, const char* what) {
    if (needed == 0 || available / needed >= result.blocks) return;
    result = {available / needed, what};
  };
  limit(multiprocessor.threads, block.threads, "threads");
  limit(multiprocessor.shared_bytes, block.shared_bytes, "shared memory");
  limit(multiprocessor.registers, block.registers, "registers");
  return result;
}

}  // namespace stagecraft::emulator::machine
