// Reads from source text which object an instruction is given: see barrier_names.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::machine {

/// An object as the source calls it: "ring.full" [i] "", or "stages" [i] "full".
struct ObjectPath {
  std::vector<std::string> before;
  std::string index;  ///< a variable that counts from 0; empty where there is none
  std::vector<std::string> after;
  bool is_member = false;   ///< `before` begins with an object that a method was called for
  bool is_wrapped = false;  ///< and that is what the object was made from there: Ring{barriers}.init()
};

/// A token of a source file.
struct SourceToken {
  std::string text;
  uint32_t line = 0, column = 0;
};

/// The files of a module, each read once, as far as they are here and not newer than the program.
class SourceExpressions {
 public:
  explicit SourceExpressions(const Kernel& kernel) : kernel_(kernel) {}

  /// The object whose address the asm statement of `opcode` is given, as the outermost caller calls it. Nothing where
  /// the text leaves a choice.
  std::optional<ObjectPath> object_of(uint32_t pc, const std::string& opcode);

 private:
  const std::vector<SourceToken>& tokens_of(uint32_t file);

  const Kernel& kernel_;
  std::map<uint32_t, std::vector<SourceToken>> files_;
};

}  // namespace stagecraft::emulator::machine
