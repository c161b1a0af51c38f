// The basic blocks of a function.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/module.hpp"
#include "emulator/state/instruction_traits.hpp"

namespace stagecraft::emulator::machine {

/// A function as basic blocks, in the order of the text.
struct FlowGraph {
  struct Block {
    uint32_t begin = 0, end = 0;  ///< indices in Function::body
    std::vector<uint32_t> successors, predecessors;
    bool decides = false;   ///< its last instruction parts lanes
    bool may_exit = false;  ///< some of them return or exit there
  };
  FlowGraph(const ptx::Function& function, const std::vector<InstructionTraits>& traits);

  const ptx::Function& function;
  std::vector<Block> blocks;
};

}  // namespace stagecraft::emulator::machine
