// From the names of the compiler to those of the programmer.
#pragma once

#include <string>

namespace stagecraft::emulator::ptx {

/// "void gemm<128, 64>(CUtensorMap)" from its mangled form; the name as it is when it is not mangled.
std::string demangle(const std::string& name);
/// The function's name with its template arguments, without result and parameters: "gemm<128, 64>". A name that
/// is longer than a line keeps only the arguments that fit: "gemm<Tile<...>, 64>", or "gemm<...>". Every message and
/// report calls a function, or a variable of another module, by this name.
std::string short_function_name(const std::string& mangled);
/// What a message ends with that has called something by its short name: " (in the PTX: _Z4gemmILi128EEvv)", for which
/// one can search the PTX; empty where the PTX has the short name.
std::string name_in_ptx(const std::string& mangled);
/// The last part of a variable's name: "full" for a static in a function or a namespace.
std::string source_name(const std::string& mangled);

}  // namespace stagecraft::emulator::ptx
