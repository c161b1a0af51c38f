// How a translator reads the modifiers of an instruction: it takes the ones it knows, and any that remain are an error.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "emulator/ptx/diagnostics.hpp"
#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::ptx {

/// The modifiers of one instruction, as a set from which a translator takes them.
///
/// ptxas accepts modifiers in nearly any order, so they are taken by name. The order matters only between two of one
/// kind (the types of `cvt`, the spaces of `cp.async.bulk`): `take_type` and `take_one_of` take the first in the text.
/// Names that were asked for and not found are the legal alternatives in the error.
///
///     Modifiers modifiers(instruction);
///     const bool wide = modifiers.take("wide");
///     const Type type = modifiers.require_type({Type::s32, Type::u32});
///     modifiers.finish();
///
/// It refers to the instruction, and to the names asked for (string literals), without owning them.
class Modifiers {
 public:
  explicit Modifiers(const Instruction& instruction);

  /// Takes `name` (without the leading dot) if it is there.
  bool take(std::string_view name);
  /// Whether `name` is there and not yet taken; takes nothing.
  bool has(std::string_view name) const;
  /// Takes the first modifier that is a fundamental type.
  std::optional<Type> take_type();
  /// Takes the first modifier that is one of these fundamental types.
  std::optional<Type> take_type(std::initializer_list<Type> types);
  /// Takes the first modifier in the text that is one of `names`.
  std::optional<std::string_view> take_one_of(std::initializer_list<std::string_view> names);

  /// The modifiers that are not yet taken, in the order of the text.
  std::vector<std::string_view> left() const;

  /// These do the same as `take`, `take_type` and `take_one_of`, but throw UnsupportedInstruction if there is none.
  void require(std::string_view name);
  Type require_type();
  Type require_type(std::initializer_list<Type> types);
  std::string_view require_one_of(std::initializer_list<std::string_view> names);

  /// Throws UnsupportedInstruction if anything is left over.
  void finish() const;

  /// Throws UnsupportedInstruction about this instruction: "`mul.wide.f32`: " and then the message.
  [[noreturn]] void fail(std::string_view message, std::string_view legal = {}) const;

 private:
  bool left(size_t index) const { return !(taken_ >> index & 1); }
  std::string alternatives() const;

  const Instruction& instruction_;
  uint64_t taken_ = 0;  ///< one bit per modifier
  std::vector<std::string_view> asked_;
};

/// Returns the opcode with its modifiers as written: "mul.wide.s32".
std::string spelling(const Instruction& instruction);
/// Whether an instruction has this modifier (without the leading dot); for code that does not translate it.
bool has_modifier(const Instruction& instruction, std::string_view name);

}  // namespace stagecraft::emulator::ptx
