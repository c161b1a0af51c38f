#include "emulator/instructions/warpgroup_registers.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/instructions/value_origins.hpp"
#include "emulator/state/announcements.hpp"

namespace stagecraft::emulator::machine {

namespace {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

/// Whether its results, in registers, come later: wgmma.mma_async.
bool multiplies(const Instruction& instruction, const InstructionTraits& traits) {
  return traits.result_guard != nullptr && instruction.operands.size() > 1;
}

bool moves(const Instruction& instruction, const InstructionTraits& traits) {
  return traits.computes == Computation::copy && instruction.operands.size() == 2;
}

std::vector<ptx::RegisterId> registers_of(const Operand& operand) {
  std::vector<ptx::RegisterId> found;
  ptx::visit_registers(operand, [&](ptx::RegisterId reg) { found.push_back(reg); });
  return found;
}

/// The numbers of the registers of one function in which wgmma works.
class FunctionRegisters {
 public:
  FunctionRegisters(const ptx::Function& function, const std::vector<InstructionTraits>& traits,
                    std::vector<std::string>& names)
      : function_(function),
        traits_(traits),
        numbers_(function.registers.size(), kNone),
        joined_(function.registers.size()) {
    std::iota(joined_.begin(), joined_.end(), 0);
    std::vector<ptx::RegisterId> named;
    for (size_t i = 0; i < function.body.size(); ++i) {
      const Instruction& instruction = function.body[i];
      if (multiplies(instruction, traits[i])) {
        for (const size_t operand : {0, 1}) {
          if (instruction.operands[operand].kind != OperandKind::vector) continue;  // a descriptor of A
          for (const ptx::RegisterId reg : registers_of(instruction.operands[operand])) named.push_back(reg);
        }
      } else if (moves(instruction, traits[i])) {
        ptx::RegisterId first = kNone;
        for (const Operand& operand : instruction.operands) {
          for (const ptx::RegisterId reg : registers_of(operand)) {
            if (first == kNone) first = reg;
            joined_[root_of(reg)] = root_of(first);
          }
        }
      }
    }
    std::vector<bool> wanted(joined_.size());
    for (const ptx::RegisterId reg : named) wanted[root_of(reg)] = true;
    for (ptx::RegisterId reg = 0; reg < numbers_.size(); ++reg) {
      if (!wanted[root_of(reg)]) continue;
      numbers_[reg] = static_cast<uint32_t>(names.size());
      names.push_back(function.registers[reg].name);
    }
  }

  /// Returns what an instruction does to these registers; `multiplies` and the vectors are empty when it has none.
  WarpgroupRegisters uses_of(uint32_t index) const {
    const Instruction& instruction = function_.body[index];
    WarpgroupRegisters uses;
    uses.multiplies = multiplies(instruction, traits_[index]);
    if (uses.multiplies) {
      add(instruction.operands[0], uses.writes);
      if (instruction.operands[1].kind == OperandKind::vector) add(instruction.operands[1], uses.reads);
    } else if (moves(instruction, traits_[index])) {
      std::vector<uint32_t> to, from;
      add(instruction.operands[0], to);
      add(instruction.operands[1], from);
      if (from.empty()) from.push_back(WarpgroupRegisters::kConstant);
      for (const uint32_t each : to) {
        for (const uint32_t source : from) uses.copies.push_back({each, source});
      }
    } else {
      const size_t results = has_result(instruction) ? 1 : 0;
      if (results != 0) add(instruction.operands[0], uses.writes);
      for (size_t i = results; i < instruction.operands.size(); ++i) add(instruction.operands[i], uses.reads);
    }
    return uses;
  }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;

  ptx::RegisterId root_of(ptx::RegisterId reg) {
    while (joined_[reg] != reg) reg = joined_[reg] = joined_[joined_[reg]];
    return reg;
  }
  void add(const Operand& operand, std::vector<uint32_t>& to) const {
    ptx::visit_registers(operand, [&](ptx::RegisterId reg) {
      if (numbers_[reg] != kNone) to.push_back(numbers_[reg]);
    });
  }

  const ptx::Function& function_;
  const std::vector<InstructionTraits>& traits_;
  std::vector<uint32_t> numbers_;        ///< by register
  std::vector<ptx::RegisterId> joined_;  ///< a forest: registers of one tree are connected by moves
};

Outcome observed_registers(Fragment& fragment, const Op& op, LaneMask mask) {
  const Grid& grid = fragment.grid();
  const uint32_t pc = fragment.pc;
  const WarpgroupRegisters& registers = *grid.kernel->observed[pc].registers;
  const Outcome outcome = mask == kAllLanes ? registers.full(fragment, op, mask) : registers.masked(fragment, op, mask);
  if (outcome != Outcome::blocked && !grid.memory_observers.empty()) {
    announce_warpgroup_registers({&fragment, pc, mask});
  }
  return outcome;
}

}  // namespace

void observe_warpgroup_registers(Kernel& kernel) {
  const auto function_at = [&](size_t pc) -> const ptx::Function* {
    const OpPlace& place = kernel.places[pc];
    return place.function != nullptr && place.instruction < place.function->body.size() ? place.function : nullptr;
  };
  std::unordered_map<const ptx::Function*, std::unique_ptr<FunctionRegisters>> functions;
  for (size_t pc = 0; pc < kernel.code.size(); ++pc) {
    const ptx::Function* const function = function_at(pc);
    if (function == nullptr) continue;
    const std::vector<InstructionTraits>& traits = kernel.traits.at(function);
    const uint32_t index = kernel.places[pc].instruction;
    if (!multiplies(function->body[index], traits[index])) continue;
    auto& registers = functions[function];
    if (!registers) registers = std::make_unique<FunctionRegisters>(*function, traits, kernel.warpgroup_register_names);
  }
  if (functions.empty()) return;
  for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) {
    const auto found = functions.find(function_at(pc));
    // Where an instruction became several Ops, the last is the one with effects.
    const OpPlace& place = kernel.places[pc];
    const bool last = pc + 1 == kernel.code.size() || kernel.places[pc + 1].function != place.function ||
                      kernel.places[pc + 1].instruction != place.instruction;
    if (found == functions.end() || !last) continue;
    WarpgroupRegisters uses = found->second->uses_of(place.instruction);
    if (uses.reads.empty() && uses.writes.empty() && uses.copies.empty()) continue;
    Op& op = kernel.code[pc];
    uses.full = op.full;
    uses.masked = op.masked;
    const bool announces_itself = uses.multiplies;  // WarpgroupIssue
    kernel.observed[pc].registers = &(kernel.warpgroup_registers[pc] = std::move(uses));
    if (!announces_itself) op.full = op.masked = observed_registers;
  }
}

}  // namespace stagecraft::emulator::machine
