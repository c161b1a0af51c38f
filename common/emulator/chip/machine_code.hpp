// Machine code of a program, from which the model of the speed of the chip learns what ptxas made of PTX.
#pragma once

#include <cstdint>
#include <vector>

namespace stagecraft::emulator::machine {

inline constexpr uint32_t kMachineInstructionBytes = 16;

struct MachineInstruction {
  uint64_t low = 0, high = 0;  ///< its 128 bits
  uint32_t line = 0;           ///< of the PTX that it was made of; 0 where that is unknown
};
/// The instructions of a kernel, in the order of their addresses.
using MachineCode = std::vector<MachineInstruction>;

}  // namespace stagecraft::emulator::machine
