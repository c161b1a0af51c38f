#include "emulator/translation/registration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::machine {

InstructionTraits Registration::traits_of(const ptx::Instruction& instruction) const {
  InstructionTraits traits = by_modifiers != nullptr ? by_modifiers(instruction) : same_for_all;
  traits.timing = timing;
  return traits;
}

void InstructionSet::add(std::string_view name, Translator translator, const InstructionTraits& traits,
                         TimingClass timing) {
  enter({.name = std::string(name), .translator = translator, .same_for_all = traits, .timing = timing});
}

void InstructionSet::add(std::string_view name, Translator translator, TraitsOf traits, TimingClass timing) {
  enter({.name = std::string(name), .translator = translator, .by_modifiers = traits, .timing = timing});
}

void InstructionSet::enter(Registration registration) {
  const std::string& name = registration.name;
  size_t dot = name.find('.');
  std::vector<Registration>& forms = by_opcode_[name.substr(0, dot)];
  while (dot != std::string::npos) {
    const size_t next = name.find('.', dot + 1);
    registration.modifiers.push_back(name.substr(dot + 1, next - dot - 1));
    dot = next;
  }
  for (const Registration& form : forms) {
    if (form.name == name) throw std::logic_error(fmt::format("`{}` is registered twice", name));
  }
  forms.push_back(std::move(registration));
  std::stable_sort(forms.begin(), forms.end(), [](const Registration& a, const Registration& b) {
    return a.modifiers.size() > b.modifiers.size();
  });
}

const Registration* InstructionSet::find(const ptx::Instruction& instruction) const {
  const auto found = by_opcode_.find(instruction.opcode);
  if (found == by_opcode_.end()) return nullptr;
  for (const Registration& form : found->second) {
    const bool fits = std::all_of(form.modifiers.begin(), form.modifiers.end(), [&](const std::string& modifier) {
      return ptx::has_modifier(instruction, modifier);
    });
    if (fits) return &form;
  }
  return nullptr;
}

InstructionTraits InstructionSet::traits_of(const ptx::Instruction& instruction) const {
  const Registration* found = find(instruction);
  return found != nullptr ? found->traits_of(instruction) : InstructionTraits{};
}

std::vector<InstructionTraits> InstructionSet::traits_of(const ptx::Function& function) const {
  std::vector<InstructionTraits> traits;
  traits.reserve(function.body.size());
  for (const ptx::Instruction& instruction : function.body) traits.push_back(traits_of(instruction));
  return traits;
}

std::vector<std::string> InstructionSet::similar(std::string_view opcode) const {
  std::vector<std::string> result;
  for (const auto& [name, forms] : by_opcode_) {
    if (name.substr(0, 2) == opcode.substr(0, 2)) result.push_back(name);
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<const Registration*> InstructionSet::registrations() const {
  std::vector<const Registration*> result;
  for (const auto& [opcode, forms] : by_opcode_) {
    for (const Registration& form : forms) result.push_back(&form);
  }
  std::sort(result.begin(), result.end(),
            [](const Registration* a, const Registration* b) { return a->name < b->name; });
  return result;
}

}  // namespace stagecraft::emulator::machine
