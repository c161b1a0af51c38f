#include "emulator/translation/flow_graph.hpp"

#include <set>

namespace stagecraft::emulator::machine {

namespace {

/// Calls `visit` with the index in Function::body of each label that an instruction names.
template <typename Visit>
void visit_labels(const ptx::Function& function, const ptx::Instruction& instruction, const Visit& visit) {
  for (const ptx::Operand& operand : instruction.operands) {
    if (operand.kind == ptx::OperandKind::label) visit(operand.label);
    if (operand.kind == ptx::OperandKind::symbol && operand.symbol_kind == ptx::SymbolKind::table) {
      for (const uint32_t label : function.branch_tables.at(operand.symbol).targets) visit(label);
    }
  }
}

}  // namespace

FlowGraph::FlowGraph(const ptx::Function& function, const std::vector<InstructionTraits>& traits) : function(function) {
  const auto size = static_cast<uint32_t>(function.body.size());
  std::vector<bool> begins(size + 1, false);
  begins[0] = true;
  for (uint32_t i = 0; i < size; ++i) {
    if (traits[i].flow == Flow::leaves) begins[i + 1] = true;
    visit_labels(function, function.body[i], [&](uint32_t label) { begins[label] = true; });
  }
  std::vector<uint32_t> block_of(size + 1, 0);
  for (uint32_t i = 0; i < size; ++i) {
    if (begins[i]) blocks.emplace_back().begin = i;
    blocks.back().end = i + 1;
    block_of[i] = static_cast<uint32_t>(blocks.size() - 1);
  }
  for (uint32_t block = 0; block < blocks.size(); ++block) {
    const uint32_t last = blocks[block].end - 1;
    const ptx::Instruction& instruction = function.body[last];
    std::set<uint32_t> to;
    if (traits[last].flow == Flow::leaves) {
      visit_labels(function, instruction, [&](uint32_t label) {
        if (label < size) to.insert(block_of[label]);
      });
    }
    const bool leaves = traits[last].flow == Flow::leaves;
    blocks[block].may_exit = leaves && instruction.guarded && to.empty();
    if (last + 1 < size && (!leaves || instruction.guarded)) to.insert(block_of[last + 1]);
    blocks[block].decides = leaves && (to.size() > 1 || blocks[block].may_exit);
    blocks[block].successors.assign(to.begin(), to.end());
    for (const uint32_t successor : to) blocks[successor].predecessors.push_back(block);
  }
}

}  // namespace stagecraft::emulator::machine
