// Which functions a kernel can reach.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "emulator/ptx/module.hpp"
#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

/// Functions are numbers in Module::functions.
struct CallGraph {
  std::vector<uint32_t> reached;  ///< with a body, the entry first
  std::map<uint32_t, std::set<uint32_t>> calls;
  std::set<uint32_t> recursive;      ///< can be active twice in one thread
  std::set<uint32_t> address_taken;  ///< an indirect call may reach them
  /// The variables in shared memory that these functions name, in the order in which they are found.
  std::vector<const ptx::Variable*> shared_variables;
};

CallGraph find_call_graph(const ptx::Module& module, const ptx::Function& entry, const InstructionSet& instructions);

}  // namespace stagecraft::emulator::machine
