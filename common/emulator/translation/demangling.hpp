// From the compiler's names to the programmer's.
#pragma once

#include <string>

namespace stagecraft::emulator::machine {

/// "void gemm<128, 64>(CUtensorMap)" from its mangled form; the name as it is when it is not mangled.
std::string demangle(const std::string& name);
/// The function's name with its template arguments, without result and parameters: "gemm<128, 64>". Of a name that is
/// longer than a line, only as much of the arguments as fits: "gemm<Tile<...>, 64>", or "gemm<...>".
std::string short_function_name(const std::string& mangled);
/// The last part of a variable's name: "full" for a static in a function or a namespace.
std::string source_name(const std::string& mangled);

}  // namespace stagecraft::emulator::machine
