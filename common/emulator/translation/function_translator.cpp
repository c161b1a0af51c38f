#include "emulator/translation/function_translator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "emulator/translation/contraction.hpp"
#include "emulator/translation/loop_order.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr size_t kMostOps = size_t{1} << 22;

bool depends_on_other_clusters(const ptx::Operand& operand) {
  if (operand.kind == ptx::OperandKind::special) {
    const ptx::SpecialRegister* known = ptx::find_special_register(operand.name);
    return known == nullptr || !known->own_cluster_only;
  }
  return std::any_of(operand.list.begin(), operand.list.end(),
                     [](const ptx::Operand& inner) { return depends_on_other_clusters(inner); });
}

}  // namespace

void FunctionTranslator::find_late_results() {
  for (uint32_t i = 0; i < traits_.size(); ++i) {
    const ptx::Instruction& instruction = function().body[i];
    if (traits_[i].result_guard == nullptr || instruction.operands.empty()) continue;
    ptx::visit_registers(instruction.operands.front(),
                         [&](ptx::RegisterId reg) { late_results_[reg] = traits_[i].result_guard; });
  }
}

void FunctionTranslator::guard_late_results(const ptx::Instruction& instruction) {
  std::set<ptx::RegisterId> named;
  // The engine itself keeps operations in order that have the same registers as their results.
  for (size_t i = traits_[current_].result_guard != nullptr ? 1 : 0; i < instruction.operands.size(); ++i) {
    ptx::visit_registers(instruction.operands[i], [&](ptx::RegisterId reg) {
      if (late_results_.contains(reg)) named.insert(reg);
    });
  }
  for (const ptx::RegisterId reg : named) {
    Op op;
    op.full = op.masked = late_results_.at(reg);
    op.immediate = frame_.register_offsets.at(reg);
    append(op);
  }
}

void FunctionTranslator::translate(const ptx::Instruction& instruction) {
  try {
    const Registration* known = owner_.instructions().find(instruction);
    if (known == nullptr) {
      const std::vector<std::string> similar = owner_.instructions().similar(instruction.opcode);
      throw ptx::UnsupportedInstruction(
          fmt::format("`{}`: instruction `{}` is not implemented", ptx::spelling(instruction), instruction.opcode),
          instruction.position, fmt::format("{}", fmt::join(similar, ", ")));
    }
    Translation translation(*this, instruction);
    known->translator(translation);
  } catch (ptx::Error& error) {
    error.add_source(owner_.kernel().describe_line(instruction.source));
    throw;
  }
}

void FunctionTranslator::run() {
  const ptx::Function& function = *frame_.function;
  traits_ = owner_.instructions().traits_of(function);
  const Contractions contractions = find_contractions(function, traits_);
  find_late_results();
  for (current_ = 0; current_ < function.body.size(); ++current_) {
    const ptx::Instruction& instruction = function.body[current_];
    starts_.push_back(next_pc());
    if (traits_[current_].reach == Reach::other_clusters ||
        std::any_of(instruction.operands.begin(), instruction.operands.end(), depends_on_other_clusters)) {
      kernel().clusters_interact = true;
    }
    if (!late_results_.empty()) guard_late_results(instruction);
    if (contractions.products.contains(current_)) continue;
    const auto contracted = contractions.operations.find(current_);
    if (contracted == contractions.operations.end()) {
      translate(instruction);
    } else {
      for (const ptx::Instruction& operation : contracted->second) translate(operation);
    }
  }
  starts_.push_back(next_pc());
  ptx::Instruction end;  // a body may end without one
  end.opcode = "ret";
  translate(end);
  for (const auto& [pc, label] : patches_) kernel().code[pc].immediate = starts_.at(label);
  find_unread_loads();
  set_order();
}

void FunctionTranslator::find_unread_loads() {
  const std::vector<ptx::Instruction>& body = function().body;
  std::vector<bool> is_read(function().registers.size());
  const auto note = [&](ptx::RegisterId reg) { is_read[reg] = true; };
  size_t results = 0;  // the first registers are those that a function returns
  for (const ptx::Variable& result : function().returns) results += result.space == ptx::Space::reg ? 1 : 0;
  std::fill_n(is_read.begin(), results, true);
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i].guarded) note(body[i].guard);
    // The results of other instructions count as read, which is the safe side.
    for (size_t k = traits_[i].left_out_unread ? 1 : 0; k < body[i].operands.size(); ++k) {
      ptx::visit_registers(body[i].operands[k], note);
    }
  }
  for (size_t i = 0; i < body.size(); ++i) {
    if (!traits_[i].left_out_unread || body[i].operands.empty()) continue;
    bool unread = true;
    ptx::visit_registers(body[i].operands.front(), [&](ptx::RegisterId reg) { unread = unread && !is_read[reg]; });
    for (uint32_t pc = starts_[i]; unread && pc < starts_[i + 1]; ++pc) kernel().unread_loads.try_emplace(pc);
  }
}

void FunctionTranslator::set_order() {
  const LoopOrder found = find_loop_order(function(), traits_, owner_.calls_observe());
  std::vector<OrderedPlace>& order = kernel().order;
  const auto end = static_cast<uint32_t>(kernel().code.size());
  order.resize(end);
  uint32_t rank = frame_.entry_pc;
  const auto rank_all = [&](uint32_t from, uint32_t to) {
    for (uint32_t pc = from; pc < to; ++pc) order[pc].rank = rank++;
  };
  for (const uint32_t instruction : found.sequence) rank_all(starts_[instruction], starts_[instruction + 1]);
  rank_all(starts_.back(), end);
  for (uint32_t i = 0; i < found.heads.size(); ++i) {
    if (found.heads[i] != LoopHead::none) order[starts_[i]].head = found.heads[i];
  }
  for (uint32_t i = 0; i < traits_.size(); ++i) {
    if (!is_visible(traits_[i])) continue;
    order[starts_[i]].visible = true;
    order[starts_[i + 1]].visible = true;
  }
  for (uint32_t pc = end; pc-- > frame_.entry_pc;) {
    const bool goes_on = pc + 1 < end && order[pc + 1].rank == order[pc].rank + 1;
    order[pc].run_end = goes_on ? order[pc + 1].run_end : pc + 1;
  }
}

Op& FunctionTranslator::append(const Op& op) {
  if (kernel().code.size() >= kMostOps) {
    throw ptx::SyntaxError(
        fmt::format("`{}` and what it calls become more than {} operations", kernel().entry->name, kMostOps),
        kernel().entry->position, "a smaller kernel, or fewer brx.idx with long tables");
  }
  OpPlace place{&function(), current_, 0};
  if (current_ < function().body.size()) place.source = function().body[current_].source;
  kernel().code.push_back(op);
  kernel().places.push_back(place);
  return kernel().code.back();
}

void FunctionTranslator::patch_to_label(uint32_t pc, uint32_t label) { patches_.emplace_back(pc, label); }

RegisterOffset FunctionTranslator::carry_flag() {
  if (carry_flag_ == kNoRegister) carry_flag_ = owner_.registers().allocate(0);
  return carry_flag_;
}

}  // namespace stagecraft::emulator::machine
