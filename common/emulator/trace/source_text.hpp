// The program's own source lines, for people who look at a recording: the text of a line, and the role it belongs to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::trace {

/// Where an instruction came from.
struct SourcePlace {
  std::string at;    ///< "ring.cu:52 (mbarrier.hpp:53)", or the instruction where no line is known
  std::string code;  ///< the text of that line; empty where the file is not here
  std::string role;  ///< "produce" below `case Role::produce:`; empty outside of one
};

/// Reads the files of a kernel's source, each once, as far as they are where the compiler found them.
class SourceText {
 public:
  explicit SourceText(const machine::Kernel& kernel) : kernel_(kernel) {}
  SourcePlace place(uint32_t pc);

 private:
  const std::vector<std::string>& lines_of(uint32_t file);

  const machine::Kernel& kernel_;
  std::map<uint32_t, std::vector<std::string>> files_;
};

/// The name of the `case` of a `switch` over roles that a line belongs to, by the layout of the text: the nearest label
/// `case Role::name:` at or above the line, in the same function. Empty where there is none.
/// @param line  counts from 1.
std::string role_at(const std::vector<std::string>& lines, uint32_t line);

}  // namespace stagecraft::emulator::trace
