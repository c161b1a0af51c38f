// What blocks take of a multiprocessor, and how many it has room for.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/chip/architecture.hpp"

namespace stagecraft::emulator::machine {

class Kernel;

/// What a multiprocessor has, what a block takes of it, or what is in use.
struct BlockResources {
  uint32_t blocks = 0, threads = 0, shared_bytes = 0, registers = 0;

  BlockResources& operator+=(const BlockResources& more) {
    blocks += more.blocks;
    threads += more.threads;
    shared_bytes += more.shared_bytes;
    registers += more.registers;
    return *this;
  }
  BlockResources& operator-=(const BlockResources& less) {
    blocks -= less.blocks;
    threads -= less.threads;
    shared_bytes -= less.shared_bytes;
    registers -= less.registers;
    return *this;
  }
};

/// What a multiprocessor of the chip has.
BlockResources resources_of(const Architecture& chip);
/// What a block takes: threads in whole warps, shared memory with what the system reserves.
BlockResources resources_of_block(const Kernel& kernel, uint64_t threads, uint32_t dynamic_shared_bytes);

/// How many blocks of a launch fit on one multiprocessor, and what sets the limit.
struct Residency {
  uint32_t blocks = 0;
  std::string limited_by;  ///< "shared memory", "threads", "registers", "blocks"
};
Residency residency_of(const BlockResources& multiprocessor, const BlockResources& block);

/// Whether so many blocks more fit in addition to what is in use.
inline bool has_room(const BlockResources& multiprocessor, const BlockResources& in_use, const BlockResources& block,
                     uint32_t blocks) {
  return in_use.blocks + blocks * block.blocks <= multiprocessor.blocks &&
         in_use.threads + blocks * block.threads <= multiprocessor.threads &&
         in_use.shared_bytes + blocks * block.shared_bytes <= multiprocessor.shared_bytes &&
         in_use.registers + blocks * block.registers <= multiprocessor.registers;
}

}  // namespace stagecraft::emulator::machine
