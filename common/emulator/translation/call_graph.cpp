#include "emulator/translation/call_graph.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::machine {
namespace {

template <typename Visit>
void visit_symbols(const ptx::Operand& operand, const Visit& visit) {
  if (operand.kind == ptx::OperandKind::symbol) visit(operand);
  for (const ptx::Operand& inner : operand.list) visit_symbols(inner, visit);
}

class Explorer {
 public:
  Explorer(const ptx::Module& module, const InstructionSet& instructions)
      : module_(module), instructions_(instructions) {}

  CallGraph explore(const ptx::Function& entry) {
    reach(index_of(entry));
    while (!pending_.empty()) {
      const uint32_t index = pending_.back();
      pending_.pop_back();
      graph_.reached.push_back(index);
      for (const ptx::Instruction& instruction : module_.functions[index].body) look_at(index, instruction);
      if (pending_.empty() && !indirect_callers_.empty()) reach_all_pointees();
    }
    for (const uint32_t caller : indirect_callers_) {
      graph_.calls[caller].insert(graph_.address_taken.begin(), graph_.address_taken.end());
    }
    find_recursion();
    return std::move(graph_);
  }

 private:
  uint32_t index_of(const ptx::Function& function) const {
    return static_cast<uint32_t>(&function - module_.functions.data());
  }

  void reach(uint32_t index) {
    if (module_.functions.at(index).is_declaration) return;  // one that the runtime provides, or an error of the call
    if (seen_.insert(index).second) pending_.push_back(index);
  }

  void take_address(uint32_t index) {
    graph_.address_taken.insert(index);
    reach(index);
  }

  void look_at(uint32_t caller, const ptx::Instruction& instruction) {
    const bool is_call = instructions_.traits_of(instruction).flow == Flow::calls;
    bool direct = false;
    for (const ptx::Operand& operand : instruction.operands) {
      visit_symbols(operand, [&](const ptx::Operand& symbol) {
        if (symbol.symbol_kind == ptx::SymbolKind::function) {
          if (is_call && &symbol == &operand) {
            reach(symbol.symbol);
            graph_.calls[caller].insert(symbol.symbol);
            direct = true;
          } else {
            take_address(symbol.symbol);
          }
        }
        note_shared_variable(module_.functions[caller], symbol);
      });
    }
    if (is_call && !direct) indirect_callers_.insert(caller);
  }

  void note_shared_variable(const ptx::Function& function, const ptx::Operand& symbol) {
    const ptx::Variable* variable = nullptr;
    if (symbol.symbol_kind == ptx::SymbolKind::module_variable) variable = &module_.variables.at(symbol.symbol);
    if (symbol.symbol_kind == ptx::SymbolKind::local_variable) variable = &function.variables.at(symbol.symbol);
    if (variable == nullptr || variable->space != ptx::Space::shared) return;
    std::vector<const ptx::Variable*>& known = graph_.shared_variables;
    if (std::find(known.begin(), known.end(), variable) == known.end()) known.push_back(variable);
  }

  /// An indirect call may reach whatever a pointer can hold: what initialised data points to (tables of functions,
  /// virtual functions), and what any function of the module takes the address of, which another kernel may have
  /// stored.
  void reach_all_pointees() {
    for (const ptx::Variable& variable : module_.variables) {
      for (const ptx::Relocation& relocation : variable.relocations) {
        const ptx::Function* target = module_.find_function(relocation.symbol);
        if (target != nullptr) take_address(index_of(*target));
      }
    }
    for (const ptx::Function& function : module_.functions) {
      for (const ptx::Instruction& instruction : function.body) {
        for (const ptx::Operand& operand : instruction.operands) {
          visit_symbols(operand, [&](const ptx::Operand& symbol) {
            if (symbol.symbol_kind != ptx::SymbolKind::function) return;
            const bool is_callee = &symbol == &operand && instructions_.traits_of(instruction).flow == Flow::calls;
            if (!is_callee) take_address(symbol.symbol);
          });
        }
      }
    }
  }

  /// A function recurses if it calls itself, or is in one strongly connected component with others. Kosaraju's
  /// algorithm finds these in time that grows with the number of calls: first all functions, callees before their
  /// callers.
  void find_recursion() {
    std::vector<uint32_t> callees_first;
    std::map<uint32_t, std::vector<uint32_t>> callers;
    std::set<uint32_t> seen;
    for (const uint32_t root : graph_.reached) {
      std::vector<std::pair<uint32_t, bool>> pending{{root, false}};  // a function, and whether its callees are done
      while (!pending.empty()) {
        const auto [function, done] = pending.back();
        pending.pop_back();
        if (done) {
          callees_first.push_back(function);
        } else if (seen.insert(function).second) {
          pending.emplace_back(function, true);
          for (const uint32_t callee : graph_.calls[function]) {
            callers[callee].push_back(function);
            if (callee == function) graph_.recursive.insert(function);
            if (!seen.contains(callee)) pending.emplace_back(callee, false);
          }
        }
      }
    }
    // Then back along the calls, from the last: what is reached and was not before is one component.
    for (auto root = callees_first.rbegin(); root != callees_first.rend(); ++root) {
      std::vector<uint32_t> component, pending{*root};
      while (!pending.empty()) {
        const uint32_t function = pending.back();
        pending.pop_back();
        if (seen.erase(function) == 0) continue;
        component.push_back(function);
        const std::vector<uint32_t>& from = callers[function];
        pending.insert(pending.end(), from.begin(), from.end());
      }
      if (component.size() > 1) graph_.recursive.insert(component.begin(), component.end());
    }
  }

  const ptx::Module& module_;
  const InstructionSet& instructions_;
  CallGraph graph_;
  std::set<uint32_t> seen_, indirect_callers_;
  std::vector<uint32_t> pending_;
};

}  // namespace

CallGraph find_call_graph(const ptx::Module& module, const ptx::Function& entry, const InstructionSet& instructions) {
  return Explorer(module, instructions).explore(entry);
}

}  // namespace stagecraft::emulator::machine
