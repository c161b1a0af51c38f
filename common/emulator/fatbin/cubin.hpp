// Reads from machine code how many registers ptxas gave each kernel, and its instructions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "emulator/chip/machine_code.hpp"
#include "emulator/fatbin/error.hpp"

namespace stagecraft::emulator::fatbin {

/// Registers per thread of each kernel and function in an ELF image, by mangled name, as `.nv.info` has them (attribute
/// EIATTR_REGCOUNT; read from images of nvcc 13.0.88, whose section headers no longer carry the number). Throws Error
/// of kind `corrupt` when the image is not a 64-bit little-endian ELF or contradicts itself.
std::map<std::string, uint32_t> read_register_counts(std::string_view elf);

/// The instructions of each kernel in an ELF image, by mangled name, without those of functions behind it in its
/// section. Kernels whose lines of PTX are unknown are left out: nvcc writes these (section .nv_debug_line_sass, a
/// DWARF line program) with -lineinfo. Throws as above.
std::map<std::string, machine::MachineCode> read_machine_code(std::string_view elf);

}  // namespace stagecraft::emulator::fatbin
