#include "emulator/ptx/scopes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "emulator/ptx/diagnostics.hpp"

namespace stagecraft::emulator::ptx {
namespace {

struct NumberedName {
  std::string_view prefix;
  uint32_t number = 0;
};

/// Splits "%r12" into {"%r", 12}. `%r<15>` declares no name with leading zeros.
std::optional<NumberedName> split_number(std::string_view name) {
  size_t begin = name.size();
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  if (begin == name.size() || begin == 0) return std::nullopt;
  if (name[begin] == '0' && name.size() - begin > 1) return std::nullopt;
  uint64_t number = 0;
  for (const char digit : name.substr(begin)) {
    number = number * 10 + static_cast<uint64_t>(digit - '0');
    if (number > UINT32_MAX) return std::nullopt;
  }
  return NumberedName{name.substr(0, begin), static_cast<uint32_t>(number)};
}

[[noreturn]] void report_duplicate(std::string_view name, TextPosition position, TextPosition earlier) {
  throw SyntaxError(fmt::format("`{}` is declared twice in the same scope, first in line {}, column {}", name,
                                earlier.line, earlier.column),
                    position);
}

}  // namespace

void Scopes::open(TextPosition position) {
  if (scopes_.size() >= kDeepest) {
    throw SyntaxError("scopes are nested too deeply", position, fmt::format("at most {} levels of `{{`", kDeepest));
  }
  scopes_.emplace_back();
}

bool Scopes::answer(const Reference& reference, const Symbol& symbol) {
  if (reference.in_table) {
    if (symbol.kind != Symbol::Kind::label) return false;
    function_.branch_tables[reference.owner].targets[reference.item] = symbol.index;
    return true;
  }
  Operand& operand = function_.body[reference.owner].operands[reference.item];
  const bool wants_label = operand.kind == OperandKind::label;
  switch (symbol.kind) {
    case Symbol::Kind::label:
      if (!wants_label) return false;
      operand.label = symbol.index;
      return true;
    case Symbol::Kind::prototype: operand.symbol_kind = SymbolKind::prototype; break;
    case Symbol::Kind::branch_table: operand.symbol_kind = SymbolKind::table; break;
    case Symbol::Kind::call_table: operand.symbol_kind = SymbolKind::call_table; break;
    default: return false;
  }
  operand.symbol = symbol.index;
  return !wants_label;
}

void Scopes::close() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (const Reference& reference : scope.references) {
    const auto found = scope.symbols.find(reference.name);
    if (found != scope.symbols.end() && answer(reference, found->second)) continue;
    scopes_.back().references.push_back(reference);
  }
}

void Scopes::finish() {
  for (const Reference& reference : scopes_.front().references) {
    std::vector<std::string_view> labels;
    for (const auto& [name, index] : function_.labels) labels.push_back(name);
    std::sort(labels.begin(), labels.end());
    const std::string_view meant = closest_name(reference.name, labels);
    throw SyntaxError(fmt::format("label `{}` is not defined in a scope that is visible here{}", reference.name,
                                  meant.empty() ? "" : fmt::format("; did you mean `{}`?", meant)),
                      reference.position);
  }
}

void Scopes::declare(std::string_view name, Symbol symbol) {
  Scope& scope = scopes_.back();
  const auto [entry, inserted] = scope.symbols.emplace(name, symbol);
  if (!inserted) report_duplicate(name, symbol.position, entry->second.position);
  if (const std::optional<NumberedName> numbered = split_number(name)) {
    const auto range = scope.ranges.find(numbered->prefix);
    if (range != scope.ranges.end() && numbered->number < range->second.count) {
      report_duplicate(name, symbol.position, range->second.position);
    }
    const auto [lowest, first] = scope.lowest_numbered.emplace(numbered->prefix, numbered->number);
    if (!first) lowest->second = std::min(lowest->second, numbered->number);
  }
}

void Scopes::declare_range(std::string_view prefix, RegisterRange range) {
  Scope& scope = scopes_.back();
  const auto lowest = scope.lowest_numbered.find(prefix);
  if (lowest != scope.lowest_numbered.end() && lowest->second < range.count) {
    report_duplicate(fmt::format("{}{}", prefix, lowest->second), range.position,
                     scope.symbols.at(fmt::format("{}{}", prefix, lowest->second)).position);
  }
  const auto [entry, inserted] = scope.ranges.emplace(prefix, range);
  if (!inserted) report_duplicate(fmt::format("{}<{}>", prefix, range.count), range.position, entry->second.position);
}

RegisterId Scopes::add_registers(std::string_view name, Type type, uint8_t width) {
  const auto first = static_cast<RegisterId>(function_.registers.size());
  if (width == 1) {
    function_.registers.push_back({std::string(name), type});
  } else {
    for (uint8_t i = 0; i < width; ++i) {
      function_.registers.push_back({fmt::format("{}.{}", name, std::string_view("xyzw").substr(i, 1)), type});
    }
  }
  return first;
}

const Symbol* Scopes::find(std::string_view name) {
  std::optional<NumberedName> numbered;
  bool split = false;
  for (size_t i = scopes_.size(); i-- > 0;) {
    Scope& scope = scopes_[i];
    if (!scope.symbols.empty()) {
      if (const auto found = scope.symbols.find(name); found != scope.symbols.end()) return &found->second;
    }
    if (scope.ranges.empty()) continue;
    if (!split) numbered = split_number(name);
    split = true;
    if (!numbered) continue;
    const auto range = scope.ranges.find(numbered->prefix);
    if (range == scope.ranges.end() || numbered->number >= range->second.count) continue;
    Symbol symbol;
    symbol.kind = range->second.width == 1 ? Symbol::Kind::scalar_register : Symbol::Kind::vector_register;
    symbol.width = range->second.width;
    symbol.position = range->second.position;
    symbol.index = add_registers(name, range->second.type, range->second.width);
    return &scope.symbols.emplace(name, symbol).first->second;
  }
  return nullptr;
}

std::vector<std::string_view> Scopes::names() const {
  std::vector<std::string_view> names;
  for (const Scope& scope : scopes_) {
    for (const auto& [name, symbol] : scope.symbols) names.push_back(name);
  }
  std::sort(names.begin(), names.end());  // the order of a hash table must not show in a message
  return names;
}

std::string Scopes::range_hint(std::string_view name) const {
  const std::optional<NumberedName> numbered = split_number(name);
  if (!numbered) return {};
  for (size_t i = scopes_.size(); i-- > 0;) {
    const auto range = scopes_[i].ranges.find(numbered->prefix);
    if (range == scopes_[i].ranges.end() || range->second.count == 0) continue;
    return fmt::format("`{0}0` to `{0}{1}`, which line {2} declares", numbered->prefix, range->second.count - 1,
                       range->second.position.line);
  }
  return {};
}

}  // namespace stagecraft::emulator::ptx
