// Calls of device functions: parameters, return values, recursion.
#pragma once

#include <cstdint>

#include "emulator/translation/function_translator.hpp"

namespace stagecraft::emulator::machine {

/// Local memory per thread for the frames of recursive functions, and the deepest nesting of calls.
inline constexpr uint32_t kRecursiveLocalBytes = 16 * 1024;
inline constexpr uint32_t kMaximumCallDepth = 1024;

/// Appends the Op of `ret`, unguarded.
void append_return(FunctionTranslator& function);
void translate_call(Translation&);
void translate_return(Translation&);

/// A function that the runtime provides to kernels (vprintf, __assertfail, malloc, free). Arguments and results are
/// in the register file as for any call.
using Builtin = void (*)(Fragment& fragment, LaneMask mask, const std::vector<CallArea>& arguments,
                         const std::vector<CallArea>& results);
Builtin find_builtin(const std::string& name);

}  // namespace stagecraft::emulator::machine
