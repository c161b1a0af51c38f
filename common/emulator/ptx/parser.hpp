// Turns PTX text into a typed program.
#pragma once

#include <string_view>

#include "emulator/ptx/diagnostics.hpp"
#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::ptx {

/// Parses a complete PTX module, as nvcc writes it to a file or embeds it (minified) into a program.
///
/// Every name is resolved. Instructions are parsed but not checked, because an opcode's translator knows which
/// modifiers and operands it accepts. Trailing zero bytes, with which fat binaries are padded, are ignored. Throws
/// SyntaxError, and UnsupportedInstruction for PTX that has no representation in `Module`. Source: PTX ISA, "Syntax",
/// "Directives".
Module parse(std::string_view text);

/// Throws Error when the module's `.const` variables do not fit: 64 KiB, as ptxas 13.0 says too. `parse` and `link`
/// call it.
void require_constant_space(const Module& module);

}  // namespace stagecraft::emulator::ptx
