// Calls of device functions and returns from them: parameters, results, recursion.
#pragma once

#include <cstdint>

#include "emulator/translation/function_frame.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

void translate_call(Translation&);
void translate_return(Translation&);

/// A function that the runtime provides to kernels (device_functions.cpp). Its arguments and results are in the
/// register file, as with any call.
using BuiltinHandler = void (*)(Fragment& fragment, LaneMask mask, const std::vector<CallArea>& arguments,
                                const std::vector<CallArea>& results);
struct Builtin {
  BuiltinHandler execute;
  Reach reach = Reach::other_clusters;
};
/// Null when there is no function of this name.
const Builtin* find_builtin(const std::string& name);

}  // namespace stagecraft::emulator::machine
