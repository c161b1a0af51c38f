// Which instructions there are: each family registers its opcodes with a translator, their traits and the class that
// they have for the model of the chip's speed.
//
//     void add_bit_operations(InstructionSet& set) {
//       set.add("popc", translate_popc, kOrdinary, InstructionClass::special);
//     }
//
// All families together are in machine/instruction_set.hpp.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/module.hpp"
#include "emulator/state/instruction_traits.hpp"

namespace stagecraft::emulator::machine {

class Translation;
/// Gives meaning to one instruction: appends its Ops (translation.hpp).
using Translator = void (*)(Translation&);
/// Traits that depend on the modifiers of an instruction.
using TraitsOf = InstructionTraits (*)(const ptx::Instruction&);

/// What was registered under one name.
struct Registration {
  std::string name{};                    ///< as in `InstructionSet::add`
  std::vector<std::string> modifiers{};  ///< that an instruction must have
  Translator translator = nullptr;
  InstructionTraits same_for_all{};
  TraitsOf by_modifiers = nullptr;  ///< null where they are the same for all
  TimingClass timing;

  InstructionTraits traits_of(const ptx::Instruction& instruction) const;
};

class InstructionSet {
 public:
  /// Registers an opcode ("bar"), or its forms with certain modifiers ("bar.warp", "st.async.release"). The translator
  /// of an instruction is that of the longest name that fits. A second registration of a name is a programming error.
  void add(std::string_view name, Translator translator, const InstructionTraits& traits, TimingClass timing);
  void add(std::string_view name, Translator translator, TraitsOf traits, TimingClass timing);

  /// Null when the opcode, or this form of it, is unknown.
  const Registration* find(const ptx::Instruction& instruction) const;
  InstructionTraits traits_of(const ptx::Instruction& instruction) const;
  /// Those of all instructions of a body.
  std::vector<InstructionTraits> traits_of(const ptx::Function& function) const;
  /// Opcodes that resemble an unknown one, for its error message.
  std::vector<std::string> similar(std::string_view opcode) const;
  /// Everything that was registered, by name.
  std::vector<const Registration*> registrations() const;

 private:
  void enter(Registration registration);
  std::unordered_map<std::string, std::vector<Registration>> by_opcode_;  // the longest names first
};

}  // namespace stagecraft::emulator::machine
