#include "emulator/ptx/modifiers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagecraft::emulator::ptx {
namespace {

constexpr size_t kMostModifiers = 64;  ///< bits of `taken_`; the parser refuses more modifiers

}  // namespace

std::string spelling(const Instruction& instruction) {
  std::string text = instruction.opcode;
  for (const std::string& modifier : instruction.modifiers) {
    text += '.';
    text += modifier;
  }
  return text;
}

bool has_modifier(const Instruction& instruction, std::string_view name) {
  const auto& modifiers = instruction.modifiers;
  return std::find(modifiers.begin(), modifiers.end(), name) != modifiers.end();
}

Modifiers::Modifiers(const Instruction& instruction) : instruction_(instruction) {
  if (instruction.modifiers.size() > kMostModifiers) fail("too many modifiers", "at most 64");
}

bool Modifiers::take(std::string_view name) {
  for (size_t i = 0; i < instruction_.modifiers.size(); ++i) {
    if (left(i) && instruction_.modifiers[i] == name) {
      taken_ |= uint64_t{1} << i;
      return true;
    }
  }
  asked_.push_back(name);
  return false;
}

bool Modifiers::has(std::string_view name) const {
  for (size_t i = 0; i < instruction_.modifiers.size(); ++i) {
    if (left(i) && instruction_.modifiers[i] == name) return true;
  }
  return false;
}

std::optional<Type> Modifiers::take_type() {
  for (size_t i = 0; i < instruction_.modifiers.size(); ++i) {
    if (!left(i)) continue;
    const Type type = type_from_name(instruction_.modifiers[i]);
    if (type == Type::none) continue;
    taken_ |= uint64_t{1} << i;
    return type;
  }
  return std::nullopt;
}

std::optional<Type> Modifiers::take_type(std::initializer_list<Type> types) {
  for (size_t i = 0; i < instruction_.modifiers.size(); ++i) {
    if (!left(i)) continue;
    const Type type = type_from_name(instruction_.modifiers[i]);
    if (type == Type::none || std::find(types.begin(), types.end(), type) == types.end()) continue;
    taken_ |= uint64_t{1} << i;
    return type;
  }
  for (const Type type : types) asked_.push_back(name_of(type));
  return std::nullopt;
}

std::optional<std::string_view> Modifiers::take_one_of(std::initializer_list<std::string_view> names) {
  for (size_t i = 0; i < instruction_.modifiers.size(); ++i) {
    if (!left(i)) continue;
    const auto found = std::find(names.begin(), names.end(), std::string_view(instruction_.modifiers[i]));
    if (found == names.end()) continue;
    taken_ |= uint64_t{1} << i;
    return *found;
  }
  asked_.insert(asked_.end(), names.begin(), names.end());
  return std::nullopt;
}

std::vector<std::string_view> Modifiers::left() const {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < instruction_.modifiers.size(); ++i) {
    if (left(i)) names.emplace_back(instruction_.modifiers[i]);
  }
  return names;
}

void Modifiers::require(std::string_view name) {
  if (take(name)) return;
  const std::vector<std::string_view> rest = left();
  if (rest.empty()) fail(fmt::format("modifier `.{}` is missing", name));
  fail(fmt::format("modifier `.{}` is not implemented", rest.front()), alternatives());
}

Type Modifiers::require_type() {
  if (const std::optional<Type> type = take_type()) return *type;
  fail("a type such as `.u32` is missing");
}

Type Modifiers::require_type(std::initializer_list<Type> types) {
  if (const std::optional<Type> type = take_type(types)) return *type;
  std::string legal;
  for (const Type type : types) legal += fmt::format("{}.{}", legal.empty() ? "" : ", ", name_of(type));
  if (const std::optional<Type> other = take_type()) {
    fail(fmt::format("type `.{}` is not implemented", name_of(*other)), legal);
  }
  fail("a type is missing", legal);
}

std::string_view Modifiers::require_one_of(std::initializer_list<std::string_view> names) {
  if (const std::optional<std::string_view> name = take_one_of(names)) return *name;
  std::string legal;
  for (const std::string_view name : names) legal += fmt::format("{}.{}", legal.empty() ? "" : ", ", name);
  const std::vector<std::string_view> rest = left();
  if (rest.empty()) fail("a modifier is missing", legal);
  fail(fmt::format("modifier `.{}` is not implemented", rest.front()), legal);
}

void Modifiers::finish() const {
  const std::vector<std::string_view> rest = left();
  if (!rest.empty()) fail(fmt::format("modifier `.{}` is not implemented", rest.front()), alternatives());
}

void Modifiers::fail(std::string_view message, std::string_view legal) const {
  throw UnsupportedInstruction(fmt::format("`{}`: {}", spelling(instruction_), message), instruction_.position,
                               std::string(legal));
}

std::string Modifiers::alternatives() const {
  std::vector<std::string_view> names = asked_;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (const std::string_view name : names) text += fmt::format("{}.{}", text.empty() ? "" : ", ", name);
  if (text.empty() && taken_ == 0) return "no modifier";
  if (text.empty()) return "no further modifier";
  return text;
}

}  // namespace stagecraft::emulator::ptx
