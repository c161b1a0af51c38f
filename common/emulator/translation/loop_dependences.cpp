#include "emulator/translation/loop_dependences.hpp"

#include <algorithm>
#include <map>

namespace stagecraft::emulator::machine {

bool LoopDependences::decide_the_end(const std::function<bool(uint32_t)>& begins) {
  for (changed_ = true; changed_;) {
    changed_ = false;
    for (const uint32_t block : loop_) {
      for (uint32_t i = graph_.blocks[block].begin; i < graph_.blocks[block].end; ++i) {
        if (steps_left_ == 0) return true;
        --steps_left_;
        if (begins(i) || blocks_.contains(block) || reads_dependent(i)) follow(block, i);
      }
    }
  }
  return std::any_of(loop_.begin(), loop_.end(), [&](uint32_t block) {
    return may_leave(block) && (decided_.contains(block) || blocks_.contains(block));
  });
}

bool LoopDependences::in_loop(uint32_t block) const { return std::binary_search(loop_.begin(), loop_.end(), block); }

bool LoopDependences::may_leave(uint32_t block) const {
  const auto& successors = graph_.blocks[block].successors;
  return graph_.blocks[block].may_exit ||
         !std::all_of(successors.begin(), successors.end(), [&](uint32_t each) { return in_loop(each); });
}

bool LoopDependences::reads_dependent(uint32_t i) const {
  const ptx::Instruction& instruction = graph_.function.body[i];
  bool depends = instruction.guarded && registers_.contains(instruction.guard);
  for (size_t k = 0; k < instruction.operands.size() && !depends; ++k) {
    if (k == 0 && instruction.operands[k].kind == ptx::OperandKind::reg) continue;  // what it writes
    ptx::visit_registers(instruction.operands[k], [&](ptx::RegisterId reg) { depends |= registers_.contains(reg); });
  }
  return depends;
}

void LoopDependences::follow(uint32_t block, uint32_t i) {
  const ptx::Instruction& instruction = graph_.function.body[i];
  if (!instruction.operands.empty() && instruction.operands[0].kind != ptx::OperandKind::address) {
    ptx::visit_registers(instruction.operands[0],
                         [&](ptx::RegisterId reg) { changed_ |= registers_.insert(reg).second; });
  }
  const FlowGraph::Block& place = graph_.blocks[block];
  if (i + 1 != place.end || !place.decides || !decided_.insert(block).second) return;
  changed_ = true;
  std::map<uint32_t, size_t> reached;
  for (const uint32_t successor : place.successors) {
    for (const uint32_t each : leads_to(successor)) ++reached[each];
  }
  for (const auto& [each, times] : reached) {
    if (times < place.successors.size() + (place.may_exit ? 1 : 0)) blocks_.insert(each);
  }
}

std::set<uint32_t> LoopDependences::leads_to(uint32_t from) {
  std::set<uint32_t> seen;
  std::vector<uint32_t> pending{from};
  while (!pending.empty() && steps_left_ != 0) {
    --steps_left_;
    const uint32_t block = pending.back();
    pending.pop_back();
    if (block == head_ || !in_loop(block) || !seen.insert(block).second) continue;
    for (const uint32_t next : graph_.blocks[block].successors) pending.push_back(next);
  }
  return seen;
}

}  // namespace stagecraft::emulator::machine
