#include "emulator/instructions/value_origins.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "emulator/instructions/memory_access.hpp"

namespace stagecraft::emulator::machine {

namespace {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

/// The definitions of the registers of one function.
class Definitions {
 public:
  Definitions(const ptx::Function& function, const std::vector<InstructionTraits>& traits)
      : body_(function.body), traits_(traits), of_register_(function.registers.size()), seen_(function.body.size(), 0) {
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (!has_result(body_[i])) continue;
      ptx::visit_registers(body_[i].operands[0], [&](ptx::RegisterId reg) { of_register_[reg].push_back(i); });
    }
  }

  /// Calls `visit(index)` once for each instruction that the operands of one instruction were computed by, and
  /// `visit_register(reg)` for each register, perhaps several times.
  template <typename Visit, typename VisitRegister>
  void for_each_origin(uint32_t of, Visit&& visit, VisitRegister&& visit_register) {
    ++search_;
    std::vector<uint32_t> open{of};
    while (!open.empty()) {
      const uint32_t index = open.back();
      open.pop_back();
      visit_sources(body_[index], [&](ptx::RegisterId reg) {
        visit_register(reg);
        for (const uint32_t definition : of_register_[reg]) {
          if (seen_[definition] == search_) continue;
          seen_[definition] = search_;
          visit(definition);
          open.push_back(definition);
        }
      });
    }
  }

  /// The constant that an operand is: as it is written, or as the only definition of its register moves it there.
  std::optional<uint64_t> constant(const Operand& operand) const {
    if (operand.kind == OperandKind::integer || operand.kind == OperandKind::f32 || operand.kind == OperandKind::f64) {
      return operand.bits;
    }
    if (operand.kind != OperandKind::reg || of_register_[operand.reg].size() != 1) return std::nullopt;
    const uint32_t writer = of_register_[operand.reg].front();
    const Instruction& definition = body_[writer];
    if (traits_[writer].computes != Computation::copy || definition.guarded || definition.operands.size() != 2 ||
        definition.operands[1].kind == OperandKind::reg) {
      return std::nullopt;
    }
    return constant(definition.operands[1]);
  }

 private:
  template <typename Visit>
  static void visit_sources(const Instruction& instruction, const Visit& visit) {
    if (instruction.guarded) visit(instruction.guard);
    for (size_t i = has_result(instruction) ? 1 : 0; i < instruction.operands.size(); ++i) {
      ptx::visit_registers(instruction.operands[i], visit);
    }
  }

  const std::vector<Instruction>& body_;
  const std::vector<InstructionTraits>& traits_;
  std::vector<std::vector<uint32_t>> of_register_;
  std::vector<uint32_t> seen_;  ///< the number of the last search that came here
  uint32_t search_ = 0;
};

/// One function of a kernel, and where its instructions are in the code.
class FunctionOrigins {
 public:
  FunctionOrigins(const ptx::Function& function, const std::vector<InstructionTraits>& traits)
      : function_(function), definitions_(function, traits), loads_(function.body.size(), kNone) {}

  void add(const Kernel& kernel, uint32_t pc) {
    const uint32_t index = kernel.places[pc].instruction;
    const InstructionTraits& traits = kernel.traits_at(pc);
    const auto* access = static_cast<const AccessDetail*>(kernel.observed[pc].access);
    if (access != nullptr && access->verb == AccessVerb::reads && access->space != AccessSpace::global) {
      loads_[index] = pc;
    }
    if (traits.exchanges) exchanges_.push_back(pc);
    if (traits.tensor_memory == MemoryUse::loads) tensor_loads_.push_back(pc);
    if (traits.tensor_memory == MemoryUse::stores) tensor_stores_.push_back(pc);
    if (access != nullptr && traits.memory == MemoryUse::stores) stores_.push_back(pc);
  }

  void note_in(Kernel& kernel) {
    for (const uint32_t pc : exchanges_) {
      std::vector<uint32_t> loads;
      definitions_.for_each_origin(
          kernel.places[pc].instruction,
          [&](uint32_t index) {
            if (loads_[index] != kNone) loads.push_back(loads_[index]);
          },
          [](ptx::RegisterId) {});
      std::sort(loads.begin(), loads.end());
      if (!loads.empty()) kernel.exchanged_loads[pc] = std::move(loads);
    }
    for (const uint32_t store : tensor_stores_) {
      std::vector<bool> used(function_.registers.size());
      if (tensor_loads_.empty()) break;
      definitions_.for_each_origin(
          kernel.places[store].instruction, [](uint32_t) {}, [&](ptx::RegisterId reg) { used[reg] = true; });
      for (const uint32_t load : tensor_loads_) {
        bool all = true;
        ptx::visit_registers(function_.body[kernel.places[load].instruction].operands[0],
                             [&](ptx::RegisterId reg) { all = all && used[reg]; });
        if (all) kernel.ended_loads[store].push_back(load);
      }
    }
    for (const uint32_t pc : stores_) {
      const Instruction& store = function_.body[kernel.places[pc].instruction];
      if (store.operands.size() != 2) continue;
      if (const auto value = definitions_.constant(store.operands[1])) kernel.stored_constants[pc] = *value;
    }
  }

  const ptx::Function& function() const { return function_; }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;

  const ptx::Function& function_;
  Definitions definitions_;
  std::vector<uint32_t> loads_;  ///< by instruction: the pc of a load that may be from shared memory
  std::vector<uint32_t> exchanges_, stores_, tensor_loads_, tensor_stores_;
};

}  // namespace

bool has_result(const Instruction& instruction) {
  if (instruction.operands.empty()) return false;
  const OperandKind kind = instruction.operands[0].kind;
  return kind == OperandKind::reg || kind == OperandKind::vector || kind == OperandKind::pair;
}

void find_value_origins(Kernel& kernel) {
  std::vector<FunctionOrigins> functions;
  for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) {
    const OpPlace& place = kernel.places[pc];
    if (place.function == nullptr || place.instruction >= place.function->body.size()) continue;
    if (functions.empty() || &functions.back().function() != place.function) {
      functions.emplace_back(*place.function, kernel.traits.at(place.function));
    }
    functions.back().add(kernel, pc);
  }
  for (FunctionOrigins& function : functions) function.note_in(kernel);
}

}  // namespace stagecraft::emulator::machine
