// Where the registers, parameters and variables of a function are.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/module.hpp"
#include "emulator/state/op.hpp"

namespace stagecraft::emulator::machine {

/// Bytes of the register file, from `begin` to before `end`.
struct RegisterRange {
  RegisterOffset begin = 0, end = 0;
};

/// A `.param` variable of a function that is called, as bytes in the register file.
struct CallArea {
  RegisterOffset offset = kNoRegister;
  uint32_t stride = 0;  ///< bytes from one lane to the next
  uint32_t size = 0;
};

/// What is known about a function before its body is translated.
struct FunctionFrame {
  const ptx::Function* function = nullptr;
  bool recursive = false;                        ///< can be active twice in one thread
  uint32_t entry_pc = 0;                         ///< set when its body is translated
  RegisterRange registers;                       ///< everything a recursive call must save
  std::vector<RegisterOffset> register_offsets;  ///< by ptx::RegisterId
  std::vector<CallArea> parameters, returns;     ///< of a `.func`
  std::vector<CallArea> variables;               ///< by index of Function::variables; those in `.param` space
  std::vector<uint32_t> local_offsets;           ///< by index of Function::variables; those in `.local` space
  uint32_t local_bytes = 0;                      ///< of its own frame
  uint32_t local_base = 0;                       ///< where its frame begins when it does not recurse
};

}  // namespace stagecraft::emulator::machine
