#include "emulator/trace/merged_instructions.hpp"

#include <algorithm>
#include <cstdint>

#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::trace {
namespace {

using machine::Computation;

constexpr uint32_t kMostOperands = 3;  ///< of LOP3 and IADD3
constexpr uint32_t kNone = 0xffffffffu;

/// What an instruction can merge with.
enum class Form : uint8_t {
  other,
  half,           ///< one register of a pair
  logic,          ///< of 32 or 64 bits
  sum,            ///< of 32 bits
  wide_sum,       ///< of 64 bits
  shift,          ///< to the left by a constant, of 32 or 64 bits
  wide_product,   ///< of two values of 32 bits
  comparison,     ///< one that sets a predicate
  predicates,     ///< logic of predicates
  least_or_most,  ///< minimum or maximum of 32-bit integers
};

bool has_narrow_integers(const ptx::Instruction& instruction) {
  return ptx::has_modifier(instruction, "s32") || ptx::has_modifier(instruction, "u32") ||
         ptx::has_modifier(instruction, "b32");
}
bool has_wide_integers(const ptx::Instruction& instruction) {
  return ptx::has_modifier(instruction, "s64") || ptx::has_modifier(instruction, "u64") ||
         ptx::has_modifier(instruction, "b64");
}

/// The value of the last operand, if it is a number.
const uint64_t* last_number(const ptx::Instruction& instruction) {
  const ptx::Operand& last = instruction.operands.back();
  return last.kind == ptx::OperandKind::integer ? &last.bits : nullptr;
}

Form form_of(const ptx::Instruction& instruction, Computation computes) {
  if (instruction.operands.size() < 2 || instruction.operands[0].kind == ptx::OperandKind::pair) return Form::other;
  const uint64_t* const number = last_number(instruction);
  const bool wide = has_wide_integers(instruction), narrow = has_narrow_integers(instruction);
  switch (computes) {
    case Computation::predicate: return instruction.operands.size() == 3 ? Form::comparison : Form::other;
    case Computation::conjunction:
      if (wide && number != nullptr && (*number == 0xffffffffu || *number == 0xffffffff00000000u)) return Form::half;
      [[fallthrough]];
    case Computation::disjunction:
    case Computation::exclusive_disjunction:
    case Computation::complement:
      if (ptx::has_modifier(instruction, "pred")) return Form::predicates;
      return wide || narrow ? Form::logic : Form::other;
    case Computation::left_shift:
    case Computation::right_shift:
      if (number == nullptr) return Form::other;
      if (wide && *number == 32 && !ptx::has_modifier(instruction, "s64")) return Form::half;
      return computes == Computation::left_shift && (wide || narrow) ? Form::shift : Form::other;
    case Computation::sum:
    case Computation::difference:
      if (ptx::has_modifier(instruction, "sat") || ptx::has_modifier(instruction, "cc")) return Form::other;
      return narrow ? Form::sum : wide ? Form::wide_sum : Form::other;
    case Computation::product:
      return ptx::has_modifier(instruction, "wide") && narrow ? Form::wide_product : Form::other;
    case Computation::extreme: return narrow ? Form::least_or_most : Form::other;
    default: return Form::other;
  }
}

class Merger {
 public:
  Merger(const ptx::Function& function, const std::vector<machine::InstructionTraits>& traits)
      : body_(function.body),
        merged_(body_.size()),
        forms_(body_.size()),
        operands_(body_.size()),
        numbers_(body_.size()),
        labels_before_(body_.size() + 1),
        values_(function.registers.size()) {
    for (const auto& [name, at] : function.labels) ++labels_before_[at];
    for (const ptx::Instruction& instruction : body_) {  // those of inner blocks are known by their branches alone
      for (const ptx::Operand& operand : instruction.operands) {
        if (operand.kind == ptx::OperandKind::label) ++labels_before_[operand.label];
      }
    }
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (i > 0) labels_before_[i] += labels_before_[i - 1];
      forms_[i] = form_of(body_[i], traits[i].computes);
      count_operands(i);
    }
  }

  std::vector<bool> merge() {
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (forms_[i] == Form::half) merged_[i] = true;
      for (size_t k = 1; k < body_[i].operands.size(); ++k) {
        const uint32_t source = only_source(body_[i].operands[k], i);
        if (source != kNone && !merged_[source]) merge(source, i);
      }
    }
    return std::move(merged_);
  }

 private:
  struct Value {
    uint32_t writes = 0, reads = 0, writer = 0;
  };

  void count_operands(uint32_t i) {
    const ptx::Instruction& instruction = body_[i];
    if (instruction.guarded) ++values_[instruction.guard].reads;
    for (size_t k = 0; k < instruction.operands.size(); ++k) {
      const ptx::Operand& operand = instruction.operands[k];
      if (k == 0 && operand.kind == ptx::OperandKind::reg) {
        ++values_[operand.reg].writes;
        values_[operand.reg].writer = i;
        // A store or a branch reads its first register, and an instruction that some lanes skip keeps the old value.
        if (forms_[i] == Form::other || instruction.guarded) values_[operand.reg].writes = kNone / 2;
        continue;
      }
      ptx::visit_registers(operand, [&](ptx::RegisterId id) { ++values_[id].reads; });
      if (k > 0) ++operands_[i];
      if (k > 0 && operand.kind == ptx::OperandKind::integer) ++numbers_[i];
    }
  }

  /// The instruction that computes an operand for instruction `user` alone; else kNone.
  uint32_t only_source(const ptx::Operand& operand, uint32_t user) const {
    if (operand.kind != ptx::OperandKind::reg) return kNone;
    const Value& value = values_[operand.reg];
    if (value.writes != 1 || value.reads != 1 || value.writer >= user) return kNone;
    return labels_before_[user] == labels_before_[value.writer] ? value.writer : kNone;
  }

  void merge(uint32_t source, uint32_t user) {
    const Form from = forms_[source], to = forms_[user];
    const bool fits =
        operands_[user] - 1 + operands_[source] <= kMostOperands && numbers_[user] + numbers_[source] <= 1;
    const bool two = operands_[user] == 2;  // nothing is merged with the user yet
    const bool same_width = has_wide_integers(body_[source]) == has_wide_integers(body_[user]);
    if ((to == Form::logic || to == Form::sum) && from == to && fits && same_width) {
      take(source, user);
    } else if (to == Form::sum && from == Form::shift && two && same_width) {
      take(source, user);
    } else if (to == Form::wide_sum && from == Form::shift && two && same_width) {
      take(source, user);
    } else if (to == Form::least_or_most && from == Form::sum && two && operands_[source] == 2) {
      take(source, user);
    } else if (to == Form::wide_sum && from == Form::wide_product && two) {
      merged_[user] = true;
      operands_[user] = kMostOperands;
    } else if (to == Form::predicates && (from == Form::comparison || from == Form::predicates)) {
      merged_[user] = true;
    }
  }

  void take(uint32_t source, uint32_t user) {
    merged_[source] = true;
    operands_[user] = std::min(kMostOperands, operands_[user] - 1 + operands_[source]);
    numbers_[user] += numbers_[source];
  }

  const std::vector<ptx::Instruction>& body_;
  std::vector<bool> merged_;
  std::vector<Form> forms_;
  std::vector<uint32_t> operands_, numbers_;  ///< by instruction: sources, and those that are numbers
  std::vector<uint32_t> labels_before_;       ///< by instruction: labels at or before it
  std::vector<Value> values_;                 ///< by register
};

}  // namespace

std::vector<bool> merged_instructions(const ptx::Function& function,
                                      const std::vector<machine::InstructionTraits>& traits) {
  return Merger(function, traits).merge();
}

}  // namespace stagecraft::emulator::trace
