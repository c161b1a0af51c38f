// What the emulator wants to know from machine code: how many registers ptxas gave each kernel.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "emulator/fatbin/error.hpp"

namespace stagecraft::emulator::fatbin {

/// Registers per thread of each kernel in an ELF image, by mangled name: the top byte of sh_info of the section
/// `.text.KERNEL`.
/// Throws Error of kind `corrupt` when the image is not a 64-bit little-endian ELF or contradicts itself.
std::map<std::string, uint32_t> read_register_counts(std::string_view elf);

}  // namespace stagecraft::emulator::fatbin
