// From the names of the compiler to those of the programmer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

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

/// A part of a mangled name in which nvcc names the file and a hash of its path, for an anonymous namespace: in
/// "_ZN36_GLOBAL__N__33047fa9_4_k_cu_3c7ab8be4copyEPi" the 38 characters from "36_" on.
struct FilePart {
  size_t begin = 0, size = 0;
  std::string_view marker;  ///< "_GLOBAL__N__", or "_INTERNAL_" around it
};
std::vector<FilePart> file_parts(std::string_view name);
/// The mangled name without them: the same whatever the file is called.
std::string without_file(std::string_view name);

}  // namespace stagecraft::emulator::ptx
