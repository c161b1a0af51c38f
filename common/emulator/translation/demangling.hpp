// From the names of the compiler to those of the programmer.
#pragma once

#include <string>

namespace stagecraft::emulator::machine {

/// "void gemm<128, 64>(CUtensorMap)" from its mangled form; the name as it is when it is not mangled.
std::string demangle(const std::string& name);
/// The function's name with its template arguments, without result and parameters: "gemm<128, 64>". A name that
/// is longer than a line keeps only the arguments that fit: "gemm<Tile<...>, 64>", or "gemm<...>".
std::string short_function_name(const std::string& mangled);
/// The last part of a variable's name: "full" for a static in a function or a namespace.
std::string source_name(const std::string& mangled);

}  // namespace stagecraft::emulator::machine
