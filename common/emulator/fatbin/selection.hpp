// Which entry of a fat binary the emulated chip runs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/chip/architecture.hpp"
#include "emulator/fatbin/container.hpp"

namespace stagecraft::emulator::fatbin {

/// The parts of a name such as "sm_100a"; nullopt for another form of name.
std::optional<Target> parse_target(std::string_view name);

/// Whether code for `target` runs on the chip: `sm_90` on 9.0 and everything later, `sm_100f` on 10.x from 10.0 on,
/// `sm_100a` on 10.0 alone.
bool runs_on(const Target& target, const machine::Architecture& architecture);

/// The PTX made most closely for the chip: exact before family before generic, then the highest. Throws Error of kind
/// `no_suitable_image`, which says what was found and how to build.
const Entry& choose_ptx(const std::vector<Entry>& entries, const machine::Architecture& architecture);

/// The option of nvcc that makes a program run on the chip: -gencode "arch=...,code=[...]".
std::string gencode_option(const machine::Architecture& architecture);

/// Machine code for the chip itself, or null.
const Entry* choose_elf(const std::vector<Entry>& entries, const machine::Architecture& architecture);

}  // namespace stagecraft::emulator::fatbin
