// Calls of device functions: parameters, return values, recursion.
#pragma once

#include <cstdint>

#include "emulator/translation/function_frame.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

void translate_call(Translation&);
void translate_return(Translation&);

/// A function that the runtime provides to kernels (vprintf, __assertfail, malloc, free). Arguments and results are
/// in the register file as for any call.
using BuiltinHandler = void (*)(Fragment& fragment, LaneMask mask, const std::vector<CallArea>& arguments,
                                const std::vector<CallArea>& results);
struct Builtin {
  BuiltinHandler execute;
  Reach reach = Reach::other_clusters;
};
/// Null when there is none of this name.
const Builtin* find_builtin(const std::string& name);

}  // namespace stagecraft::emulator::machine
