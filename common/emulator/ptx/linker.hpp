// Links several modules into one, as nvlink and the driver's linker do for code compiled with nvcc -rdc=true.
#pragma once

#include <string>
#include <vector>

#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::ptx {

/// One input of a link.
struct LinkUnit {
  std::string name;  ///< for messages: "main.ptx"
  Module module;
};

/// Links by the rules of the PTX ISA, "Linking Directives". `.visible`, `.weak` and `.common` symbols of the same name
/// are one, and so are the `.extern` declarations of it. All others belong to one unit, and are renamed (`name@2`) when
/// two units have the same name. A symbol that remains only declared is refused later: a variable when the module is
/// placed, a function when a kernel calls it. Throws Error.
Module link(std::vector<LinkUnit> units);

}  // namespace stagecraft::emulator::ptx
