// PTX text to a typed program.
#pragma once

#include <string_view>

#include "emulator/ptx/diagnostics.hpp"
#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::ptx {

/// Parses a complete PTX module, as nvcc writes it to a file or embeds it (minified) into a program.
///
/// Every name is resolved; instructions are taken apart but not judged, because which modifiers and operands an opcode
/// accepts is known to its translator. Trailing zero bytes, as fat binaries pad with, are ignored.
/// Throws SyntaxError, and UnsupportedInstruction for PTX that has no representation in `Module`.
/// Source: PTX ISA, "Syntax", "Directives".
Module parse(std::string_view text);

}  // namespace stagecraft::emulator::ptx
