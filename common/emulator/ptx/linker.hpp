// Several modules made one, as nvlink and the driver's linker do with what nvcc -rdc=true compiles.
#pragma once

#include <string>
#include <vector>

#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::ptx {

/// What one input of a link brings.
struct LinkUnit {
  std::string name;  ///< for messages: "main.ptx"
  Module module;
};

/// PTX ISA, "Linking Directives": `.visible`, `.weak` and `.common` symbols of the same name are one, and so are the
/// `.extern` declarations of it; all others belong to their unit alone, and are renamed (`name@2`) where two units have
/// the same. What is still only declared afterwards is left to whoever uses it: variables are refused when the module
/// is placed, functions when a kernel calls them. Throws Error.
Module link(std::vector<LinkUnit> units);

}  // namespace stagecraft::emulator::ptx
