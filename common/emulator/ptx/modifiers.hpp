// How a translator reads the modifiers of an instruction: it takes the ones it knows, and what is left over is an
// error.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "emulator/ptx/diagnostics.hpp"
#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::ptx {

/// The modifiers of one instruction, as a set to take from.
///
/// ptxas accepts modifiers in nearly any order, so they are taken by name; only where two of them are of one kind (the
/// types of `cvt`, the spaces of `cp.async.bulk`) does the order count, and there `take_type` and `take_one_of` take
/// the first in the text. What was asked for and not found is remembered as the legal alternatives of the error.
///
///     Modifiers modifiers(instruction);
///     const bool wide = modifiers.take("wide");
///     const Type type = modifiers.require_type({Type::s32, Type::u32});
///     modifiers.finish();
///
/// Refers to the instruction, and to the names asked for (string literals), without owning them.
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

  /// As `take`, `take_type` and `take_one_of`, but throws UnsupportedInstruction when there is nothing to take.
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

/// The opcode with its modifiers as written: "mul.wide.s32".
std::string spelling(const Instruction& instruction);
/// Whether it is among the modifiers (without the leading dot), for who only looks at an instruction.
bool has_modifier(const Instruction& instruction, std::string_view name);

}  // namespace stagecraft::emulator::ptx
