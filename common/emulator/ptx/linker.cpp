#include "emulator/ptx/linker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "emulator/ptx/demangling.hpp"
#include "emulator/ptx/diagnostics.hpp"
#include "emulator/ptx/parser.hpp"

namespace stagecraft::emulator::ptx {
namespace {

// These treat the two kinds of symbol alike.
bool is_declared_only(const Variable& variable) { return variable.is_extern; }
bool is_declared_only(const Function& function) { return function.is_declaration; }
bool gives_way(const Variable& variable) { return variable.is_weak_or_common; }
bool gives_way(const Function& function) { return function.is_weak; }
std::string_view kind_of(const Variable&) { return "variable"; }
std::string_view kind_of(const Function&) { return "function"; }
std::string_view space_of(const Variable& variable) { return name_of(variable.space); }
std::string_view space_of(const Function& function) { return function.is_entry ? "entry" : "func"; }

template <typename Item>
bool is_shared_by_name(const Item& item) {
  return item.is_visible || is_declared_only(item);
}

/// The new numbers and names of a unit's items in the linked module.
struct Renumbering {
  std::vector<uint32_t> variables, functions;
  std::unordered_map<std::string, std::string> renamed;  ///< symbols that belong to the unit only
  SourceId first_source = 0;                             ///< the new number of its source line 1
};

class Linker {
 public:
  explicit Linker(std::vector<LinkUnit> units) : units_(std::move(units)), renumberings_(units_.size()) {}

  Module run() {
    for (const LinkUnit& unit : units_) {
      for (const Variable& variable : unit.module.variables) reserve(variable);
      for (const Function& function : unit.module.functions) reserve(function);
    }
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      add_source_lines(unit);
      Module& module = units_[unit].module;
      add(unit, module.variables, result_.variables, renumberings_[unit].variables, variable_owners_);
      add(unit, module.functions, result_.functions, renumberings_[unit].functions, function_owners_);
      result_.version_major = std::max(result_.version_major, module.version_major);
      result_.version_minor = std::max(result_.version_minor, module.version_minor);
      if (result_.target.empty()) result_.target = module.target;
    }
    for (size_t index = 0; index < result_.variables.size(); ++index) {
      renumber(result_.variables[index], renumberings_[variable_owners_[index]]);
    }
    for (size_t index = 0; index < result_.functions.size(); ++index) {
      renumber(result_.functions[index], renumberings_[function_owners_[index]]);
    }
    return std::move(result_);
  }

 private:
  /// Reserves the name for all units; no item that belongs to one unit only may have it then.
  template <typename Item>
  void reserve(const Item& item) {
    if (is_shared_by_name(item)) taken_.insert(item.name);
  }

  template <typename Item>
  void add(size_t unit, std::vector<Item>& items, std::vector<Item>& all, std::vector<uint32_t>& numbers,
           std::vector<size_t>& owners) {
    for (Item& item : items) {
      if (!is_shared_by_name(item)) {
        std::string name = item.name;
        for (uint32_t copy = 2; !taken_.insert(name).second; ++copy) name = fmt::format("{}@{}", item.name, copy);
        if (name != item.name) renumberings_[unit].renamed.emplace(item.name, name);
        item.name = std::move(name);
      } else if (const auto found = global_.find(item.name); found != global_.end()) {
        numbers.push_back(join(unit, item, all, found->second, owners));
        continue;
      } else {
        global_.emplace(item.name, Global{static_cast<uint32_t>(all.size()), kind_of(item)});
      }
      numbers.push_back(static_cast<uint32_t>(all.size()));
      owners.push_back(unit);
      all.push_back(std::move(item));
    }
  }

  struct Global {
    uint32_t index = 0;
    std::string_view kind;
  };

  /// Adds a further declaration or definition of a symbol that exists.
  template <typename Item>
  uint32_t join(size_t unit, Item& item, std::vector<Item>& all, const Global& known, std::vector<size_t>& owners) {
    const auto refuse = [&](const std::string& what, std::string legal) {
      throw Error(fmt::format("linking: {}{}", what, name_in_ptx(item.name)), item.position, std::move(legal));
    };
    const std::string name = short_function_name(item.name);
    if (known.kind != kind_of(item)) {
      refuse(fmt::format("`{}` is a {} in {} and a {} in another input", name, kind_of(item), units_[unit].name,
                         known.kind),
             "one kind of symbol for one name");
    }
    Item& earlier = all[known.index];
    const std::string& where = units_[owners[known.index]].name;
    if (space_of(earlier) != space_of(item)) {
      refuse(fmt::format("`{}` is .{} in {} and .{} in {}", name, space_of(earlier), where, space_of(item),
                         units_[unit].name),
             "the same in every input");
    }
    const bool replaces =
        !is_declared_only(item) && (is_declared_only(earlier) || (gives_way(earlier) && !gives_way(item)));
    if (!replaces && !is_declared_only(item) && !gives_way(item)) {
      refuse(fmt::format("{} `{}` is defined in {} and in {}", kind_of(item), name, where, units_[unit].name),
             "one definition, or .weak ones");
    }
    if constexpr (requires { item.alignment; }) {  // dynamic shared memory suits all that declare it
      item.alignment = earlier.alignment = std::max(item.alignment, earlier.alignment);
    }
    if (replaces) {
      earlier = std::move(item);
      owners[known.index] = unit;
    }
    return known.index;
  }

  void add_source_lines(size_t unit) {
    Module& module = units_[unit].module;
    const auto first = static_cast<SourceId>(result_.source_lines.size());
    renumberings_[unit].first_source = first;
    uint32_t base = 0;
    for (const auto& [number, path] : result_.files) base = std::max(base, number + 1);
    for (auto& [number, path] : module.files) result_.files.emplace(base + number, std::move(path));
    for (size_t line = 1; line < module.source_lines.size(); ++line) {
      SourceLine copy = std::move(module.source_lines[line]);
      copy.file += base;
      if (copy.inlined_at != 0) copy.inlined_at += first - 1;
      result_.source_lines.push_back(std::move(copy));
    }
  }

  static void renumber(Variable& variable, const Renumbering& to) {
    for (Relocation& relocation : variable.relocations) {
      const auto found = to.renamed.find(relocation.symbol);
      if (found != to.renamed.end()) relocation.symbol = found->second;
    }
  }

  static void renumber(Operand& operand, const Renumbering& to) {
    if (operand.symbol_kind == SymbolKind::module_variable) operand.symbol = to.variables.at(operand.symbol);
    if (operand.symbol_kind == SymbolKind::function) operand.symbol = to.functions.at(operand.symbol);
    for (Operand& inner : operand.list) renumber(inner, to);
  }

  static void renumber(Function& function, const Renumbering& to) {
    for (CallTable& table : function.call_tables) {
      for (uint32_t& callee : table.functions) callee = to.functions.at(callee);
    }
    for (Instruction& instruction : function.body) {
      if (instruction.source != 0) instruction.source += to.first_source - 1;
      for (Operand& operand : instruction.operands) renumber(operand, to);
    }
  }

  std::vector<LinkUnit> units_;
  std::vector<Renumbering> renumberings_;  // by unit
  Module result_;
  std::vector<size_t> variable_owners_, function_owners_;  // the unit of each
  std::unordered_map<std::string, Global> global_;
  std::unordered_set<std::string> taken_;
};

}  // namespace

Module link(std::vector<LinkUnit> units) {
  Module module = Linker(std::move(units)).run();
  require_constant_space(module);
  return module;
}

}  // namespace stagecraft::emulator::ptx
